//! A virtual host with its folders and paths, as a site with places.

use std::collections::{BTreeMap, BTreeSet};

use super::at::At;
use super::programs::{self, Pass};
use super::redirects::{self, matching};
use super::sections::{Covered, Htaccess, Sections, covered, file_name, plain_folder, within};
use super::{access, files, rewrite};
use crate::directive::Directive;
use crate::flash::{ANSWERS, EVERYBODY, Place, PlaceName, Setting, Settings, Site, Value, set, set_more};
use crate::hosts::{Answers, Block};
use crate::note::{Of, Paths};
use crate::pattern::{self, Shape};
use crate::scope::Scope;

/// Where Debian's Apache looks without `DocumentRoot`.
const DEFAULT_ROOT: &str = "/var/www/html";

/// A site that is worked out, before its places leave out what they inherit.
pub(super) struct Draft<'t> {
    pub(super) site: Site,
    pub(super) answers: Answers,
    scope: &'t Scope<'t>,
    sections: Sections<'t>,
    server_name: &'t str,
    scheme: &'static str,
    types: &'t BTreeMap<String, String>,
    root: String,
    passes: Vec<Pass<'t>>,
    /// Rules of Cache-Control with their values, what wins first.
    cache: Vec<(String, String)>,
}

/// A folder under a path, which is no part of what lies above it.
struct Folder<'t> {
    url: String,
    folder: String,
    of: &'t Directive,
}

pub(super) fn draft<'t>(
    block: &'t Block<'t>,
    scope: &'t Scope<'t>,
    htaccess: &'t Htaccess,
    types: &'t BTreeMap<String, String>,
) -> Draft<'t> {
    let sections = Sections { servers: scope.levels.clone(), htaccess };
    let root = scope.last("documentroot").and_then(|of| of.words.first());
    let is_tls = block.listens.iter().any(|listen| listen.is_tls);
    let site = Site {
        names: scope.hosts.clone(),
        own: Settings::new(),
        places: Vec::new(),
        sources: vec![block.of.source.clone()],
    };
    let mut draft = Draft {
        site,
        answers: Answers::default(),
        scope,
        server_name: block.names.first().map_or("", String::as_str),
        scheme: if is_tls { "https" } else { "http" },
        types,
        root: plain_folder(root.map_or(DEFAULT_ROOT, String::as_str)).to_owned(),
        passes: programs::passes(&scope.levels.iter().rev().copied().collect::<Vec<_>>()),
        cache: Vec::new(),
        sections,
    };
    for of in &block.strange {
        scope.left(of, "names of sites are whole, or *.example.org: write each", Paths::All);
    }
    draft.make();
    draft
}

impl<'t> Draft<'t> {
    fn make(&mut self) {
        let (scope, mut own, mut answers) = self.of_root();
        // Rules may send all to a folder of it, which has its own.
        if let Some(Value::Text(root)) = own.get("root").map(|of| &of.value)
            && *root != self.root
        {
            self.root.clone_from(root);
            let moved = own.remove("root");
            (_, own, answers) = self.of_root();
            own.extend(moved.map(|root| ("root", root)));
        }
        let parts = self.redirected(&scope, "");
        if let Some(redirect) = parts.iter().find_map(|(name, settings)| whole(name, settings)) {
            own.extend(redirect);
        }
        let is_redirected = own.contains_key("redirect");
        self.site.own = own;
        for (name, settings) in parts.into_iter().chain(std::mem::take(&mut answers.parts)) {
            if whole(&name, &settings).is_none() {
                self.part(name, settings);
            }
        }
        self.answers = answers;
        if is_redirected {
            self.site.own.retain(|key, _| ["redirect", "header"].contains(key));
            self.site.places.retain(|place| ANSWERS.iter().any(|key| place.settings.contains_key(key)));
            return self.see_all();
        }
        self.scripts(&scope);
        for Folder { url, folder, of } in self.folders() {
            self.folder(&url, Some((&folder, Some(&url))), of);
        }
        for (url, of) in self.paths() {
            self.folder(&url, None, of);
        }
        self.patterns();
        self.cache_rules(&scope);
        self.types_differ(&scope);
    }

    /// What holds for the site's folder, where no place says otherwise.
    fn of_root(&self) -> (Scope<'t>, Settings, Answers) {
        let scope = self.scope_of(Some(&self.root), "");
        let mut own = self.made(&scope, "", Paths::All, Some((&self.root, None)));
        let mut answers = Answers::default();
        self.rewritten(&scope, "", &mut own, &mut answers);
        (scope, own, answers)
    }

    fn at<'a>(&'a self, scope: &'a Scope<'t>, url: &'a str, concerns: Paths) -> At<'a, 't> {
        At { scope, url, concerns, server_name: self.server_name, scheme: self.scheme, types: self.types }
    }

    fn scope_of(&self, folder: Option<&str>, url: &str) -> Scope<'t> {
        Scope { levels: self.sections.levels(folder, url), ..self.scope.clone() }
    }

    /// The settings of a path: of a folder, with the prefix that is no part of its files' names, or of what is below the site's.
    fn made(
        &self,
        scope: &Scope<'t>,
        url: &str,
        concerns: Paths,
        folder: Option<(&str, Option<&str>)>,
    ) -> Settings {
        let at = self.at(scope, url, concerns);
        let mut settings = Settings::new();
        let (root, strip) = folder.unwrap_or((&self.root, None));
        let of =
            folder.map(|_| "documentroot").and_then(|name| self.scope.last(name)).filter(|_| strip.is_none());
        set(&mut settings, "root", Value::Text(if root.is_empty() { "/" } else { root }.into()), of);
        if let Some(strip) = strip {
            set(&mut settings, "strip-prefix", Value::Text(strip.into()), None);
        }
        files::settings(&at, &self.root, &mut settings);
        access::settings(&at, &mut settings);
        programs::variables(&at, &mut settings);
        self.methods(&at, &mut settings);
        if let Some(pass) = programs::covering(&self.passes, url) {
            let balancers: Vec<&Directive> = self.sections.all(&["proxy"]).collect();
            settings.remove("strip-prefix");
            settings.remove("fallback");
            if programs::proxy(&at, pass, &balancers, &mut settings) {
                crate::flash::forbid(&mut settings, pass.of);
            }
        }
        settings
    }

    /// `<LimitExcept>` with a refusal.
    fn methods(&self, at: &At<'_, 't>, settings: &mut Settings) {
        for of in at.scope.every("limitexcept") {
            let inner: Vec<_> = of.block.iter().flatten().inspect(|of| at.scope.context.see(of)).collect();
            match inner[..] {
                [only] if ["all denied", "from all"].contains(&&*only.words.join(" ")) => {
                    set(settings, "methods", Value::Texts(of.words.clone()), Some(of));
                    at.scope.differs(
                        &of.source,
                        "405 takes the place of 403",
                        Paths::OtherMethods,
                        Of::Everything,
                    );
                }
                _ => at.left(of, "Flash has no rules for some methods alone"),
            }
        }
        for of in at.scope.every("limit") {
            at.left(of, "Flash has no rules for some methods alone: write methods");
        }
    }

    /// `RewriteRule`s of the server, and of the innermost folder that has any: they take the place of all above.
    fn rewritten(&self, scope: &Scope<'t>, url: &str, own: &mut Settings, answers: &mut Answers) {
        let at = self.at(scope, url, Paths::Begins(url.into()));
        if let (true, Some(server)) = (url.is_empty(), self.sections.servers.last()) {
            rewrite::settings(&at, server, None, own, answers);
        }
        let has_rules = |level: &&&[Directive]| level.iter().any(|of| of.name.starts_with("rewrite"));
        let innermost = |scope: &Scope<'t>| {
            scope.levels[self.sections.servers.len()..].iter().rev().find(has_rules).copied()
        };
        let of_site = innermost(&self.scope_of(Some(&self.root), ""));
        match innermost(scope) {
            Some(level) if !url.is_empty() && of_site.is_some_and(|of_site| std::ptr::eq(of_site, level)) => {
                self.inherit(own);
            }
            Some(level) => rewrite::settings(&at, level, Some(url), own, answers),
            None => {}
        }
    }

    /// What the rules of the site's folder say of a part of it.
    fn inherit(&self, settings: &mut Settings) {
        let keys = ["root", "fallback", "extensions"];
        let own = keys.into_iter().filter_map(|key| Some((key, self.site.own.get(key)?.clone())));
        settings.extend(
            own.filter(|(key, _)| *key != "root" || !settings.contains_key("strip-prefix"))
                .collect::<Vec<_>>(),
        );
    }

    fn redirected(&self, scope: &Scope<'t>, url: &str) -> Vec<(PlaceName, Settings)> {
        let at = self.at(scope, url, Paths::Begins(url.into()));
        let servers = self.sections.servers.len();
        let levels = match url.is_empty() {
            true => scope.levels.iter().rev(),
            false => scope.levels[servers.min(scope.levels.len())..].iter().rev(),
        };
        levels.flat_map(|level| redirects::parts(&at, level)).collect()
    }

    /// Scripts by the ends of their names, and of `ScriptAlias`.
    fn scripts(&mut self, scope: &Scope<'t>) {
        self.named(scope, "");
        let at = self.at(scope, "", Paths::All);
        for (end, address, of) in programs::by_end(&at) {
            programs::run(&mut self.site.own, &end, &address, of);
        }
        let runs_php =
            |of: &Setting| matches!(&of.value, Value::Table(routes) if routes.contains_key(".php"));
        if !self.site.own.get("fastcgi").is_some_and(runs_php) && self.site.own.contains_key("root") {
            // Another file may say what runs them. Nobody gets their sources.
            set_more(&mut self.site.own, "deny", "*.php", &self.site.sources[0]);
            let why = "nothing here runs PHP: fastcgi = { \".php\" = \"unix:/run/php/php-fpm.sock\" } does, in place of deny";
            scope.everywhere(why, Paths::Has(".php".into()), Of::Everything);
        }
        for of in scope.every("scriptalias") {
            let [url, folder, ..] = &of.words[..] else { continue };
            let table = Setting::new(Value::Table(BTreeMap::new()), Some(&of.source));
            if let Value::Table(folders) = &mut self.site.own.entry("cgi").or_insert(table).value {
                folders.insert(plain_folder(url).into(), plain_folder(folder).into());
            }
        }
    }

    /// `Alias`, and folders with sections of their own.
    fn folders(&self) -> Vec<Folder<'t>> {
        let mut folders = Vec::new();
        for of in self.scope.every("alias") {
            if let [url, folder, ..] = &of.words[..] {
                if url.ends_with('/') && url.len() > 1 {
                    self.scope.prefix_differs(of, url);
                }
                folders.push(Folder {
                    url: plain_folder(url).into(),
                    folder: plain_folder(folder).into(),
                    of,
                });
            }
        }
        for of in self.scope.every("aliasmatch") {
            self.scope.left(
                of,
                "Flash has prefixes: write a place for each",
                of.words.first().map_or(Paths::None, |of| matching(of)),
            );
        }
        folders
    }

    /// Folders with sections of their own, as paths of the site, and sections of paths.
    fn paths(&self) -> Vec<(String, &'t Directive)> {
        let mut paths: BTreeMap<String, &'t Directive> = BTreeMap::new();
        for (folder, of) in self.sections.folders() {
            let of = of.or_else(|| self.sections.htaccess.get(folder)?.first());
            if let (Some(url), Some(of)) = (within(folder, &self.root).filter(|url| !url.is_empty()), of) {
                paths.insert(url.into(), of);
            }
        }
        for of in self.sections.all(&["location"]) {
            match covered(of) {
                Some(Covered::Plain(path)) if path.starts_with('/') && !path.contains(['*', '?', '[']) => {
                    paths.insert(plain_folder(path).into(), of);
                }
                _ => {
                    self.scope.context.see(of);
                    self.scope.left(
                        of,
                        "Flash has prefixes, ends of names and single paths: write a place for each",
                        Paths::All,
                    );
                }
            }
        }
        paths.extend(self.passes.iter().map(|pass| (pass.path.clone(), pass.of)));
        paths.remove("");
        paths.into_iter().collect()
    }

    fn folder(&mut self, url: &str, aliased: Option<(&str, Option<&str>)>, of: &'t Directive) {
        self.scope.context.see(of);
        let is_file =
            aliased.is_some_and(|(folder, _)| file_name(folder).is_some_and(|name| name.contains('.')));
        if is_file {
            return self.single(url, aliased.map_or("", |(file, _)| file), of);
        }
        // A path of an alias lies in its folder.
        let alias = self.folders().into_iter().find(|folder| crate::flash::is_below(url, &folder.url));
        let folder = match (aliased, &alias) {
            (Some((folder, _)), _) => folder.to_owned(),
            (None, Some(alias)) => format!("{}{}", alias.folder, &url[alias.url.len()..]),
            (None, None) => format!("{}{url}", self.root),
        };
        let scope = self.scope_of(Some(&folder), url);
        let place = match (aliased, &alias) {
            (None, Some(alias)) => Some((alias.folder.as_str(), Some(alias.url.as_str()))),
            (place, _) => place,
        };
        let mut settings = self.made(&scope, url, Paths::Begins(url.into()), place);
        let mut answers = Answers::default();
        self.rewritten(&scope, url, &mut settings, &mut answers);
        for (name, part) in self.redirected(&scope, url).into_iter().chain(answers.parts) {
            match name == PlaceName::Below(url.into()) {
                true => settings = part,
                false => self.part(name, part),
            }
        }
        if let Some((value, _)) = files::cache_control(&self.at(&scope, url, Paths::None)) {
            self.cache.push((url.into(), value));
        }
        self.add(PlaceName::Below(url.into()), settings, of);
        self.named(&scope, url);
    }

    /// A file of its own for one path.
    fn single(&mut self, url: &str, file: &str, of: &'t Directive) {
        let Some((folder, name)) = file.rsplit_once('/') else { return };
        let scope = self.scope_of(Some(folder), url);
        let mut settings = self.made(&scope, url, Paths::Exact(url.into()), Some((folder, None)));
        match url.rsplit_once('/') {
            Some(("", own)) if own == name => {}
            Some((above, own)) if own == name => {
                set(&mut settings, "strip-prefix", Value::Text(above.into()), Some(of));
            }
            _ => set(&mut settings, "fallback", Value::Text(format!("/{name}")), Some(of)),
        }
        self.add(PlaceName::Exact(url.into()), settings, of);
    }

    /// `<Files>` and `<FilesMatch>` of a folder.
    fn named(&mut self, scope: &Scope<'t>, url: &str) {
        let servers = if url.is_empty() { 0 } else { self.sections.servers.len() };
        let levels = scope.levels.get(servers..).unwrap_or_default().to_vec();
        for of in levels.into_iter().flatten().filter(|of| of.name.starts_with("files")) {
            let first = !self.scope.context.has_seen(of);
            self.scope.context.see(of);
            let block = of.block.as_deref().unwrap_or_default();
            let shapes = match covered(of) {
                Some(Covered::Regex(expression)) => {
                    // Names begin where a path has its last slash.
                    let whole = expression.strip_prefix('^').map(|rest| format!("/{rest}"));
                    pattern::shapes(whole.as_deref().unwrap_or(expression)).unwrap_or_default()
                }
                Some(Covered::Plain(name)) => plain(name).into_iter().collect(),
                None => Vec::new(),
            };
            let inner = scope.inner(block);
            if shapes.is_empty() {
                let paths = of.words.last().map_or(Paths::All, |_| Paths::All);
                scope.left(of, "Flash has ends of names, and names: write a place for each", paths);
                continue;
            }
            for shape in &shapes {
                self.of_name(&inner, url, of, shape, first);
            }
        }
    }

    fn of_name(&mut self, scope: &Scope<'t>, url: &str, of: &'t Directive, shape: &Shape, first: bool) {
        let handler = scope.own("sethandler").last().and_then(|of| of.words.first());
        let end = match shape {
            Shape::Ends(end) | Shape::Info(end) => end.clone(),
            Shape::Hidden(_) => return scope.see_all(of),
            Shape::Name(name) => return self.of_whole_name(scope, url, of, name),
            _ => {
                return scope.left(
                    of,
                    "Flash has ends of names, and names: write a place for each",
                    Paths::All,
                );
            }
        };
        match handler.map(|handler| (handler, programs::fastcgi(handler))) {
            Some((_, Some(address))) => programs::run(&mut self.site.own, &end, &address, of),
            Some((handler, None)) if handler.contains("php") => {
                let why = format!(
                    "PHP runs as php-fpm: write fastcgi = {{ \"{end}\" = \"unix:/run/php/php-fpm.sock\" }}"
                );
                scope.left(of, why, Paths::Has(end.clone()));
                set_more(&mut self.site.own, "deny", &format!("*{end}"), &of.source);
            }
            _ => {}
        }
        if !url.is_empty() {
            // Those of the site hold here, too.
            if first {
                scope.left(
                    of,
                    "Flash has no ends of names below a prefix alone",
                    Paths::BelowEnds(url.into(), end),
                );
            }
            return;
        }
        let mut settings = self.made(scope, url, Paths::Ends(end.clone()), None);
        self.inherit(&mut settings);
        if is_forbidden(&settings) {
            let why = "a missing name gets 403, too";
            scope.differs(&of.source, why, Paths::Missing, Of::Everything);
        }
        if let Some((value, _)) = files::cache_control(&self.at(scope, url, Paths::None)) {
            self.cache.push((format!("*{end}"), value));
        }
        self.add(PlaceName::Ends(end), settings, of);
    }

    /// A file of this name in any folder.
    fn of_whole_name(&mut self, scope: &Scope<'t>, url: &str, of: &'t Directive, name: &str) {
        let mut settings = self.made(scope, url, Paths::Ends(format!("/{name}")), None);
        self.inherit(&mut settings);
        if is_forbidden(&settings) {
            set_more(&mut self.site.own, "deny", name, &of.source);
            let why = "404 takes the place of 403";
            return scope.differs(&of.source, why, Paths::Has(format!("/{name}")), Of::Everything);
        }
        let path = format!("{url}/{name}");
        let others = Paths::Any(vec![Paths::Ends(format!("/{name}")), Paths::Folders]);
        scope.differs(&of.source, format!("this holds for {path} alone"), others, Of::Everything);
        if let Some((value, _)) = files::cache_control(&self.at(scope, url, Paths::None)) {
            self.cache.push((path.clone(), value));
        }
        self.add(PlaceName::Exact(path), settings, of);
    }

    /// `<LocationMatch>` and `<DirectoryMatch>`.
    fn patterns(&mut self) {
        let all: Vec<&Directive> = self.sections.all(&["locationmatch", "directorymatch"]).collect();
        for of in all {
            self.scope.context.see(of);
            let expression = match covered(of) {
                Some(Covered::Regex(expression) | Covered::Plain(expression)) => expression,
                None => continue,
            };
            let names = pattern::shapes(expression).as_deref().and_then(redirects::names);
            let Some(names) = names.filter(|_| of.name == "locationmatch") else {
                let is_hidden = matches!(pattern::shapes(expression).as_deref(), Some([Shape::Hidden(_)]));
                match is_hidden {
                    true => self.scope.see_all(of),
                    false => self.scope.left(
                        of,
                        "Flash has prefixes, ends of names and single paths: write a place for each",
                        Paths::All,
                    ),
                }
                continue;
            };
            let root = self.root.clone();
            let scope = self.scope_of(Some(&root), "").inner(of.block.as_deref().unwrap_or_default());
            for name in names {
                let paths = matching(expression);
                let mut settings = self.made(&scope, "", paths, None);
                self.inherit(&mut settings);
                self.add(name, settings, of);
            }
        }
    }

    fn add(&mut self, name: PlaceName, settings: Settings, of: &Directive) {
        if !self.site.places.iter().any(|place| place.name == name) {
            self.site.places.push(Place { name, settings, source: Some(of.source.clone()) });
        }
    }

    /// An answer for a part, which has the folder of its site.
    fn part(&mut self, name: PlaceName, mut settings: Settings) {
        if let Some(Setting { value: Value::Texts(rules), source: Some(source) }) =
            settings.get(redirects::DENIED)
            && rules.iter().all(|rule| rule.starts_with(['/', '*']))
        {
            return rules.iter().for_each(|rule| set_more(&mut self.site.own, "deny", rule, source));
        }
        if let Some(root) = self.site.own.get("root") {
            settings.entry("root").or_insert_with(|| root.clone());
        }
        if !self.site.places.iter().any(|place| place.name == name) {
            self.site.places.push(Place { name, settings, source: None });
        }
    }

    fn cache_rules(&mut self, scope: &Scope<'t>) {
        let at = self.at(scope, "", Paths::All);
        let by_type = files::cache_by_type(&at);
        let default = files::cache_control(&at);
        let mut rules: BTreeSet<String> = BTreeSet::new();
        let mut lines: Vec<String> = Vec::new();
        let types = by_type.into_iter().map(|(end, value, _)| (format!("*.{end}"), value));
        for (rule, value) in self.cache.iter().cloned().chain(types) {
            if rules.insert(rule.clone()) {
                lines.push(format!("{rule}={value}"));
            }
        }
        lines.extend(default.map(|(value, _)| value));
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
        let added: BTreeSet<String> = scope
            .every("addtype")
            .iter()
            .flat_map(|of| of.words.iter().skip(1))
            .map(|end| end.trim_start_matches('.').to_ascii_lowercase())
            .collect();
        let of_end = |end: &String| Paths::Ends(format!(".{end}"));
        let known =
            self.types.iter().filter(|(end, kind)| !added.contains(*end) && files::essence(end) != **kind);
        let differing: Vec<Paths> = known.map(|(end, _)| of_end(end)).collect();
        let why = "Flash has other types for some names: types = { \"*.ext\" = … } sets one";
        scope.everywhere(why, Paths::Any(differing), Of::Type);
        let all: Vec<Paths> = self.types.keys().chain(&added).map(of_end).collect();
        let why = "names without a known end are application/octet-stream, where Apache says no type";
        scope.everywhere(why, Paths::Not(Box::new(Paths::Any(all))), Of::Type);
    }

    /// Lines to which no request leads.
    fn see_all(&self) {
        for level in &self.sections.servers[1..] {
            level.iter().for_each(|of| self.scope.see_all(of));
        }
    }
}

/// The redirection of a whole site.
fn whole(name: &PlaceName, settings: &Settings) -> Option<Settings> {
    let is_whole = *name == PlaceName::Below(String::new()) && settings.contains_key("redirect");
    is_whole.then(|| settings.clone())
}

/// Whether nobody may come in.
fn is_forbidden(settings: &Settings) -> bool {
    let all =
        |of: &Setting| matches!(&of.value, Value::Texts(all) if all.iter().any(|one| one == EVERYBODY[0]));
    settings.get("deny").is_some_and(all) && !settings.contains_key("allow")
}

/// `*.php`, `.ht*`, or a whole name.
fn plain(name: &str) -> Option<Shape> {
    match name.strip_prefix('*') {
        Some(end) if end.starts_with('.') && !end.contains(['*', '?', '[']) => Some(Shape::Ends(end.into())),
        None if name.starts_with('.') => Some(Shape::Hidden(name[1..].trim_end_matches('*').into())),
        None if !name.contains(['*', '?', '[']) => Some(Shape::Name(name.into())),
        _ => None,
    }
}
