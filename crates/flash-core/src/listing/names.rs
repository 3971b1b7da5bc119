//! A listing's names, in the order of its rows.
//!
//! The names are in a few large allocations, all reserved in the budget before. The event loop would take a second to free
//! hundreds of thousands of small ones.

use std::sync::Arc;

use crate::cache::memory_budget::{Budget, Reservation};

use super::name::{Details, Name};
use super::order::Order;

/// The names of a listing, in the order of their rows.
#[derive(Debug)]
pub struct Names {
    /// Encoded names. No name crosses the end of a piece.
    pieces: Vec<Vec<u8>>,
    /// Where each name begins: the number of its piece, and its offset there.
    places: Vec<u32>,
    left_out: usize,
    room: Reservation,
}

/// The budget has no memory left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget;

/// Flags and length.
const HEAD_BYTES: usize = 3;
const DETAILS_BYTES: usize = 16;
const IS_FOLDER: u8 = 1;
const HAS_DETAILS: u8 = 2;

const PIECE_BYTES_MIN: usize = 1 << 10;
/// An offset has 16 bits.
const PIECE_BYTES_MAX: usize = 1 << 16;
const OFFSET_BITS: u32 = 16;
const PLACES_MIN: usize = 64;

impl Names {
    /// Reserves `bytes` for the listing itself.
    pub fn new(budget: &Arc<Budget>, bytes: u64) -> Result<Self, OverBudget> {
        let room = budget.reserve(bytes).ok_or(OverBudget)?;
        Ok(Self { pieces: Vec::new(), places: Vec::new(), left_out: 0, room })
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many names have no row, because the folder has too many.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    pub fn leave_out(&mut self) {
        self.left_out += 1;
    }

    /// Adds a name. If the budget has no room for it, nothing changes.
    pub fn push(&mut self, name: Name<'_>) -> Result<(), OverBudget> {
        let details_bytes = name.details.map_or(0, |_| DETAILS_BYTES);
        let bytes = HEAD_BYTES + details_bytes + name.name.len();
        if self.places.len() == self.places.capacity() {
            // The old allocation, which lives until its content has moved, is not counted.
            let more = self.places.capacity().max(PLACES_MIN);
            self.reserve(more * size_of::<u32>())?;
            self.places.reserve_exact(more);
        }
        let fits = |piece: &Vec<u8>| piece.capacity() - piece.len() >= bytes;
        if !self.pieces.last().is_some_and(fits) {
            let last = self.pieces.last().map_or(0, Vec::capacity);
            let capacity = (2 * last).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX).max(bytes);
            self.reserve(capacity)?;
            self.pieces.push(Vec::with_capacity(capacity));
        }
        let number = self.pieces.len() - 1;
        let piece = &mut self.pieces[number];
        self.places.push((number << OFFSET_BITS | piece.len()) as u32);
        let flags = if name.folder { IS_FOLDER } else { 0 } | if details_bytes > 0 { HAS_DETAILS } else { 0 };
        piece.push(flags);
        piece.extend_from_slice(&(name.name.len() as u16).to_ne_bytes());
        if let Some(Details { size, modified }) = name.details {
            piece.extend_from_slice(&size.to_ne_bytes());
            piece.extend_from_slice(&modified.to_ne_bytes());
        }
        piece.extend_from_slice(name.name);
        Ok(())
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if self.room.grow(bytes as u64) { Ok(()) } else { Err(OverBudget) }
    }

    pub fn sort(&mut self, order: Order) {
        let pieces = &self.pieces;
        self.places.sort_unstable_by(|&a, &b| order.compare(&name_at(pieces, a), &name_at(pieces, b)));
    }

    /// The name of the row with this number.
    pub fn get(&self, row: usize) -> Name<'_> {
        name_at(&self.pieces, self.places[row])
    }

    pub fn iter(&self) -> impl Iterator<Item = Name<'_>> {
        self.places.iter().map(|place| name_at(&self.pieces, *place))
    }
}

fn name_at(pieces: &[Vec<u8>], place: u32) -> Name<'_> {
    let piece = &pieces[(place >> OFFSET_BITS) as usize];
    let bytes = &piece[place as usize % PIECE_BYTES_MAX..];
    let (flags, length) = (bytes[0], u16::from_ne_bytes([bytes[1], bytes[2]]));
    let (mut rest, mut details) = (&bytes[HEAD_BYTES..], None);
    if flags & HAS_DETAILS != 0 {
        let word = |at: usize| <[u8; 8]>::try_from(&rest[at..at + 8]).expect("a name's details are whole");
        details = Some(Details { size: u64::from_ne_bytes(word(0)), modified: i64::from_ne_bytes(word(8)) });
        rest = &rest[DETAILS_BYTES..];
    }
    Name { name: &rest[..usize::from(length)], details, folder: flags & IS_FOLDER != 0 }
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.left_out == other.left_out && self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::{Column, NAME_BYTES_MAX};

    fn name(name: &str, folder: bool, size: u64) -> Name<'_> {
        Name { name: name.as_bytes(), details: Some(Details { size, modified: 0 }), folder }
    }

    #[test]
    fn folders_first_then_the_column() {
        let mut names = Names::new(&Budget::new(1 << 20), 0).unwrap();
        for one in [name("b", false, 1), name("a", false, 2), name("z", true, 0)] {
            names.push(one).unwrap();
        }
        let mut order = |query: Option<&[u8]>| {
            names.sort(Order::of_query(query, None));
            names.iter().map(|name| name.name[0] as char).collect::<String>()
        };
        assert_eq!(order(None), "zab");
        assert_eq!(order(Some(b"sort=size")), "zba");
        assert_eq!(order(Some(b"sort=name&order=desc")), "zba");
    }

    #[test]
    fn what_goes_in_comes_out_whatever_its_length() {
        let mut names = Names::new(&Budget::new(8 << 20), 0).unwrap();
        let texts: Vec<String> = (0..3000).map(|number| "x".repeat(number * 7 % NAME_BYTES_MAX)).collect();
        for (number, text) in texts.iter().enumerate() {
            let details = (number % 3 == 0).then_some(Details { size: number as u64, modified: -1 });
            names.push(Name { name: text.as_bytes(), details, folder: number % 2 == 0 }).unwrap();
        }
        for (number, text) in texts.iter().enumerate() {
            let found = names.get(number);
            assert_eq!((found.name, found.folder), (text.as_bytes(), number % 2 == 0));
            let details = (number % 3 == 0).then_some(Details { size: number as u64, modified: -1 });
            assert_eq!(found.details, details);
        }
        let order = Order::new(Column::Name, true);
        names.sort(order);
        assert!(names.iter().is_sorted_by(|a, b| order.compare(a, b).is_le()));
    }

    #[test]
    fn the_account_counts_all_memory_and_a_full_one_changes_nothing() {
        let budget = Budget::new(100_000);
        let mut names = Names::new(&budget, 500).unwrap();
        while names.push(name("some-name.txt", false, 0)).is_ok() {}
        let held: usize = names.pieces.iter().map(Vec::capacity).sum::<usize>() + names.places.capacity() * 4;
        assert_eq!(budget.left_bytes(), 100_000 - 500 - held as u64);
        assert!(names.len() > 1000 && names.iter().all(|name| name.name == b"some-name.txt"));
        drop(names);
        assert_eq!(budget.left_bytes(), 100_000);
        assert_eq!(Names::new(&budget, 100_001).err(), Some(OverBudget));
    }
}
