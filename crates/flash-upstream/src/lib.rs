//! Upstreams answer the requests of a route. They are scripts ([`Cgi`]), FastCGI and HTTP servers outside of Flash, and
//! applications that Flash starts. Flash keeps idle connections to servers, and starts as many processes of an application as
//! requests need.
//!
//! The request path asks [`RouteUpstreams`] for every kind of upstream. Its background thread does the work for which an event
//! loop must not wait. It finishes slow connects, starts applications, and closes what was idle for long. Bytes of requests and
//! responses do not pass through this crate, but for those of servers of HTTP/2, which share connections: the request path moves
//! them, in `flash-core`.

#![forbid(unsafe_code)]

mod address;
mod app_pool;
mod background;
mod balance;
mod cgi;
mod checking;
mod circuit_breaker;
mod connecting;
mod connector;
mod connector_process;
mod counts;
mod first_responses;
mod health;
mod http_servers;
mod idle_connections;
mod log_limit;
mod multiplexer;
mod resolver;
mod retry_budget;
mod route_upstreams;
mod server;
mod settings;
#[cfg(test)]
mod testing;

pub use address::{Address, UnixAddress};
pub use cgi::{Cgi, LogDetached, ScriptFolder};
pub use connector::Connector;
pub use connector_process::run as run_connector;
pub use counts::ProgramCounter;
pub use route_upstreams::{CountedUpstream, RouteUpstreams};
pub use settings::{
    Application, Balance, Check, DirectLimits, HttpServers, Member, ServerConfig, ServerTls, Settings,
    UpstreamConfig,
};
