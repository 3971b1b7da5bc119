//! Where names are looked up: what the system's library loads for that, such as modules of `nsswitch.conf`.

use std::net::ToSocketAddrs;

/// Files do not have this name, and a name server is not asked: its label is longer than 63 bytes (RFC 1035 §2.3.4).
pub const NO_NAME: &str = "a-name-of-one-label-that-is-longer-than-name-servers-can-be-asked-for";

/// Looks up a name that nobody has, so that each source is loaded. For a process before its sandbox, which hides their files. Waits for
/// no name server.
pub fn load() {
    let _ = (NO_NAME, 0).to_socket_addrs();
}
