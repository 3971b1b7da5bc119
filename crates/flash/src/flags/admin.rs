//! Where administrators reach a server, and under which names.

use std::env;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use flash_config::Host;
use flash_core::site::hosts::HostName;

use super::listen::{Listen, ListenAddress};

pub(super) const LISTENING: &str = "Listening";

#[derive(Debug, Args)]
pub(crate) struct Administration {
    /// Where administrators reach the server, with flash reload and the like: unix:PATH, or off. Only root and the server's user may
    /// use it. Without this flag, off without --config. With it, unix:/run/flash/admin.sock for root, and
    /// unix:$XDG_RUNTIME_DIR/flash/admin.sock for others
    #[arg(long, value_name = "unix:PATH|off", value_parser = AdminAt::from_str, help_heading = LISTENING)]
    pub admin: Option<AdminAt>,

    /// An address where administrators and Prometheus read: /metrics, /status and /healthz. Whoever reaches it may read, and
    /// change nothing. Without this flag there is none
    #[arg(long, value_name = "ADDR:PORT", help_heading = LISTENING)]
    pub admin_listen: Option<SocketAddr>,

    /// More names under which --admin-listen answers, besides IP addresses and localhost: a host, *.example.org, or * for all. Other
    /// names get 421, because a page could have a browser read by one of its own. May be given repeatedly
    #[arg(long, alias = "admin-host", value_name = "HOST", value_parser = parse_host, help_heading = LISTENING)]
    pub admin_hosts: Vec<HostName>,
}

fn parse_host(text: &str) -> Result<HostName, String> {
    text.parse().map(host_name)
}

/// The host, as requests are compared with it.
pub(crate) fn host_name(host: Host) -> HostName {
    match host {
        Host::Exact(name) => HostName::Exact(name.as_bytes().into()),
        Host::Below(name) => HostName::Below(name.as_bytes().into()),
        Host::Any => HostName::Any,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdminAt {
    Off,
    Unix(PathBuf),
}

/// Where root's servers are reached.
const OF_ROOT: &str = "/run/flash/admin.sock";

impl AdminAt {
    /// Where a server with a configuration file is reached, if nothing else is said.
    pub(crate) fn usual() -> Self {
        if rustix::process::getuid().is_root() {
            return Self::Unix(OF_ROOT.into());
        }
        let folder = env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
        folder.map_or(Self::Off, |folder| Self::Unix(PathBuf::from(folder).join("flash/admin.sock")))
    }
}

impl FromStr for AdminAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "off" => Ok(Self::Off),
            Ok(Listen { place: ListenAddress::Unix(place), proxy_protocol: false, scheme: None })
                if place.mode.is_none() && place.group.is_none() =>
            {
                Ok(Self::Unix(place.path))
            }
            Ok(Listen { place: ListenAddress::Unix(_), .. }) => {
                Err("its mode is 600 always: leave the mode and the group out".into())
            }
            Err(error) if text.starts_with("unix:") => Err(error),
            _ => Err("write unix: and a path, or off".into()),
        }
    }
}

impl fmt::Display for AdminAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_or_nothing() {
        assert_eq!("off".parse(), Ok(AdminAt::Off));
        assert_eq!("unix:/run/a.sock".parse(), Ok(AdminAt::Unix("/run/a.sock".into())));
        for wrong in ["", "unix:", "127.0.0.1:80", ":80", "/run/a.sock", "unix:/a,mode=666"] {
            assert!(wrong.parse::<AdminAt>().is_err(), "{wrong}");
        }
    }
}
