//! The causes of sleeps, by their names in reports. Which functions mean which cause is [`rules`](crate::rules)'s.

use std::fmt;

/// Why a thread slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// It waited for events, as a loop may.
    Events,
    /// A file's bytes were not in memory.
    PageCacheRead,
    /// A directory, an inode or a map of blocks was not in memory.
    MetadataRead,
    /// It read or wrote past the page cache.
    DirectIo,
    /// Another thread had the lock of an inode or a directory.
    InodeLock,
    /// The file system's journal.
    Journal,
    /// Dirty pages were being written, or it had written too many.
    Writeback,
    /// Memory was short, for the machine or the cgroup.
    Reclaim,
    /// It touched mapped memory that was not there.
    PageFault,
    /// The process's map of memory was locked, or its pages were being moved. No disk is behind it.
    MemoryMap,
    /// A file system in a process or on another machine.
    Remote,
    /// A lock or a condition of the program's own.
    UserLock,
    /// A pipe, socket or terminal that is not in non-blocking mode.
    PipeOrSocket,
    /// A lock that other processes hold on a file.
    FileLock,
    /// It wanted to sleep for a while.
    Timer,
    /// It waited for a signal.
    Signal,
    /// It waited for a child process.
    Child,
    /// Its cgroup had used up its share.
    CgroupThrottle,
    /// A signal or a debugger stopped it.
    Stopped,
    /// A lock or another processor's work within the kernel, which no other cause names.
    KernelLock,
    /// No rule knows the stack.
    Unknown,
}

/// Types of file systems whose data is elsewhere than on a local disk.
const REMOTE: [&str; 9] = ["fuse", "fuseblk", "fuse.", "nfs", "nfs4", "cifs", "smb3", "9p", "ceph"];

/// Whether a file system of this type asks a process or another machine.
pub fn is_remote(filesystem: &str) -> bool {
    REMOTE.iter().any(|&known| match known.strip_suffix('.') {
        Some(prefix) => filesystem.split_once('.').is_some_and(|(before, _)| before == prefix),
        None => filesystem == known,
    })
}

impl Cause {
    /// Every cause, in the order of reports.
    pub const ALL: [Cause; 21] = [
        Cause::Events,
        Cause::PageCacheRead,
        Cause::MetadataRead,
        Cause::DirectIo,
        Cause::InodeLock,
        Cause::Journal,
        Cause::Writeback,
        Cause::Reclaim,
        Cause::PageFault,
        Cause::MemoryMap,
        Cause::Remote,
        Cause::UserLock,
        Cause::PipeOrSocket,
        Cause::FileLock,
        Cause::Timer,
        Cause::Signal,
        Cause::Child,
        Cause::CgroupThrottle,
        Cause::Stopped,
        Cause::KernelLock,
        Cause::Unknown,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Events => "wait for events",
            Cause::PageCacheRead => "page-cache read",
            Cause::MetadataRead => "metadata read",
            Cause::DirectIo => "direct I/O",
            Cause::InodeLock => "inode or directory lock",
            Cause::Journal => "journal",
            Cause::Writeback => "writeback or dirty throttling",
            Cause::Reclaim => "memory reclaim",
            Cause::PageFault => "page fault",
            Cause::MemoryMap => "memory map",
            Cause::Remote => "FUSE or NFS request",
            Cause::UserLock => "user lock (futex)",
            Cause::PipeOrSocket => "pipe or socket",
            Cause::FileLock => "file lock",
            Cause::Timer => "timer",
            Cause::Signal => "signal",
            Cause::Child => "child process",
            Cause::CgroupThrottle => "cgroup throttle",
            Cause::Stopped => "stopped",
            Cause::KernelLock => "kernel lock",
            Cause::Unknown => "unknown",
        }
    }

    /// Whether threads that have no loop sleep so when they have nothing to do.
    pub fn is_idle(self) -> bool {
        use Cause::*;
        matches!(self, Events | UserLock | PipeOrSocket | Timer | Signal | Child)
    }

    /// Whether files are behind it, so that a helper would take it off a loop.
    pub fn is_of_files(self) -> bool {
        use Cause::*;
        matches!(
            self,
            PageCacheRead | MetadataRead | DirectIo | InodeLock | Journal | Writeback | PageFault | Remote
        )
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.pad(self.name())
    }
}
