//! A virtual host with its folders, files and paths, as a site with places.
//!
//! Each place is worked out for itself, with all that Apache would merge for a request there. What it shares with its site is left
//! out later.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::at::At;
use super::closed::Closed;
use super::programs::{self, Pass};
use super::sections::{
    Alias, FileName, Htaccess, Sections, Spot, covered, files as files_of, plain_folder, within,
};
use super::{access, files, redirects, rewrite, server};
use crate::directive::Directive;
use crate::flash::{
    ANSWERS, EVERYBODY, Place, PlaceName, Setting, Settings, Site, Value, forbid, is_below, set, set_more,
};
use crate::hosts::{Answers, Block};
use crate::note::{Of, Paths};
use crate::pattern::Shape;
use crate::scope::Scope;

/// Where Debian's Apache looks without `DocumentRoot`.
const DEFAULT_ROOT: &str = "/var/www/html";
/// Keys that keep clients out.
const GUARDS: [&str; 4] = ["allow", "deny", "auth", "satisfy"];

/// A site that is worked out, before its places leave out what they inherit.
pub(super) struct Draft<'t> {
    pub(super) site: Site,
    pub(super) answers: Answers,
    scope: &'t Scope<'t>,
    sections: Sections<'t>,
    host: Host<'t>,
    root: String,
    aliases: Vec<Alias<'t>>,
    passes: Vec<Pass<'t>>,
    closed: Closed<'t>,
    /// Rules of Cache-Control: which kind wins, and what they cover.
    cache: Vec<(Rank, String, String)>,
}

/// What is known of the virtual host.
#[derive(Clone, Copy)]
pub(super) struct Host<'t> {
    pub(super) block: &'t Block<'t>,
    pub(super) types: &'t BTreeMap<String, String>,
    /// Some listener speaks TLS.
    pub(super) has_tls: bool,
}

/// Paths win over names, and those over folders.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Path,
    Name,
    Folder,
}

pub(super) fn draft<'t>(host: Host<'t>, scope: &'t Scope<'t>, htaccess: &'t Htaccess) -> Draft<'t> {
    let sections = Sections { servers: scope.levels.clone(), htaccess };
    let root = scope.last("documentroot").and_then(|of| of.words.first());
    let root = plain_folder(root.map_or(DEFAULT_ROOT, String::as_str)).to_owned();
    let site = Site {
        names: scope.hosts.clone(),
        own: Settings::new(),
        places: Vec::new(),
        sources: vec![host.block.of.source.clone()],
    };
    let aliases = aliases(scope);
    let closed = Closed::of(scope, &sections, &root, &aliases);
    let mut draft = Draft {
        site,
        answers: Answers::default(),
        scope,
        host,
        passes: programs::passes(&scope.levels.iter().rev().copied().collect::<Vec<_>>()),
        cache: Vec::new(),
        sections,
        root,
        aliases,
        closed,
    };
    for of in &host.block.strange {
        scope.left(of, "names of sites are whole, or *.example.org: write each", Paths::All);
    }
    draft.make();
    server::access_log(scope, &mut draft.site.own);
    draft
}

/// The first one that covers a path counts.
fn aliases<'t>(scope: &Scope<'t>) -> Vec<Alias<'t>> {
    let mut aliases: Vec<Alias<'_>> = Vec::new();
    for of in scope.every("aliasmatch").into_iter().chain(scope.every("scriptaliasmatch")) {
        let paths = of.words.first().map_or(Paths::None, |of| redirects::matching(of));
        scope.left(of, "Flash has prefixes: write a place for each", paths);
    }
    for of in scope.every("alias").into_iter().chain(scope.every("scriptalias")) {
        let [url, folder, ..] = &of.words[..] else { continue };
        let (url, folder) = (plain_folder(url), plain_folder(folder));
        if url.is_empty() {
            scope.left(of, "write the folder as the root of the site", Paths::All);
            continue;
        }
        if of.words[0].ends_with('/') {
            scope.prefix_differs(of, &of.words[0]);
        }
        if !aliases.iter().any(|before| is_below(url, &before.url)) {
            let has_scripts = of.name == "scriptalias";
            aliases.push(Alias { url: url.into(), folder: folder.into(), of, has_scripts });
        }
    }
    aliases
}

impl<'t> Draft<'t> {
    fn make(&mut self) {
        let (mut scope, mut own, mut answers) = self.of_root();
        // Rules may send all to a folder of it, which has its own.
        if let Some(Value::Text(root)) = own.get("root").map(|of| &of.value)
            && *root != self.root
            && !self.root.is_empty()
        {
            self.root.clone_from(root);
            let moved = own.remove("root");
            (scope, own, answers) = self.of_root();
            own.extend(moved.map(|root| ("root", root)));
        }
        let parts = self.redirected(&scope, "");
        if let Some(whole) = parts.iter().find_map(|(name, settings)| whole(name, settings)) {
            own.extend(whole);
        }
        let answers_all = ["redirect", "respond", "gone"].iter().any(|key| own.contains_key(key));
        self.site.own = own;
        for (name, settings) in parts.into_iter().chain(std::mem::take(&mut answers.parts)) {
            if whole(&name, &settings).is_none() {
                self.part(name, settings);
            }
        }
        self.answers = answers;
        if answers_all {
            self.site.own.retain(|key, _| ["redirect", "respond", "gone", "header"].contains(key));
            self.site.places.retain(|place| ANSWERS.iter().any(|key| place.settings.contains_key(key)));
            return self.see_all();
        }
        self.scripts();
        for (name, of) in self.spots() {
            self.place(name, of);
        }
        let denied = self.site.own.get("deny").map(|of| of.value.clone());
        self.site.places.retain(|place| !is_denied(&place.name, denied.as_ref()));
        self.cache_rules(&scope);
        self.types_differ(&scope);
    }

    fn root_spot(&self) -> Spot<'_> {
        Spot { folder: Some(&self.root), url: "", name: None }
    }

    /// What holds for the site's folder, where no place says otherwise.
    fn of_root(&self) -> (Scope<'t>, Settings, Answers) {
        let spot = self.root_spot();
        let scope = self.scope_of(spot);
        let mut own = self.made(&scope, spot, Paths::All, (&self.root, None));
        let mut answers = Answers::default();
        let at = self.at(&scope, "", Paths::All);
        if let Some(server) = self.sections.servers.last() {
            rewrite::settings(&at, server, None, &mut own, &mut answers);
        }
        if let Some(level) = self.rules(&scope) {
            rewrite::settings(&at, level, Some(""), &mut own, &mut answers);
        }
        self.names_in_folder(&scope, "", &mut own);
        (scope, own, answers)
    }

    fn at<'a>(&'a self, scope: &'a Scope<'t>, url: &'a str, concerns: Paths) -> At<'a, 't> {
        let Host { block, types, has_tls } = self.host;
        let is_tls = block.listens.iter().any(|listen| listen.is_tls);
        At {
            scope,
            url,
            concerns,
            source: &block.of.source,
            depth: self.sections.depth(),
            server_name: block.names.first().map_or("", String::as_str),
            scheme: if is_tls { "https" } else { "http" },
            has_tls,
            types,
        }
    }

    fn scope_of(&self, spot: Spot<'_>) -> Scope<'t> {
        Scope { levels: self.sections.levels(spot), ..self.scope.clone() }
    }

    /// The innermost level with rules: they take the place of all above.
    fn rules(&self, scope: &Scope<'t>) -> Option<&'t [Directive]> {
        let has_rules = |level: &&&[Directive]| level.iter().any(|of| of.name.starts_with("rewrite"));
        scope.levels[self.sections.depth()..].iter().rev().find(has_rules).copied()
    }

    /// Where a path's files lie: the folder of its place with the prefix that is left out, and its own.
    fn folder_of(&self, url: &str) -> (String, Option<String>, String) {
        match self.aliases.iter().find(|alias| is_below(url, &alias.url)) {
            Some(Alias { url: prefix, folder, .. }) => {
                (folder.clone(), Some(prefix.clone()), format!("{folder}{}", &url[prefix.len()..]))
            }
            None => (self.root.clone(), None, format!("{}{url}", self.root)),
        }
    }

    /// The settings of a spot, with the folder of its files and the prefix that is no part of their names.
    fn made(
        &self,
        scope: &Scope<'t>,
        spot: Spot<'_>,
        concerns: Paths,
        (root, strip): (&str, Option<&str>),
    ) -> Settings {
        let at = self.at(scope, spot.url, concerns);
        let mut settings = Settings::new();
        let of = self.scope.last("documentroot").filter(|_| strip.is_none());
        set(&mut settings, "root", Value::Text(if root.is_empty() { "/" } else { root }.into()), of);
        if let Some(strip) = strip {
            set(&mut settings, "strip-prefix", Value::Text(strip.into()), None);
        }
        files::settings(&at, &self.root, &mut settings);
        access::settings(&at, &mut settings);
        programs::variables(&at, &mut settings);
        self.methods(&at, &mut settings);
        let pass = programs::covering(&self.passes, spot.url).filter(|_| spot.name.is_none());
        let is_left = match pass {
            Some(pass) => {
                let balancers: Vec<&Directive> = self.sections.all(&["proxy"]).collect();
                ["strip-prefix", "fallback"].iter().for_each(|key| _ = settings.remove(key));
                programs::proxy(&at, pass, &balancers, &mut settings).then_some(pass.of)
            }
            None => programs::handlers(&at, spot, &mut settings),
        };
        if let Some(of) = self.closed.covering(spot.url).or(is_left) {
            forbid(&mut settings, of);
            GUARDS.iter().filter(|key| **key != "deny").for_each(|key| _ = settings.remove(key));
        }
        settings
    }

    /// `<Limit>` and `<LimitExcept>` with a refusal.
    fn methods(&self, at: &At<'_, 't>, settings: &mut Settings) {
        let guards = |of: &Directive| access::guards(of.block.as_deref().unwrap_or_default());
        let has = |of: &Directive, name: &str| of.words.iter().any(|word| word == name);
        for of in at.scope.every("limitexcept").into_iter().filter(|of| guards(of)) {
            at.scope.see_all(of);
            set(settings, "methods", Value::Texts(of.words.clone()), Some(of));
            at.scope.differs(&of.source, "all other methods get 405", Paths::OtherMethods, Of::Everything);
        }
        for of in at.scope.every("limit").into_iter().filter(|of| guards(of)) {
            at.scope.see_all(of);
            if has(of, "GET") || has(of, "POST") {
                at.left(of, "Flash has no guards for some methods alone: nobody gets in");
                forbid(settings, of);
            } else {
                let methods = ["GET", "POST", "OPTIONS"].map(Into::into);
                set(settings, "methods", Value::Texts(methods.into()), Some(of));
                at.scope.differs(
                    &of.source,
                    "all other methods get 405",
                    Paths::OtherMethods,
                    Of::Everything,
                );
            }
        }
    }

    fn redirected(&self, scope: &Scope<'t>, url: &str) -> Vec<(PlaceName, Settings)> {
        let at = self.at(scope, url, Paths::Begins(url.into()));
        let from = if url.is_empty() { 0 } else { self.sections.depth() };
        scope.levels[from..].iter().rev().flat_map(|level| redirects::parts(&at, level)).collect()
    }

    /// The folders of `ScriptAlias`.
    fn scripts(&mut self) {
        let scripts: Vec<&Alias<'_>> = self.aliases.iter().filter(|alias| alias.has_scripts).collect();
        let folders = scripts.iter().map(|alias| (alias.url.clone(), alias.folder.clone())).collect();
        if let Some(alias) = scripts.last() {
            set(&mut self.site.own, "cgi", Value::Table(folders), Some(alias.of));
        }
    }

    /// All that has rules of its own, each with a line of it.
    fn spots(&self) -> BTreeMap<PlaceName, &'t Directive> {
        let mut spots: BTreeMap<PlaceName, &'t Directive> = BTreeMap::new();
        for alias in &self.aliases {
            spots.insert(PlaceName::Below(alias.url.clone()), alias.of);
        }
        let roots: Vec<(&str, &str)> =
            self.aliases.iter().map(|of| (&*of.folder, &*of.url)).chain([(&*self.root, "")]).collect();
        for (folder, of) in self.sections.folders() {
            let urls =
                roots.iter().filter_map(|(root, url)| Some(format!("{url}{}", within(&folder, root)?)));
            spots.extend(urls.map(|url| (PlaceName::Below(url), of)));
        }
        for of in self.sections.all(&["location", "locationmatch"]) {
            let shapes = &covered(of).shapes;
            spots.extend(shapes.iter().filter_map(|shape| Some((spot_name(shape)?, of))));
        }
        let root = self.scope_of(self.root_spot());
        for of in
            files_of(&root.levels).filter(|of| of.block.iter().flatten().any(|of| of.name != "sethandler"))
        {
            let shapes = &covered(of).shapes;
            spots.extend(shapes.iter().filter_map(|shape| Some((spot_name(shape)?, of))));
        }
        spots.extend(self.passes.iter().map(|pass| (PlaceName::Below(pass.path.clone()), pass.of)));
        spots.extend(self.closed.paths().map(|(url, of)| (PlaceName::Below(url.into()), of)));
        if let Some(of) = spots.remove(&PlaceName::Below(String::new())) {
            // The site itself.
            self.scope.context.see(of);
        }
        spots
    }

    fn place(&mut self, name: PlaceName, of: &'t Directive) {
        self.scope.context.see(of);
        match &name {
            PlaceName::Below(url) => {
                match self.aliases.iter().find(|alias| alias.url == *url && is_file(&alias.folder)) {
                    Some(alias) => self.single(url, &alias.folder.clone(), of),
                    None => self.folder(url, of),
                }
            }
            PlaceName::Exact(url) => {
                let settings = self.exact(url);
                self.cached(Rank::Path, url, url);
                self.add(name.clone(), settings, of);
            }
            PlaceName::Ends(end) => self.end(end, of),
        }
    }

    fn folder(&mut self, url: &str, of: &'t Directive) {
        let (root, strip, folder) = self.folder_of(url);
        let is_passed = programs::covering(&self.passes, url).is_some();
        let spot = Spot { folder: (!is_passed).then_some(&*folder), url, name: None };
        let scope = self.scope_of(spot);
        let mut settings = self.made(&scope, spot, Paths::Begins(url.into()), (&root, strip.as_deref()));
        let mut answers = Answers::default();
        let of_site = self.rules(&self.scope_of(self.root_spot()));
        match self.rules(&scope).filter(|_| !is_passed) {
            Some(level) if of_site.is_some_and(|of_site| std::ptr::eq(of_site, level)) => {
                self.inherit(&mut settings)
            }
            Some(level) => {
                let at = self.at(&scope, url, Paths::Begins(url.into()));
                rewrite::settings(&at, level, Some(url), &mut settings, &mut answers);
            }
            None => {}
        }
        self.names_in_folder(&scope, url, &mut settings);
        for (name, part) in self.redirected(&scope, url).into_iter().chain(answers.parts) {
            match name == PlaceName::Below(url.into()) {
                true => settings = part,
                false => self.part(name, part),
            }
        }
        let is_path = of.name.starts_with("location");
        self.cached(if is_path { Rank::Path } else { Rank::Folder }, url, url);
        self.add(PlaceName::Below(url.into()), settings, of);
    }

    /// Names in a folder alone. For what guards them there is a list of names that are denied.
    fn names_in_folder(&self, scope: &Scope<'t>, url: &str, settings: &mut Settings) {
        let from = if url.is_empty() { 0 } else { self.sections.depth() };
        for of in files_of(&scope.levels[from..]) {
            self.scope.context.see(of);
            let block = of.block.as_deref().unwrap_or_default();
            let handler = block.iter().rfind(|of| of.name == "sethandler").and_then(|of| of.words.first());
            let runs = handler.is_some_and(|handler| programs::fastcgi(handler).is_some());
            for shape in &covered(of).shapes {
                let (rule, paths) = match shape {
                    Shape::Ends(end) | Shape::Info(end) => (format!("*{end}"), Paths::Has(end.clone())),
                    Shape::Name(name) => (name.clone(), Paths::Has(format!("/{name}"))),
                    _ => continue,
                };
                let is_run_elsewhere = handler.is_some_and(|handler| !programs::is_none(handler)) && !runs;
                if is_run_elsewhere || !url.is_empty() && access::guards(block) {
                    set_more(settings, "deny", &rule, &of.source);
                    let why = format!("{rule}: 404 takes the place of 403, and of what would run it");
                    scope.differs(&of.source, why, paths, Of::Everything);
                } else if !url.is_empty() && !runs {
                    let why = "Flash has no ends of names below a prefix alone";
                    scope.left(of, why, Paths::BelowEnds(url.into(), rule.trim_start_matches('*').into()));
                }
            }
        }
    }

    /// The settings of one path.
    fn exact(&self, url: &str) -> Settings {
        let (root, strip, file) = self.folder_of(url);
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let name = url.rsplit_once('/').map(|(_, name)| FileName::Whole(name));
        let spot = Spot { folder: Some(folder), url, name };
        let mut settings =
            self.made(&self.scope_of(spot), spot, Paths::Exact(url.into()), (&root, strip.as_deref()));
        if strip.is_none() {
            self.inherit(&mut settings);
        }
        settings
    }

    /// A file of its own for one path.
    fn single(&mut self, url: &str, file: &str, of: &'t Directive) {
        let Some((folder, name)) = file.rsplit_once('/') else { return };
        let spot = Spot { folder: Some(folder), url, name: Some(FileName::Whole(name)) };
        let mut settings = self.made(&self.scope_of(spot), spot, Paths::Exact(url.into()), (folder, None));
        match url.rsplit_once('/') {
            Some(("", own)) if own == name => {}
            Some((above, own)) if own == name => {
                set(&mut settings, "strip-prefix", Value::Text(above.into()), Some(of))
            }
            _ => set(&mut settings, "fallback", Value::Text(format!("/{name}")), Some(of)),
        }
        self.add(PlaceName::Exact(url.into()), settings, of);
    }

    /// Names with this end, in all of the site.
    fn end(&mut self, end: &str, of: &'t Directive) {
        let name = if end.starts_with('.') { FileName::End(end) } else { FileName::Whole(end) };
        let spot = Spot { folder: Some(&self.root), url: "", name: Some(name) };
        let scope = self.scope_of(spot);
        let mut settings = self.made(&scope, spot, Paths::Ends(end.into()), (&self.root, None));
        self.inherit(&mut settings);
        let plain = self.sections.levels(Spot { name: None, ..spot });
        let guards = |of: &&Directive| access::guards(of.block.as_deref().unwrap_or_default());
        let is_guarded = files_of(&plain).filter(guards).any(|of| self.sections.covers_name(of, name));
        if !is_guarded {
            // What guards a folder guards these names there.
            for key in GUARDS {
                settings.remove(key);
                settings.extend(self.site.own.get(key).map(|own| (key, own.clone())));
            }
        } else if self.sections.guards_paths()
            && GUARDS.iter().any(|key| settings.contains_key(key))
            && !is_forbidden(&settings)
        {
            let why = "guards of paths win over those of names: nobody gets these names until you write a place for each";
            scope.left(of, why, Paths::Ends(end.into()));
            forbid(&mut settings, of);
        }
        if is_forbidden(&settings) && !is_forbidden(&self.site.own) {
            scope.differs(&of.source, "a missing name gets 403, too", Paths::Missing, Of::Everything);
        }
        if !end.starts_with('.') {
            let why = format!("this holds for all names that end in {end}");
            scope.differs(&of.source, why, Paths::Ends(end.into()), Of::Everything);
        }
        self.cached(Rank::Name, end, &format!("*{end}"));
        self.add(PlaceName::Ends(end.into()), settings, of);
    }

    /// What the rules of the site's folder say of a part of it.
    fn inherit(&self, settings: &mut Settings) {
        for key in ["root", "fallback", "extensions"] {
            if let Some(own) = self.site.own.get(key).filter(|_| !settings.contains_key("strip-prefix")) {
                settings.insert(key, own.clone());
            }
        }
    }

    fn add(&mut self, name: PlaceName, settings: Settings, of: &Directive) {
        if !self.site.places.iter().any(|place| place.name == name) {
            self.site.places.push(Place { name, settings, source: Some(of.source.clone()) });
        }
    }

    /// An answer for a part of the site.
    fn part(&mut self, name: PlaceName, settings: Settings) {
        let answers = ["redirect", "respond", "gone", "deny"].iter().any(|key| settings.contains_key(key));
        let mut whole = match &name {
            PlaceName::Exact(url) if !answers => self.exact(url),
            _ => self.site.own.get("root").map(|root| ("root", root.clone())).into_iter().collect(),
        };
        whole.extend(settings);
        if !self.site.places.iter().any(|place| place.name == name) {
            self.site.places.push(Place { name, settings: whole, source: None });
        }
    }

    /// A rule of Cache-Control for a path, or for names.
    fn cached(&mut self, rank: Rank, what: &str, rule: &str) {
        let (_, _, folder) = self.folder_of(what);
        let spot = match rank {
            Rank::Name if what.starts_with('.') => {
                Spot { folder: Some(&self.root), url: "", name: Some(FileName::End(what)) }
            }
            Rank::Name => Spot { folder: Some(&self.root), url: "", name: Some(FileName::Whole(what)) },
            Rank::Path | Rank::Folder => Spot { folder: Some(&folder), url: what, name: None },
        };
        let scope = self.scope_of(spot);
        let value = files::cache_control(&self.at(&scope, "", Paths::None)).map(|(value, _)| value);
        self.cache.extend(value.map(|value| (rank, rule.to_owned(), value)));
    }

    fn cache_rules(&mut self, scope: &Scope<'t>) {
        let at = self.at(scope, "", Paths::All);
        let by_type = files::cache_by_type(&at);
        let default = files::cache_control(&at);
        self.cache.sort_by_key(|(rank, rule, _)| (*rank, std::cmp::Reverse(rule.len())));
        let own = self.cache.drain(..).map(|(_, rule, value)| (rule, value));
        let types = by_type.into_iter().map(|(end, value, _)| (format!("*.{end}"), value));
        let mut known: BTreeSet<String> = BTreeSet::new();
        let rules = own.chain(types).filter(|(rule, _)| known.insert(rule.clone()));
        let lines = rules.map(|(rule, value)| format!("{rule}={value}"));
        let lines: Vec<String> = lines.chain(default.map(|(value, _)| value)).collect();
        if !lines.is_empty() {
            let setting = Setting::new(Value::Texts(lines), None);
            for place in &mut self.site.places {
                place.settings.entry("cache-control").or_insert(setting.clone());
            }
            self.site.own.insert("cache-control", setting);
        }
    }

    /// Names whose types differ.
    fn types_differ(&self, scope: &Scope<'t>) {
        let types = self.host.types;
        let lines = scope.every("addtype");
        let added = lines.iter().flat_map(|of| of.words.iter().skip(1));
        let added: BTreeSet<String> =
            added.map(|end| end.trim_start_matches('.').to_ascii_lowercase()).collect();
        let of_end = |end: &String| Paths::Ends(format!(".{end}"));
        let known = types.iter().filter(|(end, kind)| !added.contains(*end) && files::essence(end) != **kind);
        let differing: Vec<Paths> = known.map(|(end, _)| of_end(end)).collect();
        let why = "Flash has other types for some names: types = { \"*.ext\" = … } sets one";
        scope.everywhere(why, Paths::Any(differing), Of::Type);
        let all: Vec<Paths> = types.keys().chain(&added).map(of_end).collect();
        let why = "names without a known end are application/octet-stream, where Apache says no type";
        scope.everywhere(why, Paths::Not(Box::new(Paths::Any(all))), Of::Type);
    }

    /// Lines to which no request leads.
    fn see_all(&self) {
        self.sections.servers[1..].iter().copied().flatten().for_each(|of| self.scope.see_all(of));
    }
}

/// Whether nobody may come in.
fn is_forbidden(settings: &Settings) -> bool {
    let all =
        |of: &Setting| matches!(&of.value, Value::Texts(all) if all.iter().any(|one| one == EVERYBODY[0]));
    settings.get("deny").is_some_and(all) && !settings.contains_key("allow")
}

/// Whether a list of names and their ends has all that a place covers, so that nobody comes there.
fn is_denied(name: &PlaceName, denied: Option<&Value>) -> bool {
    let Some(Value::Texts(rules)) = denied else { return false };
    rules.iter().any(|rule| match (name, rule.strip_prefix('*')) {
        (PlaceName::Ends(name) | PlaceName::Exact(name), Some(end)) => name.ends_with(end),
        (PlaceName::Ends(name), None) => name == rule,
        (PlaceName::Exact(path), None) => path.rsplit('/').next() == Some(rule),
        (PlaceName::Below(_), _) => false,
    })
}

/// The answer for a whole site.
fn whole(name: &PlaceName, settings: &Settings) -> Option<Settings> {
    let answers = ["redirect", "respond", "gone"].iter().any(|key| settings.contains_key(key));
    (*name == PlaceName::Below(String::new()) && answers).then(|| settings.clone())
}

/// Whether what an alias names is a file, by its name.
fn is_file(path: &str) -> bool {
    let end = Path::new(path).extension().and_then(|end| end.to_str());
    end.is_some_and(|end| files::essence(end) != "application/octet-stream")
}

/// The place of what a section covers.
fn spot_name(shape: &Shape) -> Option<PlaceName> {
    match shape {
        Shape::Begins(path) => Some(PlaceName::Below(plain_folder(path).into())),
        Shape::Exact(path) => Some(PlaceName::Exact(path.clone())),
        Shape::Ends(end) => Some(PlaceName::Ends(end.clone())),
        Shape::Name(name) => Some(PlaceName::Ends(name.clone())),
        _ => None,
    }
}
