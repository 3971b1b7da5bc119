//! Requests to a server's admin socket.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::PATIENCE;

/// A request to an admin socket: the status, and the body.
pub fn ask(socket: &Path, method: &str, path: &str) -> (u16, String) {
    let stream = UnixStream::connect(socket).expect("the admin socket accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    ask_over(stream, method, path, "flash")
}

/// The same to the address of `admin-listen`.
pub fn ask_at(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
    ask_host_at(address, method, path, &address.to_string())
}

/// The same by another name of the host.
pub fn ask_host_at(address: SocketAddr, method: &str, path: &str, host: &str) -> (u16, String) {
    ask_over(crate::connect(address), method, path, host)
}

fn ask_over(mut stream: impl Read + Write, method: &str, path: &str, host: &str) -> (u16, String) {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it takes the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head ends");
    (head[9..12].parse().expect("a status"), body.to_owned())
}

/// Has the server log its counters.
pub fn log_counters(socket: &Path) {
    assert_eq!(ask(socket, "POST", "/counters").0, 200);
}
