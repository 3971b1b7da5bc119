//! The servers that the bench knows, each in one variant of `flash-rig`'s.

use std::path::Path;

use anyhow::Result;
use flash_rig::{Cgroup, Cpus, Dynamic, Machine, Running, ServerSpec, Setup, TlsFiles};

/// Everything that starting a server needs to know.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) cpus: &'a Cpus,
    pub(crate) root: &'a Path,
    /// For configurations, pid files and what servers say.
    pub(crate) work: &'a Path,
    pub(crate) flash: &'a Path,
    pub(crate) flash_args: &'a [String],
    pub(crate) floor: &'a Path,
    pub(crate) group: Option<&'a Cgroup>,
    /// Programs behind the server.
    pub(crate) dynamic: Option<Dynamic<'a>>,
    pub(crate) tls: Option<TlsFiles<'a>>,
}

/// A server program and its variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Server {
    Floor,
    /// What `sendfile` from the page cache takes.
    FloorFile,
    /// What `sendfile` from a memory file takes.
    FloorMemory,
    Amped,
    Uring,
    Sped,
    Pipelined,
    Mt,
    Mp,
    /// nginx with `sendfile`.
    Nginx,
    /// nginx with `read` and `write`.
    NginxCopy,
    /// nginx with `sendfile` and `aio threads`, 128 of them.
    NginxThreads,
    H2o,
    Lighttpd,
    Caddy,
    Apache,
}

use Server::*;

impl Server {
    pub(crate) const ALL: [Server; 16] = [
        Floor,
        FloorFile,
        FloorMemory,
        Amped,
        Uring,
        Sped,
        Pipelined,
        Mt,
        Mp,
        Nginx,
        NginxCopy,
        NginxThreads,
        H2o,
        Lighttpd,
        Caddy,
        Apache,
    ];
    /// The peers that bars compare with where the content is cached, each in its best variant for the case.
    pub(crate) const RIVALS: [(&str, &[Server]); 3] =
        [("nginx", &[Nginx, NginxCopy]), ("h2o", &[H2o]), ("lighttpd", &[Lighttpd])];

    /// `flash-rig` knows it by the same name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Floor => "floor",
            FloorFile => "floor-file",
            FloorMemory => "floor-memory",
            Amped => "amped",
            Uring => "uring",
            Sped => "sped",
            Pipelined => "pipelined",
            Mt => "mt",
            Mp => "mp",
            Nginx => "nginx",
            NginxCopy => "nginx-copy",
            NginxThreads => "nginx-threads",
            H2o => "h2o",
            Lighttpd => "lighttpd",
            Caddy => "caddy",
            Apache => "apache",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Server> {
        Server::ALL.into_iter().find(|server| server.name() == name)
    }

    pub(crate) fn is_flash(self) -> bool {
        matches!(self, Amped | Uring | Sped | Pipelined | Mt | Mp)
    }

    pub(crate) fn is_peer(self) -> bool {
        !self.is_floor() && !self.is_flash()
    }

    pub(crate) fn is_floor(self) -> bool {
        matches!(self, Floor | FloorFile | FloorMemory)
    }

    pub(crate) fn spec(self, flash_args: &[String]) -> Result<ServerSpec> {
        let mut spec: ServerSpec = self.name().parse()?;
        if spec.is_flash() {
            spec.flags = flash_args.to_vec();
        }
        Ok(spec)
    }
}

/// Starts a server and waits for it. `answer` is what the floor sends, and nothing to the others.
pub(crate) fn start(server: Server, place: &Place, answer: &[u8]) -> Result<Running> {
    let program = match server {
        _ if server.is_floor() => Some(place.floor),
        _ => server.is_flash().then_some(place.flash),
    };
    let usual = Setup::new(place.root, place.work, place.cpus);
    let setup =
        Setup { group: place.group, dynamic: place.dynamic, tls: place.tls, program, answer, ..usual };
    place.machine.start(&server.spec(place.flash_args)?, &setup)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_is_one_of_the_rigs() {
        for server in Server::ALL {
            assert_eq!(server.spec(&[]).expect("it is there").to_string(), server.name());
        }
    }
}
