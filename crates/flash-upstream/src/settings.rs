//! What an operator sets about upstreams: what answers each route, and the limits of one server process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use flash_core::upstream::UpstreamTls;
use flash_process::Limits;

use crate::address::Address;
use crate::connector::Connector;

/// How long each address of a server may take to answer at the start, or all of them together if a connector tries them.
const REACH: Duration = Duration::from_millis(500);

/// What answers a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamConfig {
    /// Scripts in that folder of the fork helper's.
    Cgi {
        folder: u16,
    },
    FastCgi(ServerConfig),
    Http(HttpServers),
    Application(Application),
}

/// HTTP servers that answer the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpServers {
    /// Of `[upstream.NAME]`. All routes with the same one share it.
    pub name: Option<String>,
    pub servers: Vec<Member>,
    pub balance: Balance,
    /// How long a connection may take.
    pub connect: Duration,
    /// How long a server gets fewer requests after it could not be reached.
    pub slow_start: Duration,
    pub check: Option<Check>,
    /// Requests that wait until a server has room, and for how long.
    pub queue_max: usize,
    pub queue_wait: Duration,
}

/// A server among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub server: ServerConfig,
    /// Its part of the requests, beside those of the others.
    pub weight: u32,
    /// It is asked if none of the others is well.
    pub is_backup: bool,
    /// Requests that it may have at a time.
    pub requests_max: usize,
}

/// A request that says whether a server is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub path: String,
    pub host: Option<String>,
    pub every: Duration,
}

/// A FastCGI or HTTP server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// For people who read logs.
    pub name: String,
    pub address: Address,
    /// The host and the port that are looked up again and again, if the host is a name.
    pub lookup: Option<String>,
    pub tls: Option<ServerTls>,
    /// It is spoken with in HTTP/2.
    pub is_http2: bool,
}

impl ServerConfig {
    /// What it is known as to the [connector](crate::Connector).
    pub(crate) fn target(&self) -> String {
        self.lookup.clone().unwrap_or_else(|| self.address.to_string())
    }

    /// Connects and closes again, to see whether anything listens there, or has the connector do so.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub fn reach(&self, connector: Option<&Connector>) -> io::Result<()> {
        match connector {
            Some(connector) => connector.reach(&self.target(), REACH),
            None => self.address.reach(REACH),
        }
    }
}

impl PartialEq for ServerConfig {
    fn eq(&self, other: &Self) -> bool {
        // The addresses of a name change, and a look-up may fail.
        let is_there = self.lookup.is_some() || self.address == other.address;
        let is_same = self.name == other.name && self.lookup == other.lookup && self.tls == other.tls;
        is_there && is_same && self.is_http2 == other.is_http2
    }
}

impl Eq for ServerConfig {}

/// TLS with a server.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// What it was made of, to know it again: the server's name, and the authorities.
    pub made_of: (String, Vec<u8>),
    pub client: Arc<dyn UpstreamTls>,
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        self.made_of == other.made_of
    }
}

impl Eq for ServerTls {}

/// Which of several servers gets a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// Of two that are taken at random, the one with fewer requests under way.
    #[default]
    LeastRequests,
    RoundRobin,
    /// That to which the request's hash leads, unless it has a quarter more than its part of all requests.
    Hash,
}

/// A FastCGI application that is started here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// That command of the fork helper's.
    pub command: u16,
    /// For people who read logs.
    pub name: String,
    pub processes_max: usize,
    /// After so many requests a process is replaced.
    pub requests_max: usize,
    /// How long a process may have nothing to do.
    pub idle: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Idle connections that are kept to one FastCGI server.
    pub kept_max: usize,
    /// How long a connection to one may take.
    pub connect: Duration,
    /// Requests that wait for one service, and for how long: for a connection to a FastCGI server, or a process of an
    /// application.
    pub queue_max: usize,
    pub queue_wait: Duration,
    pub direct: DirectLimits,
    pub monitor: Limits,
}

/// The limits of a program that writes straight to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectLimits {
    /// How long it may write nothing.
    pub silence_max: Duration,
    /// The same, once its client has closed its side.
    pub fin_max: Duration,
    /// How long it may wait for a client that takes nothing.
    pub send_max: Duration,
}
