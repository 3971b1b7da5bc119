//! Read file, and send data: a response's body, piece by piece.
//!
//! A body asks for each piece as a job, and puts the result into the output. It does not know how its end is marked on the
//! wire.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use flash_http::range::Multipart;

use crate::exchange::sink::BodySink;
use crate::file::{Content, File, Window};
use crate::job::{Done, Job, List, Listed, Load};
use crate::listing::Listing;
use crate::site::WINDOW_BYTES;
use crate::site::id::SiteId;

/// The rest of a response's body, which is read piece by piece.
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
        /// All copied bytes that were put into the output come from this range.
        given: Range<u64>,
    },
    Listing {
        listing: Arc<Listing>,
        /// The page that follows those in the output.
        next: u32,
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

/// The ranges of a file that make a body, and the bytes between them.
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

/// The smallest range that contains both.
fn hull(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    match one.is_empty() {
        true => other.clone(),
        false => one.start.min(other.start)..one.end.max(other.end),
    }
}

impl Body {
    pub(crate) fn of_file(file: &Arc<File>, parts: Parts) -> Self {
        let source = Source::File { file: Arc::clone(file), parts, copy: false, given: 0..0 };
        Self { source, piece: Piece::Wanted }
    }

    /// The pages from `next` on. Earlier pages are in the output.
    pub(crate) fn of_listing(listing: &Arc<Listing>, next: u32) -> Self {
        Self { source: Source::Listing { listing: Arc::clone(listing), next }, piece: Piece::Ready }
    }

    /// The job for the next piece, of which the client takes this many bytes now. Returns it once.
    pub(crate) fn ask(&mut self, site: SiteId, bytes_max: u64) -> Option<Job> {
        if self.piece != Piece::Wanted {
            return None;
        }
        let job = match &self.source {
            Source::File { file, parts, copy, given } => {
                let range = &parts.parts.front()?.range;
                // Windows begin at multiples of their size, so that equal misses are the same job.
                let end = (range.start / WINDOW_BYTES + 1) * WINDOW_BYTES;
                let window = range.start..end.min(range.end).min(range.start.saturating_add(bytes_max));
                let is_last = window.end == range.end && parts.parts.len() == 1;
                let completes = is_last.then(|| Box::new(hull(given, &window)));
                let (file, goes_to) = (Arc::clone(file), range.end);
                Job::Load(Load { site: Some(site), file, window, goes_to, copy: *copy, completes })
            }
            Source::Listing { listing, next, .. } => Job::List(List {
                site: listing.site(),
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

    pub(crate) fn awaits_job(&self) -> bool {
        self.piece == Piece::Asked
    }

    /// How many bytes are not in the output, as far as that is known.
    pub(crate) fn bytes_left(&self) -> u64 {
        match &self.source {
            Source::File { parts, .. } => {
                let bytes = |part: &Part| part.before.len() as u64 + part.range.end - part.range.start;
                parts.parts.iter().map(bytes).sum::<u64>() + parts.tail.len() as u64
            }
            Source::Listing { .. } => u64::MAX,
        }
    }

    /// Whether everything has been put into the output.
    pub(crate) fn is_finished(&self) -> bool {
        match &self.source {
            Source::File { parts, .. } => parts.parts.is_empty() && parts.tail.is_empty(),
            Source::Listing { listing, next, .. } => *next >= listing.page_count(),
        }
    }
}

/// The body cannot be completed as its head promised, so the connection has to end.
#[derive(Debug)]
pub(crate) struct Broken;

/// Begins a body. A body in memory is written at once; nothing is written of another one.
pub(crate) fn start(file: &Arc<File>, parts: Parts, sink: &mut impl BodySink) -> Option<Body> {
    match &file.content {
        Content::Memory(_) => {
            for part in parts.parts {
                sink.write(&part.before);
                sink.push_memory(file, part.range);
            }
            sink.write(&parts.tail);
            None
        }
        Content::Open(_) if file.size() == 0 => None,
        Content::Open(_) => Some(Body::of_file(file, parts)),
    }
}

/// Begins the body of a listing with its first page.
pub(crate) fn start_listing(listing: &Arc<Listing>, first: Bytes, sink: &mut impl BodySink) -> Option<Body> {
    let is_last = listing.page_count() == 1;
    push_page(first, is_last, sink);
    (!is_last).then(|| Body::of_listing(listing, 1))
}

fn push_page(page: Bytes, is_last: bool, sink: &mut impl BodySink) {
    sink.push_copied(page, None);
    if is_last {
        sink.end();
    }
}

impl Body {
    /// Takes the result of the job that [`Body::ask`] returned.
    pub(crate) fn take(&mut self, done: Done, sink: &mut impl BodySink) -> Result<(), Broken> {
        match (&mut self.source, done) {
            (Source::File { file, parts, copy, given }, Done::Window(window)) => {
                self.piece = Piece::Ready;
                match window {
                    Window::Resident(range) => {
                        *copy = false;
                        parts.advance(range.end - range.start, sink, |sink| {
                            sink.push_resident(file, range.clone());
                        });
                    }
                    Window::Copied(bytes) => {
                        *copy = false;
                        let offset = parts.parts.front().map(|part| part.range.start);
                        if let Some(start) = offset {
                            *given = hull(given, &(start..start + bytes.len() as u64));
                        }
                        parts.advance(bytes.len() as u64, sink, |sink| sink.push_copied(bytes, offset));
                    }
                    Window::Warmed => {
                        // Ask once more. If the window has left the page cache by then, ask for its bytes.
                        *copy = true;
                        self.piece = Piece::Wanted;
                    }
                    Window::Absent | Window::Changed | Window::Failed => return Err(Broken),
                }
                Ok(())
            }
            (Source::Listing { listing, next }, Done::Listed(Listed { page: Some(page), .. })) => {
                *next += 1;
                push_page(page, *next == listing.page_count(), sink);
                self.piece = Piece::Ready;
                Ok(())
            }
            // Ask for the page once more.
            (Source::Listing { .. }, Done::Listed(Listed { page: None, .. })) => {
                self.piece = Piece::Wanted;
                Ok(())
            }
            _ => Err(Broken),
        }
    }

    /// The sink is empty: the next piece is due. Returns whether there is one.
    pub(crate) fn next(&mut self, sink: &mut impl BodySink) -> bool {
        self.piece = Piece::Wanted;
        match &mut self.source {
            Source::File { parts, .. } => parts.write_tail(sink),
            Source::Listing { listing, next } => {
                // A page is empty if all of its names have vanished.
                while sink.is_empty()
                    && let Some(page) = listing.page_now(*next)
                {
                    *next += 1;
                    push_page(page, *next == listing.page_count(), sink);
                }
                if !sink.is_empty() {
                    self.piece = Piece::Ready;
                }
            }
        }
        !self.is_finished()
    }

    /// The socket did not accept this much of a window. It has to be made ready again.
    pub(crate) fn put_back(&mut self, range: Range<u64>) {
        if let Source::File { parts, .. } = &mut self.source {
            parts.put_back(range);
        }
        self.piece = Piece::Wanted;
    }
}

impl Parts {
    /// Writes the bytes before the current part, and pushes the part's next `bytes`.
    fn advance<S: BodySink>(&mut self, bytes: u64, sink: &mut S, push: impl FnOnce(&mut S)) {
        let Some(part) = self.parts.front_mut() else { return };
        sink.write(&std::mem::take(&mut part.before));
        push(sink);
        part.range.start += bytes;
        if part.range.is_empty() {
            self.parts.pop_front();
        }
    }

    /// Writes the closing delimiter. It waits until the last part is sent, because that may be put back.
    fn write_tail(&mut self, sink: &mut impl BodySink) {
        if self.parts.is_empty() && !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail);
            sink.write(&tail);
        }
    }

    fn put_back(&mut self, range: Range<u64>) {
        match self.parts.front_mut() {
            Some(part) if part.before.is_empty() && part.range.start == range.end => {
                part.range.start = range.start
            }
            _ => self.parts.push_front(Part { before: Vec::new(), range }),
        }
    }
}
