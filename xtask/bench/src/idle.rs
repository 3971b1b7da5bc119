//! Memory per idle kept-alive connection: ten thousand that have asked once and then say nothing. It counts
//! what the server's processes hold themselves, not the kernel's sockets, which are the same for everybody.

use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use flash_rig::fetch::exchange;
use flash_rig::{Running, interrupt};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::{Map, Value};

use super::report::{self, Bar, number};
use super::servers::{self, Place, Server};

/// With the first ones ten thousand, which is all that lighttpd takes where 20,000 descriptors are the limit.
const CONNECTIONS: usize = 9_900;
/// Opened before and kept: what a server sets up once is not a connection's.
const FIRST_CONNECTIONS: usize = 64;
/// A source address has some 28,000 ports, and others may be using them.
const PER_ADDRESS: usize = 2_500;
/// One thread or process per connection cannot hold ten thousand; they have nothing to compare here.
const SERVERS: [Server; 7] =
    [Server::Amped, Server::Uring, Server::Sped, Server::Nginx, Server::H2o, Server::Lighttpd, Server::Caddy];

/// Bytes per connection.
pub(crate) type Figures = Vec<(Server, f64)>;

pub(crate) fn run(place: &Place, servers: &[Server]) -> Result<Figures> {
    let mut figures = Figures::new();
    for server in SERVERS.into_iter().filter(|server| servers.contains(server)) {
        eprint!("idle connections: {:14}", server.name());
        match servers::start(server, place, &[]).and_then(|running| measure(&running)) {
            Ok(bytes) => {
                eprintln!("{} B", number(bytes));
                figures.push((server, bytes));
            }
            Err(error) => {
                interrupt::check()?;
                eprintln!("FAILED: {error:#}");
            }
        }
    }
    Ok(figures)
}

fn measure(running: &Running) -> Result<f64> {
    let mut held = Vec::with_capacity(CONNECTIONS + FIRST_CONNECTIONS);
    for n in 0..FIRST_CONNECTIONS {
        held.push(ask(running.port, n)?);
    }
    interrupt::sleep(Duration::from_millis(500))?;
    let before = running.process.memory()?.pss_anonymous_bytes;
    for n in 0..CONNECTIONS {
        held.push(ask(running.port, n)?);
        interrupt::check()?;
    }
    interrupt::sleep(Duration::from_secs(1))?;
    let after = running.process.memory()?.pss_anonymous_bytes;
    Ok((after as f64 - before as f64) / CONNECTIONS as f64)
}

/// A connection that has had one answer.
fn ask(port: u16, n: usize) -> Result<TcpStream> {
    let source = Ipv4Addr::new(127, 0, 0, 2 + (n / PER_ADDRESS) as u8);
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddrV4::new(source, 0))?;
    connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    exchange(&mut stream, "/1k.html", &[]).with_context(|| format!("connection {n}"))?;
    Ok(stream)
}

pub(crate) fn print(figures: &Figures) {
    let mut rows = vec![vec!["server".to_owned(), "bytes".to_owned()]];
    rows.extend(figures.iter().map(|(server, bytes)| vec![server.name().to_owned(), format!("{bytes:.0}")]));
    report::print_table("Memory per idle connection", &rows);
}

pub(crate) fn bars(figures: &Figures) -> Vec<Bar> {
    let amped = figures.iter().find(|(server, _)| *server == Server::Amped).map(|(_, bytes)| *bytes);
    vec![Bar::at_most("idle: bytes per connection, amped".into(), 600.0, amped)]
}

pub(crate) fn json(figures: &Figures) -> Value {
    let map: Map<_, _> =
        figures.iter().map(|(server, bytes)| (server.name().into(), (*bytes).into())).collect();
    map.into()
}
