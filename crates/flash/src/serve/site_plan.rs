//! A site of the server, worked out of its flags before anybody listens.
//!
//! Sites with equal flags share all but their folders and hosts. With `--config` there may be many of them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use flash_core::header::HeaderTemplate;
use flash_core::hosts::HostName;
use flash_core::memory_budget::Budget;
use flash_core::page::Pages;
use flash_core::root::Generation;
use flash_core::site::{Site, SiteSettings};
use flash_core::site_id::SiteId;
use flash_disk::FollowLinks;

use super::folders::PUBLIC_FOLDER;
use super::programs::{Programs, document_root};
use super::{denied, fallback, response_extras};
use crate::failure::Failure;
use crate::flags;

pub(super) struct SitePlan {
    pub(super) folder: PathBuf,
    hosts: Vec<HostName>,
    pub(super) common: Rc<Common>,
}

/// What sites with equal flags share.
pub(super) struct Common {
    settings: SiteSettings,
    template: Arc<HeaderTemplate>,
    pages: Arc<Pages>,
    pub(super) disk: Arc<flash_disk::SiteSettings>,
    pub(super) programs: Programs,
}

/// The sites that the flags and the configuration file name; one in `folder`, if no file names any.
pub(super) fn all(flags: &flags::Serve, folder: &Path) -> Result<Vec<SitePlan>, Failure> {
    if flags.sites.is_empty() {
        let common = Rc::new(Common::new(flags, folder, 0)?);
        fallback::check(flags, &common.programs, folder)?;
        return Ok(vec![SitePlan { folder: folder.into(), hosts: vec![HostName::Any], common }]);
    }
    let mut known: HashMap<*const flags::Serve, Rc<Common>> = HashMap::new();
    let mut routes = 0;
    let mut plan = |site: &flags::SiteFlags| {
        let common = match known.get(&Rc::as_ptr(&site.flags)) {
            Some(common) => Rc::clone(common),
            None => {
                let common = Rc::new(Common::new(&site.flags, &site.root, routes)?);
                routes += common.programs.len();
                known.insert(Rc::as_ptr(&site.flags), Rc::clone(&common));
                common
            }
        };
        fallback::check(&site.flags, &common.programs, &site.root)?;
        Ok(SitePlan { folder: site.root.clone(), hosts: site.hosts.clone(), common })
    };
    flags.sites.iter().map(&mut plan).collect()
}

/// The programs of all sites, in the order of their routes.
pub(super) fn programs(sites: &[SitePlan]) -> Vec<&Programs> {
    let mut known = HashSet::new();
    let mut is_new = |site: &&SitePlan| known.insert(Rc::as_ptr(&site.common));
    sites.iter().filter(|site| is_new(site)).map(|site| &site.common.programs).collect()
}

impl SitePlan {
    /// The site with this number. `answers` is the memory of all sites for what programs answer.
    pub(super) fn site(
        &self,
        number: u32,
        generation: Arc<Generation>,
        answers: &Arc<Budget>,
    ) -> (Site, Vec<HostName>) {
        let Common { settings, template, pages, programs, .. } = &*self.common;
        let site = Site {
            id: SiteId(number),
            settings: settings.clone(),
            template: Arc::clone(template),
            pages: Arc::clone(pages),
            generation,
            routes: programs.routes(&document_root(&self.folder), answers),
        };
        (site, self.hosts.clone())
    }
}

impl Common {
    /// `routes` are those of the sites before.
    fn new(flags: &flags::Serve, folder: &Path, routes: usize) -> Result<Self, Failure> {
        let programs = Programs::prepare(flags, folder, routes)?;
        let template = Arc::new(response_extras::template(flags));
        let pages = response_extras::pages(flags)?;
        response_extras::check_fields(flags)?;
        let settings = SiteSettings {
            body_bytes_max: flags.body_bytes_max,
            dotfiles: flags.dotfiles,
            deny: flags.deny.iter().cloned().collect(),
            list: flags.list,
            fallback: fallback::of(flags, &programs),
            own_missing_page: !pages.has_missing(),
        };
        let disk = Arc::new(disk(flags, &programs, &template));
        Ok(Self { settings, template, pages: Arc::new(pages), disk, programs })
    }
}

fn disk(flags: &flags::Serve, programs: &Programs, template: &HeaderTemplate) -> flash_disk::SiteSettings {
    flash_disk::SiteSettings {
        index: indexes(flags),
        follow_links: match flags.follow_links {
            flags::FollowLinks::Inside => FollowLinks::Inside,
            flags::FollowLinks::Anywhere => FollowLinks::Anywhere,
        },
        precompressed: !flags.no_precompressed,
        scripts: programs.suffixes(),
        program_folders: programs.folders().to_vec(),
        no_programs: flags.programs.no_programs.iter().cloned().collect(),
        deny: denied::paths(flags, programs),
        user_dirs: flags.user_dirs.then(|| PUBLIC_FOLDER.into()),
        dotfiles: flags.dotfiles,
        template: template.clone(),
    }
}

fn indexes(flags: &flags::Serve) -> Vec<Vec<u8>> {
    let names = match &flags.index[..] {
        [] => flags.programs.indexes(),
        asked => asked.to_vec(),
    };
    names.into_iter().map(String::into_bytes).collect()
}
