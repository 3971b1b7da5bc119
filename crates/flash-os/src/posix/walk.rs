//! Walks a name part by part.
//!
//! No call follows a link: each part is opened with `O_NOFOLLOW`, and the text of a link is walked as part of the name. So what
//! somebody renames or replaces meanwhile leads nowhere else. A folder that is moved while the walk is in it would take the walk
//! along; so at the end each folder has to lie where it was entered. For `..` the walk goes back to the folder that it came from.
//!
//! Links in the filesystem of processes are refused where made-up ones are: nothing tells them from others there.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, readlinkat, stat, statat};
use rustix::io::Errno;

use crate::file_stat;
use crate::system::walk::{MADE_UP, PLACE, SEARCH};
use crate::walk::Resolve;

/// As many as Linux follows.
const LINKS_MAX: usize = 40;
/// With its end, as Linux has it.
const NAME_BYTES_MAX: usize = 4096;

/// Opens what `name` leads to, as [`crate::walk::open`].
pub(crate) fn open(
    folder: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    resolve: Resolve,
) -> Result<OwnedFd, Errno> {
    match name {
        [] => return Err(Errno::NOENT),
        [b'/', ..] if resolve.contains(Resolve::BENEATH) => return Err(Errno::XDEV),
        _ if name.len() >= NAME_BYTES_MAX => return Err(Errno::NAMETOOLONG),
        _ => {}
    }
    let is_bound = resolve.contains(Resolve::NO_XDEV);
    let mount = is_bound.then(|| file_stat::walked(folder)).transpose()?.and_then(|stat| stat.mount);
    Walk { folder, entered: Vec::new(), links: 0, mount, resolve }.run(name.to_vec(), flags)
}

struct Walk<'f> {
    folder: BorrowedFd<'f>,
    /// The folders on the way. If the walk may leave the first one, only the last is kept.
    entered: Vec<OwnedFd>,
    links: usize,
    /// Where it has to stay.
    mount: Option<u64>,
    resolve: Resolve,
}

/// What became of a part of the name.
enum Opened {
    Place(OwnedFd),
    /// A link, with this text.
    Link(Vec<u8>),
}

impl Walk<'_> {
    fn run(mut self, mut rest: Vec<u8>, flags: OFlags) -> Result<OwnedFd, Errno> {
        loop {
            if rest.first() == Some(&b'/') {
                self.go_to_top()?;
            }
            let Some(start) = rest.iter().position(|&byte| byte != b'/') else {
                return self.finish(b".", flags);
            };
            rest.drain(..start);
            let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            let is_last = after.iter().all(|&byte| byte == b'/');
            let opened = match part {
                b"." if is_last => return self.finish(part, flags | OFlags::DIRECTORY),
                b"." => None,
                b".." => {
                    self.go_up()?;
                    if is_last {
                        return self.finish(b".", flags | OFlags::DIRECTORY);
                    }
                    None
                }
                _ if is_last => {
                    let flags = if after.is_empty() { flags } else { flags | OFlags::DIRECTORY };
                    Some(self.open_last(part, flags)?)
                }
                _ => Some(self.open_folder(part)?),
            };
            match opened {
                Some(Opened::Place(place)) if is_last => return self.admit(place),
                Some(Opened::Place(folder)) => self.enter(folder)?,
                Some(Opened::Link(text)) => {
                    self.check_link(&text)?;
                    rest = [&*text, after].concat();
                    continue;
                }
                None => {}
            }
            // The slashes that follow belong to this part.
            rest = after.iter().copied().skip_while(|&byte| byte == b'/').collect();
        }
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.entered.last().map_or(self.folder, AsFd::as_fd)
    }

    fn is_beneath(&self) -> bool {
        self.resolve.contains(Resolve::BENEATH)
    }

    fn enter(&mut self, folder: OwnedFd) -> Result<(), Errno> {
        self.check_mount(folder.as_fd())?;
        if !self.is_beneath() {
            self.entered.clear();
        }
        self.entered.push(folder);
        Ok(())
    }

    fn go_to_top(&mut self) -> Result<(), Errno> {
        // The top may be on another mount, and Linux seldom looks whether it is.
        if self.is_beneath() || self.mount.is_some() {
            return Err(Errno::XDEV);
        }
        let top = openat(CWD, "/", SEARCH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        self.enter(top)
    }

    fn go_up(&mut self) -> Result<(), Errno> {
        if !self.is_beneath() {
            let flags = SEARCH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let above = openat(self.here(), "..", flags, Mode::empty())?;
            return self.enter(above);
        }
        if self.entered.is_empty() {
            return Err(Errno::XDEV);
        }
        self.check_above(self.entered.len() - 1)?;
        self.entered.pop();
        Ok(())
    }

    /// Opens a part of the name that is not the last.
    fn open_folder(&self, part: &[u8]) -> Result<Opened, Errno> {
        let flags = SEARCH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(self.here(), part, flags, Mode::empty()) {
            Ok(folder) => Ok(Opened::Place(folder)),
            Err(error) => self.read_link(part, error),
        }
    }

    fn open_last(&self, part: &[u8], flags: OFlags) -> Result<Opened, Errno> {
        let is_followed = !flags.contains(OFlags::NOFOLLOW);
        match openat(self.here(), part, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(place) if is_followed && flags.contains(PLACE) && is_link(&place)? => {
                self.read_link(part, Errno::AGAIN)
            }
            Ok(place) => Ok(Opened::Place(place)),
            Err(error) if is_followed => self.read_link(part, error),
            Err(error) => Err(error),
        }
    }

    /// The text of a link that was not opened, because of this error if it is none.
    fn read_link(&self, part: &[u8], error: Errno) -> Result<Opened, Errno> {
        // Systems differ in what they say of a link that they do not follow.
        if !matches!(error, Errno::LOOP | Errno::NOTDIR | Errno::MLINK | Errno::AGAIN) {
            return Err(error);
        }
        match readlinkat(self.here(), part, Vec::new()) {
            Ok(text) => Ok(Opened::Link(text.into_bytes())),
            // It was replaced meanwhile.
            Err(Errno::INVAL | Errno::NOENT) if error != Errno::NOTDIR => Err(Errno::AGAIN),
            Err(_) => Err(error),
        }
    }

    fn check_link(&mut self, text: &[u8]) -> Result<(), Errno> {
        self.links += 1;
        let is_refused = self.resolve.contains(Resolve::NO_SYMLINKS)
            || self.resolve.contains(Resolve::NO_MAGICLINKS)
                && made_up().is_some_and(|device| fstat(self.here()).is_ok_and(|stat| stat.st_dev == device));
        match text {
            _ if is_refused || self.links > LINKS_MAX => Err(Errno::LOOP),
            [] => Err(Errno::NOENT),
            _ => Ok(()),
        }
    }

    fn check_mount(&self, place: BorrowedFd<'_>) -> Result<(), Errno> {
        match self.mount {
            Some(_) if file_stat::walked(place)?.mount != self.mount => Err(Errno::XDEV),
            _ => Ok(()),
        }
    }

    fn finish(self, part: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let place = openat(self.here(), part, flags, Mode::empty())?;
        self.admit(place)
    }

    /// What was opened at the end, if the walk was where it had to be.
    fn admit(self, place: OwnedFd) -> Result<OwnedFd, Errno> {
        self.check_mount(place.as_fd())?;
        if self.is_beneath() {
            (0..self.entered.len()).rev().try_for_each(|at| self.check_above(at))?;
        }
        Ok(place)
    }

    /// Whether this folder lies in the one that the walk came from.
    fn check_above(&self, at: usize) -> Result<(), Errno> {
        let above = statat(&self.entered[at], "..", AtFlags::empty())?;
        let before = fstat(at.checked_sub(1).map_or(self.folder, |at| self.entered[at].as_fd()))?;
        let is_same = (above.st_dev, above.st_ino) == (before.st_dev, before.st_ino);
        if is_same { Ok(()) } else { Err(Errno::AGAIN) }
    }
}

fn is_link(place: &OwnedFd) -> Result<bool, Errno> {
    Ok(FileType::from_raw_mode(fstat(place)?.st_mode) == FileType::Symlink)
}

/// The device of the links that the system makes up.
fn made_up() -> Option<libc::dev_t> {
    static DEVICE: OnceLock<Option<libc::dev_t>> = OnceLock::new();
    *DEVICE.get_or_init(|| Some(stat(MADE_UP?).ok()?.st_dev))
}

#[cfg(test)]
mod tests;
