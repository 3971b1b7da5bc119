//! The server's end of the socket to its recorder. It connects when the first loop has blocked.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use flash_process::ipc;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::explanation::{Explanation, Total};
use super::message::{Reply, Request};
use super::recorded::IDLE_MAX;

/// Connects to a recorder: each call to another one.
pub type ConnectRecorder = Arc<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>;

pub(crate) struct RecorderClient {
    connect: ConnectRecorder,
    socket: Option<OwnedFd>,
}

/// A thread asks again before the recorder thinks that it does not block any more.
pub(crate) const RECORD_EVERY: Duration = IDLE_MAX.checked_div(10).expect("ten is not zero");
/// For a recorder that a machine without memory has stopped.
const PATIENCE: Duration = Duration::from_secs(5);

impl RecorderClient {
    pub(crate) fn new(connect: ConnectRecorder) -> RecorderClient {
        RecorderClient { connect, socket: None }
    }

    /// Has a thread recorded. Says whether it was not before.
    ///
    /// # Errors
    /// If the kernel does not allow it, or there is no recorder.
    pub(crate) fn record(&mut self, thread: u32) -> io::Result<bool> {
        match self.ask(&Request::Record { thread })? {
            Reply::Recorded { is_new } => Ok(is_new),
            Reply::Refused(why) => Err(io::Error::new(ErrorKind::PermissionDenied, why)),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Why a thread slept longest between two times, if that was recorded.
    pub(crate) fn explain(
        &mut self,
        thread: u32,
        since_ns: u64,
        until_ns: u64,
    ) -> io::Result<Option<Explanation>> {
        match self.ask(&Request::Explain { thread, since_ns, until_ns })? {
            Reply::Explained(explanation) => Ok(explanation),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// All that was recorded, the longest first. Nothing without a recorder.
    pub(crate) fn totals(&mut self) -> Vec<Total> {
        if self.socket.is_none() {
            return Vec::new();
        }
        match self.ask(&Request::Totals) {
            Ok(Reply::Totals(totals)) => totals,
            _ => Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn socket(&self) -> &OwnedFd {
        self.socket.as_ref().expect("it is connected")
    }

    fn ask(&mut self, request: &Request) -> io::Result<Reply> {
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => (self.connect)()?,
        };
        let reply = ask(&socket, request)?;
        // Kept only while it answers.
        self.socket = Some(socket);
        Ok(reply)
    }
}

fn ask(socket: &OwnedFd, request: &Request) -> io::Result<Reply> {
    let gone = || io::Error::new(ErrorKind::NotConnected, "the sleep recorder has ended");
    ipc::send(socket, &request.to_bytes(), &[]).map_err(|_| gone())?;
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    if poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&patience))? == 0 {
        return Err(io::Error::new(ErrorKind::TimedOut, "the sleep recorder does not answer"));
    }
    let mut buffer = ipc::buffer();
    let message = ipc::receive(socket, &mut buffer)?.ok_or_else(gone)?;
    Reply::of_bytes(&message.bytes).ok_or_else(|| ErrorKind::InvalidData.into())
}
