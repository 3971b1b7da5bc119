//! The system calls that one thread enters: the tracepoint `raw_syscalls:sys_enter`, with a filter in the kernel.
//!
//! The tracepoint's number is tracefs's to tell; this module does not look for it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::attributes::{Attributes, IOC_ENABLE, IOC_SET_FILTER};
use super::event::{control, open};
use super::ring::Ring;

/// Records calls of some numbers by one thread. What finds its ring full is lost.
#[derive(Debug)]
pub struct CallRecorder {
    _event: OwnedFd,
    ring: Ring,
}

const PAGES: usize = 1;
const SAMPLE: u32 = 9;

impl CallRecorder {
    /// Records the calls with these numbers from now on.
    ///
    /// # Errors
    /// EACCES or EPERM without the right to tracepoints, EINVAL for a number that is no tracepoint's, ESRCH if there is no
    /// such thread.
    pub fn open(tracepoint: u64, thread: u32, calls: &[i64]) -> io::Result<CallRecorder> {
        let event = open(&Attributes::tracepoint(tracepoint), thread)?;
        let ring = Ring::map(&event, PAGES)?;
        let filter: Vec<String> = calls.iter().map(|number| format!("id == {number}")).collect();
        let filter = CString::new(filter.join(" || ")).expect("numbers have no zero byte");
        // SAFETY: the kernel reads the text up to its zero byte, and keeps a copy.
        let set = unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_FILTER as _, filter.as_ptr()) };
        if set != 0 {
            return Err(io::Error::last_os_error());
        }
        control(&event, IOC_ENABLE);
        Ok(CallRecorder { _event: event, ring })
    }

    /// Gives number and arguments of each call since the last time.
    pub fn read(&mut self, found: &mut dyn FnMut(i64, [u64; 6])) {
        while let Some(words) = self.ring.next() {
            if let Some((number, arguments)) = call(words) {
                found(number, arguments);
            }
        }
    }
}

/// A record's head, and behind it the size of the data in 32 bits. The data are eight bytes that all tracepoints share, the
/// call's number, and its arguments. So they are four bytes off the words.
fn call(words: &[u64]) -> Option<(i64, [u64; 6])> {
    let (&head, body) = words.split_first()?;
    if head as u32 != SAMPLE {
        return None;
    }
    let word = |at: usize| Some(body.get(at)? >> 32 | body.get(at + 1)? << 32);
    let mut arguments = [0; 6];
    for (at, argument) in arguments.iter_mut().enumerate() {
        *argument = word(at + 2)?;
    }
    Some((word(1)? as i64, arguments))
}

#[test]
fn a_call_is_read_from_its_record() {
    let halves = [60_u32, 1, 2, 232, 0, 7, 0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 0];
    let body = halves.chunks(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32);
    let words: Vec<u64> = [u64::from(SAMPLE)].into_iter().chain(body).collect();
    assert_eq!(call(&words), Some((232, [7, 8, 9, 10, 11, 12])));
    assert_eq!(call(&words[..5]), None);
}
