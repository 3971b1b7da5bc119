//! Read file: asks for the next window of a body that is not in memory, until there is none.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use flash_http::range::Multipart;

use crate::file::File;
use crate::job::{Job, List, Load};
use crate::listing::Listing;
use crate::site::WINDOW_BYTES;

/// The rest of a response's body, while it has to be read piece by piece.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) source: Source,
    pub(crate) piece: Piece,
}

#[derive(Debug)]
pub(crate) enum Source {
    File {
        file: Arc<File>,
        parts: Parts,
        copy: bool,
    },
    Listing {
        listing: Arc<Listing>,
        /// The page after those that are in the output or sent.
        next: u32,
        chunked: bool,
    },
}

/// Where the current piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Wanted,
    Asked,
    /// In the output.
    Ready,
}

/// The ranges of a file that make a body, and what is written between them.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) parts: VecDeque<Part>,
    /// The closing delimiter.
    pub(crate) tail: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Part {
    /// The delimiter and the part's own head.
    pub(crate) before: Vec<u8>,
    pub(crate) range: Range<u64>,
}

impl Parts {
    pub(crate) fn whole(size: u64) -> Self {
        Self::one(0..size)
    }

    pub(crate) fn one(range: Range<u64>) -> Self {
        Self { parts: VecDeque::from([Part { before: Vec::new(), range }]), tail: Vec::new() }
    }

    pub(crate) fn multipart(multipart: &Multipart<'_>, ranges: &[Range<u64>]) -> Self {
        let part = |(number, range): (usize, &Range<u64>)| {
            let mut before = Vec::new();
            multipart.write_part_head(range, number == 0, &mut before);
            Part { before, range: range.clone() }
        };
        let parts = ranges.iter().enumerate().map(part).collect();
        let mut tail = Vec::new();
        multipart.write_end(&mut tail);
        Self { parts, tail }
    }
}

impl Body {
    pub(crate) fn of_file(file: &Arc<File>, parts: Parts) -> Self {
        Self { source: Source::File { file: Arc::clone(file), parts, copy: false }, piece: Piece::Wanted }
    }

    /// The pages from `next` on; those before are in the output.
    pub(crate) fn of_listing(listing: &Arc<Listing>, next: u32, chunked: bool) -> Self {
        Self { source: Source::Listing { listing: Arc::clone(listing), next, chunked }, piece: Piece::Ready }
    }

    /// The next piece, as a job. Once.
    pub(crate) fn ask(&mut self) -> Option<Job> {
        if self.piece != Piece::Wanted {
            return None;
        }
        let job = match &self.source {
            Source::File { file, parts, copy } => {
                let range = &parts.parts.front()?.range;
                // Windows begin at multiples of their size, so that equal misses are the same job.
                let end = (range.start / WINDOW_BYTES + 1) * WINDOW_BYTES;
                let window = range.start..end.min(range.end);
                Job::Load(Load { file: Arc::clone(file), window, copy: *copy })
            }
            Source::Listing { listing, next, .. } => Job::List(List {
                path: listing.path().clone(),
                order: listing.order(),
                asked_ms: 0,
                listing: Some(Arc::clone(listing)),
                page: *next,
            }),
        };
        self.piece = Piece::Asked;
        Some(job)
    }

    /// Whether everything has been put into the output.
    pub(crate) fn is_finished(&self) -> bool {
        match &self.source {
            Source::File { parts, .. } => parts.parts.is_empty() && parts.tail.is_empty(),
            Source::Listing { listing, next, .. } => *next >= listing.page_count(),
        }
    }
}
