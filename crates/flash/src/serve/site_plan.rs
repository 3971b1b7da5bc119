//! The sites of the server and their places, worked out of the flags before anybody listens.
//!
//! Rules with equal flags share all but their folders. Rules that lead to files in the same way have one number, and so share
//! what is cached. With `--config` there may be many sites.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flash_auth::{PasswordFile, SignedLinks, Successes};
use flash_core::clients::Rates;
use flash_core::file::header::HeaderTemplate;
use flash_core::listing::Texts;
use flash_core::record::log_choice::{LogChoice, LogNumber};
use flash_core::site::access::AccessRules;
use flash_core::site::configuration_number::ConfigurationNumber;
use flash_core::site::field_rules::FieldRules;
use flash_core::site::hosts::{self, HostName, Hosts, Views};
use flash_core::site::id::SiteId;
use flash_core::site::methods::Methods;
use flash_core::site::page::Pages;
use flash_core::site::places::{PlaceName, PlaceNames, Places};
use flash_core::site::private_root::PrivateRoot;
use flash_core::site::redirect::Redirect;
use flash_core::site::redirect_table::RedirectTable;
use flash_core::site::routes::RouteMatch;
use flash_core::site::{Site, SiteSettings};
use flash_core::upstream::Upstreams;
use flash_disk::{FollowLinks, NextSites};
use flash_http::negotiate::CodingSet;
use flash_observe::metrics::MetricsMemory;

use super::certificates::Certificates;
use super::folders::{PUBLIC_FOLDER, indexes};
use super::log_numbers::LogNumbers;
use super::named_files::{OpenNamed, ReadNamed, Secrets};
use super::programs::runnable::Runnable;
use super::programs::{Programs, document_root};
use super::response_budgets::ResponseBudgets;
use super::{access, denied, fallback, lists, reachable, response_extras};
use crate::failure::Failure;
use crate::flags::{self, Denial, FieldFile, Respond, Signed};

/// All sites.
pub(super) struct SitePlans {
    sites: Arc<[SitePlan]>,
    /// The log of what belongs to no site.
    pub(super) access_log: Option<LogNumber>,
    /// By the numbers of sites and places.
    views: Vec<View>,
    /// Of all sites, in the order of their routes, each with its flags.
    programs: Vec<(ProgramFlags, Arc<Programs>)>,
    pub(super) runnable: Runnable,
    /// By their folders.
    pages: HashMap<PathBuf, Arc<Pages>>,
    /// By their files.
    users: HashMap<PathBuf, Arc<PasswordFile>>,
    links: Vec<Arc<SignedLinks>>,
}

struct SitePlan {
    hosts: Vec<HostName>,
    own: Rules,
    names: Arc<PlaceNames>,
    places: Box<[Rules]>,
}

/// What holds for a site or a place.
struct Rules {
    /// The number of its view.
    id: SiteId,
    /// Those of the roots behind the first.
    next_roots: Vec<SiteId>,
    common: Arc<Common>,
}

/// A folder, and how names lead to its files.
struct View {
    folder: Arc<Path>,
    common: Arc<Common>,
}

/// What rules with equal flags share.
struct Common {
    settings: Arc<SiteSettings>,
    template: Arc<HeaderTemplate>,
    pages: Arc<Pages>,
    disk: Arc<flash_disk::SiteSettings>,
    programs: Arc<Programs>,
    /// Requests without TLS are redirected.
    https_required: bool,
    requires_client_certificate: bool,
}

/// What the server knows before and after a reload.
#[derive(Clone, Copy)]
pub(super) struct Known<'s> {
    /// The log-ins of all sites.
    pub(super) successes: &'s Successes,
    pub(super) log_numbers: &'s LogNumbers,
}

/// What is wrong with a site or a place.
pub(crate) struct Fault {
    /// The key that it is about.
    pub(crate) key: &'static str,
    /// The position of the site, and of the place in it. `None` if it is about the only site.
    pub(crate) site: Option<(usize, Option<usize>)>,
    pub(crate) failure: Failure,
}

/// The sites that the flags and the configuration file name; one in `folder`, if no file names any.
/// `named` opens what they name. A process that can read no others takes what was `read_before`.
///
/// # Errors
/// All that is wrong, one for each site or place.
pub(super) fn all(
    flags: &flags::Serve,
    folder: &Path,
    known: Known<'_>,
    runnable: Runnable,
    (named, read_before): (ReadNamed<'_>, Option<&SitePlans>),
) -> Result<SitePlans, Vec<Fault>> {
    let (mut planner, mut faults) = (Planner::new(known, runnable, named), Vec::new());
    planner.reads_files = read_before.is_none();
    if let Some(SitePlans { programs, pages, .. }) = read_before {
        (planner.programs, planner.pages) = (programs.clone(), pages.clone());
    }
    // No site serves the scripts of another one as files.
    let rules = flags.rules_of_sites();
    let mut seen = HashSet::new();
    for rules in rules.filter(|rules| seen.insert(Arc::as_ptr(&rules.flags))) {
        Programs::note_folders(&rules.flags.programs, &mut planner.runnable);
    }
    let mut sites = Vec::new();
    if flags.sites.is_empty() {
        match planner.only(flags, folder) {
            Ok(site) => sites.push(site),
            Err((key, failure)) => faults.push(Fault { key, site: None, failure }),
        }
    }
    for (position, site) in flags.sites.iter().enumerate() {
        let mut note =
            |place, (key, failure)| faults.push(Fault { key, site: Some((position, place)), failure });
        let own = planner.rules(&site.own, None, (&site.names, PlaceName::default()));
        let own = own.map_err(|wrong| note(None, wrong)).ok();
        let mut places = Vec::with_capacity(site.places.len());
        for (number, (name, place)) in site.names.pairs().zip(&site.places).enumerate() {
            match planner.rules(place, Some(&site.own), (&site.names, name)) {
                Ok(rules) => places.push(rules),
                Err(wrong) => note(Some(number), wrong),
            }
        }
        let (hosts, names) = (site.hosts.clone(), Arc::clone(&site.names));
        sites.extend(own.map(|own| SitePlan { hosts, own, names, places: places.into() }));
    }
    if faults.is_empty() { Ok(planner.plans(sites, known.log_numbers.of(flags))) } else { Err(faults) }
}

/// What is wrong with the first site that is not right.
pub(super) fn first_fault(faults: Vec<Fault>) -> Failure {
    let first = faults.into_iter().next();
    first.map_or_else(|| Failure::Run("there is no site".into()), |fault| fault.failure)
}

/// Each root costs a look-up for a path that all lack.
const NEXT_ROOTS_MAX: usize = 8;

/// The flags of programs, and whether HTTP servers get what no file answers, and not everything.
type ProgramFlags = (flags::Programs, bool);

/// A key, and what is wrong with it.
type Wrong = (&'static str, Failure);

/// What was worked out so far.
struct Planner<'s> {
    views: Vec<View>,
    /// The numbers of views, by their folders, and by their programs, which answer some of their names.
    by_folder: HashMap<(Arc<Path>, usize, *const Programs), SiteId>,
    /// By the flags, and by the prefix of the place where that makes a difference.
    known: HashMap<(*const flags::Serve, Vec<u8>), Arc<Common>>,
    programs: Vec<(ProgramFlags, Arc<Programs>)>,
    runnable: Runnable,
    pages: HashMap<PathBuf, Arc<Pages>>,
    users: HashMap<PathBuf, Arc<PasswordFile>>,
    /// Each with its flags.
    links: Vec<(Vec<Signed>, Arc<SignedLinks>)>,
    redirects: HashMap<PathBuf, Arc<RedirectTable>>,
    fields: HashMap<Vec<FieldFile>, Arc<FieldRules>>,
    of_server: Known<'s>,
    named: ReadNamed<'s>,
    /// Whether this process may look for files. Where it may not, another one has.
    reads_files: bool,
}

impl<'s> Planner<'s> {
    fn new(of_server: Known<'s>, runnable: Runnable, named: ReadNamed<'s>) -> Self {
        Self {
            views: Vec::new(),
            by_folder: HashMap::new(),
            known: HashMap::new(),
            programs: Vec::new(),
            runnable,
            pages: HashMap::new(),
            users: HashMap::new(),
            links: Vec::new(),
            redirects: HashMap::new(),
            fields: HashMap::new(),
            of_server,
            named,
            reads_files: true,
        }
    }

    /// The only site of the flags.
    fn only(&mut self, flags: &flags::Serve, folder: &Path) -> Result<SitePlan, Wrong> {
        let common = Arc::new(self.common(flags, &[])?);
        self.check_fallback(flags, &common, folder)?;
        let names = Arc::default();
        reachable::check(flags, &common.settings, &names, PlaceName::default())?;
        let id = self.view(&folder.into(), 0, &common);
        let own = Rules { id, next_roots: self.next_roots(flags, 0, &common)?, common };
        Ok(SitePlan { hosts: vec![HostName::Any], own, names, places: Box::default() })
    }

    /// The rules of a site, or of a place in the site `of`.
    fn rules(
        &mut self,
        rules: &flags::RulesFlags,
        of: Option<&flags::RulesFlags>,
        (names, name): (&Arc<PlaceNames>, PlaceName<'_>),
    ) -> Result<Rules, Wrong> {
        let flags::RulesFlags { root, flags, view } = rules;
        let folder = root.as_deref().unwrap_or(Path::new("/"));
        let redirect = flags.rules.redirect.as_ref();
        let prefix = name
            .exact
            .or(name.prefix)
            .filter(|_| redirect.is_some_and(Redirect::has_rest))
            .unwrap_or_default();
        let key = (Arc::as_ptr(flags), prefix.to_vec());
        let common = match self.known.get(&key) {
            Some(common) => Arc::clone(common),
            None => {
                let common = Arc::new(self.common(flags, prefix)?);
                self.known.insert(key, Arc::clone(&common));
                common
            }
        };
        reachable::check(flags, &common.settings, names, name)?;
        let wrong = |key, what: &str| Err((key, Failure::Usage(what.into())));
        let is_inherited = of.is_some_and(|of| {
            of.root == *root && of.flags.fallback == flags.fallback && of.flags.spa == flags.spa
        });
        if !is_inherited && root.is_some() {
            self.check_fallback(flags, &common, folder)?;
        }
        let id = match root {
            Some(root) => self.view(root, *view, &common),
            // Nothing is looked for.
            None if common.settings.answers_all() => SiteId(0),
            None if common.programs.is_empty() => {
                return wrong("root", "the place has no files: it needs its `root`");
            }
            // HTTP servers answer everything.
            None if flags.falls_back_to_proxy() => {
                return wrong("fallback", "the place has no files: it needs its `root`");
            }
            None if !flags.programs.no_programs.is_empty() => {
                return wrong("no-programs", "the place has no files: it needs its `root`");
            }
            None => self.view(&Path::new("/").into(), *view, &common),
        };
        let next_roots = self.next_roots(flags, *view, &common)?;
        Ok(Rules { id, next_roots, common })
    }

    fn check_fallback(&self, flags: &flags::Serve, common: &Common, folder: &Path) -> Result<(), Wrong> {
        let checked =
            if self.reads_files { fallback::check(flags, &common.programs, folder) } else { Ok(()) };
        checked.map_err(|wrong| (fallback::key(flags), wrong))
    }

    /// The numbers of the roots behind the first.
    fn next_roots(
        &mut self,
        flags: &flags::Serve,
        view: usize,
        common: &Arc<Common>,
    ) -> Result<Vec<SiteId>, Wrong> {
        let roots = &flags.fallback_root;
        if roots.len() > NEXT_ROOTS_MAX {
            let why = format!("a site has {NEXT_ROOTS_MAX} of them at most");
            return Err(("fallback-root", Failure::Usage(why)));
        }
        Ok(roots.iter().map(|root| self.view(&root.as_path().into(), view, common)).collect())
    }

    /// The number of this way to see a folder.
    fn view(&mut self, folder: &Arc<Path>, view: usize, common: &Arc<Common>) -> SiteId {
        let next = SiteId(self.views.len() as u32);
        let programs = Arc::as_ptr(&common.programs);
        let id = *self.by_folder.entry((Arc::clone(folder), view, programs)).or_insert(next);
        if id == next {
            self.views.push(View { folder: Arc::clone(folder), common: Arc::clone(common) });
        }
        id
    }

    fn common(&mut self, flags: &flags::Serve, prefix: &[u8]) -> Result<Common, Wrong> {
        let programs = self.programs(flags)?;
        let template = Arc::new(response_extras::template(flags));
        let pages = self.pages(flags).map_err(|wrong| ("error-pages", wrong))?;
        response_extras::check_fields(flags).map_err(|wrong| ("header", wrong))?;
        let links = self.links(&flags.rules.signed).map_err(|wrong| ("signed", wrong))?;
        let users = flags.rules.users().map(|path| self.users(path)).transpose();
        let users = users.map_err(|wrong| ("auth", wrong))?;
        let redirects = flags.rules.redirects.as_ref().map(|path| self.redirects(path)).transpose();
        let redirects = redirects.map_err(|wrong| ("redirects", wrong))?;
        let fields = self.fields(&flags.rules.field_rules).map_err(|wrong| ("field-rules", wrong))?;
        let settings = SiteSettings {
            body_bytes_max: flags.body_bytes_max,
            dotfiles: flags.dotfiles,
            deny: flags.deny.iter().filter_map(Denial::path).cloned().collect(),
            access: access::rules(flags, links.map(|of| of as _), users.map(|of| of as _), fields),
            rates: Rates { client: flags.rate, total: flags.rate_total },
            list: flags.list,
            compress_listings: match template.forbids_transform(None) {
                true => CodingSet::EMPTY,
                false => flags.compress,
            },
            digests: flags.digests,
            fallback: fallback::of(flags, &programs),
            respond: Respond::response(&flags.rules.respond).map(Arc::new),
            redirects,
            redirect: flags.rules.redirect.clone().map(|redirect| redirect.within(prefix)),
            gone: flags.rules.gone,
            methods: (!flags.rules.methods.is_empty())
                .then(|| Methods::new(flags.rules.methods.iter().copied(), !programs.is_empty())),
            own_missing_page: !pages.has_missing(),
            compress_programs: flags.compress_programs,
            request_id: flags.rules.request_id,
            access_log: LogChoice {
                log: self.of_server.log_numbers.of(flags),
                statuses: flags.rules.log_status.clone().into(),
            },
            internal: flags.rules.internal,
            files: private_roots(flags),
        };
        let disk = Arc::new(disk(flags, &programs, &template));
        let https_required = flags.tls.https == flags::Https::Required;
        let requires_client_certificate = flags.tls.requires_client_certificate();
        Ok(Common {
            settings: Arc::new(settings),
            template,
            pages,
            disk,
            programs,
            https_required,
            requires_client_certificate,
        })
    }

    /// Rules with the same programs share them.
    fn programs(&mut self, flags: &flags::Serve) -> Result<Arc<Programs>, Wrong> {
        let known = (flags.programs.clone(), flags.falls_back_to_proxy());
        if let Some((_, programs)) = self.programs.iter().find(|(other, _)| *other == known) {
            return Ok(Arc::clone(programs));
        }
        let routes = self.programs.iter().map(|(_, programs)| programs.len()).sum();
        let programs =
            Arc::new(Programs::prepare(flags, routes, &mut self.runnable, (self.named.0, self.reads_files))?);
        self.secrets()
            .map_or(Ok(()), |open| programs.read_secrets(open))
            .map_err(|wrong| ("upstream", wrong))?;
        self.programs.push((known, Arc::clone(&programs)));
        Ok(programs)
    }

    fn pages(&mut self, flags: &flags::Serve) -> Result<Arc<Pages>, Failure> {
        let folder = flags.error_pages.clone().unwrap_or_default();
        if let Some(pages) = self.pages.get(&folder) {
            return Ok(Arc::clone(pages));
        }
        let pages = Arc::new(response_extras::pages(flags)?);
        self.pages.insert(folder, Arc::clone(&pages));
        Ok(pages)
    }

    /// Rules with the same files share them.
    fn fields(&mut self, files: &[FieldFile]) -> Result<Option<Arc<FieldRules>>, Failure> {
        if files.is_empty() {
            return Ok(None);
        }
        if let Some(rules) = self.fields.get(files) {
            return Ok(Some(Arc::clone(rules)));
        }
        let lists = files.iter().map(|of| lists::field_list(of, self.named.0));
        let rules = Arc::new(FieldRules(lists.collect::<Result<_, _>>()?));
        self.fields.insert(files.into(), Arc::clone(&rules));
        Ok(Some(rules))
    }

    /// What opens password files and keys, if they are read here.
    fn secrets(&self) -> Option<&'s OpenNamed<'s>> {
        let (open, secrets) = self.named;
        (secrets == Secrets::Read).then_some(open)
    }

    fn users(&mut self, path: &Path) -> Result<Arc<PasswordFile>, Failure> {
        if let Some(users) = self.users.get(path) {
            return Ok(Arc::clone(users));
        }
        let users = Arc::new(PasswordFile::new(path, self.of_server.successes.clone()));
        self.secrets().map_or(Ok(()), |open| users.read(open)).map_err(Failure::Run)?;
        self.users.insert(path.into(), Arc::clone(&users));
        Ok(users)
    }

    /// Sites with the same file share its table.
    fn redirects(&mut self, path: &Path) -> Result<Arc<RedirectTable>, Failure> {
        if let Some(table) = self.redirects.get(path) {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(lists::redirect_table(path, self.named.0)?);
        self.redirects.insert(path.into(), Arc::clone(&table));
        Ok(table)
    }

    /// Rules with the same keys share them.
    fn links(&mut self, signed: &[Signed]) -> Result<Option<Arc<SignedLinks>>, Failure> {
        if let Some((_, links)) = self.links.iter().find(|(known, _)| *known == signed) {
            return Ok(Some(Arc::clone(links)));
        }
        let links = access::links(signed)?.map(Arc::new);
        if let (Some(links), Some(open)) = (&links, self.secrets()) {
            links.read(open).map_err(Failure::Run)?;
        }
        self.links.extend(links.clone().map(|links| (signed.to_vec(), links)));
        Ok(links)
    }

    fn plans(mut self, sites: Vec<SitePlan>, access_log: Option<LogNumber>) -> SitePlans {
        // The disk has a first folder, even if nothing in it is looked for.
        if let (true, Some(site)) = (self.views.is_empty(), sites.first()) {
            self.view(&Path::new("/").into(), 0, &site.own.common);
        }
        SitePlans {
            sites: sites.into(),
            access_log,
            views: self.views,
            programs: self.programs,
            runnable: self.runnable,
            pages: self.pages,
            users: self.users,
            links: self.links.into_iter().map(|(_, links)| links).collect(),
        }
    }
}

impl SitePlans {
    pub(super) fn len(&self) -> usize {
        self.sites.len()
    }

    /// The HTTP servers that answer everything for the first site, if it has some.
    pub(super) fn proxied(&self) -> Option<String> {
        self.sites.first()?.own.common.programs.proxied()
    }

    /// Whether some site or place limits the requests of each client.
    pub(super) fn are_limited(&self) -> bool {
        let is_limited =
            |rules: &Rules| rules.common.settings.access.as_ref().is_some_and(AccessRules::have_limits);
        self.rules().any(is_limited)
    }

    /// The access logs of the server, its sites and places.
    pub(super) fn access_logs(&self) -> impl Iterator<Item = LogNumber> {
        let of_rules = self.rules().filter_map(|rules| rules.common.settings.access_log.log);
        self.access_log.into_iter().chain(of_rules)
    }

    /// Reads the password files and keys that were left.
    pub(super) fn read_secrets(&self, open: &OpenNamed<'_>) -> Result<(), Failure> {
        let of_users = self.users.values().try_for_each(|users| users.read(open));
        of_users
            .and_then(|()| self.links.iter().try_for_each(|links| links.read(open)))
            .map_err(Failure::Run)?;
        self.programs().try_for_each(|programs| programs.read_secrets(open))
    }

    /// Whether some site or place has users who log in.
    pub(super) fn have_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// Whether clients of some site or place may ask for digests.
    pub(super) fn have_digests(&self) -> bool {
        self.views.iter().any(|view| view.common.disk.digests)
    }

    /// How many folders are open once each site and place was visited.
    pub(super) fn folders(&self) -> usize {
        let folder = |view: &View| (Arc::clone(&view.folder), view.common.disk.follow_links);
        self.views.iter().map(folder).collect::<HashSet<_>>().len()
    }

    /// The programs of all sites, in the order of their routes.
    pub(super) fn programs(&self) -> impl Iterator<Item = &Programs> {
        self.programs.iter().map(|(_, programs)| &**programs)
    }

    /// Whether they have servers or applications that are connected to.
    pub(super) fn are_connected_to(&self) -> bool {
        self.programs().any(Programs::are_connected_to)
    }

    /// The same, for later.
    pub(super) fn shared_programs(&self) -> Vec<Arc<Programs>> {
        self.programs.iter().map(|(_, programs)| Arc::clone(programs)).collect()
    }

    /// Whether the same programs answer the same routes.
    pub(super) fn have_programs_of(&self, other: &Self) -> bool {
        let count = self.programs.len() == other.programs.len();
        count && self.programs().zip(other.programs()).all(|(one, other)| one.are_same(other))
    }

    /// What the disk has to know of the first site.
    pub(super) fn first_on_disk(&self) -> &flash_disk::SiteSettings {
        &self.views[0].common.disk
    }

    /// The folder with this number, and how names lead to its files.
    pub(super) fn on_disk(&self, number: usize) -> Option<(&Path, &flash_disk::SiteSettings)> {
        self.views.get(number).map(|view| (&*view.folder, &*view.common.disk))
    }

    /// The folders of sites and places, and how names lead to their files. `first` leads to the first of them.
    pub(super) fn folders_on_disk(&self, first: &Path) -> Vec<(Arc<Path>, Arc<flash_disk::SiteSettings>)> {
        let folder = |(number, view): (usize, &View)| {
            let folder = if number == 0 { first.into() } else { Arc::clone(&view.folder) };
            (folder, Arc::clone(&view.common.disk))
        };
        self.views.iter().enumerate().map(folder).collect()
    }

    /// The sites by their hosts, for one process. Each is made for its first request. `opened` has the number that the disk has
    /// given to each folder.
    pub(super) fn hosts(&self, opened: &NextSites, of: &OfSites<'_>) -> Hosts {
        let views = opened.sites.iter().zip(&self.views).map(|((id, generation), view)| {
            let routes = view.common.programs.routes(&document_root(&view.folder), of.budgets);
            let strip_prefix = match &view.common.disk.strip_prefix[..] {
                b"" => Vec::new(),
                prefix => [b"/", prefix].concat(),
            };
            let routes = routes.map(|routes| {
                let routes = routes.strip(&strip_prefix);
                Arc::new(match of.upstreams {
                    Some(upstreams) => routes.opened_by(Arc::clone(upstreams)),
                    None => routes,
                })
            });
            hosts::View { id: *id, generation: Arc::clone(generation), routes }
        });
        let lists = self.rules().any(|rules| rules.common.settings.list);
        let maker = SiteMaker {
            sites: Arc::clone(&self.sites),
            ids: opened.sites.iter().map(|(id, _)| *id).collect(),
            number: Arc::clone(of.number),
            certificates: Arc::clone(of.tls.0),
            https_port: of.tls.1,
            metrics_memory: Arc::clone(of.metrics_memory),
        };
        let names = self.sites.iter().map(|site| &site.hosts[..]);
        let access_log = LogChoice { log: self.access_log, ..LogChoice::default() };
        Hosts::on_demand(names, views.collect(), lists, move |position, views| maker.site(position, views))
            .nowhere_has(SiteSettings { access_log, ..SiteSettings::default() })
    }

    fn rules(&self) -> impl Iterator<Item = &Rules> {
        self.sites.iter().flat_map(|site| [&site.own].into_iter().chain(&site.places))
    }
}

/// What the sites of a configuration share.
pub(super) struct OfSites<'a> {
    pub(super) number: &'a Arc<ConfigurationNumber>,
    pub(super) budgets: &'a ResponseBudgets,
    /// Opens the upstreams of all sites.
    pub(super) upstreams: Option<&'a Arc<dyn Upstreams>>,
    /// Where the responses of sites are counted.
    pub(super) metrics_memory: &'a Arc<MetricsMemory>,
    /// The certificates, and the port that speaks TLS.
    pub(super) tls: (&'a Arc<Certificates>, Option<u16>),
}

/// Makes the sites of a configuration for their first requests.
struct SiteMaker {
    sites: Arc<[SitePlan]>,
    /// The numbers that the disk has given to the folders.
    ids: Box<[SiteId]>,
    number: Arc<ConfigurationNumber>,
    certificates: Arc<Certificates>,
    https_port: Option<u16>,
    metrics_memory: Arc<MetricsMemory>,
}

impl SiteMaker {
    fn site(&self, position: usize, views: &Views) -> Site {
        let SitePlan { own, names, places, hosts } = &self.sites[position];
        let name = hosts.first().map(ToString::to_string).unwrap_or_default();
        let counted_as = self.metrics_memory.names.number(&name);
        let number = position as u32;
        let certificates = self.certificates.of(number);
        let hands_files_on = places.iter().any(|place| place.common.settings.internal);
        let site = |rules: &Rules, places| {
            let root = |id: SiteId, next_root, places| {
                let Common { settings, template, pages, https_required, requires_client_certificate, .. } =
                    &*rules.common;
                let view = views.get(self.ids[id.0 as usize]).expect("each folder has its number");
                Site {
                    next_root,
                    id: view.id,
                    settings: Arc::clone(settings),
                    template: Arc::clone(template),
                    pages: Arc::clone(pages),
                    generation: Arc::clone(&view.generation),
                    routes: view.routes.clone(),
                    limit_group: number,
                    counted_as,
                    places,
                    certificates: certificates.cloned(),
                    https_port: self.https_port.filter(|_| *https_required),
                    requires_client_certificate: *requires_client_certificate,
                    hands_files_on,
                    configuration: Arc::clone(&self.number),
                }
            };
            let next =
                rules.next_roots.iter().rev().fold(None, |next, id| Some(Arc::new(root(*id, next, None))));
            root(rules.id, next, places)
        };
        let of_places: Vec<_> = places.iter().map(|place| Arc::new(site(place, None))).collect();
        let of_places = (!of_places.is_empty()).then(|| Places::new(Arc::clone(names), of_places));
        site(own, of_places)
    }
}

/// The folders of which programs hand files on by their paths on the disk.
fn private_roots(flags: &flags::Serve) -> Arc<[PrivateRoot]> {
    let roots = flags.programs.files.iter().filter_map(|files| match &files.place {
        RouteMatch::Prefix(prefix) => {
            let folder = files.what.as_os_str().as_bytes();
            let folder = folder.strip_suffix(b"/").unwrap_or(folder);
            Some(PrivateRoot { prefix: prefix.clone(), folder: folder.into() })
        }
        RouteMatch::Suffix(_) | RouteMatch::Rest => None,
    });
    roots.collect()
}

fn text_name(name: Option<&String>) -> Option<Box<[u8]>> {
    name.map(|name| name.as_bytes().into())
}

fn disk(flags: &flags::Serve, programs: &Programs, template: &HeaderTemplate) -> flash_disk::SiteSettings {
    flash_disk::SiteSettings {
        index: indexes(flags),
        follow_links: match flags.follow_links {
            flags::FollowLinks::Inside => FollowLinks::Inside,
            flags::FollowLinks::Anywhere => FollowLinks::Anywhere,
        },
        extensions: flags.extensions.iter().map(|end| end.clone().into_bytes()).collect(),
        types: response_extras::media_types(flags),
        etag: flags.etag.into(),
        digests: flags.digests,
        texts: Texts {
            header: text_name(flags.list_header.as_ref()),
            footer: text_name(flags.list_footer.as_ref()),
        },
        precompressed: !flags.no_precompressed,
        compress: flags.compress,
        scripts: programs.suffixes(),
        program_folders: Arc::clone(programs.folders()),
        no_programs: flags.programs.no_programs.iter().cloned().collect(),
        deny: denied::paths(flags, programs),
        user_dirs: flags.user_dirs.then(|| PUBLIC_FOLDER.into()),
        dotfiles: flags.dotfiles,
        template: template.clone(),
        strip_prefix: flags
            .rules
            .strip_prefix
            .as_ref()
            .map(|path| path.relative().to_vec())
            .unwrap_or_default(),
    }
}
