//! One request, one answer, read to its end. For checking that a server is what it should be, and for giving
//! the floor the same answer to send. Not for measuring.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// An answer as it came.
pub struct Answer {
    pub status: u16,
    /// The head with its closing empty line.
    pub head: Vec<u8>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// Head and body, as the floor sends them.
    pub fn bytes(&self) -> Vec<u8> {
        [self.head.as_slice(), self.body.as_slice()].concat()
    }
}

/// The value of a header field in a head.
pub fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(head).ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Fetches `path` from the server on `port`.
pub fn fetch(port: u16, path: &str, fields: &[String]) -> Result<Answer> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    exchange(&mut stream, path, fields).with_context(|| format!("fetching {path} from port {port}"))
}

/// Sends a request on an open connection and reads its answer.
pub fn exchange(stream: &mut (impl Read + Write), path: &str, fields: &[String]) -> Result<Answer> {
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
    for field in fields {
        request += field;
        request += "\r\n";
    }
    request += "\r\n";
    stream.write_all(request.as_bytes())?;

    let mut bytes = Vec::new();
    let mut buffer = [0; 65536];
    let mut more = |bytes: &mut Vec<u8>| -> Result<()> {
        match stream.read(&mut buffer)? {
            0 => bail!("the connection closed in the middle of the answer"),
            n => bytes.extend_from_slice(&buffer[..n]),
        }
        Ok(())
    };
    let end = loop {
        match head_end(&bytes) {
            Some(end) => break end,
            None => more(&mut bytes)?,
        }
    };
    let status = status(&bytes).context("no status line")?;
    let length = match header(&bytes[..end], "content-length") {
        _ if status == 304 => 0,
        Some(length) => length.parse::<usize>()?,
        None => bail!("an answer without Content-Length"),
    };
    while bytes.len() < end + length {
        more(&mut bytes)?;
    }
    let body = bytes.split_off(end);
    Ok(Answer { status, head: bytes, body })
}

/// Where the head ends, its empty line included.
pub fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// The status of an answer that begins with these bytes.
pub fn status(bytes: &[u8]) -> Option<u16> {
    std::str::from_utf8(bytes.get(9..12)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read() {
        let head = b"HTTP/1.1 206 Partial\r\nETag: \"a\"\r\ncontent-Length: 5\r\n\r\nhello";
        assert_eq!(status(head), Some(206));
        assert_eq!(head_end(head), Some(head.len() - 5));
        assert_eq!(header(head, "etag"), Some("\"a\""));
        assert_eq!(header(head, "Content-Length"), Some("5"));
        assert_eq!(head_end(b"HTTP/1.1 200 OK\r\n"), None);
    }
}
