//! Upstreams: what answers the requests of a route. Scripts ([`Cgi`]), FastCGI servers that somebody else runs, to which
//! idle connections are kept, and applications that are started here, as many processes as are needed.
//!
//! [`RouteUpstreams`] is what the request path asks, whatever a route leads to. Its background thread does what an event
//! loop may not wait for: connects that take time, starts of applications, and closing what has been idle for long. Bytes
//! of requests and responses do not pass through here: they are the request path's business, in `flash-core`.

#![forbid(unsafe_code)]

mod address;
mod app_pool;
mod background;
mod cgi;
mod circuit_breaker;
mod fastcgi;
mod first_responses;
mod idle_connections;
mod route_upstreams;
mod settings;

pub use address::{Address, UnixAddress};
pub use cgi::{Cgi, LogDetached};
pub use route_upstreams::RouteUpstreams;
pub use settings::{Application, Settings, UpstreamConfig};
