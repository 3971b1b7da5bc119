//! The connections that a server holds, as the kernel's table of them says: from outside, and whatever the client can see.

use std::collections::HashSet;
use std::fs;

const LISTENS: &str = "0A";

/// The clients' ports of all connections to this port that the server has accepted and not closed.
pub(crate) fn of_server(port: u16) -> HashSet<u16> {
    parse(&fs::read_to_string("/proc/net/tcp").unwrap_or_default(), port)
}

/// A connection that its process has closed has no inode, whatever the kernel still delivers of it.
fn parse(table: &str, port: u16) -> HashSet<u16> {
    let connection = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let port_of = |at: usize| u16::from_str_radix(fields.get(at)?.rsplit(':').next()?, 16).ok();
        let held = port_of(1)? == port && *fields.get(3)? != LISTENS && *fields.get(9)? != "0";
        held.then(|| port_of(2)).flatten()
    };
    table.lines().skip(1).filter_map(connection).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn connections_are_there_until_the_server_closes_them() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        assert_eq!(of_server(port), HashSet::new());
        let client = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let own = client.local_addr().expect("an address").port();
        let (mut server, _) = listener.accept().expect("the same");
        assert_eq!(of_server(port), HashSet::from([own]));
        // What is on its way holds the kernel, and not the server.
        server.write_all(b"unread").expect("room");
        drop(server);
        assert_eq!(of_server(port), HashSet::new());
    }
}
