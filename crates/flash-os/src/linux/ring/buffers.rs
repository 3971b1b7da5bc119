//! The buffers that a ring receives into: a stock of them that the kernel takes from when bytes have come.
//!
//! Each buffer is in one of two hands. The kernel's: it lies in the stock and nobody here looks at it. Ours: a
//! completion has brought it, until it is given back. The memory is one mapping.

use std::io;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

/// How many there are, a power of two.
pub(super) const COUNT: u16 = 256;
/// Room for an ordinary request, with cookies. A longer one takes several.
const BUFFER_BYTES: usize = 4096;
/// The stock's entries lie in front, in whole pages.
const STOCK_BYTES: usize = COUNT as usize * size_of::<BufRingEntry>();
const BYTES: usize = STOCK_BYTES + COUNT as usize * BUFFER_BYTES;

pub(super) struct Buffers {
    start: NonNull<u8>,
    /// Entries ever put into the stock, round and round.
    tail: u16,
}

// SAFETY: the mapping belongs to this value alone, whichever thread holds it.
unsafe impl Send for Buffers {}

impl Buffers {
    /// All of them in the stock, which is yet to be registered.
    pub(super) fn new() -> io::Result<Self> {
        // With its pages, or the loop would come by them one by one, and might wait for another thread that maps memory.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: fresh memory at an address of the kernel's choice touches no existing memory.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mut buffers = Self { start, tail: 0 };
        for buffer in 0..COUNT {
            buffers.give_back(buffer);
        }
        Ok(buffers)
    }

    /// Where the stock lies, for its registration.
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// Puts a buffer into the stock, for the kernel to take.
    pub(super) fn give_back(&mut self, buffer: u16) {
        debug_assert!(buffer < COUNT, "a buffer that is not ours");
        let entries = self.start.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the masked index lies within the stock, which is page-aligned memory of ours, and an entry is plain
        // numbers. The kernel does not read this entry before the tail has passed it, which happens below.
        let entry = unsafe { &mut *entries.add((self.tail % COUNT) as usize) };
        entry.set_addr(self.place(buffer).addr() as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in an unused field of the first entry, aligned for its type; the kernel only reads it,
        // and here it is never touched but by this atomic store.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        // Release: who sees the tail sees the entry.
        tail.store(self.tail, Ordering::Release);
    }

    /// The first `length` bytes of a buffer that a completion has brought.
    pub(super) fn filled(&self, buffer: u16, length: usize) -> &[u8] {
        assert!(buffer < COUNT && length <= BUFFER_BYTES, "the kernel fills what it was given");
        // SAFETY: within the mapping by the line above, and initialised, as all fresh memory is. The kernel has given
        // the buffer up, and takes it again only after `give_back`, which needs `self` exclusively.
        unsafe { slice::from_raw_parts(self.place(buffer), length) }
    }

    fn place(&self, buffer: u16) -> *mut u8 {
        self.start.as_ptr().wrapping_add(STOCK_BYTES + buffer as usize * BUFFER_BYTES)
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; slices of it borrow `self`, and the ring drops this only when the
        // kernel can no longer reach it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), BYTES) };
    }
}
