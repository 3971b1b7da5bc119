//! Where and how a server is to run: its folders, processors, limits, and the programs that answer behind it.

use std::path::Path;
use std::process::Command;

use crate::cgroup::Cgroup;
use crate::cpus::Cpus;

/// For every server and its clients, unless a setup says otherwise.
const CONNECTIONS_MAX: usize = 16_384;

/// What a server is told of programs. What lies in the site's folder `cgi-bin` are CGI programs.
#[derive(Clone, Copy, Debug)]
pub struct Dynamic<'a> {
    /// Where php-fpm listens; whatever ends in `.php` goes there. Without one, nothing does.
    pub php: Option<&'a Path>,
}

/// What a server of TLS needs: a certificate with its intermediates, and its key, in PEM.
#[derive(Clone, Copy, Debug)]
pub struct TlsFiles<'a> {
    pub certificate: &'a Path,
    pub key: &'a Path,
}

/// Where CGI programs lie in a site.
pub(crate) const CGI_FOLDER: &str = "cgi-bin";

/// Where and how servers are to run. Made by [`Setup::new`]; every field may be changed.
#[derive(Clone)]
pub struct Setup<'a> {
    /// The document root.
    pub root: &'a Path,
    /// For configurations, pid files and what servers say.
    pub work: &'a Path,
    pub cpus: &'a Cpus,
    /// The limits in which it runs.
    pub group: Option<&'a Cgroup>,
    /// Event loops: Flash's loops, worker processes of nginx and lighttpd, threads of h2o, processors of Caddy, and
    /// the processes of Apache's event and worker.
    pub loops: usize,
    /// How many threads or processes wait for the disk. They are helpers of amped and uring (at most), threads of mt, or
    /// processes of mp and of Apache's prefork. For nginx they are threads of its pool, for Apache threads of each process.
    /// Without a number, the variant's default counts.
    pub threads: Option<usize>,
    /// Connections that event-driven servers must be able to hold. A process or a thread holds one.
    pub connections_max: usize,
    /// Without a number, one that is free.
    pub port: Option<u16>,
    /// The program to run instead of what is found: a Flash of another build.
    pub program: Option<&'a Path>,
    /// Programs that answer instead of files. Flash, nginx, Apache and lighttpd are set up for them; nginx runs no CGI.
    pub dynamic: Option<Dynamic<'a>>,
    /// The port speaks TLS, with HTTP/1.1 and HTTP/2. Flash, nginx, h2o and Caddy are set up for it.
    pub tls: Option<TlsFiles<'a>>,
    /// What the floor sends.
    pub answer: &'a [u8],
    /// The ports of the servers behind a balancer.
    pub back_ends: &'a [u16],
}

impl<'a> Setup<'a> {
    pub fn new(root: &'a Path, work: &'a Path, cpus: &'a Cpus) -> Setup<'a> {
        Setup {
            root,
            work,
            cpus,
            group: None,
            loops: 1,
            threads: None,
            connections_max: CONNECTIONS_MAX,
            port: None,
            program: None,
            dynamic: None,
            tls: None,
            answer: b"",
            back_ends: &[],
        }
    }
}

/// A command that runs in the limits from its first instruction.
pub(crate) fn wrapped(program: &Path, group: Option<&Cgroup>) -> Command {
    let Some(group) = group else { return Command::new(program) };
    let wrapper = group.wrapper();
    let mut command = Command::new(&wrapper[0]);
    command.args(&wrapper[1..]).arg(program);
    command
}
