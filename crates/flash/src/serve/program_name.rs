//! Under which name a program is counted, and how its counts get into the memory that all processes share.

use std::fmt;
use std::path::PathBuf;

use flash_core::record::counters::ProgramCount;
use flash_core::record::program_times::ProgramTimes;
use flash_core::site::routes::RouteMatch;
use flash_observe::metrics::ProgramHandle;
use flash_upstream::{HttpServers, ProgramCounter, UpstreamConfig};

/// What tells a program from others, with tabs between: its kind, its route, and its folder, command or address. Sites whose
/// programs are the same share them, so no site is part of it. The servers of an upstream with a name have that in place of a route.
pub(super) struct ProgramName<'p> {
    route: &'p RouteMatch,
    upstream: &'p UpstreamConfig,
    /// Of several servers.
    number: usize,
    /// The folders of scripts, by their numbers.
    folders: &'p [PathBuf],
}

impl<'p> ProgramName<'p> {
    /// Those of an upstream: each server has its own.
    pub(super) fn all(
        route: &'p RouteMatch,
        upstream: &'p UpstreamConfig,
        folders: &'p [PathBuf],
    ) -> impl Iterator<Item = Self> {
        let count = match upstream {
            UpstreamConfig::Http(all) => all.servers.len(),
            UpstreamConfig::Cgi { .. } | UpstreamConfig::FastCgi(_) | UpstreamConfig::Application(_) => 1,
        };
        (0..count).map(move |number| Self { route, upstream, number, folders })
    }
}

impl fmt::Display for ProgramName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let route = Shown(self.route);
        match self.upstream {
            UpstreamConfig::Cgi { folder } => {
                let folder = self.folders.get(usize::from(*folder)).cloned().unwrap_or_default();
                write!(f, "cgi\t{route}\t{}", folder.display())
            }
            UpstreamConfig::FastCgi(server) => write!(f, "fastcgi\t{route}\t{}", server.name),
            UpstreamConfig::Http(all) => {
                let server = all.servers.get(self.number).map_or("", |member| &member.server.name);
                match &all.name {
                    Some(name) => write!(f, "upstream\t{name}\t{server}"),
                    None => write!(f, "proxy\t{route}\t{server}"),
                }
            }
            UpstreamConfig::Application(application) => write!(f, "app\t{route}\t{}", application.name),
        }
    }
}

/// The servers, as the operator has written them.
pub(super) fn shown_servers(all: &HttpServers) -> String {
    let names: Vec<&str> = all.servers.iter().map(|member| &*member.server.name).collect();
    match &all.name {
        Some(name) => format!("{name} ({})", names.join(" ")),
        None => names.join(" "),
    }
}

/// Where the counts of a program go.
#[derive(Debug)]
pub(super) struct Counter(pub(super) ProgramHandle);

impl ProgramCounter for Counter {
    fn add(&self, what: ProgramCount, by: i64) {
        self.0.add(what, by);
    }

    fn took(&self, times: &ProgramTimes) {
        self.0.took(times);
    }
}

/// A place as it was written.
pub(super) struct Shown<'p>(pub(super) &'p RouteMatch);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            RouteMatch::Prefix(text) | RouteMatch::Suffix(text) => {
                f.write_str(&String::from_utf8_lossy(text))
            }
            RouteMatch::Rest => f.write_str("what no file answers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use flash_upstream::ServerConfig;

    use super::*;

    fn only(route: &RouteMatch, upstream: &UpstreamConfig, folders: &[PathBuf]) -> String {
        ProgramName::all(route, upstream, folders).map(|name| name.to_string()).collect()
    }

    #[test]
    fn programs_are_told_apart() {
        let folders = [PathBuf::from("/srv/bin")];
        let (route, scripts) = (RouteMatch::Prefix(b"/bin"[..].into()), UpstreamConfig::Cgi { folder: 0 });
        assert_eq!(only(&route, &scripts, &folders), "cgi\t/bin\t/srv/bin");
        let route = RouteMatch::Suffix(b".php"[..].into());
        let (name, address) = ("php:9000".to_owned(), flash_upstream::Address::Inet(Vec::new()));
        let server = ServerConfig { name, address, lookup: None, tls: None, is_http2: false };
        let server = UpstreamConfig::FastCgi(server);
        assert_eq!(only(&route, &server, &[]), "fastcgi\t.php\tphp:9000");
    }
}
