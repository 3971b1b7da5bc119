//! A ring of operations shared with the kernel (`io_uring`), for one thread that serves many sockets.
//!
//! The wrapper knows five operations: receive, send, poll, cancel and close. Only the first two hand memory to the
//! kernel, and that memory is the ring's own: see [`buffers`] and [`sends`]. Restrictions registered with the kernel
//! keep the ring to the five, so that not even a program taken over could open a file through it. What is received,
//! when, and for whom is not decided here.

mod buffers;
mod sends;

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use io_uring::register::Restriction;
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, Probe, cqueue, opcode, squeue};

use self::buffers::Buffers;
use self::sends::Sends;
use crate::operations::{Completion, Outcome, TAG_MAX};

/// Sockets given to it are to be closed by [`Ring::close`], because operations in the queue know them by number.
pub struct Ring {
    ring: IoUring,
    /// Outlives its registration: see `drop`.
    buffers: ManuallyDrop<Buffers>,
    /// Outlive their completions: see `drop`.
    sends: ManuallyDrop<Sends>,
    /// The buffer that the completion last returned has filled.
    received: Option<(u16, usize)>,
    /// Operations that found the ring's queue full.
    waiting: VecDeque<squeue::Entry>,
    /// Completions that had come when the last wait ended and have not been returned.
    left: usize,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Cancelling and closing, whose only completions are failures that mean it was done already.
    Silent = 0,
    Receive = 1,
    Poll = 2,
    /// With a send's number in place of a tag.
    Send = 3,
}

const KIND_SHIFT: u32 = 62;

/// Operations that are submitted in one call; more of them wait in user space.
const SUBMISSIONS_MAX: u32 = 256;
/// Completions beyond these the kernel keeps elsewhere until there is room.
const COMPLETIONS_MAX: u32 = 4096;
const GROUP: u16 = 0;

const OPERATIONS: [u8; 5] = [
    opcode::RecvMulti::CODE,
    opcode::Send::CODE,
    opcode::PollAdd::CODE,
    opcode::AsyncCancel2::CODE,
    opcode::Close::CODE,
];
/// From `<linux/io_uring.h>`: what is left to do once a ring has begun.
const UNREGISTER_BUFFERS: u8 = 23;

impl Ring {
    /// Makes a ring that does nothing yet.
    ///
    /// # Errors
    /// When the kernel forbids rings (`EPERM`, `EACCES`), does not know them (`ENOSYS`), or is older than Linux 6.0
    /// (`EINVAL`, [`io::ErrorKind::Unsupported`]).
    pub fn new() -> io::Result<Self> {
        let ring = set_up(true).or_else(|error| match error.raw_os_error() {
            // Deferred work came with 6.1.
            Some(libc::EINVAL) => set_up(false),
            _ => Err(error),
        })?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let params = ring.params();
        let missing = OPERATIONS.iter().any(|&operation| !probe.is_supported(operation));
        if missing || !params.is_feature_nodrop() || !params.is_feature_ext_arg() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let buffers = Buffers::new()?;
        // SAFETY: the memory is `buffers`', which is not freed before it was unregistered: see `drop`.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(buffers.address(), buffers::COUNT, GROUP, 0)?;
        }
        // From here on `drop` sees to it.
        let ring = Self {
            ring,
            buffers: ManuallyDrop::new(buffers),
            sends: ManuallyDrop::default(),
            received: None,
            waiting: VecDeque::new(),
            left: 0,
        };
        let mut restrictions = Vec::from(OPERATIONS.map(Restriction::sqe_op));
        let flags = squeue::Flags::BUFFER_SELECT | squeue::Flags::SKIP_SUCCESS;
        restrictions.push(Restriction::sqe_flags_allowed(flags.bits()));
        restrictions.push(Restriction::register_op(UNREGISTER_BUFFERS));
        ring.ring.submitter().register_restrictions(&mut restrictions)?;
        Ok(ring)
    }

    /// Makes the calling thread the only one that may use the ring from now on.
    pub fn begin(&mut self) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()
    }

    /// Receives from a socket, again and again until it ends, fails, is cancelled, or no buffer is free (`ENOBUFS`).
    /// No buffer is held while nothing comes.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, tag: u64) {
        let operation = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
        self.push(operation, tag, Kind::Receive);
    }

    /// Sends a copy of the slices, as far as the socket takes them at once. Refused when they are too long for a copy,
    /// or the ring has too many already.
    pub fn send(&mut self, socket: BorrowedFd<'_>, tag: u64, slices: &[IoSlice<'_>]) -> bool {
        let Some((number, bytes)) = self.sends.begin(tag, slices) else { return false };
        let operation = opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
            .build();
        self.push(operation, number.into(), Kind::Send);
        true
    }

    /// Waits for events, once or, as edges, until it is cancelled.
    pub fn poll(&mut self, fd: BorrowedFd<'_>, tag: u64, events: u32, repeat: bool) {
        let operation = opcode::PollAdd::new(Fd(fd.as_raw_fd()), events).multi(repeat).build();
        self.push(operation, tag, Kind::Poll);
    }

    /// Ends a receive. Its last completion says so, unless something else comes first.
    pub fn cancel_receive(&mut self, tag: u64) {
        self.cancel(user_data(tag, Kind::Receive));
    }

    pub fn cancel_poll(&mut self, tag: u64) {
        self.cancel(user_data(tag, Kind::Poll));
    }

    fn cancel(&mut self, which: u64) {
        let operation = opcode::AsyncCancel2::new(CancelBuilder::user_data(which)).build();
        self.push(operation.flags(squeue::Flags::SKIP_SUCCESS), 0, Kind::Silent);
    }

    /// Closes a socket after everything that was asked for before. Its operations are to be cancelled first, because
    /// each of them keeps it open.
    pub fn close(&mut self, socket: OwnedFd) {
        // The number stays taken until then, so that no operation in the queue can meet another file under it.
        let operation = opcode::Close::new(Fd(socket.into_raw_fd())).build();
        self.push(operation.flags(squeue::Flags::SKIP_SUCCESS), 0, Kind::Silent);
    }

    fn push(&mut self, operation: squeue::Entry, tag: u64, kind: Kind) {
        debug_assert!(tag < TAG_MAX, "the kind of the operation needs those bits");
        self.waiting.push_back(operation.user_data(user_data(tag, kind)));
        self.fill();
    }

    /// Moves operations into the ring's queue, as many as it takes.
    fn fill(&mut self) {
        let mut queue = self.ring.submission();
        while let Some(operation) = self.waiting.front() {
            // SAFETY: a receive gives the kernel registered buffers, which live until they are unregistered. A send
            // gives it bytes that `sends` neither moves nor frees before the completion is seen. The other operations
            // name descriptors and tags, which are numbers.
            if unsafe { queue.push(operation) }.is_err() {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// Submits what was asked for, and sleeps until there is a completion or the time is over. The only call that
    /// sleeps. Returns how many completions there are.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        loop {
            self.fill();
            let more = !self.waiting.is_empty();
            let entered = self.enter(if more { Some(Duration::ZERO) } else { timeout });
            self.left = self.ring.completion().len();
            match entered.map_err(|error| (error.raw_os_error(), error)) {
                Ok(()) | Err((Some(libc::ETIME | libc::EINTR), _)) if more => {}
                // The last two: short of memory, or of room for completions. The caller makes some, and comes back.
                Ok(()) | Err((Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY), _)) => {
                    return Ok(self.left);
                }
                Err((_, error)) => return Err(error),
            }
        }
    }

    fn enter(&self, timeout: Option<Duration>) -> io::Result<()> {
        let time = timeout.map(Timespec::from);
        let mut arguments = SubmitArgs::new();
        if let Some(time) = &time {
            arguments = arguments.timespec(time);
        }
        let mut flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        if self.ring.params().is_feature_no_iowait() {
            // A server without clients does not wait for a disk.
            flags |= EnterFlags::NO_IOWAIT;
        }
        // A look at what is there need not have any.
        let least = u32::from(timeout != Some(Duration::ZERO));
        let queued = self.queued();
        // SAFETY: the flags say what `arguments` is, and it and the time that it points to outlive the call.
        unsafe { self.ring.submitter().enter(queued, least, flags.bits(), Some(&arguments)) }.map(drop)
    }

    fn queued(&self) -> u32 {
        // SAFETY: no other view of the queue exists: those made through `&mut self` ended with their calls.
        unsafe { self.ring.submission_shared() }.len() as u32
    }

    /// The next completion of those that had come when the last wait ended.
    pub fn next_completion(&mut self) -> Option<Completion> {
        if let Some((buffer, _)) = self.received.take() {
            self.buffers.give_back(buffer);
        }
        while self.left > 0 {
            self.left -= 1;
            let entry = self.ring.completion().next()?;
            if let Some(completion) = self.completion(&entry) {
                return Some(completion);
            }
        }
        None
    }

    fn completion(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
        let (data, flags) = (entry.user_data(), entry.flags());
        let result = u32::try_from(entry.result()).map_err(|_| io::Error::from_raw_os_error(-entry.result()));
        let outcome = match data >> KIND_SHIFT {
            kind if kind == Kind::Receive as u64 => {
                let length = result.as_ref().map_or(0, |&length| length as usize);
                self.received = cqueue::buffer_select(flags).map(|buffer| (buffer, length));
                Outcome::Received(result.map(|length| length as usize))
            }
            kind if kind == Kind::Poll as u64 => Outcome::Polled(result),
            kind if kind == Kind::Send as u64 => {
                let tag = self.sends.end((data % TAG_MAX) as u16);
                let outcome = Outcome::Sent(result.map(|length| length as u16));
                return Some(Completion { tag, outcome, last: true });
            }
            _ => return None,
        };
        Some(Completion { tag: data % TAG_MAX, outcome, last: !cqueue::more(flags) })
    }

    /// The bytes of the completion last returned.
    pub fn received(&self) -> &[u8] {
        self.received.map_or(&[], |(buffer, length)| self.buffers.filled(buffer, length))
    }
}

fn user_data(tag: u64, kind: Kind) -> u64 {
    tag | (kind as u64) << KIND_SHIFT
}

fn set_up(defer: bool) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    // Disabled until the thread that will use it says so: a ring of a single thread belongs to the one that enables it.
    builder.setup_r_disabled().setup_single_issuer().setup_coop_taskrun();
    builder.setup_clamp().setup_submit_all().setup_cqsize(COMPLETIONS_MAX).dontfork();
    if defer {
        builder.setup_defer_taskrun();
    }
    builder.build(SUBMISSIONS_MAX)
}

impl Drop for Ring {
    fn drop(&mut self) {
        // What is still to be closed. A ring that never began refuses, and has nothing to close.
        let _ = self.wait(Some(Duration::ZERO));
        while self.next_completion().is_some() {}
        if self.sends.are_over() {
            // SAFETY: dropped once, here, and not used again. Every send has had its completion.
            unsafe { ManuallyDrop::drop(&mut self.sends) };
        }
        // A receive takes a buffer only while it copies into it, under the lock that this call takes. So once it has
        // succeeded, the kernel has no way left to the memory. Where it fails, the memory is left alone for good.
        if self.ring.submitter().unregister_buf_ring(GROUP).is_ok() {
            // SAFETY: dropped once, here, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        }
    }
}

#[cfg(test)]
mod tests;
