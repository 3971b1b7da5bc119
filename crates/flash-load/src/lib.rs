//! Clients that measure a web server, any server, and tell the truth about it: a few threads play many clients, each on a
//! connection of its own. [`Load`] says who asks for what and when, [`run`] does it, [`Report`] is what came of it.
//!
//! What is asked for is [`flash_traffic`]'s. Starting servers and comparing them is the laboratory's.

#![forbid(unsafe_code)]

mod conformance;
mod error;
mod inversion;
mod load;
mod pace;
mod player;
mod reply;
mod report;
mod request;
mod run;
mod search;
mod server;
mod tally;
mod timers;
mod transport;
mod urls;
mod verify;

pub use conformance::Conformance;
pub use error::Error;
pub use load::{Body, Crowd, Keep, Link, Load, Manner, Method, Until};
pub use pace::{Arrivals, Pace};
pub use report::{ClassReport, Latency, Report};
pub use run::{Live, run};
pub use search::{capacity, conforming, levels, sizes};
pub use server::{Address, Server, Url};
pub use urls::Urls;
pub use verify::Verify;
