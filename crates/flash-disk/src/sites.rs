//! The sites of a disk, by their numbers. The first is opened at the start, each other one when a job needs it.
//!
//! So a server with many sites starts at once, and holds descriptors and tables only for those that are visited.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flash_core::root::Generation;
use flash_core::site_id::SiteId;
use rustix::io::Errno;

use crate::blocking::Blocking;
use crate::lookup_error::LookupError;
use crate::settings::SiteSettings;
use crate::site_root::{Opened, SiteRoots, open_root};

#[derive(Debug)]
pub(crate) struct Sites {
    first: SiteRoots,
    others: Vec<Site>,
    names_briefly: Duration,
}

/// A site that was perhaps not needed yet.
#[derive(Debug)]
struct Site {
    /// Where it lies, absolute.
    folder: PathBuf,
    settings: Arc<SiteSettings>,
    generation: Arc<Generation>,
    roots: OnceLock<SiteRoots>,
}

impl Sites {
    pub(crate) fn new(first: SiteRoots, names_briefly: Duration) -> Self {
        Self { first, others: Vec::new(), names_briefly }
    }

    /// Adds a site behind the others. Returns its generation.
    pub(crate) fn add(&mut self, folder: PathBuf, settings: Arc<SiteSettings>) -> Arc<Generation> {
        let generation = Arc::<Generation>::default();
        let roots = OnceLock::new();
        self.others.push(Site { folder, settings, generation: Arc::clone(&generation), roots });
        generation
    }

    pub(crate) fn first(&self) -> &SiteRoots {
        &self.first
    }

    /// The roots of a site that is open.
    pub(crate) fn get(&self, site: SiteId) -> Option<&SiteRoots> {
        match site.0.checked_sub(1) {
            None => Some(&self.first),
            Some(other) => self.others.get(other as usize)?.roots.get(),
        }
    }

    /// The sites that are open.
    pub(crate) fn opened(&self) -> impl Iterator<Item = SiteId> {
        let others = (1..).zip(&self.others).filter(|(_, site)| site.roots.get().is_some());
        [SiteId(0)].into_iter().chain(others.map(|(number, _)| SiteId(number)))
    }

    /// The roots of a site, which is opened if this thread may wait for any device.
    pub(crate) fn open(&self, site: SiteId, blocking: Blocking) -> Result<&SiteRoots, LookupError> {
        if let Some(roots) = self.get(site) {
            return Ok(roots);
        }
        let site = site.0.checked_sub(1).and_then(|other| self.others.get(other as usize));
        let site = site.ok_or(LookupError::Missing)?;
        match blocking {
            Blocking::Never => Err(LookupError::WouldBlock),
            Blocking::ThisDevice => Err(LookupError::Elsewhere),
            Blocking::Anywhere => {
                let error =
                    |error: io::Error| LookupError::of(Errno::from_io_error(&error).unwrap_or(Errno::IO));
                let roots =
                    open_root(&site.folder).and_then(|opened| self.beside(site, opened)).map_err(error)?;
                // Another helper may have been faster.
                Ok(site.roots.get_or_init(|| roots))
            }
        }
    }

    fn beside(&self, site: &Site, opened: Opened) -> io::Result<SiteRoots> {
        let (settings, generation) = (Arc::clone(&site.settings), Arc::clone(&site.generation));
        let beside = self.first.current();
        SiteRoots::open(&site.folder, opened, settings, self.names_briefly, generation, Some(&beside.root))
    }
}
