//! The bytes that a ring is sending: copies, kept from when they are asked for until the kernel says that it is done
//! with them.

use std::io::IoSlice;

#[derive(Default)]
pub(super) struct Sends {
    all: Vec<Send>,
    /// Those of them that can be used again.
    free: Vec<u16>,
}

struct Send {
    tag: u64,
    bytes: Vec<u8>,
}

/// How many there may be at a time, and how long each may be: together the memory that they can take.
pub(super) const SENDS_MAX: usize = 256;
/// What was taken of a send fits 16 bits.
pub(super) const SEND_BYTES_MAX: usize = 16 << 10;

impl Sends {
    /// Copies the slices. Nothing if there are too many sends, or too many bytes.
    pub(super) fn begin(&mut self, tag: u64, slices: &[IoSlice<'_>]) -> Option<(u16, &[u8])> {
        if slices.iter().map(|slice| slice.len()).sum::<usize>() > SEND_BYTES_MAX {
            return None;
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.all.len() < SENDS_MAX => {
                self.all.push(Send { tag, bytes: Vec::new() });
                self.all.len() as u16 - 1
            }
            None => return None,
        };
        let send = &mut self.all[number as usize];
        send.tag = tag;
        send.bytes.clear();
        slices.iter().for_each(|slice| send.bytes.extend_from_slice(slice));
        Some((number, &send.bytes))
    }

    /// The kernel is done with these bytes. Returns their tag.
    pub(super) fn end(&mut self, number: u16) -> u64 {
        self.free.push(number);
        self.all[number as usize].tag
    }

    pub(super) fn are_over(&self) -> bool {
        self.free.len() == self.all.len()
    }
}
