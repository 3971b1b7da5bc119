//! Where a server accepts connections if nobody says it: at the sockets that it inherits, or else at one port of this machine.

use std::net::SocketAddr;
use std::sync::OnceLock;

use flash_os::activation::{self, Passed};
use flash_process::predecessor;
use rustix::net::{SocketAddrUnix, getsockname};

pub(super) const OWN: &str = "127.0.0.1:8080";

/// As `--listen` takes them. They are the same in each call, because a reload has them again.
pub(super) fn usual() -> &'static [&'static str] {
    static USUAL: OnceLock<Vec<&'static str>> = OnceLock::new();
    USUAL.get_or_init(|| {
        // What is wrong with them is said when they are taken.
        let passed = activation::peek().unwrap_or_default();
        let places: Vec<&str> =
            passed.iter().filter_map(place).map(|place| &*Box::leak(place.into_boxed_str())).collect();
        if places.is_empty() { vec![OWN] } else { places }
    })
}

/// A socket whose name is `https` or `http` speaks that, and one whose name is `admin` is for administrators. A
/// predecessor has made the others for places that are known already.
fn place(passed: &Passed) -> Option<String> {
    let is_of_predecessor = predecessor::own_place(&passed.name).is_some();
    if passed.name == "admin" || is_of_predecessor {
        return None;
    }
    let address = getsockname(&passed.socket).ok()?;
    let place = match (SocketAddr::try_from(address.clone()), SocketAddrUnix::try_from(address)) {
        (Ok(address), _) => address.to_string(),
        (_, Ok(address)) => format!("unix:{}", address.path()?.to_str().ok()?),
        _ => return None,
    };
    Some(match &*passed.name {
        name @ ("https" | "http") => format!("{name}://{place}"),
        _ => place,
    })
}
