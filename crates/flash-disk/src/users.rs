//! Users' own folders, `/~name/`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flash_core::path::SitePath;
use flash_os::user;

use crate::blocking::Blocking;
use crate::lookup_error::LookupError;
use crate::mounts::{Device, Mounts};
use crate::names::NameTables;
use crate::root::Root;
use crate::settings::FollowLinks;

#[derive(Debug)]
pub(crate) struct Users {
    folder: Vec<u8>,
    follow_links: FollowLinks,
    mounts: Arc<Mounts>,
    names: Arc<NameTables>,
    roots: Mutex<HashMap<Vec<u8>, Arc<Root>>>,
}

/// If there are more users, all folders are opened again.
const ROOTS_MAX: usize = 1024;

impl Users {
    /// The users of the site with this root.
    pub(crate) fn new(folder: Vec<u8>, follow_links: FollowLinks, site: &Root) -> Self {
        let (mounts, names) = (Arc::clone(site.mounts()), Arc::clone(site.names()));
        Self { folder, follow_links, mounts, names, roots: Mutex::default() }
    }

    pub(crate) fn root(&self, name: &[u8], blocking: Blocking) -> Result<Arc<Root>, LookupError> {
        let known = match blocking {
            Blocking::Never => self.known(name),
            Blocking::ThisDevice | Blocking::Anywhere => self.lock().get(name).map(Arc::clone),
        };
        if let Some(root) = known {
            return Ok(root);
        }
        match blocking {
            Blocking::Never => return Err(LookupError::WouldBlock),
            // A home may be on any device.
            Blocking::ThisDevice => return Err(LookupError::Elsewhere),
            Blocking::Anywhere => {}
        }
        // The superuser's home is never served.
        let user = user::named(name).filter(|user| user.id != 0).ok_or(LookupError::Missing)?;
        let folder = user.home.join(OsStr::from_bytes(&self.folder));
        let root = Root::home(&folder, self.follow_links, Arc::clone(&self.mounts), Arc::clone(&self.names));
        let root = Arc::new(root.map_err(|_| LookupError::Missing)?);
        let mut roots = self.lock();
        if roots.len() >= ROOTS_MAX {
            roots.clear();
        }
        roots.insert(name.to_vec(), Arc::clone(&root));
        Ok(root)
    }

    /// The device that this name in a user's folder is on. A folder that was not opened yet may be on any device.
    pub(crate) fn device_of(&self, user: &[u8], name: &[u8]) -> Device {
        self.known(user).map_or(Device::ELSEWHERE, |root| root.device_of(name))
    }

    /// A user's folder that is open. A thread that must not wait does not wait for the lock either.
    fn known(&self, user: &[u8]) -> Option<Arc<Root>> {
        self.roots.try_lock().ok()?.get(user).map(Arc::clone)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<Root>>> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `/~name/rest`: the name, and the rest below that user's folder.
pub(crate) fn user_of<'a>(path: &'a SitePath<'_>) -> Option<(&'a [u8], &'a [u8])> {
    let rest = path.relative().strip_prefix(b"~")?;
    let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
    let (user, below) = rest.split_at(end);
    (!user.is_empty()).then(|| (user, below.strip_prefix(b"/").unwrap_or(below)))
}
