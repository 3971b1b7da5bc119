//! A budget for memory, shared by all its users. For copies of files it counts those in the cache, those being made, and
//! evicted ones that are still being sent.
//!
//! If no memory can be reserved, the file is sent from its descriptor.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

#[derive(Debug)]
pub struct Budget {
    bytes: AtomicU64,
    bytes_max: u64,
}

/// Reserved memory, until it is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

/// A file's bytes with their reservation. The bytes have an allocation of their own: allocators round sizes up to powers of
/// two, and files often have such sizes.
#[derive(Debug)]
pub struct BudgetedBytes {
    bytes: Bytes,
    /// `None` if no budget counts the bytes.
    _room: Option<Reservation>,
}

impl Budget {
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(0), bytes_max })
    }

    /// How many bytes can still be reserved.
    pub fn left_bytes(&self) -> u64 {
        self.bytes_max.saturating_sub(self.bytes.load(Ordering::Relaxed))
    }

    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        // Added before the comparison, so that two threads cannot both reserve the last bytes.
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let room = Reservation { budget: Arc::clone(self), bytes };
        (before + bytes <= self.bytes_max).then_some(room)
    }

    /// Reserves for bytes that are in memory already, even if that exceeds the budget.
    pub fn reserve_beyond(self: &Arc<Self>, bytes: u64) -> Reservation {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Reservation { budget: Arc::clone(self), bytes }
    }
}

impl Reservation {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Holds so much from now on, even if that exceeds the budget.
    pub fn resize(&mut self, bytes: u64) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.budget.bytes.fetch_add(more, Ordering::Relaxed),
            None => self.budget.bytes.fetch_sub(self.bytes - bytes, Ordering::Relaxed),
        };
        self.bytes = bytes;
    }

    /// Reserves more, if the budget allows it. Returns whether it did.
    pub fn grow(&mut self, bytes: u64) -> bool {
        let Some(mut more) = self.budget.reserve(bytes) else { return false };
        self.bytes += std::mem::take(&mut more.bytes);
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl BudgetedBytes {
    pub fn new(bytes: Bytes, room: Reservation) -> Self {
        Self { bytes, _room: Some(room) }
    }
}

impl<Own: Into<Bytes>> From<Own> for BudgetedBytes {
    /// Bytes that no budget counts.
    fn from(bytes: Own) -> Self {
        Self { bytes: bytes.into(), _room: None }
    }
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for BudgetedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_as_much_room_as_there_is_and_it_comes_back() {
        let budget = Budget::new(10);
        let first = budget.reserve(6).unwrap();
        assert!(budget.reserve(5).is_none());
        assert_eq!((budget.left_bytes(), first.bytes()), (4, 6));
        let mut last = budget.reserve_beyond(9);
        assert_eq!(budget.left_bytes(), 0);
        assert!(!last.grow(1));
        assert_eq!(last.bytes(), 9);
        drop(last);
        let mut other = budget.reserve(1).unwrap();
        assert!(other.grow(3));
        assert_eq!((budget.left_bytes(), other.bytes()), (0, 4));
        drop(other);
        let held = BudgetedBytes::new(vec![1, 2].into(), first);
        assert_eq!((&held[..], budget.left_bytes()), (&[1, 2][..], 4));
        drop(held);
        assert!(budget.reserve(10).is_some());
    }
}
