//! A request's body, stored until it is whole. So no program waits for its client's upload. A program is told the body's
//! length before it starts (RFC 3875 §4.1.2), and FastCGI programs read no more than that.
//!
//! The body is in memory as far as there is room. Jobs write the rest to a file; the last part stays in memory. During a
//! job, Flash does not read from the client.

use std::sync::Arc;

use super::outgoing::{OUTGOING_BYTES_MAX, Outgoing, WriteHalf};
use super::watermark::Watermark;
use crate::job::{Done, Failure, Spool, SpoolFile};
use crate::memory_budget::{Budget, BudgetedBytes};
use crate::upstream::UpstreamProtocol;

#[derive(Debug)]
pub(super) struct SpooledBody {
    /// The first part of the body, and its length.
    file: Option<Arc<dyn SpoolFile>>,
    file_bytes: u64,
    /// The part after the file's.
    memory: Vec<u8>,
    watermark: Watermark,
    /// How many bytes the program has been given.
    given: u64,
    work: Work,
}

/// The state of the job about the file.
#[derive(Debug)]
enum Work {
    Nothing,
    Wanted(Spool),
    /// The job writes this many bytes.
    Writing(u64),
    Reading,
}

impl SpooledBody {
    pub(super) fn new() -> Self {
        Self {
            file: None,
            file_bytes: 0,
            memory: Vec::new(),
            watermark: Watermark::of_body(),
            given: 0,
            work: Work::Nothing,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.file_bytes + self.memory.len() as u64
    }

    /// How many more bytes may come now. If there is no room, a job first writes the memory to the file.
    pub(super) fn room(&mut self, answers: &Arc<Budget>) -> usize {
        if !matches!(self.work, Work::Nothing) {
            return 0;
        }
        if self.memory.len() >= self.watermark.bytes_max() {
            self.watermark.grow(answers);
        }
        let room = self.watermark.bytes_max().saturating_sub(self.memory.len());
        if room == 0 {
            let bytes = std::mem::take(&mut self.memory).into();
            let bytes = match self.watermark.take_reservation() {
                Some(room) => BudgetedBytes::new(bytes, room),
                None => BudgetedBytes::from(bytes),
            };
            self.work = Work::Wanted(Spool::Write { file: self.file.clone(), bytes: Arc::new(bytes) });
        }
        room
    }

    /// Adds bytes, no more than there is room for.
    pub(super) fn put(&mut self, data: &[u8]) {
        let needed = self.memory.len() + data.len();
        if needed > self.memory.capacity() {
            // Doubled, as `Vec` would, but never beyond the reservation: spare capacity is not counted.
            let capacity = (2 * self.memory.capacity()).min(self.watermark.bytes_max()).max(needed);
            self.memory.reserve_exact(capacity - self.memory.len());
        }
        self.memory.extend_from_slice(data);
    }

    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.work, Work::Wanted(_))
    }

    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.work, Work::Writing(_) | Work::Reading)
    }

    /// The job that is wanted. Returns it once.
    pub(super) fn ask(&mut self) -> Option<Spool> {
        let Work::Wanted(spool) = std::mem::replace(&mut self.work, Work::Nothing) else { return None };
        self.work = match &spool {
            Spool::Write { bytes, .. } => Work::Writing(bytes.len() as u64),
            Spool::Read { .. } => Work::Reading,
        };
        Some(spool)
    }

    /// Takes the job's result. Bytes that were read go to the program.
    pub(super) fn take(
        &mut self,
        done: Done,
        outgoing: &mut Outgoing,
        protocol: Option<UpstreamProtocol>,
    ) -> Result<(), Failure> {
        match (std::mem::replace(&mut self.work, Work::Nothing), done, protocol) {
            (Work::Writing(bytes), Done::Spooled(file), _) => {
                self.file = Some(file);
                self.file_bytes += bytes;
                Ok(())
            }
            (Work::Reading, Done::Unspooled(bytes), Some(protocol)) => {
                self.given += bytes.len() as u64;
                outgoing.put(&bytes, protocol);
                if bytes.is_empty() || self.given > self.file_bytes { Err(Failure::Broken) } else { Ok(()) }
            }
            (_, Done::Failed(failure), _) => Err(failure),
            _ => Err(Failure::Broken),
        }
    }

    /// Gives the program as much as it has room for. Returns whether that was the last byte.
    pub(super) fn give(&mut self, outgoing: &mut Outgoing, protocol: UpstreamProtocol) -> bool {
        if !matches!(self.work, Work::Nothing) {
            return false;
        }
        if outgoing.write_half == WriteHalf::Refused {
            return true;
        }
        if let Some(file) = self.file.as_ref().filter(|_| self.given < self.file_bytes) {
            if outgoing.left() == 0 {
                let end = self.file_bytes.min(self.given + OUTGOING_BYTES_MAX as u64);
                self.work = Work::Wanted(Spool::Read { file: Arc::clone(file), range: self.given..end });
            }
            return false;
        }
        let rest = &self.memory[(self.given - self.file_bytes) as usize..];
        let room = OUTGOING_BYTES_MAX.saturating_sub(outgoing.left());
        let piece = &rest[..rest.len().min(room)];
        outgoing.put(piece, protocol);
        self.given += piece.len() as u64;
        piece.len() == rest.len()
    }
}
