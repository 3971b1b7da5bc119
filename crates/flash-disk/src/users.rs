//! Users' own folders, `/~name/`.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flash_core::path::SitePath;
use flash_core::record::refusal::Refusal;
use flash_os::user::{self, User};
use flash_os::walk::{self, Resolve};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::blocking::Blocking;
use crate::identity::{Opened, open_root, real_path};
use crate::lookup_error::LookupError;
use crate::mounts::{Device, Mounts};
use crate::names::NameTables;
use crate::open_at::{open_at, persist};
use crate::root::Root;
use crate::settings::FollowLinks;
use crate::stat::examine;

#[derive(Debug)]
pub(crate) struct Users {
    folder: Vec<u8>,
    follow_links: FollowLinks,
    mounts: Arc<Mounts>,
    names: Arc<NameTables>,
    roots: Mutex<HashMap<Vec<u8>, Known>>,
}

/// A user's folder, and when it was last looked for.
#[derive(Clone, Debug)]
struct Known {
    root: Arc<Root>,
    opened: Instant,
}

/// If there are more users, all folders are opened again.
const ROOTS_MAX: usize = 1024;
/// A folder that its user has replaced or withdrawn, and a user who is gone, is noticed within this time.
const LOOK_EVERY: Duration = Duration::from_secs(10);

impl Users {
    /// The users of the site with this root.
    pub(crate) fn new(folder: Vec<u8>, follow_links: FollowLinks, site: &Root) -> Self {
        let (mounts, names) = (Arc::clone(site.mounts()), Arc::clone(site.names()));
        Self { folder, follow_links, mounts, names, roots: Mutex::default() }
    }

    pub(crate) fn root(&self, name: &[u8], blocking: Blocking) -> Result<Arc<Root>, LookupError> {
        let known = match blocking {
            Blocking::Never => self.known(name),
            Blocking::ThisDevice | Blocking::Anywhere => self.lock().get(name).cloned(),
        };
        if let Some(known) = known.as_ref().filter(|known| known.opened.elapsed() < LOOK_EVERY) {
            return Ok(Arc::clone(&known.root));
        }
        match blocking {
            Blocking::Never => return Err(LookupError::WouldBlock),
            // A home may be on any device.
            Blocking::ThisDevice => return Err(LookupError::Elsewhere),
            Blocking::Anywhere => {}
        }
        let opened = Instant::now();
        let root = self.open(name, known.as_ref().map(|known| &*known.root));
        let mut roots = self.lock();
        match &root {
            Ok(_) if roots.len() >= ROOTS_MAX => roots.clear(),
            Ok(_) => {}
            Err(_) => drop(roots.remove(name)),
        }
        let root = root?.or_else(|| known.map(|known| known.root)).ok_or(LookupError::Missing)?;
        roots.insert(name.to_vec(), Known { root: Arc::clone(&root), opened });
        Ok(root)
    }

    /// The folder that the user has now. `None` if it is the known one.
    fn open(&self, name: &[u8], known: Option<&Root>) -> Result<Option<Arc<Root>>, LookupError> {
        let user = user::named(name).ok_or(LookupError::Missing)?;
        let opened = open_folder(&user, &self.folder).map_err(|error| match error {
            // A closed home does not tell that there is such a user.
            LookupError::Forbidden(Refusal::Permission) => LookupError::Missing,
            error => error,
        })?;
        if known.is_some_and(|known| known.is_home(&opened, user.id)) {
            return Ok(None);
        }
        let (mounts, names) = (Arc::clone(&self.mounts), Arc::clone(&self.names));
        let root = Root::home(opened, user.id, self.follow_links, mounts, names);
        root.map(|root| Some(root.into())).map_err(|_| LookupError::Missing)
    }

    /// The device that this name in a user's folder is on. A folder that was not opened yet may be on any device.
    pub(crate) fn device_of(&self, user: &[u8], name: &[u8]) -> Device {
        self.known(user).map_or(Device::ELSEWHERE, |known| known.root.device_of(name))
    }

    /// A user's folder that is open. A thread that must not wait does not wait for the lock either.
    fn known(&self, user: &[u8]) -> Option<Known> {
        self.roots.try_lock().ok()?.get(user).cloned()
    }

    /// As if the time had passed after which folders are looked for again.
    #[cfg(test)]
    pub(crate) fn age(&self) {
        self.lock().values_mut().for_each(|known| known.opened -= LOOK_EVERY);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Known>> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the folder of that name in a user's home. It is the user's own, or a folder that everyone may read. Behind a link it
/// is the user's own. The superuser has none.
fn open_folder(user: &User, name: &[u8]) -> Result<Opened, LookupError> {
    if user.id == 0 || !user.home.is_absolute() {
        return Err(LookupError::Missing);
    }
    let error = |error: io::Error| LookupError::of(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    let (home, _) = open_root(&user.home).map_err(error)?;
    let open = |resolve| persist(|| open_at(home.as_fd(), name, walk::SEARCH | OFlags::DIRECTORY, resolve));
    let (folder, is_linked) = match open(Resolve::NO_SYMLINKS) {
        Err(Errno::LOOP) => (open(Resolve::NO_MAGICLINKS), true),
        folder => (folder, false),
    };
    let folder = folder.map_err(LookupError::of)?;
    let stat = examine(&folder)?;
    if stat.owner != user.id && (is_linked || !stat.is_public) {
        return Err(LookupError::Forbidden(Refusal::NotTheUsers));
    }
    let real_path = real_path(&folder).map_err(error)?;
    Ok((folder, real_path))
}

/// The folders of this name that are served of users' homes, of all users that can be listed.
pub fn users_folders(name: &[u8]) -> Vec<OwnedFd> {
    let opened = user::all().into_iter().filter_map(|user| open_folder(&user, name).ok());
    opened.map(|(folder, _)| folder).collect()
}

/// `/~name/rest`: the name, and the rest below that user's folder.
pub(crate) fn user_of<'a>(path: &'a SitePath<'_>) -> Option<(&'a [u8], &'a [u8])> {
    let rest = path.relative().strip_prefix(b"~")?;
    let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
    let (user, below) = rest.split_at(end);
    (!user.is_empty()).then(|| (user, below.strip_prefix(b"/").unwrap_or(below)))
}
