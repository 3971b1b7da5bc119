//! The folder that is shown: its files by their paths from the mount's root. It goes through a descriptor, so that
//! a mount may cover the very folder that it shows. It is the only code that touches the folder, and never writes.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::fs::{OFlags, StatVfs};

pub(crate) struct Folder {
    descriptor: File,
    root: PathBuf,
}

/// One row of a folder's list.
pub(crate) struct Row {
    pub(crate) inode: u64,
    pub(crate) kind: FileType,
    pub(crate) name: std::ffi::OsString,
}

impl Folder {
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::DIRECTORY.bits().cast_signed();
        let descriptor = File::options().read(true).custom_flags(flags).open(path)?;
        let root = format!("/proc/self/fd/{}", descriptor.as_raw_fd()).into();
        Ok(Folder { descriptor, root })
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    pub(crate) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.at(path).symlink_metadata()
    }

    pub(crate) fn open_file(&self, path: &Path) -> io::Result<File> {
        // Links are followed by the kernel on the mount's side alone, and a pipe has no reader to wait for.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        File::options().read(true).custom_flags(flags).open(self.at(path))
    }

    pub(crate) fn link(&self, path: &Path) -> io::Result<Vec<u8>> {
        Ok(fs::read_link(self.at(path))?.into_os_string().into_vec())
    }

    pub(crate) fn list(&self, path: &Path) -> io::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for entry in fs::read_dir(self.at(path))? {
            let entry = entry?;
            let Some(kind) = FileType::from_std(entry.file_type()?) else { continue };
            rows.push(Row { inode: entry.ino(), kind, name: entry.file_name() });
        }
        Ok(rows)
    }

    pub(crate) fn space(&self) -> io::Result<StatVfs> {
        Ok(rustix::fs::fstatvfs(&self.descriptor)?)
    }
}

/// All bytes of a range that there are: to the kernel fewer mean that the file ends there.
pub(crate) fn read(file: &File, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut data = vec![0; bytes];
    let mut filled = 0;
    while filled < bytes {
        match file.read_at(&mut data[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    data.truncate(filled);
    Ok(data)
}

/// What `stat` says, as FUSE says it.
pub(crate) fn attributes(number: INodeNo, metadata: &Metadata) -> FileAttr {
    let time = |seconds: i64, nanoseconds: i64| -> SystemTime {
        let part = Duration::from_nanos(nanoseconds.unsigned_abs());
        let whole = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 { UNIX_EPOCH - whole + part } else { UNIX_EPOCH + whole + part }
    };
    FileAttr {
        ino: number,
        size: metadata.size(),
        blocks: metadata.blocks(),
        atime: time(metadata.atime(), metadata.atime_nsec()),
        mtime: time(metadata.mtime(), metadata.mtime_nsec()),
        ctime: time(metadata.ctime(), metadata.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind: FileType::from_std(metadata.file_type()).unwrap_or(FileType::RegularFile),
        perm: (metadata.mode() & 0o7777) as u16,
        nlink: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: metadata.rdev() as u32,
        blksize: metadata.blksize() as u32,
        flags: 0,
    }
}
