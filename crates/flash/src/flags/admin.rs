//! The value of `--admin`: the Unix socket at which administrators reach a server.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::listen::{Listen, Place};

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
            Ok(Listen { place: Place::Unix(place), proxy_protocol: false, scheme: None })
                if place.mode.is_none() && place.group.is_none() =>
            {
                Ok(Self::Unix(place.path))
            }
            Ok(Listen { place: Place::Unix(_), .. }) => {
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
