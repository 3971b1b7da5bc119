//! What connections cost that say nothing: the server's memory with and without them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};
use flash_rig::{Running, interrupt};

use super::site::{HOT_BYTES, HOT_TARGET};
use crate::record::Figures;

const ANSWER_SECONDS_MAX: Duration = Duration::from_secs(10);
/// No server says more before a file.
const HEAD_BYTES_MAX: usize = 4_096;
/// What a server needs to come to rest.
const REST: Duration = Duration::from_millis(500);

/// Opens connections that each have had one answer and are kept, and weighs the server before and after.
pub(super) fn measure(mut server: Running, connections: u32) -> Result<Figures> {
    // The first answer makes what every later one uses.
    drop(connection(server.port, HOT_TARGET, HOT_BYTES).context("the first connection")?);
    interrupt::sleep(REST)?;
    let before = server.process.memory()?;
    let _open = hold(server.port, connections, |_| (HOT_TARGET.into(), HOT_BYTES))?;
    interrupt::sleep(REST)?;
    server.process.check()?;
    let after = server.process.memory()?;
    let grown = after.pss_anonymous_bytes.saturating_sub(before.pss_anonymous_bytes);
    let mut figures = Figures::default();
    let mut put = |name: &str, value: f64| _ = figures.figures.insert(name.to_owned(), value);
    put("bytes_per_connection", grown as f64 / f64::from(connections));
    put("memory_mb", after.pss_bytes as f64 / 1e6);
    Ok(figures)
}

/// Connections that have had one answer each, from a target with so many bytes.
pub(super) fn hold(
    port: u16,
    connections: u32,
    target: impl Fn(u32) -> (String, usize),
) -> Result<Vec<TcpStream>> {
    let open = (0..connections).map(|number| {
        interrupt::check()?;
        let (target, bytes) = target(number);
        let connection = connection(port, &target, bytes);
        connection.with_context(|| format!("connection {} of {connections}", number + 1))
    });
    open.collect()
}

/// A connection that has had its answer.
fn connection(port: u16, target: &str, bytes: usize) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(ANSWER_SECONDS_MAX))?;
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: lab\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut buffer = [0; 64 << 10];
    let head = |answer: &[u8]| answer.windows(4).take(HEAD_BYTES_MAX).position(|four| four == b"\r\n\r\n");
    while head(&answer).is_none_or(|end| answer.len() < end + 4 + bytes) {
        let count = stream.read(&mut buffer).context("waiting for an answer")?;
        anyhow::ensure!(count > 0, "the server closed the connection");
        answer.extend_from_slice(&buffer[..count]);
    }
    Ok(stream)
}
