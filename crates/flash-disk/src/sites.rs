//! The sites of a disk, by their numbers. The first is opened at the start, each other one when a job needs it.
//!
//! So a server with many sites starts at once, and holds descriptors and tables only for those that are visited. Sites with the
//! same folder share its descriptor.
//!
//! The folders of open sites are watched: another thread looks at them, and at folders that could not be opened. A site that no job
//! asks for any more is idle instead. The next job that asks for it looks first, so it works in the right root.
//!
//! A reload puts other sites in their place. A site whose folder and settings are the same keeps its number and its roots. An
//! earlier site stays as long as a request holds its generation. Then the thread that reloads frees it, and no loop.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use flash_core::site::id::SiteId;
use flash_core::site::root::{Generation, OpenRoot};

use crate::blocking::Blocking;
use crate::identity::{Identity, Opened};
use crate::lookup_error::LookupError;
use crate::open_roots::OpenRoots;
use crate::settings::SiteSettings;
use crate::site_root::{OpensHere, RootChange, RootFault, RootOpener, SharedOpener, SiteParts, SiteRoots};

#[derive(Debug)]
pub(crate) struct Sites {
    table: ArcSwap<Table>,
    open: Arc<OpenRoots>,
    /// Those of the open sites that are not idle.
    watched: Mutex<BTreeSet<SiteId>>,
    /// What is told of a root that has changed.
    observer: OnceLock<RootObserver>,
    retired: Mutex<Retired>,
}

/// What was replaced, and may still be in use.
#[derive(Debug, Default)]
struct Retired {
    tables: Vec<Arc<Table>>,
    sites: Vec<Arc<Site>>,
}

/// Is told of each change of a root, with the site's folder as it was given.
pub(crate) struct RootObserver(pub(crate) Box<ObserveRoot>);

pub(crate) type ObserveRoot = dyn Fn(SiteId, &RootChange, &Path) + Send + Sync;

#[derive(Clone, Debug)]
struct Table {
    /// The first of the present sites, which is open.
    first: SiteId,
    /// In the order of their numbers.
    sites: Vec<(SiteId, Arc<Site>)>,
    /// Those of `sites` that were replaced, and may still be used.
    earlier: HashSet<SiteId>,
    next_id: u32,
}

/// A site that was perhaps not needed yet.
#[derive(Debug)]
struct Site {
    /// Where it lies, absolute.
    folder: Arc<Path>,
    settings: Arc<SiteSettings>,
    opener: SharedOpener,
    generation: Arc<Generation>,
    /// In a box, because most sites of many are not open.
    roots: OnceLock<Box<SiteRoots>>,
    /// Why the last attempt to open it failed.
    fault: Mutex<Option<RootFault>>,
}

/// The roots of a site that is open.
#[derive(Debug)]
pub(crate) struct OpenSite(Arc<Site>);

/// Sites that are to replace the present ones. See [`Disk::prepare_sites`](crate::Disk::prepare_sites).
#[derive(Debug)]
pub struct NextSites {
    table: Table,
    /// What opens the folders of sites that stay.
    openers: Vec<(Arc<Site>, Arc<dyn RootOpener>)>,
    /// The number of each site, and the generation of its root, in the order in which they were asked for.
    pub sites: Vec<(SiteId, Arc<Generation>)>,
}

impl fmt::Debug for RootObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RootObserver")
    }
}

impl Deref for OpenSite {
    type Target = SiteRoots;

    fn deref(&self) -> &SiteRoots {
        self.0.roots.get().expect("the site is open")
    }
}

impl Site {
    fn new(folder: Arc<Path>, settings: Arc<SiteSettings>, opener: Arc<dyn RootOpener>) -> Self {
        let opener = Arc::new(ArcSwap::from_pointee(opener));
        Self {
            folder,
            settings,
            opener,
            generation: Arc::default(),
            roots: OnceLock::new(),
            fault: Mutex::default(),
        }
    }

    /// Whether a request may still ask for it.
    fn is_used(&self) -> bool {
        // This site holds one, and so do its roots.
        let own = 1 + usize::from(self.roots.get().is_some());
        Arc::strong_count(&self.generation) > own
    }

    fn fault(&self) -> MutexGuard<'_, Option<RootFault>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, opened: Opened, open: &Arc<OpenRoots>, beside: Option<&OpenSite>) -> io::Result<()> {
        let beside = beside.map(|site| site.current());
        let parts = SiteParts {
            path: Arc::clone(&self.folder),
            settings: Arc::clone(&self.settings),
            open: Arc::clone(open),
            opener: Arc::clone(&self.opener),
            generation: Arc::clone(&self.generation),
        };
        let roots = SiteRoots::open(parts, opened, beside.as_ref().map(|beside| &*beside.root))?;
        // Another helper may have been faster. Then its root is the site's.
        self.roots.get_or_init(|| {
            self.generation.set(roots.current().generation());
            Box::new(roots)
        });
        Ok(())
    }
}

impl Sites {
    pub(crate) fn new(
        folder: &Path,
        opened: Opened,
        settings: Arc<SiteSettings>,
        names_briefly: Duration,
    ) -> io::Result<Self> {
        let open = Arc::new(OpenRoots::new(names_briefly));
        let site = Site::new(std::path::absolute(folder)?.into(), settings, Arc::new(OpensHere));
        site.open(opened, &open, None)?;
        let first = SiteId(0);
        let sites = vec![(first, Arc::new(site))];
        let table = Table { first, sites, earlier: HashSet::new(), next_id: 1 };
        let (watched, observer, retired) = (Mutex::new([first].into()), OnceLock::new(), Mutex::default());
        Ok(Self { table: ArcSwap::from_pointee(table), open, watched, observer, retired })
    }

    pub(crate) fn first(&self) -> OpenSite {
        let table = self.table.load();
        OpenSite(Arc::clone(table.get(table.first).expect("the first site is there")))
    }

    /// The roots of a site that is open.
    pub(crate) fn get(&self, site: SiteId) -> Option<OpenSite> {
        let table = self.table.load();
        table.get(site).filter(|site| site.roots.get().is_some()).map(Arc::clone).map(OpenSite)
    }

    /// The present sites that are open.
    pub(crate) fn opened(&self) -> Vec<SiteId> {
        let table = self.table.load();
        let present = table.sites.iter().filter(|(id, _)| !table.earlier.contains(id));
        present.filter(|(_, site)| site.roots.get().is_some()).map(|(id, _)| *id).collect()
    }

    /// Whether any of the present sites has such settings.
    pub(crate) fn any(&self, is_such: impl Fn(&SiteSettings) -> bool) -> bool {
        let table = self.table.load();
        let mut present = table.sites.iter().filter(|(id, _)| !table.earlier.contains(id));
        present.any(|(_, site)| is_such(&site.settings))
    }

    /// The roots of a site, which is opened if this thread may wait for any device.
    pub(crate) fn open(&self, site: SiteId, blocking: Blocking) -> Result<OpenSite, LookupError> {
        let found = self.table.load().get(site).map(Arc::clone).ok_or(LookupError::Missing)?;
        if found.roots.get().is_none() {
            match blocking {
                Blocking::Never => return Err(LookupError::WouldBlock),
                Blocking::ThisDevice => return Err(LookupError::Elsewhere),
                Blocking::Anywhere => {
                    let opened = self.open_first(site, &found);
                    // One that could not be opened is looked for, so that everybody knows when it can be.
                    self.watched().insert(site);
                    opened?;
                }
            }
        }
        Ok(OpenSite(found))
    }

    /// Opens the first root of a site.
    fn open_first(&self, site: SiteId, found: &Site) -> Result<(), LookupError> {
        let open = |opened| found.open(opened, &self.open, Some(&self.first()));
        let opened = found.opener.load().open(&found.folder).and_then(open);
        let mut fault = found.fault();
        let before = *fault;
        let (result, change) = match opened {
            Ok(()) => {
                *fault = None;
                let root = found.roots.get().filter(|_| before.is_some());
                (Ok(()), root.map(|roots| RootChange::Back(roots.current().real_path().into())))
            }
            Err(error) => {
                *fault = RootFault::of(&error).or(before);
                let result = Err(LookupError::of_root(&error));
                let change = match *fault {
                    now if now == before => None,
                    Some(RootFault::Gone) => Some(RootChange::Gone),
                    _ => Some(RootChange::Unopened(error)),
                };
                (result, change)
            }
        };
        drop(fault);
        if let Some(change) = change {
            self.tell(site, &change, &found.folder);
        }
        result
    }

    /// The folders of sites with which something is wrong, and what.
    pub(crate) fn faults(&self) -> Vec<(PathBuf, &'static str)> {
        let table = self.table.load();
        let present = table.sites.iter().filter(|(id, _)| !table.earlier.contains(id));
        let fault = |site: &Site| match site.roots.get() {
            Some(roots) => roots.fault(),
            None => *site.fault(),
        };
        present.filter_map(|(_, site)| Some((site.folder.to_path_buf(), fault(site)?.why()))).collect()
    }

    /// The same for a job. If the site is idle, this thread looks first where its folder leads now.
    pub(crate) fn ask(&self, site: SiteId, blocking: Blocking) -> Result<OpenSite, LookupError> {
        let found = self.open(site, blocking)?;
        if found.ask() {
            return Ok(found);
        }
        match blocking {
            Blocking::Never => Err(LookupError::WouldBlock),
            // The way to the folder may lead over any device.
            Blocking::ThisDevice => Err(LookupError::Elsewhere),
            Blocking::Anywhere => {
                found.look_after_idling(|change| self.tell(site, change, found.path()));
                let mut watched = self.watched();
                found.wake();
                watched.insert(site);
                drop(watched);
                Ok(found)
            }
        }
    }

    /// Looks at the folder of a site that is open, or opens one that could not be opened before.
    pub(crate) fn look(&self, site: SiteId) {
        let found = self.table.load().get(site).map(Arc::clone);
        let Some(found) = found else { return };
        match found.roots.get() {
            Some(roots) => {
                if let Some(change) = roots.look() {
                    self.tell(site, &change, roots.path());
                }
            }
            None if Identity::at(&found.folder).is_ok() => _ = self.open_first(site, &found),
            None => {}
        }
    }

    pub(crate) fn observe_roots(&self, observer: RootObserver) {
        let _ = self.observer.set(observer);
    }

    fn tell(&self, site: SiteId, change: &RootChange, folder: &Path) {
        if let Some(RootObserver(observe)) = self.observer.get() {
            observe(site, change, folder);
        }
    }

    /// The sites that are to be looked at.
    pub(crate) fn watched_ids(&self) -> Vec<SiteId> {
        let mut watched = self.watched();
        watched.retain(|site| self.is_present(*site));
        watched.iter().copied().collect()
    }

    /// Those sites are idle from now on that no job has asked for since `calls` calls of this, if they `may`. What is local can be
    /// looked at when it is asked for. A device that hangs would hold that job up.
    pub(crate) fn idle_unasked(&self, calls: u32, may: impl Fn(SiteId) -> bool) {
        self.watched().retain(|site| {
            let Some(roots) = self.get(*site) else { return true };
            // One that is gone is looked for, so that everybody knows when it is back.
            let is_well = || roots.fault().is_none();
            !roots.count_unasked(calls, || may(*site) && is_well() && roots.current().looks_now())
        });
    }

    fn watched(&self) -> MutexGuard<'_, BTreeSet<SiteId>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds each of these sites among the present ones, or makes it. Opens the first.
    pub(crate) fn prepare(
        &self,
        wanted: Vec<(Arc<Path>, Arc<SiteSettings>)>,
        opener: impl Fn(usize) -> Arc<dyn RootOpener>,
    ) -> io::Result<NextSites> {
        let before = self.table.load_full();
        let mut table = Table::clone(&before);
        let mut left: HashMap<&Path, Vec<SiteId>> = HashMap::new();
        for (id, site) in before.sites.iter().filter(|(id, _)| !before.earlier.contains(id)) {
            left.entry(&site.folder).or_default().push(*id);
        }
        // In a fixed order, so that a look-up for the same sites has the same result.
        left.values_mut().for_each(|ids| ids.sort_unstable_by(|one, other| other.cmp(one)));
        let mut openers = Vec::new();
        let mut take = |(number, (folder, settings)): (usize, (Arc<Path>, Arc<SiteSettings>))| {
            let is_same =
                |known: &Site| Arc::ptr_eq(&known.settings, &settings) || *known.settings == *settings;
            let is_same = |id: &SiteId| before.get(*id).is_some_and(|known| is_same(known));
            let known = left.get_mut(&*folder).and_then(|ids| {
                let place = ids.iter().rposition(is_same)?;
                Some(ids.remove(place))
            });
            match known.and_then(|id| Some((id, before.get(id)?))) {
                Some((id, site)) => {
                    openers.push((Arc::clone(site), opener(number)));
                    (id, Arc::clone(&site.generation))
                }
                None => table.add(Site::new(folder, settings, opener(number))),
            }
        };
        let sites: Vec<_> = wanted.into_iter().enumerate().map(&mut take).collect();
        table.sites.shrink_to_fit();
        table.earlier.extend(left.into_values().flatten());
        if let Some((first, _)) = sites.first() {
            table.first = *first;
            let site = table.get(*first).expect("it was found, or made");
            if site.roots.get().is_none() {
                let opened = opener(0).open(&site.folder)?;
                site.open(opened, &self.open, Some(&self.first()))?;
            }
        }
        Ok(NextSites { table, openers, sites })
    }

    /// From now on these are the sites. To be called by the thread that prepared them.
    pub(crate) fn replace(&self, next: NextSites) {
        for (site, opener) in next.openers {
            site.opener.store(Arc::new(opener));
        }
        // It was opened when the sites were prepared.
        self.watched().insert(next.table.first);
        let before = self.table.swap(Arc::new(next.table));
        self.retired().tables.push(before);
    }

    /// Forgets earlier sites that no request uses any more. Returns whether something is left. Closing their folders may be disk
    /// work. To be called by the thread that replaces them.
    pub(crate) fn forget_unused(&self) -> bool {
        let mut retired = self.retired();
        let before = self.table.load_full();
        if before.earlier.iter().any(|id| before.get(*id).is_none_or(|site| !site.is_used())) {
            let mut table = Table::clone(&before);
            let Table { sites, earlier, .. } = &mut table;
            sites.retain(|(id, site)| {
                let is_kept = !earlier.contains(id) || site.is_used();
                if !is_kept {
                    earlier.remove(id);
                    retired.sites.push(Arc::clone(site));
                }
                is_kept
            });
            retired.tables.push(self.table.swap(Arc::new(table)));
        }
        drop(before);
        // A loop may hold one for a moment. The last reference is always here.
        retired.tables.retain(|table| Arc::strong_count(table) > 1);
        retired.sites.retain(|site| Arc::strong_count(site) > 1);
        !(retired.tables.is_empty() && retired.sites.is_empty() && self.table.load().earlier.is_empty())
    }

    fn retired(&self) -> MutexGuard<'_, Retired> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the site is one of the present ones.
    pub(crate) fn is_present(&self, site: SiteId) -> bool {
        let table = self.table.load();
        table.get(site).is_some() && !table.earlier.contains(&site)
    }
}

impl Table {
    fn get(&self, id: SiteId) -> Option<&Arc<Site>> {
        let found = self.sites.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&self.sites[found].1)
    }

    fn add(&mut self, site: Site) -> (SiteId, Arc<Generation>) {
        let (id, generation) = (SiteId(self.next_id), Arc::clone(&site.generation));
        self.next_id += 1;
        // Numbers grow.
        self.sites.push((id, Arc::new(site)));
        (id, generation)
    }
}
