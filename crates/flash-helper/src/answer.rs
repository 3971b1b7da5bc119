//! Answers: what the result of a job is to an asker, and the descriptor that goes with it.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use flash_core::cache::memory_budget::BudgetedBytes;
use flash_core::file::entry::{Resource, Variants};
use flash_core::file::{Content, File, OpenFile};
use flash_core::job::Failure;
use flash_disk::{Disk, SiteRoot, open_again};
use flash_http::negotiate::{Coding, CodingSet};
use flash_os::memory_file;
use rustix::io::Errno;

use crate::protocol::{Answer, AnswerKind, accept, flag};

/// A message on its way to an asker.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) bytes: Vec<u8>,
    pub(crate) attached: Attached,
    /// Memory that is held until it is sent.
    pub(crate) memory_bytes: u64,
}

/// The descriptor of a message.
#[derive(Debug)]
pub(crate) enum Attached {
    None,
    /// The asker's own. The cached file outlives it, because to close the last one may wait for the disk.
    File(OwnedFd, #[expect(dead_code, reason = "it is only held")] Arc<dyn OpenFile>),
    Memory(OwnedFd),
    Root(Arc<SiteRoot>),
}

impl Attached {
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::None => None,
            Self::File(own, _) => Some(own.as_fd()),
            Self::Memory(memory) => Some(memory.as_fd()),
            Self::Root(root) => Some(root.as_fd()),
        }
    }
}

impl Outgoing {
    /// A message without a descriptor.
    pub(crate) fn message(bytes: Vec<u8>) -> Self {
        Self { bytes, attached: Attached::None, memory_bytes: 0 }
    }
}

impl From<Answer> for Outgoing {
    fn from(answer: Answer) -> Self {
        Self::message(answer.encode())
    }
}

/// The content of a found file, as it is sent.
pub(crate) enum Sent {
    /// An open file, whose window is brought into memory first.
    Open(Arc<dyn OpenFile>),
    /// Sealed memory with the whole content.
    Snapshot(Arc<dyn OpenFile>),
    /// The whole content, to be copied into sealed memory.
    Copy(Arc<BudgetedBytes>),
    /// Nothing: each window is asked for.
    Windows,
}

impl Sent {
    /// A local file is sent itself. Any call to a remote one may wait, so its content is sent as memory.
    pub(crate) fn of(file: &File, disk: &Disk) -> Self {
        match (file.open_file(), &file.content) {
            (Some(open), _) if open.memory_bytes() == 0 && disk.is_local(&**open) => {
                Self::Open(Arc::clone(open))
            }
            (_, Content::Memory(bytes)) => Self::Copy(Arc::clone(bytes)),
            (Some(open), _) if open.memory_bytes() > 0 => Self::Snapshot(Arc::clone(open)),
            _ => Self::Windows,
        }
    }
}

/// The codings that an asker accepts.
pub(crate) fn codings_of(accepts: u16) -> CodingSet {
    let bit = |coding: &Coding| match coding {
        Coding::Gzip => accept::GZIP,
        Coding::Br => accept::BROTLI,
        Coding::Zstd => accept::ZSTD,
    };
    let accepted = Coding::ALL.into_iter().filter(|coding| accepts & bit(coding) != 0);
    accepted.fold(CodingSet::EMPTY, CodingSet::with)
}

/// The file that answers an asker that accepts these codings.
pub(crate) fn choose(variants: &Variants, accepts: u16) -> &Arc<File> {
    let coded = |coding: Coding| variants.coded.iter().find(|file| file.coding == Some(coding));
    codings_of(accepts).iter().find_map(coded).unwrap_or(&variants.identity)
}

/// What a path leads to, if it is no file.
pub(crate) fn kind_of(resource: &Resource) -> AnswerKind {
    match resource {
        Resource::File(_) => AnswerKind::File,
        Resource::Folder => AnswerKind::Folder,
        Resource::FolderWithoutSlash => AnswerKind::Redirect,
        Resource::Missing => AnswerKind::Missing,
        Resource::Forbidden(_) | Resource::Script(_) => AnswerKind::Forbidden,
    }
}

pub(crate) fn kind_of_failure(failure: Failure) -> AnswerKind {
    match failure {
        Failure::Overloaded | Failure::OverBudget => AnswerKind::Busy,
        Failure::TimedOut => AnswerKind::TimedOut,
        Failure::DeviceDown => AnswerKind::Down,
        Failure::NotFound => AnswerKind::Missing,
        Failure::Broken | Failure::Full | Failure::RootGone => AnswerKind::Failed,
    }
}

/// The answer that describes a file.
pub(crate) fn of_file(kind: AnswerKind, root: u32, id: u64, file: &File, window: Range<u64>) -> Answer {
    Answer {
        stamp: file.stamp,
        window,
        coding: file.coding,
        etag: file.etag.map(|tag| tag.as_bytes().to_vec()).unwrap_or_default(),
        media: file.media.content_type.as_bytes().to_vec(),
        ..Answer::plain(kind, root, id)
    }
}

/// An answer with an open file. Each asker gets one of its own: what it does to the position, the flags and the locks of its file
/// is nothing to others.
pub(crate) fn with_file(answer: &Answer, file: &Arc<dyn OpenFile>) -> Result<Outgoing, AnswerKind> {
    let own = open_again(file.as_fd()).map_err(|error| match error {
        Errno::ACCESS | Errno::PERM => AnswerKind::Forbidden,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => AnswerKind::Busy,
        _ => AnswerKind::Failed,
    })?;
    let attached = Attached::File(own, Arc::clone(file));
    Ok(Outgoing { attached, ..Outgoing::message(answer.encode()) })
}

/// An answer with bytes in sealed memory.
pub(crate) fn with_memory(answer: Answer, bytes: &[u8]) -> Result<Outgoing, AnswerKind> {
    let answer = Answer { flags: answer.flags | flag::MEMORY, ..answer };
    // Neither a descriptor nor memory is free.
    let memory = memory_file::of("flash-helper", bytes).map_err(|_| AnswerKind::Busy)?;
    Ok(Outgoing {
        bytes: answer.encode(),
        attached: Attached::Memory(memory),
        memory_bytes: bytes.len() as u64,
    })
}
