//! A check: a request of Flash's own, whose answer says whether a server is well. The background thread asks; no loop does.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use flash_core::upstream::UpstreamSession;
use flash_os::poller::Interest;
use flash_os::socket::NO_SIGNAL;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::background::{Command, CommandChannel, PendingIo};
use crate::idle_connections::Kept;
use crate::server::Server;
use crate::settings::Check;

/// A check that is under way.
pub(crate) struct Checking {
    server: Arc<Server>,
    stream: OwnedFd,
    tls: Option<Box<dyn UpstreamSession>>,
    give_up_at: Instant,
    /// The response, as far as it is there.
    said: Vec<u8>,
    result: Result<(), String>,
}

/// What is read of a response: its status line is enough.
const SAID_BYTES_MAX: usize = 4 << 10;
const STATUS_LINE_BYTES: usize = "HTTP/1.1 200".len();

impl Checking {
    /// Begins the check of a server, unless one is under way.
    pub(crate) fn begin(
        server: &Arc<Server>,
        check: &Check,
        until: Instant,
        background: &Arc<CommandChannel>,
    ) {
        if !server.begin_check() {
            return;
        }
        let host = check.host.as_deref().unwrap_or_else(|| server.authority());
        let head = format!(
            "GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Flash\r\nConnection: close\r\n\r\n",
            check.path
        );
        let (server, then) = (Arc::clone(server), Arc::clone(background));
        server.has_connector_if_needed(Instant::now());
        let attempt = server.attempt(until);
        attempt.wait(
            until,
            background,
            Box::new(move |connected| match connected {
                Ok(stream) => match server.checked_over(stream) {
                    Ok(kept) => {
                        let checking = Self::ask(server, kept, head.as_bytes(), until);
                        then.send(Command::Wait(Box::new(checking)));
                    }
                    Err(error) => server.checked(Err(error.to_string()), Instant::now()),
                },
                // There is no background thread any more.
                Err(Errno::CANCELED) => {}
                // The connector was killed, or as many connections wait there as may: this says nothing of the server.
                Err(Errno::AGAIN) => server.end_check(),
                Err(error) => server.checked(Err(error.to_string()), Instant::now()),
            }),
        );
    }

    fn ask(server: Arc<Server>, (stream, mut tls): Kept, head: &[u8], give_up_at: Instant) -> Self {
        let mut sealed = Vec::new();
        match &mut tls {
            Some(tls) => tls.seal(head, &mut sealed),
            None => sealed.extend_from_slice(head),
        }
        let (said, result) = (Vec::new(), Err("has not answered in time".to_owned()));
        let mut checking = Self { server, stream, tls, give_up_at, said, result };
        checking.send(&sealed);
        checking
    }

    /// A new connection has room for what is said.
    fn send(&mut self, bytes: &[u8]) {
        if let Err(error) = rustix::net::send(&self.stream, bytes, NO_SIGNAL | SendFlags::DONTWAIT) {
            self.result = Err(error.to_string());
        }
    }

    /// Takes what has come. Returns whether that was all.
    fn take(&mut self, bytes: &[u8]) -> Result<bool, &'static str> {
        let mut has_ended = bytes.is_empty();
        match &mut self.tls {
            Some(tls) => {
                let mut sealed = Vec::new();
                has_ended |= tls.open(bytes, &mut self.said, &mut sealed)?;
                if !sealed.is_empty() {
                    self.send(&sealed);
                }
            }
            None => self.said.extend_from_slice(bytes),
        }
        if let Some(result) = verdict(&self.said) {
            self.result = result;
            return Ok(true);
        }
        match has_ended || self.said.len() > SAID_BYTES_MAX {
            true => Err("has not answered with HTTP"),
            false => Ok(false),
        }
    }
}

/// What a response says, if that is known by now: a status below 400 is well.
fn verdict(said: &[u8]) -> Option<Result<(), String>> {
    let line = said.get(..STATUS_LINE_BYTES)?;
    let status = line.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..));
    let status: Option<u16> = status.and_then(|status| str::from_utf8(status).ok()?.parse().ok());
    Some(match status {
        Some(200..400) => Ok(()),
        Some(status) => Err(format!("has answered {status}")),
        None => Err("has not answered with HTTP".into()),
    })
}

impl PendingIo for Checking {
    fn stream(&self) -> &OwnedFd {
        &self.stream
    }

    fn interest(&self) -> Interest {
        Interest::INPUT
    }

    fn give_up_at(&self) -> Instant {
        self.give_up_at
    }

    fn advance(&mut self) -> bool {
        let mut buffer = [0; SAID_BYTES_MAX];
        let taken = match rustix::net::recv(&self.stream, &mut buffer[..], RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => {
                self.result = Err(error.to_string());
                return true;
            }
            Ok((_, count)) => self.take(&buffer[..count]),
        };
        taken.unwrap_or_else(|why| {
            self.result = Err(why.into());
            true
        })
    }

    fn finish(self: Box<Self>) {
        self.server.checked(self.result, Instant::now());
    }

    fn give_up(self: Box<Self>) {
        self.server.checked(self.result, Instant::now());
    }

    fn close(self: Box<Self>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_below_400_is_well() {
        for (said, expected) in [
            ("", None),
            ("HTTP/1.1 20", None),
            ("HTTP/1.1 200 OK\r\n", Some(true)),
            ("HTTP/1.0 302 Found\r\n", Some(true)),
            ("HTTP/1.1 404 Not Found\r\n", Some(false)),
            ("HTTP/1.1 503 No\r\n", Some(false)),
            ("HTTP/2.0 200 OK\r\n", Some(false)),
            ("SSH-2.0-OpenSSH_9.2\r\n", Some(false)),
        ] {
            assert_eq!(verdict(said.as_bytes()).map(|verdict| verdict.is_ok()), expected, "{said}");
        }
    }
}
