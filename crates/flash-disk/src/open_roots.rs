//! The folders of sites that are open. Sites and places that see the same folder share one root, with its descriptor.
//!
//! Which folder a site has, and when it is opened, is decided elsewhere.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::identity::{Identity, Opened};
use crate::root::Root;
use crate::settings::FollowLinks;

#[derive(Debug)]
pub(crate) struct OpenRoots {
    names_briefly: Duration,
    known: Mutex<Known>,
    generations: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    roots: HashMap<(Identity, FollowLinks), Weak<Root>>,
    /// When there are so many, those that are closed are forgotten.
    clean_at: usize,
}

impl OpenRoots {
    pub(crate) fn new(names_briefly: Duration) -> Self {
        Self { names_briefly, known: Mutex::default(), generations: AtomicU64::new(0) }
    }

    /// The root of this folder: the one that is open already, or another one. `beside` is any root of the same disk.
    pub(crate) fn root(
        &self,
        (folder, real_path): Opened,
        identity: Identity,
        follow_links: FollowLinks,
        beside: Option<&Root>,
    ) -> io::Result<Arc<Root>> {
        let key = (identity, follow_links);
        let known = |known: &Known| {
            let root = known.roots.get(&key)?.upgrade()?;
            // A folder that was renamed is looked at by its new name.
            (*root.real_path() == real_path).then_some(root)
        };
        if let Some(root) = known(&self.known()) {
            return Ok(root);
        }
        let root = Arc::new(Root::site(folder, real_path, follow_links, self.names_briefly, beside)?);
        let mut known = self.known();
        if known.roots.len() >= known.clean_at {
            known.roots.retain(|_, root| root.strong_count() > 0);
            known.clean_at = 2 * known.roots.len() + 16;
        }
        known.roots.insert(key, Arc::downgrade(&root));
        Ok(root)
    }

    /// The generation of the next root that a site of this disk gets. No two roots have the same one.
    pub(crate) fn next_generation(&self) -> u64 {
        self.generations.fetch_add(1, Ordering::Relaxed)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
