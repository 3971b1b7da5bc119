//! A client's connection: blocking, with patience, at any pace, from any loopback address. It frames responses and knows
//! nothing of what should be in them.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_rig::fetch;
use rustix::net::sockopt::{set_socket_linger, set_socket_recv_buffer_size};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// A server that says nothing for so long says nothing at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: usize = 16 << 10;
const PIECE_BYTES: usize = 64 << 10;
/// Reads in a second, at a pace.
const READS_PER_SECOND: u64 = 4;

/// Who visitors are.
pub(crate) const VISITOR: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Who the flood comes from.
pub(crate) const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Why there is no whole response.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The connection ended before a byte of it.
    Unanswered,
    /// The connection ended after so many bytes of its head or its body.
    Cut {
        what: &'static str,
        bytes: u64,
        error: Option<ErrorKind>,
    },
    Silent,
    Malformed(String),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Unanswered => f.write_str("closed without an answer"),
            Broken::Cut { what, bytes, error: None } => write!(f, "closed after {bytes} bytes of {what}"),
            Broken::Cut { what, bytes, error: Some(error) } => {
                write!(f, "{error} after {bytes} bytes of {what}")
            }
            Broken::Silent => write!(f, "nothing for {} s", PATIENCE.as_secs()),
            Broken::Malformed(what) => f.write_str(what),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    bytes: Vec<u8>,
}

pub(crate) struct Connection {
    stream: TcpStream,
    /// What has come and was not used.
    carry: Vec<u8>,
    pace: Option<Pace>,
    /// Responses that came on it.
    pub(crate) answers: u64,
}

/// Reads slowly up to a moment, and then what is left as fast as it comes.
struct Pace {
    bytes_per_second: u64,
    until: Instant,
    /// Set when the run is over.
    hurry: Arc<AtomicBool>,
    next: Instant,
}

impl Connection {
    /// Connects from an address, with a receive buffer of this size instead of the kernel's choice.
    pub(crate) fn open(port: u16, from: Ipv4Addr, receive_bytes: Option<usize>) -> io::Result<Connection> {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        if let Some(bytes) = receive_bytes {
            set_socket_recv_buffer_size(&socket, bytes)?;
        }
        if from != VISITOR {
            bind(&socket, &SocketAddrV4::new(from, 0))?;
        }
        connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection { stream, carry: Vec::new(), pace: None, answers: 0 })
    }

    /// Reads at this rate up to a moment, or until there is need to hurry.
    pub(crate) fn read_slowly(&mut self, bytes_per_second: u64, until: Instant, hurry: Arc<AtomicBool>) {
        self.pace = Some(Pace { bytes_per_second, until, hurry, next: Instant::now() });
    }

    pub(crate) fn own_port(&self) -> io::Result<u16> {
        Ok(self.stream.local_addr()?.port())
    }

    pub(crate) fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))?;
        self.stream.set_write_timeout(Some(patience))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Some bytes as they come; none at the end.
    pub(crate) fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.read(bytes)
    }

    /// Leaves with a reset.
    pub(crate) fn reset(self) {
        // Without that option it leaves in order, which is right as well.
        let _ = set_socket_linger(&self.stream, Some(Duration::ZERO));
    }

    /// The head of the next response; interim ones are passed over.
    pub(crate) fn head(&mut self) -> Result<Head, Broken> {
        loop {
            let end = loop {
                match fetch::head_end(&self.carry) {
                    Some(end) => break end,
                    None if self.carry.len() > HEAD_BYTES_MAX => {
                        return Err(Broken::Malformed(format!(
                            "a head without an end: {}",
                            shown(&self.carry)
                        )));
                    }
                    None => self.more("the head", self.carry.len() as u64)?,
                }
            };
            let rest = self.carry.split_off(end);
            let bytes = std::mem::replace(&mut self.carry, rest);
            match fetch::status(&bytes) {
                Some(status) if bytes.starts_with(b"HTTP/1.1 ") => match status {
                    100..200 => {}
                    _ => {
                        self.answers += 1;
                        return Ok(Head { status, bytes });
                    }
                },
                _ => return Err(Broken::Malformed(format!("not the head of a response: {}", shown(&bytes)))),
            }
        }
    }

    /// The body that belongs to this head, in pieces, and its length. `bodiless` for an answer to HEAD.
    pub(crate) fn body(
        &mut self,
        head: &Head,
        bodiless: bool,
        mut take: impl FnMut(&[u8]),
    ) -> Result<u64, Broken> {
        if bodiless || matches!(head.status, 204 | 304) {
            return Ok(0);
        }
        match (head.field("transfer-encoding"), head.length()) {
            (Some("chunked"), None) => self.chunks(&mut take),
            (None, Some(length)) => {
                self.exactly(length, 0, &mut take)?;
                Ok(length)
            }
            _ => Err(Broken::Malformed(format!("a body of no length: {}", head.shown()))),
        }
    }

    fn chunks(&mut self, take: &mut impl FnMut(&[u8])) -> Result<u64, Broken> {
        let mut total = 0;
        loop {
            let line = self.line(total)?;
            let size = u64::from_str_radix(&line, 16)
                .map_err(|_| Broken::Malformed(format!("no chunk's size: {line:?}")))?;
            self.exactly(size, total, take)?;
            total += size;
            let end = self.line(total)?;
            if !end.is_empty() {
                return Err(Broken::Malformed(format!("behind a chunk: {end:?}")));
            }
            if size == 0 {
                return Ok(total);
            }
        }
    }

    fn line(&mut self, so_far: u64) -> Result<String, Broken> {
        loop {
            if let Some(end) = self.carry.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8_lossy(&self.carry[..end]).into_owned();
                self.carry.drain(..end + 2);
                return Ok(line);
            }
            if self.carry.len() > 100 {
                return Err(Broken::Malformed(format!("no line of chunks: {}", shown(&self.carry))));
            }
            self.more("the body", so_far)?;
        }
    }

    fn exactly(&mut self, length: u64, before: u64, take: &mut impl FnMut(&[u8])) -> Result<(), Broken> {
        let mut left = length;
        loop {
            let here = self.carry.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            take(&self.carry[..here]);
            self.carry.drain(..here);
            left -= here as u64;
            if left == 0 {
                return Ok(());
            }
            self.more("the body", before + length - left)?;
        }
    }

    /// Waits for more bytes, at the connection's pace.
    fn more(&mut self, what: &'static str, bytes: u64) -> Result<(), Broken> {
        let piece = match &mut self.pace {
            Some(pace) => pace.wait().unwrap_or(PIECE_BYTES),
            None => PIECE_BYTES,
        };
        let start = self.carry.len();
        self.carry.resize(start + piece, 0);
        let read = loop {
            match self.stream.read(&mut self.carry[start..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.carry.truncate(start + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(1..) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(Broken::Silent)
            }
            _ if what == "the head" && bytes == 0 => Err(Broken::Unanswered),
            ended => Err(Broken::Cut { what, bytes, error: ended.err().map(|error| error.kind()) }),
        }
    }
}

impl Pace {
    /// Sleeps until the next read is due, and says how much it may take; none when the time is over.
    fn wait(&mut self) -> Option<usize> {
        let now = Instant::now();
        if now >= self.until || self.hurry.load(Ordering::Relaxed) {
            return None;
        }
        thread::sleep(self.next.saturating_duration_since(now));
        // A read that came late is not made up for.
        self.next = self.next.max(now) + Duration::from_secs(1) / READS_PER_SECOND as u32;
        Some(usize::try_from((self.bytes_per_second / READS_PER_SECOND).max(1)).unwrap_or(usize::MAX))
    }
}

impl Head {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        fetch::header(&self.bytes, name)
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.field("content-length")?.parse().ok()
    }

    pub(crate) fn keeps(&self) -> bool {
        self.field("connection") != Some("close")
    }

    pub(crate) fn shown(&self) -> String {
        shown(&self.bytes)
    }
}

fn shown(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(300)]))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A client of a server that says this, some bytes at a time, and closes.
    fn client(said: &'static [u8], piece: usize) -> Connection {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let connection = Connection::open(port, STRANGER, None).expect("a connection");
        thread::spawn(move || {
            let (mut stream, peer) = listener.accept().expect("a client");
            assert_eq!(peer.ip(), STRANGER);
            for piece in said.chunks(piece) {
                stream.write_all(piece).expect("it takes it");
                thread::sleep(Duration::from_millis(1));
            }
        });
        connection
    }

    const TWO: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
        HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n";

    #[test]
    fn responses_are_framed_at_any_split() {
        for piece in [1, 7, 1000] {
            let mut connection = client(TWO, piece);
            for (expected, keeps) in [(&b"hello"[..], true), (b"abc0123456789", false)] {
                let head = connection.head().expect("a head");
                assert_eq!((head.status, head.keeps()), (200, keeps));
                let mut body = Vec::new();
                let length = connection.body(&head, false, |piece| body.extend_from_slice(piece));
                assert_eq!((length.expect("a body"), body.as_slice()), (expected.len() as u64, expected));
            }
            assert!(matches!(connection.head(), Err(Broken::Unanswered)));
            assert_eq!(connection.answers, 2);
        }
    }

    #[test]
    fn cut_responses_are_told_from_none() {
        let mut connection = client(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", 1000);
        let head = connection.head().expect("a head");
        let cut = connection.body(&head, false, |_| ());
        assert!(matches!(cut, Err(Broken::Cut { what: "the body", bytes: 3, .. })), "{cut:?}");
        let mut connection = client(b"HTTP/1.1 200", 1000);
        assert!(matches!(connection.head(), Err(Broken::Cut { what: "the head", bytes: 12, .. })));
        let mut connection =
            client(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 1000);
        let head = connection.head().expect("a head");
        assert!(matches!(connection.body(&head, false, |_| ()), Err(Broken::Cut { bytes: 3, .. })));
    }

    #[test]
    fn a_pace_is_kept() {
        let mut connection = client(TWO, 1000);
        let begun = Instant::now();
        // 160 bytes at 400 in a second.
        connection.read_slowly(400, begun + Duration::from_secs(9), Arc::default());
        for _ in 0..2 {
            let head = connection.head().expect("a head");
            connection.body(&head, false, |_| ()).expect("a body");
        }
        let least = Duration::from_secs_f64(TWO.len() as f64 / 400.0 - 0.3);
        assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
    }
}
