//! The filesystem that the kernel sees: the folder, read-only, and a control file at its root, which reads and writes the
//! rules. Every operation goes through the [queue](crate::queue), except operations on the control file and the attributes of
//! the root. So you can change the rules of a disk on which everything hangs.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;

use crate::arm::Extent;
use crate::control::{CONTROL, Control};
use crate::disk::{Disk, Handle};
use crate::folder::{self, Folder};
use crate::queue::{Operation, Outcome, Queue};
use crate::rules::{Kind, Rules};

/// The control file's number, which no file has.
const CONTROL_NUMBER: INodeNo = INodeNo(u64::MAX);
/// The kernel may keep the control file's name: nothing ever becomes of it.
const CONTROL_TTL: Duration = Duration::from_secs(86_400);
/// Reads ahead that the kernel may have under way; the queue is what limits them.
const BACKGROUND_MAX: u16 = 1024;

pub(crate) struct Passthrough {
    disk: Arc<Disk>,
    queue: Arc<Queue>,
    control: Arc<Control>,
}

impl Passthrough {
    pub(crate) fn new(
        folder: Arc<Folder>,
        queue: Arc<Queue>,
        control: Arc<Control>,
    ) -> io::Result<Passthrough> {
        Ok(Passthrough { disk: Arc::new(Disk::new(folder)?), queue, control })
    }

    /// Lets an operation wait for its turn, then does it, unless the rules have it fail.
    fn later<R: Reply>(
        &self,
        what: impl Into<Asked>,
        request: &Request,
        path: Option<Arc<Path>>,
        reply: R,
        work: impl FnOnce(&Disk, &Path, Turn, R) + Send + 'static,
    ) {
        // A number that the kernel was never given, or has forgotten.
        let Some(path) = path else { return reply.fail(Errno::ESTALE) };
        let disk = Arc::clone(&self.disk);
        let at = Arc::clone(&path);
        let work = Box::new(move |outcome: Outcome, rules: &Rules| {
            let bytes_max = match outcome {
                Outcome::Fail { errno } => return reply.fail(Errno::from_i32(errno)),
                Outcome::Short { bytes_max } => bytes_max,
                Outcome::Serve => usize::MAX,
            };
            work(&disk, &at, Turn { rules, bytes_max }, reply);
        });
        let Asked { kind, extent } = what.into();
        self.queue.submit(Operation { kind, extent, path, caller: request.pid(), work });
    }

    fn is_control(&self, parent: INodeNo, name: &OsStr) -> bool {
        parent == INodeNo::ROOT && name == CONTROL
    }
}

/// What the kernel asks of the disk.
struct Asked {
    kind: Kind,
    extent: Option<Extent>,
}

impl From<Kind> for Asked {
    fn from(kind: Kind) -> Self {
        Asked { kind, extent: None }
    }
}

/// A part of a file is read.
impl From<Extent> for Asked {
    fn from(extent: Extent) -> Self {
        Asked { kind: Kind::Read, extent: Some(extent) }
    }
}

/// What an operation may do now.
struct Turn<'a> {
    rules: &'a Rules,
    bytes_max: usize,
}

impl Filesystem for Passthrough {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // One hung look-up must not hold up the others in its folder, nor one read of a file the next. Older kernels
        // do without what they lack.
        for flag in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_ASYNC_DIO] {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if self.is_control(parent, name) {
            return reply.entry(&CONTROL_TTL, &control_attributes(), Generation(0));
        }
        let path = self.disk.nodes.path(parent).map(|parent| parent.join(name).into());
        self.later(Kind::Lookup, request, path, reply, |disk, path, turn, reply| match disk.look_up(path) {
            Ok(attributes) => reply.entry(&turn.rules.ttl, &attributes, Generation(0)),
            Err(error) => reply.error(error.into()),
        });
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.disk.nodes.forget(number, lookups);
    }

    fn getattr(&self, request: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        if number == CONTROL_NUMBER {
            return reply.attr(&CONTROL_TTL, &control_attributes());
        }
        let path = self.disk.nodes.path(number);
        if number == INodeNo::ROOT {
            let ttl = self.queue.rules().ttl;
            return answer_attributes(&self.disk, number, Path::new("/"), ttl, reply);
        }
        self.later(Kind::Getattr, request, path, reply, move |disk, path, turn, reply| {
            answer_attributes(disk, number, path, turn.rules.ttl, reply);
        });
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        let path = self.disk.nodes.path(number);
        self.later(Kind::Readlink, request, path, reply, |disk, path, _, reply| {
            match disk.folder.link(path) {
                Ok(target) => reply.data(&target),
                Err(error) => reply.error(error.into()),
            }
        });
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if number == CONTROL_NUMBER {
            let handle = self.disk.keep(Handle::Control { text: self.control.show() });
            // Not through the page cache: every open sees its own text.
            return reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO);
        }
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        let path = self.disk.nodes.path(number);
        self.later(Kind::Open, request, path, reply, move |disk, path, turn, reply| {
            match disk.open(number, path, turn.rules) {
                Ok((handle, flags)) => reply.opened(handle, flags),
                Err(error) => reply.error(error.into()),
            }
        });
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(handle) = self.disk.handle(handle) else { return reply.error(Errno::EBADF) };
        let path = match &*handle {
            Handle::File { path, .. } => Arc::clone(path),
            Handle::Folder { .. } => return reply.error(Errno::EISDIR),
            Handle::Control { text } => {
                let rest = text.as_bytes().get(offset as usize..).unwrap_or_default();
                return reply.data(&rest[..rest.len().min(size as usize)]);
            }
        };
        let extent = Extent { byte: offset, bytes: size.into() };
        self.later(extent, request, Some(path), reply, move |_, _, turn, reply| {
            let Handle::File { file, .. } = &*handle else { return reply.error(Errno::EISDIR) };
            match folder::read(file, offset, turn.bytes_max.min(size as usize)) {
                Ok(data) => reply.data(&data),
                Err(error) => reply.error(error.into()),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if number != CONTROL_NUMBER {
            return reply.error(Errno::EROFS);
        }
        match self.control.write(data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(_) => reply.error(Errno::EINVAL),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.disk.release(handle);
        reply.ok();
    }

    fn opendir(&self, request: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let path = self.disk.nodes.path(number);
        self.later(Kind::Open, request, path, reply, |disk, path, _, reply| {
            let handle = disk.keep(Handle::Folder { path: path.into(), rows: Mutex::default() });
            reply.opened(handle, FopenFlags::empty());
        });
    }

    fn readdir(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let Some(handle) = self.disk.handle(handle) else { return reply.error(Errno::EBADF) };
        let Handle::Folder { path, .. } = &*handle else { return reply.error(Errno::ENOTDIR) };
        let path = Arc::clone(path);
        self.later(Kind::Readdir, request, Some(path), reply, move |disk, path, _, mut reply| {
            let Handle::Folder { rows, .. } = &*handle else { return reply.error(Errno::ENOTDIR) };
            let mut rows = rows.lock();
            // A list that is begun again is made again.
            if offset == 0 {
                match disk.folder.list(path) {
                    Ok(found) => *rows = found,
                    Err(error) => return reply.error(error.into()),
                }
                rows.retain(|row| !(number == INodeNo::ROOT && row.name == CONTROL));
            }
            let dots = [
                (number, FileType::Directory, OsStr::new(".")),
                (INodeNo::ROOT, FileType::Directory, OsStr::new("..")),
            ];
            let files =
                rows.iter().map(|row| (disk.nodes.number_here(row.inode), row.kind, row.name.as_os_str()));
            let entries = (1..).zip(dots.into_iter().chain(files)).skip(offset as usize);
            for (next, (number, kind, name)) in entries {
                if reply.add(number, next, kind, name) {
                    break;
                }
            }
            reply.ok();
        });
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.disk.release(handle);
        reply.ok();
    }

    fn statfs(&self, request: &Request, number: INodeNo, reply: ReplyStatfs) {
        let path = self.disk.nodes.path(number);
        self.later(Kind::Statfs, request, path, reply, |disk, _, _, reply| match disk.folder.space() {
            Ok(s) => {
                let (block, part) = (s.f_bsize as u32, s.f_frsize as u32);
                let name_max = s.f_namemax as u32;
                reply.statfs(s.f_blocks, s.f_bfree, s.f_bavail, s.f_files, s.f_ffree, block, name_max, part);
            }
            Err(error) => reply.error(error.into()),
        });
    }

    /// A shell that writes to the control file truncates it first, which means nothing.
    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match number {
            CONTROL_NUMBER => reply.attr(&CONTROL_TTL, &control_attributes()),
            _ => reply.error(Errno::EROFS),
        }
    }
}

fn answer_attributes(disk: &Disk, number: INodeNo, path: &Path, ttl: Duration, reply: ReplyAttr) {
    match disk.attributes(number, path) {
        Ok(attributes) => reply.attr(&ttl, &attributes),
        Err(error) => reply.error(error.into()),
    }
}

/// A file of root's, of no length, like those of `/proc`.
fn control_attributes() -> FileAttr {
    let now = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: CONTROL_NUMBER,
        size: 0,
        blocks: 0,
        atime: now,
        mtime: now,
        ctime: now,
        crtime: now,
        kind: FileType::RegularFile,
        perm: 0o600,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Every reply can be an error.
trait Reply: Send + 'static {
    fn fail(self, errno: Errno);
}

macro_rules! replies {
    ($($reply:ty),*) => {
        $(impl Reply for $reply {
            fn fail(self, errno: Errno) {
                self.error(errno);
            }
        })*
    };
}

replies!(ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry, ReplyOpen, ReplyStatfs);
