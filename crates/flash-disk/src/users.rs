//! Users' own folders, `/~name/`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flash_os::user;

use crate::root::{Root, Stop};
use crate::{FollowLinks, Pace};

#[derive(Debug)]
pub(crate) struct Users {
    folder: Vec<u8>,
    follow_links: FollowLinks,
    roots: Mutex<HashMap<Vec<u8>, Arc<Root>>>,
}

/// Beyond this many users at a time, the folders are opened anew.
const ROOTS_MAX: usize = 1024;

impl Users {
    pub(crate) fn new(folder: Vec<u8>, follow_links: FollowLinks) -> Self {
        Self { folder, follow_links, roots: Mutex::default() }
    }

    pub(crate) fn root(&self, name: &[u8], pace: Pace) -> Result<Arc<Root>, Stop> {
        let known = match pace {
            // Whoever must not wait does not wait for a lock either.
            Pace::Now => self.roots.try_lock().ok(),
            Pace::Patient => Some(self.lock()),
        };
        if let Some(root) = known.and_then(|roots| roots.get(name).map(Arc::clone)) {
            return Ok(root);
        }
        if pace == Pace::Now {
            return Err(Stop::WouldBlock);
        }
        // The superuser's home is nobody's web site.
        let user = user::named(name).filter(|user| user.id != 0).ok_or(Stop::Missing)?;
        let folder = user.home.join(OsStr::from_bytes(&self.folder));
        let root = Arc::new(Root::open(&folder, self.follow_links).map_err(|_| Stop::Missing)?);
        let mut roots = self.lock();
        if roots.len() >= ROOTS_MAX {
            roots.clear();
        }
        roots.insert(name.to_vec(), Arc::clone(&root));
        Ok(root)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<Root>>> {
        self.roots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
