//! The coding of a listing: each page continues that of the page before, and can be decoded by clients that have no more.
//!
//! When pages are coded, and where they are kept, is not known here.

use flash_compress::{Effort, Encoder};
use flash_http::negotiate::Coding;

use crate::cache::memory_budget::Reservation;

/// A coding that has come as far as to this page.
#[derive(Debug)]
pub(super) struct Coder {
    /// The next page.
    pub(super) next: usize,
    /// With its memory. `None` after the last page, or after a failure.
    encoder: Option<(Encoder, [Reservation; 2])>,
}

impl Coder {
    pub(super) fn memory_bytes(coding: Coding) -> u64 {
        Encoder::memory_bytes(coding, Effort::Streamed, None)
    }

    /// `None` if the system has no memory.
    pub(super) fn new(coding: Coding, memory: [Reservation; 2]) -> Option<Self> {
        let encoder = Encoder::new(coding, Effort::Streamed, None).ok()?;
        Some(Self { next: 0, encoder: Some((encoder, memory)) })
    }

    /// Codes the next page. `None` if there is no memory, from then on.
    pub(super) fn code(&mut self, page: &[u8], is_last: bool) -> Option<Vec<u8>> {
        let (mut encoder, memory) = self.encoder.take()?;
        encoder.write(page).ok()?;
        self.next += 1;
        if is_last {
            return encoder.finish().ok();
        }
        encoder.flush().ok()?;
        let coded = encoder.take();
        self.encoder = Some((encoder, memory));
        Some(coded)
    }
}
