//! Read file, and send data: a response's body, piece by piece.
//!
//! A body asks for its next piece as a job until there is none, and puts the pieces into the output as they become
//! ready. How their end is found on the wire is not known here.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use flash_http::range::Multipart;

use crate::file::{Content, File, Window};
use crate::job::{Done, Job, List, Listed, Load};
use crate::listing::Listing;
use crate::output::Output;
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

    pub(crate) fn awaits_job(&self) -> bool {
        self.piece == Piece::Asked
    }

    /// Whether everything has been put into the output.
    pub(crate) fn is_finished(&self) -> bool {
        match &self.source {
            Source::File { parts, .. } => parts.parts.is_empty() && parts.tail.is_empty(),
            Source::Listing { listing, next, .. } => *next >= listing.page_count(),
        }
    }
}

/// The body cannot be finished as its head promised: the connection has to end.
#[derive(Debug)]
pub(crate) struct Broken;

/// Begins a body: all of it when it is in memory, otherwise nothing yet.
pub(crate) fn start(file: &Arc<File>, parts: Parts, output: &mut Output) -> Option<Body> {
    match &file.content {
        Content::Memory(_) => {
            for part in parts.parts {
                output.write(|out| out.extend_from_slice(&part.before));
                output.push_memory(file, part.range);
            }
            output.write(|out| out.extend_from_slice(&parts.tail));
            None
        }
        Content::Open(_) if file.size() == 0 => None,
        Content::Open(_) => Some(Body::of_file(file, parts)),
    }
}

/// Begins the body of a listing with its first page.
pub(crate) fn start_listing(
    listing: &Arc<Listing>,
    first: Bytes,
    chunked: bool,
    output: &mut Output,
) -> Option<Body> {
    let is_last = listing.page_count() == 1;
    push_page(first, is_last, chunked, output);
    (!is_last).then(|| Body::of_listing(listing, 1, chunked))
}

fn push_page(page: Bytes, is_last: bool, chunked: bool, output: &mut Output) {
    // RFC 9112 §7.1. A chunk without bytes would be the last.
    let chunked = chunked.then_some(page.len());
    if let Some(bytes) = chunked.filter(|bytes| *bytes > 0) {
        output.write(|out| out.extend_from_slice(format!("{bytes:x}\r\n").as_bytes()));
        output.push_copied(page, None);
        output.write(|out| out.extend_from_slice(b"\r\n"));
    } else {
        output.push_copied(page, None);
    }
    if chunked.is_some() && is_last {
        output.write(|out| out.extend_from_slice(b"0\r\n\r\n"));
    }
}

impl Body {
    /// Takes the result of the job that [`Body::ask`] gave out.
    pub(crate) fn take(&mut self, done: Done, output: &mut Output) -> Result<(), Broken> {
        match (&mut self.source, done) {
            (Source::File { file, parts, copy }, Done::Window(window)) => {
                self.piece = Piece::Ready;
                match window {
                    Window::Resident(range) => {
                        *copy = false;
                        parts.advance(range.end - range.start, output, |output| {
                            output.push_resident(file, range.clone());
                        });
                    }
                    Window::Copied(bytes) => {
                        *copy = false;
                        let offset = parts.parts.front().map(|part| part.range.start);
                        parts.advance(bytes.len() as u64, output, |output| output.push_copied(bytes, offset));
                    }
                    Window::Warmed => {
                        // Ask once more; should it have left the cache by then, ask for the bytes themselves.
                        *copy = true;
                        self.piece = Piece::Wanted;
                    }
                    Window::Absent | Window::Changed | Window::Failed => return Err(Broken),
                }
                Ok(())
            }
            (Source::Listing { listing, next, chunked }, Done::Listed(Listed { page: Some(page), .. })) => {
                *next += 1;
                push_page(page, *next == listing.page_count(), *chunked, output);
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

    /// The output is empty: the next piece is due. Returns whether there is one.
    pub(crate) fn next(&mut self, output: &mut Output) -> bool {
        self.piece = Piece::Wanted;
        match &mut self.source {
            Source::File { parts, .. } => parts.write_tail(output),
            Source::Listing { listing, next, chunked } => {
                // A page is empty if all of its names have vanished.
                while output.is_empty()
                    && let Some(page) = listing.page_now(*next)
                {
                    *next += 1;
                    push_page(page, *next == listing.page_count(), *chunked, output);
                }
                if !output.is_empty() {
                    self.piece = Piece::Ready;
                }
            }
        }
        !self.is_finished()
    }

    /// The socket would not take this much of a window: it is to be made ready again.
    pub(crate) fn put_back(&mut self, range: Range<u64>) {
        if let Source::File { parts, .. } = &mut self.source {
            parts.put_back(range);
        }
        self.piece = Piece::Wanted;
    }
}

impl Parts {
    /// Writes what stands before the current part, and pushes its next `bytes`.
    fn advance(&mut self, bytes: u64, output: &mut Output, push: impl FnOnce(&mut Output)) {
        let Some(part) = self.parts.front_mut() else { return };
        output.write(|out| out.append(&mut part.before));
        push(output);
        part.range.start += bytes;
        if part.range.is_empty() {
            self.parts.pop_front();
        }
    }

    /// The closing delimiter waits until the last part has left, which may yet be put back.
    fn write_tail(&mut self, output: &mut Output) {
        if self.parts.is_empty() && !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail);
            output.write(|out| out.extend_from_slice(&tail));
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
