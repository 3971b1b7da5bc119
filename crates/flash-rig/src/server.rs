//! The servers side by side: Flash in its architectures, the floor, and whichever peers are installed, each
//! set up the way its best users would (`benches/peers/`), with one worker.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::cpu::Cpus;
use super::fetch::fetch;
use super::process::Process;
use crate::prepare::find;

/// Everything that starting a server needs to know.
pub(crate) struct Place<'a> {
    pub(crate) cpus: Cpus,
    pub(crate) root: &'a Path,
    /// For configurations, pid files and what servers say.
    pub(crate) work: &'a Path,
    pub(crate) flash: &'a Path,
    pub(crate) flash_args: &'a [String],
    pub(crate) floor: &'a Path,
    /// What the command line of every server begins with; the way into a cgroup.
    pub(crate) wrapper: &'a [String],
}

/// A server program and the manner in which it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Server {
    Floor,
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
    pub(crate) const ALL: [Server; 14] = [
        Floor,
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
    /// The peers that bars compare with where the content is cached, each in its best manner for the case.
    pub(crate) const RIVALS: [(&str, &[Server]); 3] =
        [("nginx", &[Nginx, NginxCopy]), ("h2o", &[H2o]), ("lighttpd", &[Lighttpd])];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Floor => "floor",
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

    /// The program's name for a peer, none for our own.
    pub(crate) fn program(self) -> Option<&'static str> {
        match self {
            Floor | Amped | Uring | Sped | Pipelined | Mt | Mp => None,
            Nginx | NginxCopy | NginxThreads => Some("nginx"),
            H2o => Some("h2o"),
            Lighttpd => Some("lighttpd"),
            Caddy => Some("caddy"),
            Apache => Some("apache2"),
        }
    }

    fn command(self, place: &Place, port: u16) -> Result<Command> {
        let program = match self.program() {
            Some(program) => find(program).with_context(|| format!("{program} is not installed"))?,
            None if self == Floor => place.floor.to_path_buf(),
            None => place.flash.to_path_buf(),
        };
        let mut command = match place.wrapper {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        let address = format!("127.0.0.1:{port}");
        match self {
            Floor => command.arg(address),
            Amped | Uring | Sped | Pipelined | Mt | Mp => {
                command.arg("serve").arg(place.root).args(["--listen", &address, "--arch", self.name()]);
                command.args(["--loops", "1"]).args(place.flash_args)
            }
            Nginx => command.arg("-c").arg(nginx(place, port, "sendfile on;", "")?),
            NginxCopy => command.arg("-c").arg(nginx(place, port, "sendfile off;", "")?),
            NginxThreads => {
                let pool = "thread_pool reads threads=128 max_queue=65536;";
                command.arg("-c").arg(nginx(place, port, "sendfile on; aio threads=reads;", pool)?)
            }
            H2o => command.arg("-c").arg(configure(place, port, "h2o", &[])?),
            Lighttpd => command.arg("-D").arg("-f").arg(configure(place, port, "lighttpd", &[])?),
            Caddy => {
                let file = configure(place, port, "caddy", &[])?;
                command.env("GOMAXPROCS", "1").env("HOME", place.work).args([
                    "run",
                    "--adapter",
                    "caddyfile",
                ]);
                command.arg("--config").arg(file)
            }
            Apache => {
                let modules = [("@MODULES@", "/usr/lib/apache2/modules")];
                command.arg("-DFOREGROUND").arg("-f").arg(configure(place, port, "apache", &modules)?)
            }
        };
        Ok(command)
    }
}

/// A server that accepts connections.
pub(crate) struct Running {
    pub(crate) port: u16,
    pub(crate) process: Process,
}

/// Starts a server and waits for it. `answer` is what the floor sends, and nothing to the others.
pub(crate) fn start(server: Server, place: &Place, answer: &[u8]) -> Result<Running> {
    let port = free_port()?;
    let mut command = server.command(place, port)?;
    match server {
        Floor => {
            let file = place.work.join(format!("floor-{port}.answer"));
            fs::write(&file, answer)?;
            command.stdin(File::open(&file)?);
        }
        _ => _ = command.stdin(Stdio::null()),
    }
    let mut process = Process::start(command, place.cpus, place.work, &format!("{}-{port}", server.name()))?;
    process.wait_ready(port)?;
    Ok(Running { port, process })
}

/// The server must send exactly these bytes for this path, or its figures mean nothing.
pub(crate) fn verify(running: &Running, path: &str, content: &[u8]) -> Result<()> {
    let answer = fetch(running.port, path, &[])?;
    if answer.status != 200 || answer.body != content {
        bail!("{path}: status {}, {} bytes instead of {}", answer.status, answer.body.len(), content.len());
    }
    Ok(())
}

fn nginx(place: &Place, port: u16, send: &str, pool: &str) -> Result<PathBuf> {
    configure(place, port, "nginx", &[("@SEND@", send), ("@POOL@", pool)])
}

fn configure(place: &Place, port: u16, name: &str, more: &[(&str, &str)]) -> Result<PathBuf> {
    let mut text = match name {
        "nginx" => include_str!("../../../benches/peers/nginx.conf"),
        "h2o" => include_str!("../../../benches/peers/h2o.conf"),
        "lighttpd" => include_str!("../../../benches/peers/lighttpd.conf"),
        "caddy" => include_str!("../../../benches/peers/caddy.conf"),
        _ => include_str!("../../../benches/peers/apache.conf"),
    }
    .to_owned();
    let port_text = port.to_string();
    let root = place.root.to_str().context("the path of the data set is not UTF-8")?;
    let work = place.work.to_str().context("the path of the work folder is not UTF-8")?;
    // Workers give up the superuser's rights, as they would at home.
    let ours = [
        ("@ROOT@", root),
        ("@WORK@", work),
        ("@PORT@", &port_text),
        ("@USER@", "nobody"),
        ("@GROUP@", "nogroup"),
    ];
    for (key, value) in ours.iter().chain(more) {
        text = text.replace(key, value);
    }
    let file = place.work.join(format!("{name}-{port}.conf"));
    fs::write(&file, text)?;
    Ok(file)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
