//! Buffers from one heap that all threads share, so that memory that one thread frees is there for all.
//!
//! An allocator with a heap for each thread keeps what other threads give back until its own asks again. Helpers allocate
//! buffers that a loop frees, and the loop allocates buffers that helpers free. So each heap would keep its greatest size, and
//! all together would hold several times the memory in use. One heap needs a lock. A thread that must not block only tries it.
//! Without the lock it allocates nothing, and queues the buffers that it drops for the next thread that allocates.
//!
//! Getting pages from the kernel, or returning them, waits until no thread has a page fault nearby. So only threads that may
//! block do either. Pages come populated, so that no thread that writes to a buffer has a fault.

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use dlmalloc::{Allocator, Dlmalloc};

use crate::mpsc::Queue;
use crate::system;

/// A buffer that owns its bytes, as a box does.
pub struct HeapBuf(pub(crate) NonNull<[u8]>);

struct Heap {
    memory: Dlmalloc<Pages>,
    /// Until free pages are returned to the kernel.
    allocations_left: u32,
}

/// Where the heap's pages come from.
struct Pages;

/// Memory of the heap that no buffer owns.
pub(crate) struct Free(pub(crate) NonNull<[u8]>);

/// Free pages are returned after so many allocations of threads that may block.
const ALLOCATIONS_PER_TRIM: u32 = 64;
/// Free memory is looked for in pieces of these sizes, to give its pages back.
const RELEASED_BYTES: [usize; 4] = [1 << 20, 256 << 10, 64 << 10, 16 << 10];
/// Free pages at the heap's end that are kept.
const KEPT_BYTES: usize = 2 << 20;

static HEAP: Mutex<Heap> =
    Mutex::new(Heap { memory: Dlmalloc::new_with_allocator(Pages), allocations_left: ALLOCATIONS_PER_TRIM });
/// Whether the thread that has the heap may block.
static MAY_BLOCK: AtomicBool = AtomicBool::new(false);
static DROPPED: Queue<Free> = Queue::new();

// SAFETY: it is the only owner of its bytes, as a box would be.
unsafe impl Send for HeapBuf {}
// SAFETY: shared, it gives out shared slices only.
unsafe impl Sync for HeapBuf {}
// SAFETY: no thread looks at its bytes, and the heap gives them to any and takes them back from any.
unsafe impl Send for Free {}

impl HeapBuf {
    /// A buffer of zeros. May block while other threads allocate or free.
    pub fn zeroed(bytes: usize) -> Self {
        take(bytes).zeroed()
    }
}

/// Memory for so many bytes. May block.
pub(crate) fn take(bytes: usize) -> Free {
    heap().take(bytes)
}

/// The same; `None` if the heap is locked by another thread, or has no free memory for it.
pub(crate) fn try_take(bytes: usize) -> Option<Free> {
    try_heap()?.try_take(bytes)
}

impl From<&[u8]> for HeapBuf {
    /// May block, too.
    fn from(bytes: &[u8]) -> Self {
        let Free(place) = heap().take(bytes.len());
        // SAFETY: as many bytes as its length says are this thread's own, so the others lie elsewhere.
        unsafe { place.cast().copy_from_nonoverlapping(NonNull::from(bytes).cast::<u8>(), bytes.len()) };
        Self(place)
    }
}

/// Gives the pages between buffers back to the kernel, where enough of them lie together. A thread that takes such memory again
/// has page faults. To be called by a thread that may block.
pub fn release_free_pages() {
    let mut taken = Vec::new();
    let Some(mut heap) = try_heap() else { return };
    for bytes in RELEASED_BYTES {
        taken.extend(std::iter::from_fn(|| heap.try_take(bytes)));
    }
    drop(heap);
    let page = rustix::param::page_size();
    for Free(bytes) in &taken {
        let start = bytes.cast::<u8>().addr().get();
        let skipped = start.next_multiple_of(page) - start;
        let whole = (bytes.len() - skipped) / page * page;
        // SAFETY: the pages lie within memory that was taken just now, which nobody reads before writing.
        unsafe { libc::madvise(bytes.cast::<u8>().add(skipped).as_ptr().cast(), whole, libc::MADV_DONTNEED) };
    }
    let mut heap = self::heap();
    taken.into_iter().for_each(|free| heap.free(free));
    // SAFETY: it returns free pages only.
    unsafe { heap.memory.trim(0) };
}

impl Drop for HeapBuf {
    fn drop(&mut self) {
        let free = Free(self.0);
        match try_heap() {
            Some(mut heap) => heap.free(free),
            None => _ = DROPPED.push(free),
        }
    }
}

/// The heap; blocks while another thread has it.
fn heap() -> MutexGuard<'static, Heap> {
    let heap = HEAP.lock().unwrap_or_else(PoisonError::into_inner);
    MAY_BLOCK.store(true, Ordering::Relaxed);
    heap
}

/// The heap, unless another thread has it.
fn try_heap() -> Option<MutexGuard<'static, Heap>> {
    let heap = match HEAP.try_lock() {
        Ok(heap) => heap,
        Err(TryLockError::Poisoned(heap)) => heap.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    MAY_BLOCK.store(false, Ordering::Relaxed);
    Some(heap)
}

impl Heap {
    fn take(&mut self, bytes: usize) -> Free {
        let Some(free) = self.try_take(bytes) else { handle_alloc_error(layout(bytes)) };
        self.allocations_left -= 1;
        if self.allocations_left == 0 {
            self.allocations_left = ALLOCATIONS_PER_TRIM;
            // SAFETY: it returns free pages only.
            unsafe { self.memory.trim(KEPT_BYTES) };
        }
        free
    }

    /// `None` if there is no free memory, and none to be had.
    fn try_take(&mut self, bytes: usize) -> Option<Free> {
        DROPPED.drain().for_each(|free| self.free(free));
        let layout = layout(bytes);
        // SAFETY: the layout is one of bytes, and not empty.
        let start = unsafe { self.memory.malloc(layout.size(), layout.align()) };
        Some(Free(NonNull::slice_from_raw_parts(NonNull::new(start)?, bytes)))
    }

    fn free(&mut self, Free(bytes): Free) {
        let layout = layout(bytes.len());
        // SAFETY: all that is free was taken from this heap with this layout, and comes back once.
        unsafe { self.memory.free(bytes.cast().as_ptr(), layout.size(), layout.align()) };
    }
}

// SAFETY: memory comes from the kernel and is the heap's alone until it is returned; no thread keeps state here.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        if !MAY_BLOCK.load(Ordering::Relaxed) {
            return (ptr::null_mut(), 0, 0);
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_ANONYMOUS | libc::MAP_PRIVATE | system::preload::MAP_POPULATE;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), size, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED { (ptr::null_mut(), 0, 0) } else { (start.cast(), size, 0) }
    }

    /// Buffers never change their size.
    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, start: *mut u8, old_size: usize, new_size: usize) -> bool {
        // SAFETY: the heap gives up the part behind `new_size`, which lies in a mapping of its own.
        MAY_BLOCK.load(Ordering::Relaxed)
            && unsafe { libc::munmap(start.add(new_size).cast(), old_size - new_size) == 0 }
    }

    fn free(&self, start: *mut u8, size: usize) -> bool {
        // SAFETY: the heap gives up all of it.
        MAY_BLOCK.load(Ordering::Relaxed) && unsafe { libc::munmap(start.cast(), size) == 0 }
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        rustix::param::page_size()
    }
}

/// An empty buffer has an address, too.
fn layout(bytes: usize) -> Layout {
    Layout::array::<u8>(bytes.max(1)).expect("nobody asks for half of the address space")
}

impl Free {
    /// Takes some time, so it runs without the heap's lock.
    fn zeroed(self) -> HeapBuf {
        // SAFETY: as many bytes as its length says are this thread's own.
        unsafe { self.0.cast::<u8>().write_bytes(0, self.0.len()) };
        HeapBuf(self.0)
    }
}

impl Deref for HeapBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: its bytes are all set, and its own until it is dropped.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for HeapBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has borrowed them.
        unsafe { self.0.as_mut() }
    }
}

impl AsRef<[u8]> for HeapBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for HeapBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeapBuf({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// The heap is one for all tests.
    static ALONE: Mutex<()> = Mutex::new(());

    fn try_buffer(bytes: usize) -> Option<HeapBuf> {
        try_take(bytes).map(|Free(bytes)| HeapBuf(bytes))
    }

    #[test]
    fn blocks_are_zero_and_ones_own() {
        let _alone = ALONE.lock();
        for _ in 0..2 {
            let mut blocks: Vec<_> = [0, 1, 100, 1 << 20].map(HeapBuf::zeroed).into();
            blocks.push(HeapBuf::from(&[0; 3000][..]));
            for (number, block) in (1..).zip(&mut blocks) {
                assert!(block.iter().all(|&byte| byte == 0));
                block.fill(number);
            }
            for (number, block) in (1..).zip(&blocks) {
                assert!(block.iter().all(|&byte| byte == number));
            }
        }
        assert_eq!(*HeapBuf::from(&b"copied"[..]), *b"copied");
    }

    #[test]
    fn nobody_who_must_not_waits_for_the_heap() {
        let _alone = ALONE.lock();
        let block = HeapBuf::zeroed(100);
        let heap = HEAP.lock();
        assert!(try_buffer(1).is_none());
        drop(block);
        drop(heap);
        assert!(try_buffer(1).is_some());
        assert_eq!(DROPPED.drain().count(), 0, "what was dropped meanwhile is back");
    }

    #[test]
    fn only_threads_that_may_block_get_pages_and_return_them() {
        const BYTES: usize = 64 << 20;
        let _alone = ALONE.lock();
        let before = resident_bytes();
        assert!(try_buffer(BYTES).is_none());
        drop(HeapBuf::zeroed(BYTES));
        let buffer = try_buffer(BYTES);
        assert!(buffer.is_some(), "what was dropped is still there");
        drop(buffer);
        // Other tests may free memory of their own meanwhile.
        assert!(resident_bytes() >= before + BYTES * 3 / 4);
        for _ in 0..=ALLOCATIONS_PER_TRIM {
            drop(HeapBuf::zeroed(1));
        }
        let grown = resident_bytes().saturating_sub(before);
        assert!(grown < BYTES / 4, "{grown} bytes are left");
    }

    #[test]
    fn pages_between_buffers_go_back_and_may_be_taken_again() {
        const BYTES: usize = 40_000;
        let _alone = ALONE.lock();
        let mut buffers: Vec<_> = (0..1_000).map(|_| HeapBuf::from(&[7; BYTES][..])).collect();
        let full = resident_bytes();
        // Each third stays.
        let mut number = 0;
        buffers.retain(|_| {
            number += 1;
            number % 3 == 0
        });
        let before = resident_bytes();
        assert!(before + 20 * BYTES > full, "the heap keeps what is dropped: {full}, then {before}");
        release_free_pages();
        let given = before.saturating_sub(resident_bytes());
        assert!(given > 400 * BYTES, "{given} bytes went back");
        buffers.extend((0..600).map(|_| HeapBuf::zeroed(BYTES)));
        let (kept, new) = buffers.split_at(333);
        assert!(kept.iter().all(|buffer| buffer.iter().all(|&byte| byte == 7)));
        assert!(new.iter().all(|buffer| buffer.iter().all(|&byte| byte == 0)));
    }

    #[test]
    fn pages_are_there_before_they_are_touched() {
        let _alone = ALONE.lock();
        // What another test left free may have no pages any more.
        // SAFETY: it returns free pages only.
        unsafe { heap().memory.trim(0) };
        let buffer = heap().take(8 << 20);
        let before = faults();
        let buffer = buffer.zeroed();
        let more = faults() - before;
        assert!(more < 20, "{more} page faults");
        drop(buffer);
    }

    /// Of this thread.
    fn faults() -> i64 {
        // SAFETY: plain numbers, for which zero is a value, and the call fills them in.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
        usage.ru_minflt
    }

    #[test]
    fn what_many_take_and_others_drop_is_taken_again() {
        const BYTES: usize = 100_000;
        let _alone = ALONE.lock();
        let before = resident_bytes();
        // 16 at a time, 640 MB in all.
        for _ in 0..400 {
            let full = || {
                let mut block = HeapBuf::zeroed(BYTES);
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
