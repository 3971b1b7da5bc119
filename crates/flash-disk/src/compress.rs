//! Compressing a file that was found: from its content in memory, or from an open file on a local device.
//!
//! It takes as long as it takes, at whatever priority its thread has. Which files are compressed, and when, is not decided here.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::Bytes;
use flash_compress::{Effort, Encoder};
use flash_core::cache::memory_budget::{BudgetedBytes, Reservation};
use flash_core::file::compressed::CompressionResult;
use flash_core::file::compression::Compression;
use flash_core::file::{Content, File, HEAP_FILE_BYTES_MAX, Window};
use flash_os::shared_heap::HeapBuf;

use crate::blocking::Blocking;
use crate::digest;
use crate::disk::Disk;
use crate::read::{ReadResult, read};
use crate::snapshot::Snapshot;

/// A file is read in pieces of this size.
const PIECE_BYTES: u64 = 128 << 10;
/// A result that is not smaller than this part of the file is not worth its memory, and the clients' time.
const PAYS_PERCENT: u64 = 95;

/// Why there is no result.
enum Stopped {
    TooLarge,
    Failed,
}

impl Disk {
    /// Compresses a file, as `wanted` says. The file is in the cache.
    pub fn compress(&self, wanted: &Compression, file: &File) -> CompressionResult {
        let Some(site) = self.sites.get(wanted.site).map(|site| site.current_owned()) else {
            return CompressionResult::Failed;
        };
        let made = self.compressed(wanted, file).and_then(|(bytes, room)| {
            let (size, digest) = (bytes.len() as u64, digest::of_bytes(&bytes));
            let content = self.content_of(&bytes, room).ok_or(Stopped::Failed)?;
            let template = &site.settings.template;
            Ok(file.compressed(wanted.coding, template, (content, size, digest)))
        });
        match made {
            Ok(file) => CompressionResult::Made(Arc::new(file)),
            Err(Stopped::TooLarge) => CompressionResult::DoesNotPay,
            Err(Stopped::Failed) => CompressionResult::Failed,
        }
    }

    /// The compressed bytes, with a reservation of their size.
    fn compressed(&self, wanted: &Compression, file: &File) -> Result<(Vec<u8>, Reservation), Stopped> {
        let size = file.size();
        // No copy in memory is larger than that.
        let bytes_max = (size * PAYS_PERCENT / 100).min(self.settings.memory_file_bytes_max);
        // The encoder's own memory, for as long as it works.
        let working = Encoder::memory_bytes(wanted.coding, Effort::Stored, Some(size));
        let _working = self.copies.reserve(working).ok_or(Stopped::Failed)?;
        let mut room = self.copies.reserve(0).ok_or(Stopped::Failed)?;
        let failed = |_| Stopped::Failed;
        let mut encoder = Encoder::new(wanted.coding, Effort::Stored, Some(size)).map_err(failed)?;
        let mut bytes = Vec::new();
        let mut offset = 0;
        let mut add = |more: Vec<u8>, bytes: &mut Vec<u8>| {
            bytes.extend_from_slice(&more);
            match bytes.len() as u64 {
                length if length > bytes_max => Err(Stopped::TooLarge),
                length if !room.grow(length - room.bytes()) => Err(Stopped::Failed),
                _ => Ok(()),
            }
        };
        while offset < size {
            let piece = self.piece(file, offset..size).ok_or(Stopped::Failed)?;
            encoder.write(&piece).map_err(failed)?;
            offset += piece.len() as u64;
            add(encoder.take(), &mut bytes)?;
        }
        add(encoder.finish().map_err(failed)?, &mut bytes)?;
        // Each byte has to come from the version that the result is named after.
        match file.is_one_version(&(0..size)) {
            true => Ok((bytes, room)),
            false => Err(Stopped::Failed),
        }
    }

    /// A piece at the beginning of a range of a file, which is not empty.
    pub(crate) fn piece(&self, file: &File, range: Range<u64>) -> Option<Bytes> {
        let range = range.start..range.end.min(range.start + PIECE_BYTES);
        let open = match &file.content {
            Content::Memory(bytes) => {
                let range = usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?;
                return Some(Bytes::copy_from_slice(bytes.get(range)?));
            }
            Content::Open(open) => open,
        };
        // A device that hangs would hold up all other files.
        if open.memory_bytes() == 0 && !self.is_local(&**open) {
            return None;
        }
        open.read_ahead(&file.stamp, range.start..file.size());
        match open.load_window(&file.stamp, range, true) {
            Window::Copied(bytes) if !bytes.is_empty() => Some(bytes),
            Window::Resident(range) => {
                let length = usize::try_from(range.end - range.start).ok()?;
                match read(open.as_fd(), range.start, length, Blocking::Anywhere) {
                    ReadResult::Whole(bytes) => Some(bytes),
                    ReadResult::WouldBlock | ReadResult::Shrunk | ReadResult::Failed => None,
                }
            }
            _ => None,
        }
    }

    fn content_of(&self, bytes: &[u8], room: Reservation) -> Option<Content> {
        if bytes.len() as u64 > HEAP_FILE_BYTES_MAX {
            let snapshot = Snapshot::of_bytes(bytes, room, self.closer.clone())?;
            return Some(Content::Open(Arc::new(snapshot)));
        }
        let bytes = Bytes::from_owner(HeapBuf::from(bytes));
        Some(Content::Memory(BudgetedBytes::new(bytes, room).into()))
    }
}
