//! Bytes that wait to be sent on a connection: heads, bodies in memory, and ranges of files, in order.
//!
//! An output holds whole responses to pipelined requests, so that they leave in one call. It belongs to a connection only
//! while it holds something. After that, other connections reuse it.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};

use crate::file::{Content, File, Window};
use crate::record::RecordBuilder;
use crate::record::tally::Tally;

/// A buffer that is reused is no larger.
const BYTES_KEPT_MAX: usize = 64 << 10;

#[derive(Debug, Default)]
pub struct Output {
    /// Heads and small bodies of all segments, one after the other.
    bytes: Vec<u8>,
    bytes_sent: usize,
    segments: VecDeque<Segment>,
    /// Bytes sent since the end of the last response.
    response_bytes_sent: u64,
    /// How often the socket was shown the output.
    shows: u64,
    /// When the socket was first shown the output.
    since_us: Option<u64>,
    /// How many bytes may be sent now, if the client has a rate.
    allowed: Option<u64>,
}

#[derive(Debug)]
enum Segment {
    /// The next bytes of `bytes`, this many.
    Bytes(usize),
    /// A range of a file's copy in memory.
    Memory(Arc<File>, Range<u64>),
    /// A range that was in the page cache a moment ago. It is taken back before each wait.
    Resident(Arc<File>, Range<u64>),
    /// Bytes of a body, and their position in a file, if they come from one.
    Copied(Bytes, Option<u64>),
    /// A range whose window was given up during a wait, in the middle of a frame. It is made ready again before it is sent.
    Missing(Arc<File>, Range<u64>),
    /// A response ends here: a final one, with its record, or an interim one.
    End(Option<RecordBuilder>),
    /// One of several responses ends here, whose body had this many bytes.
    StreamEnd(RecordBuilder, u64),
}

/// Where a response begins in an output that the socket has not been shown since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    written_bytes: usize,
    shows: u64,
}

/// The bytes at the front of an output, and how to send them.
pub enum Front<'a> {
    /// `count` slices were filled. `more` bytes of a file follow at once.
    Slices {
        count: usize,
        more: u64,
    },
    File(&'a Arc<File>, Range<u64>),
    Nothing,
}

impl Output {
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The output is about to be shown to the socket.
    pub(crate) fn shown(&mut self, now_us: u64) {
        self.since_us.get_or_insert(now_us);
        self.shows += 1;
    }

    /// From now on, no more than this may be sent.
    pub(crate) fn allow(&mut self, bytes: Option<u64>) {
        self.allowed = bytes;
    }

    /// How many bytes wait, with those of files.
    pub(crate) fn all_bytes(&self) -> u64 {
        let bytes = |segment: &Segment| match segment {
            Segment::Bytes(length) => *length as u64,
            Segment::Memory(_, range) | Segment::Resident(_, range) | Segment::Missing(_, range) => {
                range.end - range.start
            }
            Segment::Copied(bytes, _) => bytes.len() as u64,
            Segment::End(_) | Segment::StreamEnd(..) => 0,
        };
        self.segments.iter().map(bytes).sum()
    }

    /// How long it took to send the output.
    pub(crate) fn took_us(&mut self, now_us: u64) -> u64 {
        self.since_us.take().map_or(0, |since| now_us.saturating_sub(since))
    }

    /// Bytes that were not sent yet, without those of files.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.bytes.len() - self.bytes_sent
    }

    /// Whether much memory waits here, roughly: a limit for pipelining.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() > BYTES_KEPT_MAX || self.segments.len() > 64
    }

    pub(crate) fn write<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let start = self.bytes.len();
        let result = write(&mut self.bytes);
        self.close(start);
        result
    }

    /// Begins to write in several steps, until [`Output::close`] is called with what this returns.
    pub(crate) fn open(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let start = self.bytes.len();
        write(&mut self.bytes);
        start
    }

    /// Where to write between [`Output::open`] and [`Output::close`].
    pub(crate) fn opened(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Adds the bytes from `start` on to the output. Returns how many there are.
    pub(crate) fn close(&mut self, start: usize) -> u64 {
        let written = self.bytes.len() - start;
        match self.segments.back_mut() {
            Some(Segment::Bytes(length)) => *length += written,
            _ if written > 0 => self.segments.push_back(Segment::Bytes(written)),
            _ => {}
        }
        written as u64
    }

    /// How many bytes have been written, sent or not.
    pub(crate) fn written_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Takes back what was written from there on, which is to be sent later.
    pub(crate) fn take_behind(&mut self, written_bytes: usize) -> Vec<u8> {
        let taken = self.bytes.split_off(written_bytes);
        if let Some(Segment::Bytes(length)) = self.segments.back_mut() {
            *length -= taken.len();
            if *length == 0 {
                self.segments.pop_back();
            }
        }
        taken
    }

    /// What is written next begins here.
    pub(crate) fn mark(&self) -> Mark {
        Mark { written_bytes: self.bytes.len(), shows: self.shows }
    }

    /// Takes back what was written behind the mark, unless the socket may be sending it. Returns whether it has.
    pub(crate) fn take_back(&mut self, mark: Mark) -> bool {
        let is_here = mark.shows == self.shows;
        if is_here {
            self.take_behind(mark.written_bytes);
        }
        is_here
    }

    pub(crate) fn push_memory(&mut self, file: &Arc<File>, range: Range<u64>) {
        if !range.is_empty() {
            self.segments.push_back(Segment::Memory(Arc::clone(file), range));
        }
    }

    pub(crate) fn push_resident(&mut self, file: &Arc<File>, range: Range<u64>) {
        self.segments.push_back(Segment::Resident(Arc::clone(file), range));
    }

    /// Pushes bytes that were made or read for this response. `offset` says where a file has them.
    pub(crate) fn push_copied(&mut self, bytes: Bytes, offset: Option<u64>) {
        if !bytes.is_empty() {
            self.segments.push_back(Segment::Copied(bytes, offset));
        }
    }

    pub(crate) fn push_end(&mut self, exchange: RecordBuilder) {
        self.segments.push_back(Segment::End(Some(exchange)));
    }

    /// Ends a response that may have been sent already.
    pub(crate) fn end(&mut self, exchange: Option<RecordBuilder>, now_us: u64, tally: &mut Tally) {
        if let Some(exchange) = exchange {
            self.push_end(exchange);
            self.sent(0, now_us, tally);
        }
    }

    /// Ends an interim response. Its bytes do not count for the response that follows.
    pub(crate) fn push_interim_end(&mut self) {
        self.segments.push_back(Segment::End(None));
    }

    /// Fills `slices` with the bytes to send next.
    pub fn front<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> Front<'a> {
        let mut count = 0;
        let mut at = self.bytes_sent;
        let mut left = self.allowed.unwrap_or(u64::MAX);
        for segment in &self.segments {
            let bytes = match segment {
                Segment::Bytes(length) => {
                    at += length;
                    &self.bytes[at - length..at]
                }
                Segment::Memory(file, range) => match &file.content {
                    Content::Memory(bytes) => &bytes[range.start as usize..range.end as usize],
                    Content::Open(_) => unreachable!("a memory segment is made from a file in memory"),
                },
                Segment::Copied(bytes, _) => bytes,
                Segment::Resident(file, range) if count == 0 => {
                    return Front::File(file, range.start..range.end.min(range.start.saturating_add(left)));
                }
                Segment::Resident(_, range) => {
                    return Front::Slices { count, more: left.min(range.end - range.start) };
                }
                Segment::Missing(..) => break,
                Segment::End(_) | Segment::StreamEnd(..) => continue,
            };
            if count == slices.len() || left == 0 {
                break;
            }
            let bytes = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            left -= bytes.len() as u64;
            slices[count] = IoSlice::new(bytes);
            count += 1;
        }
        if count == 0 { Front::Nothing } else { Front::Slices { count, more: 0 } }
    }

    /// Takes `sent` bytes off the front, and records the responses that end there.
    pub(crate) fn sent(&mut self, mut sent: u64, now_us: u64, tally: &mut Tally) {
        while let Some(segment) = self.segments.front_mut() {
            let (taken, gone) = match segment {
                Segment::Bytes(length) => {
                    let taken = sent.min(*length as u64);
                    *length -= taken as usize;
                    self.bytes_sent += taken as usize;
                    (taken, *length == 0)
                }
                Segment::Missing(..) => (0, false),
                Segment::Memory(_, range) | Segment::Resident(_, range) => {
                    let taken = sent.min(range.end - range.start);
                    range.start += taken;
                    (taken, range.is_empty())
                }
                Segment::Copied(bytes, offset) => {
                    let taken = sent.min(bytes.len() as u64);
                    bytes.advance(taken as usize);
                    *offset = offset.map(|offset| offset + taken);
                    (taken, bytes.is_empty())
                }
                Segment::End(_) | Segment::StreamEnd(..) => (0, true),
            };
            sent -= taken;
            self.response_bytes_sent += taken;
            if !gone {
                break;
            }
            match self.segments.pop_front() {
                Some(Segment::End(exchange)) => {
                    if let Some(exchange) = exchange {
                        tally.end(exchange.finish(self.response_bytes_sent, now_us));
                    }
                    self.response_bytes_sent = 0;
                }
                Some(Segment::StreamEnd(exchange, bytes)) => tally.end(exchange.finish(bytes, now_us)),
                _ => {}
            }
        }
        debug_assert_eq!(sent, 0, "more was sent than there was");
        if self.segments.is_empty() {
            self.bytes.clear();
            self.bytes_sent = 0;
            if self.bytes.capacity() > 4 * BYTES_KEPT_MAX {
                self.bytes.shrink_to(BYTES_KEPT_MAX);
            }
        } else if self.bytes_sent >= self.bytes.len().max(BYTES_KEPT_MAX) / 2 {
            // While a client pipelines without end, sent bytes would stay for ever.
            self.bytes.drain(..self.bytes_sent);
            self.bytes_sent = 0;
        }
    }

    /// Takes back the rest of a window that the socket did not accept at once. Resident pages may leave the cache while a
    /// client is slow, so they are verified again before the next attempt. A copy is made again when the socket is
    /// writable, so that slow clients hold no memory.
    pub(crate) fn take_back_window(&mut self) -> Option<Range<u64>> {
        // Nothing is ever written behind a window, so it is the last segment.
        let range = match self.segments.back()? {
            Segment::Resident(_, range) => range.clone(),
            Segment::Copied(bytes, Some(offset)) => *offset..offset + bytes.len() as u64,
            _ => return None,
        };
        self.segments.pop_back();
        Some(range)
    }

    /// Ends one of several responses whose bytes alternate. Its body had this many bytes.
    pub(crate) fn push_stream_end(&mut self, exchange: RecordBuilder, body_bytes: u64) {
        self.segments.push_back(Segment::StreamEnd(exchange, body_bytes));
    }

    /// Gives up all windows before a wait. The lengths of their frames have been sent, so their places stay: ranges of files go
    /// missing until they are made ready again. Of a copy, only the part that is left is kept.
    pub(crate) fn give_up_windows(&mut self) {
        for segment in &mut self.segments {
            match segment {
                Segment::Resident(file, range) => {
                    *segment = Segment::Missing(Arc::clone(file), range.clone());
                }
                Segment::Copied(bytes, offset @ Some(_)) => {
                    *bytes = Bytes::copy_from_slice(bytes);
                    *offset = None;
                }
                _ => {}
            }
        }
    }

    /// The range at the front, if it is missing.
    pub(crate) fn missing(&self) -> Option<(&Arc<File>, &Range<u64>)> {
        let is_end = |segment: &&Segment| !matches!(segment, Segment::End(_) | Segment::StreamEnd(..));
        match self.segments.iter().find(is_end)? {
            Segment::Missing(file, range) => Some((file, range)),
            _ => None,
        }
    }

    /// The beginning of the missing range is ready again. Returns `false` if it is not what was asked for.
    pub(crate) fn restore(&mut self, window: Window) -> bool {
        let place = self.segments.iter().position(|segment| matches!(segment, Segment::Missing(..)));
        let Some((place, Segment::Missing(file, range))) =
            place.and_then(|place| Some((place, self.segments.get_mut(place)?)))
        else {
            return false;
        };
        let (segment, end) = match window {
            Window::Resident(ready) if ready.start == range.start && ready.end <= range.end => {
                (Segment::Resident(Arc::clone(file), ready.clone()), ready.end)
            }
            Window::Copied(bytes) if bytes.len() as u64 <= range.end - range.start => {
                let end = range.start + bytes.len() as u64;
                (Segment::Copied(bytes, Some(range.start)), end)
            }
            _ => return false,
        };
        range.start = end;
        if range.is_empty() {
            self.segments[place] = segment;
        } else {
            self.segments.insert(place, segment);
        }
        true
    }

    /// Bytes of the first response that were sent, with its head.
    pub(crate) fn response_bytes_sent(&self) -> u64 {
        self.response_bytes_sent
    }

    /// The connection ends here: records the responses under way, and drops everything.
    pub(crate) fn abandon(&mut self, now_us: u64, tally: &mut Tally) {
        for segment in self.segments.drain(..) {
            match segment {
                Segment::End(exchange) => {
                    if let Some(exchange) = exchange {
                        tally.end(exchange.cut(self.response_bytes_sent, now_us));
                    }
                    self.response_bytes_sent = 0;
                }
                Segment::StreamEnd(exchange, bytes) => tally.end(exchange.cut(bytes, now_us)),
                _ => {}
            }
        }
        self.bytes.clear();
        self.bytes_sent = 0;
    }

    /// Prepares the output for another connection. A large response does not keep its memory.
    pub(crate) fn recycle(&mut self) {
        debug_assert!(self.segments.is_empty());
        self.bytes.shrink_to(BYTES_KEPT_MAX);
        self.response_bytes_sent = 0;
        self.since_us = None;
        self.allowed = None;
    }
}
