//! A queue of bytes that wait for their receiver. One is a request's body, until it is whole and its program takes it. Another is
//! what a program has written for a client that is behind. So no program waits for its client's upload, or for a slow download.
//!
//! The bytes are in memory as far as there is room. Jobs write the rest to a file; the last part stays in memory. There is one
//! job at a time, and during a job nothing is added.

use std::sync::Arc;

use bytes::Bytes;

use super::watermark::Watermark;
use crate::cache::memory_budget::{Budget, BudgetedBytes, Reservation};
use crate::job::{Done, Failure, Spool, SpoolFile};

#[derive(Debug)]
pub(super) struct SpoolQueue {
    /// The first part, how long it is, and how much of it has been taken out.
    file: Option<Arc<dyn SpoolFile>>,
    file_bytes: u64,
    file_taken: u64,
    /// The room on the disk that a response has.
    room_on_disk: Option<Reservation>,
    /// The part of a response that could not be written. After that, nothing more is.
    unwritten: Option<Arc<BudgetedBytes>>,
    is_refused: bool,
    /// A part was in the file, and cannot be read.
    is_lost: bool,
    /// The last part.
    memory: Vec<u8>,
    /// How much has been taken of the first part that is in memory.
    taken: usize,
    watermark: Watermark,
    work: Work,
}

/// The state of the job about the file.
#[derive(Debug)]
enum Work {
    Nothing,
    Wanted(Spool),
    Writing(Arc<BudgetedBytes>),
    Reading,
}

/// What a job has done.
#[derive(Debug)]
pub(super) enum Moved {
    Written(u64),
    /// The next bytes for the receiver.
    Read(Bytes),
    /// The part stays in memory, and nothing more is written.
    Unwritten(Failure),
    Nothing,
}

/// A response may have this part of the disk that all have.
const PART: u64 = 16;

impl SpoolQueue {
    pub(super) fn new() -> Self {
        Self {
            file: None,
            file_bytes: 0,
            file_taken: 0,
            room_on_disk: None,
            unwritten: None,
            is_refused: false,
            is_lost: false,
            memory: Vec::new(),
            taken: 0,
            watermark: Watermark::default(),
            work: Work::Nothing,
        }
    }

    /// How many bytes have been put in, as long as none was taken out.
    pub(super) fn bytes(&self) -> u64 {
        self.file_bytes + self.memory.len() as u64
    }

    fn memory_bytes(&self) -> usize {
        // What could not be written comes first.
        if self.unwritten.is_some() { self.memory.len() } else { self.memory.len() - self.taken }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self.work, Work::Nothing)
            && !self.is_in_file()
            && self.unwritten.is_none()
            && self.memory_bytes() == 0
    }

    /// How many more bytes may come now.
    pub(super) fn room(&self, answers: &Budget) -> usize {
        match self.work {
            Work::Nothing => self.watermark.part_max(answers).saturating_sub(self.memory_bytes()),
            _ => 0,
        }
    }

    /// If there is no room, a job first writes the memory to the file. `disk` limits what responses may have there.
    pub(super) fn make_room(&mut self, answers: &Budget, disk: Option<&Arc<Budget>>) {
        let bytes = self.memory_bytes() as u64;
        if self.is_refused || !matches!(self.work, Work::Nothing) || bytes == 0 || self.room(answers) > 0 {
            return;
        }
        if let Some(disk) = disk {
            let has_room = match &mut self.room_on_disk {
                _ if self.file_bytes + bytes > disk.bytes_max() / PART => false,
                Some(room) => room.grow(bytes),
                none => {
                    *none = disk.reserve(bytes);
                    none.is_some()
                }
            };
            if !has_room {
                return;
            }
        }
        let bytes = Bytes::from(std::mem::take(&mut self.memory)).slice(std::mem::take(&mut self.taken)..);
        let bytes = match self.watermark.take() {
            Some(room) => BudgetedBytes::new(bytes, room),
            None => BudgetedBytes::from(bytes),
        };
        self.work = Work::Wanted(Spool::Write { file: self.file.clone(), bytes: Arc::new(bytes) });
    }

    /// Adds bytes.
    pub(super) fn put(&mut self, data: &[u8], answers: &Arc<Budget>) {
        if self.unwritten.is_none() && self.memory.len() + data.len() > self.memory.capacity() {
            self.memory.drain(..std::mem::take(&mut self.taken));
        }
        let needed = self.memory.len() + data.len();
        if needed > self.memory.capacity() {
            // Doubled, as `Vec` would, but not beyond what there is room for.
            let capacity = (2 * self.memory.capacity()).min(self.watermark.part_max(answers)).max(needed);
            self.memory.reserve_exact(capacity - self.memory.len());
        }
        self.memory.extend_from_slice(data);
        self.watermark.count(self.memory.capacity(), answers);
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
            Spool::Write { bytes, .. } => Work::Writing(Arc::clone(bytes)),
            Spool::Read { .. } => Work::Reading,
        };
        Some(spool)
    }

    /// Takes the job's result.
    pub(super) fn take(&mut self, done: Done) -> Result<Moved, Failure> {
        match (std::mem::replace(&mut self.work, Work::Nothing), done) {
            (Work::Writing(bytes), Done::Spooled(file)) => {
                self.file = Some(file);
                self.file_bytes += bytes.len() as u64;
                Ok(Moved::Written(bytes.len() as u64))
            }
            (Work::Writing(bytes), Done::Failed(failure)) => {
                self.keep_unwritten(bytes);
                Ok(Moved::Unwritten(failure))
            }
            (Work::Reading, Done::Unspooled(bytes)) => {
                self.file_taken += bytes.len() as u64;
                if bytes.is_empty() || self.file_taken > self.file_bytes {
                    self.is_lost = true;
                    return Err(Failure::Broken);
                }
                if self.file_taken == self.file_bytes {
                    (self.file, self.file_bytes, self.file_taken) = (None, 0, 0);
                    self.room_on_disk = None;
                }
                Ok(Moved::Read(bytes))
            }
            // A part was written too late: it is in memory again.
            (Work::Reading, Done::Spooled(_)) => {
                self.work = Work::Reading;
                Ok(Moved::Nothing)
            }
            (_, done) => {
                self.is_lost = true;
                Err(if let Done::Failed(failure) = done { failure } else { Failure::Broken })
            }
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The job takes too long. Returns whether the bytes are here all the same.
    pub(super) fn give_up_job(&mut self) -> bool {
        match std::mem::replace(&mut self.work, Work::Nothing) {
            Work::Writing(bytes) => {
                self.keep_unwritten(bytes);
                true
            }
            _ => {
                self.is_lost = true;
                false
            }
        }
    }

    fn keep_unwritten(&mut self, bytes: Arc<BudgetedBytes>) {
        (self.unwritten, self.is_refused) = (Some(bytes), true);
    }

    /// Whether a job has to bring what comes next.
    pub(super) fn is_in_file(&self) -> bool {
        self.file_taken < self.file_bytes
    }

    /// Gives the next bytes to `receive`, at most so many. If they are in the file, a job is to bring them.
    pub(super) fn give(&mut self, most: usize, receive: impl FnOnce(&[u8])) {
        if !matches!(self.work, Work::Nothing) {
            return;
        }
        if let Some(file) = self.file.as_ref().filter(|_| self.is_in_file()) {
            let end = self.file_bytes.min(self.file_taken + most as u64);
            self.work = Work::Wanted(Spool::Read { file: Arc::clone(file), range: self.file_taken..end });
            return;
        }
        let first: &[u8] = self.unwritten.as_ref().map_or(&self.memory, |bytes| bytes);
        let rest = &first[self.taken..];
        let piece = &rest[..rest.len().min(most)];
        if !piece.is_empty() {
            receive(piece);
        }
        self.taken += piece.len();
        if self.taken == first.len() {
            self.taken = 0;
            if self.unwritten.take().is_none() {
                (self.memory, self.watermark) = (Vec::new(), Watermark::default());
            }
        }
    }
}
