//! Memory that every thread takes from one heap, so that what one gives back is there for all.
//!
//! An allocator with a heap for each thread keeps what other threads give back until its own asks again. Where helpers
//! read what a loop drops, and a loop what helpers drop, each heap stays as large as it ever was, and all together hold
//! several times what is in use. One heap needs a lock. Who must not wait for it only tries: it goes without a block, and
//! leaves those that it drops in a mailbox, for whoever takes the next.

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use dlmalloc::Dlmalloc;

use crate::mailbox::Mailbox;

/// Bytes of one's own, as in a box.
pub struct Block(NonNull<[u8]>);

struct Heap(Dlmalloc);

/// Memory of the heap that is nobody's.
struct Free(NonNull<[u8]>);

static HEAP: Mutex<Heap> = Mutex::new(Heap(Dlmalloc::new()));
static DROPPED: Mailbox<Free> = Mailbox::new();

// SAFETY: it is the only owner of its bytes, as a box would be.
unsafe impl Send for Block {}
// SAFETY: shared, it gives out shared slices only.
unsafe impl Sync for Block {}
// SAFETY: no thread looks at its bytes, and the heap gives them to any and takes them back from any.
unsafe impl Send for Free {}

impl Block {
    /// Zeros. May wait for others who take a block or drop one.
    pub fn zeroed(bytes: usize) -> Self {
        let free = heap().take(bytes);
        free.zeroed()
    }

    /// Zeros, unless that means to wait for others.
    pub fn zeroed_now(bytes: usize) -> Option<Self> {
        let free = heap_now()?.take(bytes);
        Some(free.zeroed())
    }
}

impl From<&[u8]> for Block {
    /// May wait, too.
    fn from(bytes: &[u8]) -> Self {
        let Free(place) = heap().take(bytes.len());
        // SAFETY: as many bytes as its length says are this thread's own, so the others lie elsewhere.
        unsafe { place.cast().copy_from_nonoverlapping(NonNull::from(bytes).cast::<u8>(), bytes.len()) };
        Self(place)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let free = Free(self.0);
        match heap_now() {
            Some(mut heap) => heap.put_back(free),
            None => _ = DROPPED.put(free),
        }
    }
}

/// The heap, as soon as nobody else is at it.
fn heap() -> MutexGuard<'static, Heap> {
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The heap, unless somebody else is at it.
fn heap_now() -> Option<MutexGuard<'static, Heap>> {
    match HEAP.try_lock() {
        Ok(heap) => Some(heap),
        Err(TryLockError::Poisoned(heap)) => Some(heap.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl Heap {
    fn take(&mut self, bytes: usize) -> Free {
        DROPPED.take_all().for_each(|free| self.put_back(free));
        let layout = layout(bytes);
        // SAFETY: the layout is one of bytes, and not empty.
        let start = unsafe { self.0.malloc(layout.size(), layout.align()) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Free(NonNull::slice_from_raw_parts(start, bytes))
    }

    fn put_back(&mut self, Free(bytes): Free) {
        let layout = layout(bytes.len());
        // SAFETY: all that is free was taken from this heap with this layout, and comes back once.
        unsafe { self.0.free(bytes.cast().as_ptr(), layout.size(), layout.align()) };
    }
}

/// An empty block has an address, too.
fn layout(bytes: usize) -> Layout {
    Layout::array::<u8>(bytes.max(1)).expect("nobody asks for half of the address space")
}

impl Free {
    /// Takes some time, so not at the heap.
    fn zeroed(self) -> Block {
        // SAFETY: as many bytes as its length says are this thread's own.
        unsafe { self.0.cast::<u8>().write_bytes(0, self.0.len()) };
        Block(self.0)
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: its bytes are all set, and its own until it is dropped.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has borrowed them.
        unsafe { self.0.as_mut() }
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// The heap is one for all tests.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn blocks_are_zero_and_ones_own() {
        let _alone = ALONE.lock();
        for _ in 0..2 {
            let mut blocks: Vec<_> = [0, 1, 100, 1 << 20].map(Block::zeroed).into();
            blocks.push(Block::zeroed_now(3000).unwrap());
            for (number, block) in (1..).zip(&mut blocks) {
                assert!(block.iter().all(|&byte| byte == 0));
                block.fill(number);
            }
            for (number, block) in (1..).zip(&blocks) {
                assert!(block.iter().all(|&byte| byte == number));
            }
        }
        assert_eq!(*Block::from(&b"copied"[..]), *b"copied");
    }

    #[test]
    fn nobody_who_must_not_waits_for_the_heap() {
        let _alone = ALONE.lock();
        let block = Block::zeroed(100);
        let heap = HEAP.lock();
        assert!(Block::zeroed_now(1).is_none());
        drop(block);
        drop(heap);
        assert!(Block::zeroed_now(1).is_some());
        assert_eq!(DROPPED.take_all().count(), 0, "what was dropped meanwhile is back");
    }

    #[test]
    fn what_many_take_and_others_drop_is_taken_again() {
        const BYTES: usize = 100_000;
        let _alone = ALONE.lock();
        let before = resident_bytes();
        // 16 at a time, 640 MB in all.
        for _ in 0..400 {
            let full = || {
                let mut block = Block::zeroed(BYTES);
                block.fill(1);
                block
            };
            let takers: Vec<_> = (0..16).map(|_| thread::spawn(full)).collect();
            takers.into_iter().for_each(|taker| drop(taker.join().unwrap()));
        }
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown < 40 * BYTES, "it grew by {grown} bytes");
    }

    fn resident_bytes() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
    }
}
