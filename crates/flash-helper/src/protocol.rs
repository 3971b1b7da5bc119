//! The wire format of `flash helper`: fixed layouts, little-endian, one message in a packet. `modules/flash_helper.h` is the same
//! in C, and docs/helper-protocol.md explains it.
//!
//! The decoder trusts nothing that it reads. Sockets and descriptors are not known here.

mod fields;

use std::ops::Range;

use flash_core::file::Stamp;
use flash_http::negotiate::Coding;

use self::fields::{Reader, Writer};

pub const VERSION: u8 = 1;
/// The longest path, as of the kernel.
pub const PATH_BYTES_MAX: usize = 4095;
/// A longer window is shortened.
pub const WINDOW_BYTES_MAX: u64 = 256 << 10;
/// The fixed part of a question. Its path follows.
pub const QUESTION_BYTES: usize = 80;
pub const ANSWER_BYTES: usize = 272;
pub const HELLO_BYTES: usize = 16;
/// The fixed part of a root. Its path follows.
pub const ROOT_BYTES: usize = 16;
/// The longest message in either direction.
pub const MESSAGE_BYTES_MAX: usize = ANSWER_BYTES + PATH_BYTES_MAX;
const ETAG_BYTES_MAX: usize = 64;
const MEDIA_BYTES_MAX: usize = 128;

/// A question about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub kind: QuestionKind,
    pub root: u32,
    /// The asker's number. The answer has it too.
    pub id: u64,
    /// 0 stands for the daemon's deadline.
    pub deadline_ms: u32,
    /// From the root on, with a slash at its beginning. Not yet known to be canonical.
    pub path: Vec<u8>,
    /// To have in memory when the answer comes. Empty if no content is needed.
    pub window: Range<u64>,
    /// The stamp of the file that the asker has.
    pub known: Option<Stamp>,
    /// The codings of precompressed copies that may answer: bits of [`accept`].
    pub accepts: u16,
    /// Send the window's bytes, in memory of their own.
    pub copy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionKind {
    /// Find and open a file.
    Find,
    /// Bring a window of a file into memory: of the file that comes along, or of the path if none does.
    Load,
}

/// Why a message is no question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    Version(u8),
    Length,
    Kind(u8),
    /// A flag or a reserved byte that this version does not know.
    Unknown,
    Window,
}

/// Flags of questions.
pub mod accept {
    pub const GZIP: u16 = 1;
    pub const BROTLI: u16 = 1 << 1;
    pub const ZSTD: u16 = 1 << 2;
    pub(super) const ALL: u16 = GZIP | BROTLI | ZSTD;
}

const KNOWN: u16 = 1 << 3;
const COPY: u16 = 1 << 4;

/// Flags of messages from the daemon.
pub mod flag {
    /// The descriptor is sealed memory. Its byte 0 is the file's byte at the start of the window.
    pub const MEMORY: u16 = 1;
    /// Without a descriptor: the asker asks for each window, by path.
    pub const REMOTE: u16 = 1 << 1;
    /// The file is the folder's index.
    pub const INDEX: u16 = 1 << 2;
    /// The asker may try what does not wait by itself.
    pub const INLINE: u16 = 1 << 3;
    /// A read may set the time of access.
    pub const ACCESS_TIMES: u16 = 1 << 4;
}

/// Kinds of messages from the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AnswerKind {
    Hello = 1,
    Root,
    File,
    Window,
    Unchanged,
    Folder,
    Redirect,
    Missing,
    Forbidden,
    Changed,
    Busy,
    TimedOut,
    Down,
    Failed,
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub kind: AnswerKind,
    pub flags: u16,
    pub root: u32,
    pub id: u64,
    pub stamp: Stamp,
    /// What is in memory.
    pub window: Range<u64>,
    pub coding: Option<Coding>,
    pub etag: Vec<u8>,
    pub media: Vec<u8>,
}

/// What an asker learns of a root, with its open folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub flags: u16,
    pub number: u32,
    /// As the daemon's command line has it, made absolute.
    pub path: Vec<u8>,
}

/// The first message on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    pub roots: u32,
    pub questions_max: u32,
}

impl Question {
    /// # Errors
    /// If the message is no question of this version.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(message);
        let version = reader.u8().ok_or(Malformed::Length)?;
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        Self::read(&mut reader).ok_or(Malformed::Length)?
    }

    /// `None` if the message is too short or too long.
    fn read(reader: &mut Reader<'_>) -> Option<Result<Self, Malformed>> {
        let (kind, flags, root, id) = (reader.u8()?, reader.u16()?, reader.u32()?, reader.u64()?);
        let (deadline_ms, path_bytes, reserved) = (reader.u32()?, reader.u16()?, reader.u16()?);
        let (start, bytes) = (reader.u64()?, reader.u64()?);
        let known = reader.stamp()?;
        let path = reader.rest();
        if path.len() != usize::from(path_bytes) || path.len() > PATH_BYTES_MAX {
            return None;
        }
        let kind = match kind {
            1 => QuestionKind::Find,
            2 => QuestionKind::Load,
            other => return Some(Err(Malformed::Kind(other))),
        };
        if flags & !(accept::ALL | KNOWN | COPY) != 0 || reserved != 0 {
            return Some(Err(Malformed::Unknown));
        }
        let Some(end) = start.checked_add(bytes) else { return Some(Err(Malformed::Window)) };
        Some(Ok(Self {
            kind,
            root,
            id,
            deadline_ms,
            path: path.to_vec(),
            window: start..end,
            known: (flags & KNOWN != 0).then_some(known),
            accepts: flags & accept::ALL,
            copy: flags & COPY != 0,
        }))
    }

    /// The number of a question that cannot be decoded further, so that its asker learns of it.
    pub fn id_of(message: &[u8]) -> u64 {
        message.get(8..16).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    }

    pub fn encode(&self) -> Vec<u8> {
        let flags =
            self.accepts | if self.known.is_some() { KNOWN } else { 0 } | if self.copy { COPY } else { 0 };
        let kind = match self.kind {
            QuestionKind::Find => 1,
            QuestionKind::Load => 2,
        };
        let mut writer = Writer::new(QUESTION_BYTES + self.path.len());
        writer.u8(VERSION).u8(kind).u16(flags).u32(self.root).u64(self.id);
        writer.u32(self.deadline_ms).u16(self.path.len() as u16).u16(0);
        writer.u64(self.window.start).u64(self.window.end - self.window.start);
        writer.stamp(&self.known.unwrap_or_default()).bytes(&self.path);
        writer.into_bytes()
    }
}

impl AnswerKind {
    const ALL: [Self; 15] = [
        Self::Hello,
        Self::Root,
        Self::File,
        Self::Window,
        Self::Unchanged,
        Self::Folder,
        Self::Redirect,
        Self::Missing,
        Self::Forbidden,
        Self::Changed,
        Self::Busy,
        Self::TimedOut,
        Self::Down,
        Self::Failed,
        Self::Refused,
    ];

    fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// The kind of a message from the daemon.
    pub fn of_message(message: &[u8]) -> Option<Self> {
        Self::of_number(*message.get(1)?)
    }
}

impl Answer {
    /// An answer that says no more than its kind.
    pub fn plain(kind: AnswerKind, root: u32, id: u64) -> Self {
        let (etag, media) = (Vec::new(), Vec::new());
        Self { kind, flags: 0, root, id, stamp: Stamp::default(), window: 0..0, coding: None, etag, media }
    }

    pub fn encode(&self) -> Vec<u8> {
        let coding = match self.coding {
            None => 0,
            Some(Coding::Gzip) => 1,
            Some(Coding::Br) => 2,
            Some(Coding::Zstd) => 3,
        };
        // What does not fit is left out: a part of it would be another one.
        let fitting = |text: &[u8], most: usize| if text.len() <= most { text.to_vec() } else { Vec::new() };
        let (etag, media) = (fitting(&self.etag, ETAG_BYTES_MAX), fitting(&self.media, MEDIA_BYTES_MAX));
        let mut writer = Writer::new(ANSWER_BYTES);
        writer.u8(VERSION).u8(self.kind as u8).u16(self.flags).u32(self.root).u64(self.id);
        writer.stamp(&self.stamp);
        writer.u64(self.window.start).u64(self.window.end - self.window.start);
        writer.u8(etag.len() as u8).u8(media.len() as u8).u8(coding).bytes(&[0; 5]);
        writer.padded(&etag, ETAG_BYTES_MAX).padded(&media, MEDIA_BYTES_MAX);
        writer.into_bytes()
    }

    /// `None` if the message is no answer.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(message);
        if reader.u8()? != VERSION {
            return None;
        }
        let (kind, flags, root, id) =
            (AnswerKind::of_number(reader.u8()?)?, reader.u16()?, reader.u32()?, reader.u64()?);
        let stamp = reader.stamp()?;
        let (start, bytes) = (reader.u64()?, reader.u64()?);
        let (etag_bytes, media_bytes, coding) = (reader.u8()?, reader.u8()?, reader.u8()?);
        reader.take(5)?;
        let (etag, media) = (reader.take(ETAG_BYTES_MAX)?, reader.take(MEDIA_BYTES_MAX)?);
        let coding = match coding {
            0 => None,
            1 => Some(Coding::Gzip),
            2 => Some(Coding::Br),
            3 => Some(Coding::Zstd),
            _ => return None,
        };
        reader.rest().is_empty().then_some(())?;
        Some(Self {
            kind,
            flags,
            root,
            id,
            stamp,
            window: start..start.checked_add(bytes)?,
            coding,
            etag: etag.get(..usize::from(etag_bytes))?.to_vec(),
            media: media.get(..usize::from(media_bytes))?.to_vec(),
        })
    }
}

impl Root {
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(ROOT_BYTES + self.path.len());
        writer.u8(VERSION).u8(AnswerKind::Root as u8).u16(self.flags).u32(self.number);
        writer.u16(self.path.len() as u16).bytes(&[0; 6]).bytes(&self.path);
        writer.into_bytes()
    }

    /// `None` if the message is no root.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(message);
        if (reader.u8()?, reader.u8()?) != (VERSION, AnswerKind::Root as u8) {
            return None;
        }
        let (flags, number, path_bytes) = (reader.u16()?, reader.u32()?, reader.u16()?);
        reader.take(6)?;
        let path = reader.rest();
        (path.len() == usize::from(path_bytes)).then(|| Self { flags, number, path: path.to_vec() })
    }
}

impl Hello {
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(HELLO_BYTES);
        writer.u8(VERSION).u8(AnswerKind::Hello as u8).u16(0).u32(self.roots);
        writer.u32(self.questions_max).u32(WINDOW_BYTES_MAX as u32);
        writer.into_bytes()
    }

    /// `None` if the message is no greeting.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(message);
        if (reader.u8()?, reader.u8()?) != (VERSION, AnswerKind::Hello as u8) {
            return None;
        }
        reader.u16()?;
        let hello = Self { roots: reader.u32()?, questions_max: reader.u32()? };
        reader.u32()?;
        reader.rest().is_empty().then_some(hello)
    }
}

#[cfg(test)]
mod tests;
