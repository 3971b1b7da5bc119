//! Where a path leads: a folder by its descriptor, and the name in it. The walk trusts no link of another user.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;

use crate::found::{Found, mode_of, path_of};
use crate::refusal::{is_root, refused};

/// The filesystem whose links the kernel makes up, on Linux (linux/magic.h).
const PROC_SUPER_MAGIC: i128 = 0x9fa0;
/// As many as the kernel follows.
const LINKS_MAX: usize = 40;
/// Group and others may write.
const WRITABLE: u32 = 0o022;
/// Everyone may write.
const WRITABLE_FOR_ALL: u32 = 0o002;
/// In a folder with this bit, files are their owners' alone.
const STICKY: u32 = 0o1000;

/// A name in a folder. The name is no link, unless the kernel made it.
#[derive(Debug)]
pub(crate) struct FolderEntry {
    pub(crate) folder: Folder,
    pub(crate) name: OsString,
    /// The kernel's own link to an open file, such as `/dev/stdout`.
    pub(crate) is_open_file: bool,
    /// The other user whose links led here.
    pub(crate) link_owner: Option<u32>,
    /// Who could have this path lead to another folder.
    deciders: Deciders,
    /// The same, with the members of groups that may write a folder.
    with_groups: Deciders,
}

/// Who else than root decides something.
#[derive(Clone, Debug)]
pub(crate) struct Deciders {
    /// The bits of a mode by which others than the owner decide, too.
    writable: u32,
    /// Why another user does.
    any: Option<(PathBuf, &'static str)>,
    /// Why more than one does.
    many: Option<(PathBuf, &'static str)>,
    /// The first of them.
    user: Option<u32>,
}

impl Deciders {
    fn new(writable: u32) -> Self {
        Self { writable, any: None, many: None, user: None }
    }

    /// Those who can write this file or folder.
    pub(crate) fn add(&mut self, path: &Path, owner: u32, mode: u32) {
        let others = others_write(mode, self.writable);
        let why = match (is_roots(owner), others) {
            (_, true) => "can be written by others",
            (false, false) => "is another user's",
            (true, false) => return,
        };
        let reason = Some((path.to_owned(), why));
        let is_other = !is_roots(owner) && *self.user.get_or_insert(owner) != owner;
        if is_other || others {
            self.many = self.many.take().or_else(|| reason.clone());
        }
        self.any = self.any.take().or(reason);
    }

    /// Refuses what another user than root decides.
    pub(crate) fn check_none(&self) -> io::Result<()> {
        self.any.as_ref().map_or(Ok(()), |(place, why)| Err(refused(place, why)))
    }

    /// The one other user who decides, if there is one. Refuses what more than one decides.
    pub(crate) fn check_one(&self) -> io::Result<Option<u32>> {
        self.many.as_ref().map_or(Ok(self.user), |(place, why)| Err(refused(place, why)))
    }

    pub(crate) fn is_root(&self) -> bool {
        self.any.is_none()
    }

    /// Whether a file is of the one other user who decides.
    pub(crate) fn is_only(&self, owner: u32) -> bool {
        self.many.is_none() && self.user == Some(owner)
    }
}

#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) descriptor: OwnedFd,
    /// Without links.
    pub(crate) path: PathBuf,
    pub(crate) owner: u32,
    mode: u32,
}

/// Which links the walk follows as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    OfRoot,
    /// Those of another user, too: [`FolderEntry::link_owner`] says whose.
    OfOneUser,
}

impl FolderEntry {
    /// Finds the place. As another user than root the kernel follows all links to the folder.
    pub(crate) fn find(path: &Path, links: Links) -> io::Result<Self> {
        match is_root() {
            true => Self::walk(path, links),
            false => Self::named(path),
        }
    }

    fn named(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = Folder::open(CWD, parent.unwrap_or(Path::new(".")))?;
        let [deciders, with_groups] = [WRITABLE_FOR_ALL, WRITABLE].map(Deciders::new);
        Ok(Self { folder, name, is_open_file: false, link_owner: None, deciders, with_groups })
    }

    /// Finds the place as root does, whoever this is.
    pub(crate) fn walk(path: &Path, links: Links) -> io::Result<Self> {
        Walk::begin(&std::path::absolute(path)?)?.run(links)
    }

    /// Refuses a path that another user could have lead to another folder.
    pub(crate) fn check_path(&self) -> io::Result<()> {
        self.with_groups.check_none()
    }

    /// Who could have put another file here. A group that may write a folder of root's has that from root, and does not count.
    pub(crate) fn deciders(&self) -> Deciders {
        self.folder.deciders(&self.deciders)
    }

    /// The same, where groups count.
    pub(crate) fn deciders_with_groups(&self) -> Deciders {
        self.folder.deciders(&self.with_groups)
    }

    /// Whether root alone decides which file is here, and which other names it has there.
    pub(crate) fn is_closed(&self) -> bool {
        self.folder.is_closed() && self.deciders.is_root()
    }

    /// Opens it. The place itself is not followed if another user has put a link there meanwhile.
    pub(crate) fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.folder.descriptor, &self.name, flags | self.links() | OFlags::CLOEXEC, mode)
    }

    /// Looks at it, as [`Self::open`] would open it.
    pub(crate) fn look(&self) -> Result<Found, Errno> {
        Found::look(&self.folder.descriptor, &self.name, self.links())
    }

    fn links(&self) -> OFlags {
        if self.is_open_file { OFlags::empty() } else { OFlags::NOFOLLOW }
    }

    /// What is there, if anything is.
    pub(crate) fn stat(&self) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.folder.descriptor, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path.join(&self.name)
    }

    /// Whether this is the only name of a file that was opened by it, and was so since.
    ///
    /// The order counts. While a name is removed, the kernel counts it no longer and still shows it. Nobody reads the folder then.
    /// Once removed, it never leads to this open file again.
    pub(crate) fn is_only_name(&self, file: impl AsFd) -> io::Result<bool> {
        let names = rustix::fs::fstat(&file)?.st_nlink;
        self.folder.read_a_part()?;
        if let Some(link) = path_of(&file) {
            let path = rustix::fs::readlinkat(CWD, link, Vec::new())?;
            return Ok(names == 1 && path.to_bytes() == self.path().as_os_str().as_bytes());
        }
        let (file, there) = (rustix::fs::fstat(&file)?, self.stat()?);
        let is_there = there.is_some_and(|it| (it.st_dev, it.st_ino) == (file.st_dev, file.st_ino));
        Ok(names == 1 && is_there && file.st_nlink == 1)
    }
}

impl Folder {
    fn open(at: BorrowedFd<'_>, path: &Path) -> io::Result<Self> {
        let search = OFlags::from_name("PATH").unwrap_or(OFlags::RDONLY);
        let flags = search | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::openat(at, path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&descriptor)?;
        Ok(Self::of(descriptor, path.into(), &stat))
    }

    fn of(descriptor: OwnedFd, path: PathBuf, stat: &Stat) -> Self {
        Self { descriptor, path, owner: stat.st_uid, mode: mode_of(stat) }
    }

    /// Whether root alone decides what is in it.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_roots() && self.mode & WRITABLE == 0
    }

    pub(crate) fn is_roots(&self) -> bool {
        is_roots(self.owner)
    }

    fn deciders(&self, of_path: &Deciders) -> Deciders {
        let mut deciders = of_path.clone();
        deciders.add(&self.path, self.owner, self.mode);
        deciders
    }

    fn read_a_part(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&self.descriptor, ".", flags, Mode::empty())?;
        Dir::new(folder)?.next().transpose()?;
        Ok(())
    }
}

pub(crate) fn is_roots(owner: u32) -> bool {
    owner == 0
}

/// Whether others than the owner can write this file, or replace what the owner has in this folder.
fn others_write(mode: u32, writable: u32) -> bool {
    let is_sticky = FileType::from_raw_mode(mode as RawMode) == FileType::Directory && mode & STICKY != 0;
    mode & writable != 0 && !is_sticky
}

/// A path on its way.
struct Walk {
    /// The folders down to the present one.
    folders: Vec<Folder>,
    rest: VecDeque<OsString>,
    links: usize,
    link_owner: Option<u32>,
    deciders: [Deciders; 2],
}

impl Walk {
    fn begin(path: &Path) -> io::Result<Self> {
        let folders = vec![Folder::open(CWD, Path::new("/"))?];
        let deciders = [WRITABLE_FOR_ALL, WRITABLE].map(Deciders::new);
        let mut walk = Self { folders, rest: VecDeque::new(), links: 0, link_owner: None, deciders };
        walk.prepend(path);
        Ok(walk)
    }

    fn run(mut self, links: Links) -> io::Result<FolderEntry> {
        while let Some(name) = self.rest.pop_front() {
            if name == ".." {
                if self.folders.len() > 1 {
                    self.folders.pop();
                }
                continue;
            }
            let folder = self.folders.last().expect("the first is never taken away");
            let path = folder.path.join(&name);
            let found = match Found::find(&folder.descriptor, &name) {
                // It may be made.
                Err(Errno::NOENT) if self.rest.is_empty() => return self.end(name, false),
                found => found?,
            };
            match (found.kind(), self.rest.is_empty()) {
                (FileType::Symlink, is_last) => {
                    let filesystem = rustix::fs::fstatfs(&folder.descriptor)?;
                    let is_kernels = i128::from(filesystem.f_type) == PROC_SUPER_MAGIC;
                    match (is_kernels, is_last) {
                        (true, true) => return self.end(name, true),
                        // What it leads to has no path, or one that the kernel knows better.
                        (true, false) => {
                            let next = Folder::open(folder.descriptor.as_fd(), Path::new(&name))?;
                            self.folders.push(Folder { path, ..next });
                        }
                        (false, _) => self.follow(&found, &name, path, links)?,
                    }
                }
                (_, true) => return self.end(name, false),
                (FileType::Directory, false) => {
                    let stat = found.stat;
                    self.note_deciders(&path, stat.st_uid);
                    self.folders.push(Folder::of(found.into_folder()?, path, &stat));
                }
                (_, false) => return Err(Errno::NOTDIR.into()),
            }
        }
        // It ends with a folder.
        Err(Errno::ISDIR.into())
    }

    fn follow(&mut self, link: &Found, name: &OsStr, path: PathBuf, links: Links) -> io::Result<()> {
        let owner = link.stat.st_uid;
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        self.note_deciders(&path, owner);
        if !is_roots(owner) {
            let is_one_users = self.link_owner.is_none_or(|first| first == owner);
            if links == Links::OfRoot || !is_one_users {
                return Err(refused(&path, "is another user's link"));
            }
            self.link_owner = Some(owner);
        }
        let folder = self.folders.last().expect("the first is never taken away");
        let target = link.link_text(&folder.descriptor, name)?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            self.folders.truncate(1);
        }
        self.prepend(&target);
        Ok(())
    }

    /// Another user may have put this here: a folder or a link on the way.
    fn note_deciders(&mut self, path: &Path, owner: u32) {
        let folder = self.folders.last().expect("the first is never taken away");
        for deciders in &mut self.deciders {
            deciders.add(&folder.path, folder.owner, folder.mode);
            // In a sticky folder it depends on whose it is.
            if !folder.is_closed() {
                deciders.add(path, owner, 0);
            }
        }
    }

    fn prepend(&mut self, path: &Path) {
        for component in path.components().rev() {
            match component {
                Component::Normal(name) => self.rest.push_front(name.into()),
                Component::ParentDir => self.rest.push_front("..".into()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
    }

    fn end(mut self, name: OsString, is_open_file: bool) -> io::Result<FolderEntry> {
        let folder = self.folders.pop().expect("the first is never taken away");
        let Self { link_owner, deciders: [deciders, with_groups], .. } = self;
        Ok(FolderEntry { folder, name, is_open_file, link_owner, deciders, with_groups })
    }
}
