//! Digests of the blocks of an open file that were handed out, to compare them with the disk later.
//!
//! A block is digested once, for all clients. Loops and helpers share the table without a lock, because a slot is set
//! once and never changes. There is no table before the first block. What a difference means is not decided here.

use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::quality::RandomState;

/// The size of a block.
pub(super) const BLOCK_BYTES: u64 = 64 << 10;
/// These take 128 KiB for one file. In a file beyond 1 GiB, blocks at equal distances have a slot.
const SLOTS_MAX: u64 = 16 << 10;

#[derive(Debug)]
pub(super) struct Digests {
    /// Zero stands for a block that was not handed out.
    slots: OnceLock<Box<[AtomicU64]>>,
    slots_count: u64,
    /// Each `stride`th block has a slot.
    stride: u64,
    size: u64,
    /// Seeded at random, so that no client can make blocks with equal digests.
    state: RandomState,
}

impl Digests {
    /// For a file of this size.
    pub(super) fn new(size: u64) -> Self {
        let blocks = size.div_ceil(BLOCK_BYTES);
        let stride = blocks.div_ceil(SLOTS_MAX).max(1);
        let slots_count = blocks.div_ceil(stride);
        Self { slots: OnceLock::new(), slots_count, stride, size, state: RandomState::default() }
    }

    /// The memory of the table, once there is one.
    pub(super) fn table_bytes(&self) -> u64 {
        self.slots_count * size_of::<AtomicU64>() as u64
    }

    /// Whether every block has a slot.
    pub(super) fn cover_all(&self) -> bool {
        self.stride == 1
    }

    /// The digest of any value.
    pub(super) fn of(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.state.build_hasher();
        hasher.write(bytes);
        hasher.finish().max(1)
    }

    /// The range to read for a piece, so that each of its blocks can be digested whole unless it was before.
    pub(super) fn range_for(&self, piece: &Range<u64>) -> Range<u64> {
        let is_open = |at: u64| !at.is_multiple_of(BLOCK_BYTES) && self.is_missing(at / BLOCK_BYTES);
        let start = if is_open(piece.start) { block_start(piece.start) } else { piece.start };
        let end = if is_open(piece.end) { self.block_end(piece.end) } else { piece.end };
        start..end
    }

    /// All blocks that the piece touches.
    pub(super) fn blocks_of(&self, piece: &Range<u64>) -> Range<u64> {
        block_start(piece.start)..self.block_end(piece.end)
    }

    /// Digests the blocks of these bytes that were not digested before. Returns whether other threads handed out the same.
    #[must_use]
    pub(super) fn record(&self, start: u64, bytes: &[u8]) -> bool {
        let end = start + bytes.len() as u64;
        let mut at = start.next_multiple_of(BLOCK_BYTES);
        while at < end && self.block_end(at + 1) <= end {
            self.slots.get_or_init(|| (0..self.slots_count).map(|_| AtomicU64::new(0)).collect());
            let next = self.block_end(at + 1);
            if let Some(slot) = self.slot(at / BLOCK_BYTES)
                && slot.load(Ordering::SeqCst) == 0
            {
                let digest = self.of(&bytes[(at - start) as usize..(next - start) as usize]);
                if slot
                    .compare_exchange(0, digest, Ordering::SeqCst, Ordering::SeqCst)
                    .is_err_and(|other| other != digest)
                {
                    return false;
                }
            }
            at = next;
        }
        true
    }

    /// The blocks of a range that were digested, in order.
    pub(super) fn recorded(&self, range: Range<u64>) -> impl DoubleEndedIterator<Item = Range<u64>> {
        let step = self.stride * BLOCK_BYTES;
        let slots =
            range.start / BLOCK_BYTES / self.stride..range.end.div_ceil(step).min(self.table().len() as u64);
        let is_recorded = |slot: &u64| self.table()[*slot as usize].load(Ordering::SeqCst) != 0;
        slots.filter(is_recorded).map(move |slot| slot * step..self.block_end(slot * step + 1))
    }

    /// Whether these bytes are equal to the block that was handed out.
    pub(super) fn agree(&self, block: &Range<u64>, bytes: &[u8]) -> bool {
        let slot = self.slot(block.start / BLOCK_BYTES);
        slot.is_some_and(|slot| slot.load(Ordering::SeqCst) == self.of(bytes))
    }

    fn is_missing(&self, block: u64) -> bool {
        let has_slot = block.is_multiple_of(self.stride) && block / self.stride < self.slots_count;
        has_slot && self.slot(block).is_none_or(|slot| slot.load(Ordering::SeqCst) == 0)
    }

    fn slot(&self, block: u64) -> Option<&AtomicU64> {
        block.is_multiple_of(self.stride).then(|| self.table().get((block / self.stride) as usize))?
    }

    fn table(&self) -> &[AtomicU64] {
        self.slots.get().map_or(&[], |slots| slots)
    }

    /// The end of the block that ends at or after this place.
    fn block_end(&self, at: u64) -> u64 {
        at.next_multiple_of(BLOCK_BYTES).min(self.size)
    }
}

fn block_start(at: u64) -> u64 {
    at - at % BLOCK_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = BLOCK_BYTES;

    #[test]
    fn blocks_are_digested_once_and_whole() {
        let digests = Digests::new(3 * BLOCK + 10);
        let bytes: Vec<u8> = (0..3 * BLOCK + 10).map(|at| (at * 31 + at / 251) as u8).collect();
        let part = |range: Range<u64>| &bytes[range.start as usize..range.end as usize];
        assert_eq!(digests.range_for(&(5..10)), 0..BLOCK, "a block is digested whole");
        assert_eq!(digests.range_for(&(BLOCK..BLOCK + 1)), BLOCK..2 * BLOCK);
        assert!(digests.record(0, part(0..BLOCK)));
        assert_eq!(digests.range_for(&(5..10)), 5..10, "once");
        assert_eq!(digests.range_for(&(5..BLOCK + 1)), 5..2 * BLOCK);
        // The rest of a block that was digested, one that was not, and a part that has no digest.
        assert!(digests.record(5, part(5..2 * BLOCK + 1)));
        assert_eq!(digests.recorded(0..4 * BLOCK).collect::<Vec<_>>(), [0..BLOCK, BLOCK..2 * BLOCK]);
        let last = 3 * BLOCK..3 * BLOCK + 10;
        assert_eq!(digests.range_for(&(last.start + 1..last.end)), last, "the last block is shorter");
        assert!(digests.record(last.start, part(last.clone())));
        assert!(digests.recorded(2 * BLOCK..last.end).eq([last.clone()]));
        assert!(digests.agree(&last, part(last.clone())));
        assert!(!digests.agree(&last, &[0; 10]));
        assert!(!digests.agree(&(2 * BLOCK..3 * BLOCK), part(2 * BLOCK..3 * BLOCK)), "nobody got it");
        assert_eq!(digests.blocks_of(&(BLOCK + 1..BLOCK + 2)), BLOCK..2 * BLOCK);
    }

    #[test]
    fn a_large_file_has_no_more_slots_than_others() {
        let size = 100 << 30;
        let digests = Digests::new(size);
        assert!(!digests.cover_all() && digests.table_bytes() <= SLOTS_MAX * 8);
        assert!(digests.table().is_empty(), "nobody got a block yet");
        let step = digests.stride * BLOCK;
        assert_eq!(digests.range_for(&(step + 5..step + 10)), step..step + BLOCK);
        assert!(digests.record(step - BLOCK, &vec![1; 3 * BLOCK as usize]));
        assert!(digests.recorded(0..size).eq(std::iter::once(step..step + BLOCK)));
        assert_eq!(digests.recorded(step + 5 * BLOCK..size).next(), Some(step..step + BLOCK));
        assert_eq!(
            digests.range_for(&(step + BLOCK + 5..step + BLOCK + 10)),
            step + BLOCK + 5..step + BLOCK + 10
        );
        assert!(Digests::new(1 << 30).cover_all() && Digests::new(0).cover_all());
    }
}
