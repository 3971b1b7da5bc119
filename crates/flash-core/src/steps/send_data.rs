//! Send data: puts pieces of a body into the output as they become ready.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::file::{Content, File, Window};
use crate::job::{Done, Listed};
use crate::listing::Listing;
use crate::output::Output;
use crate::steps::read_file::{Body, Part, Parts, Piece, Source};

/// The body cannot be finished as its head promised: the connection has to end.
#[derive(Debug)]
pub(crate) struct Broken;

/// Begins a body: all of it when it is in memory, otherwise nothing yet.
pub(crate) fn start(file: &Arc<File>, parts: Parts, output: &mut Output) -> Option<Box<Body>> {
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
        Content::Open(_) => Some(Box::new(Body::of_file(file, parts))),
    }
}

/// Begins the body of a listing with its first page.
pub(crate) fn start_listing(
    listing: &Arc<Listing>,
    first: Bytes,
    chunked: bool,
    output: &mut Output,
) -> Option<Box<Body>> {
    let is_last = listing.page_count() == 1;
    push_page(first, is_last, chunked, output);
    (!is_last).then(|| Box::new(Body::of_listing(listing, 1, chunked)))
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
