//! Clients that measure any web server. A few threads simulate many clients, each on a connection of its own. [`Load`]
//! describes the clients and their requests, [`run`] executes it, and [`Report`] is the result.
//!
//! [`flash_traffic`] has the requests. The lab starts and compares servers.

#![forbid(unsafe_code)]

mod conformance;
mod csv;
mod error;
mod inversion;
mod load;
mod pace;
mod player;
mod received;
mod reply;
mod report;
mod request;
mod run;
mod search;
mod server;
mod tally;
mod timers;
mod tls;
mod transport;
mod urls;
mod validity;
mod verify;

pub use conformance::Conformance;
pub use error::Error;
pub use load::{Body, ClientGroup, ClientOptions, Keep, Link, Load, Method, Protocol, Until};
pub use pace::{Arrivals, CONNECTIONS_MAX, Pace};
pub use report::{ClassReport, Latency, Report};
pub use run::{Live, run};
pub use search::{capacity, conforming, levels, sizes};
pub use server::{Address, Server, Url};
pub use tls::Tls;
pub use urls::Urls;
pub use validity::Invalid;
pub use verify::Verify;
