//! A server with its locations, as a site with places.

use std::collections::BTreeMap;

use super::answer::{At, Server};
use super::answers;
use super::conditions;
use super::content::{self, cache_control};
use super::locations::{self, Kind, Location};
use super::programs;
use super::proxy;
use super::{access, types};
use crate::flash::{Place, PlaceName, Setting, Settings, Site, Value, keeps_out, set, set_more};
use crate::hosts::Answers;
use crate::note::{Of, Paths, Source};
use crate::pattern::{self, Shape};
use crate::scope::Scope;

/// A site that is worked out, before its places leave out what they inherit.
pub(super) struct Draft<'t> {
    pub(super) site: Site,
    pub(super) answers: Answers,
    scope: Scope<'t>,
    server: &'t Server<'t>,
    /// Rules of Cache-Control with their lines, what wins first.
    cache: Vec<(String, String)>,
    /// Prefixes that win over ends of names.
    strong: Vec<String>,
    /// All prefixes of its locations.
    prefixes: Vec<String>,
}

/// What a location comes to.
pub(super) struct Made {
    pub(super) settings: Settings,
    pub(super) answers: Answers,
    cache: Option<String>,
    is_program: bool,
}

/// `scope` is the server's block in the block of `http`.
pub(super) fn draft<'t>(scope: &Scope<'t>, server: &'t Server<'t>, source: &Source) -> Draft<'t> {
    let names = scope.hosts.clone();
    let site = Site { names, own: Settings::new(), places: Vec::new(), sources: vec![source.clone()] };
    let mut draft = Draft {
        site,
        answers: Answers::default(),
        scope: scope.clone(),
        server,
        cache: Vec::new(),
        strong: Vec::new(),
        prefixes: Vec::new(),
    };
    draft.make();
    draft
}

/// The requests that these shapes are about, or more of them.
fn paths_of(shapes: &[Shape]) -> Paths {
    let paths = |shape: &Shape| match shape {
        Shape::Exact(path) => Paths::Exact(path.clone()),
        Shape::Begins(path) => Paths::Begins(path.clone()),
        Shape::Ends(end) => Paths::Ends(end.clone()),
        _ => Paths::All,
    };
    Paths::Any(shapes.iter().map(paths).collect())
}

impl<'t> Draft<'t> {
    fn make(&mut self) {
        let scope = self.scope.clone();
        let mut of_server = self.made(&self.at(&scope, Paths::All, ""));
        if ["redirect", "respond"].iter().any(|key| of_server.settings.contains_key(key)) {
            // No location is looked at.
            self.site.own = keep_answers(of_server.settings);
            self.answers = of_server.answers;
            see_all(&scope);
            return;
        }
        let locations = locations::all(&scope);
        let root =
            locations.iter().find(|location| matches!(&location.kind, Kind::Prefix(path, _) if path == "/"));
        let default = match root {
            Some(root) => {
                let made = self.made(&self.at(&root.scope, Paths::All, "/"));
                of_server.answers.parts.extend(made.answers.parts);
                of_server.answers.is_missing |= made.answers.is_missing;
                for key in ["fallback", "methods"] {
                    if let (Some(setting), false) =
                        (of_server.settings.get(key), made.settings.contains_key(key))
                    {
                        self.site.own.insert(key, setting.clone());
                    }
                }
                self.site.own.extend(made.settings);
                made.cache
            }
            None => {
                self.site.own = of_server.settings;
                of_server.cache
            }
        };
        for (name, settings) in std::mem::take(&mut of_server.answers.parts) {
            self.add(name, settings, None);
        }
        self.answers = of_server.answers;
        let prefix = |of: &Location<'_>| match &of.kind {
            Kind::Prefix(path, _) if path != "/" => Some(path.clone()),
            _ => None,
        };
        self.prefixes = locations.iter().filter_map(prefix).collect();
        for location in &locations {
            self.location(location, default.as_deref());
        }
        self.cache_rules(default);
    }

    pub(super) fn at<'a>(&'a self, scope: &'a Scope<'t>, concerns: Paths, prefix: &'a str) -> At<'a, 't> {
        At { scope, server: self.server, concerns, tail: None, prefix }
    }

    /// The settings of a block.
    pub(super) fn made(&self, at: &At<'_, 't>) -> Made {
        let scope = at.scope;
        let mut settings = content::settings(scope, at.prefix, &at.concerns);
        let is_guard_left = access::settings(scope, &at.concerns, &mut settings);
        types::settings(scope, &at.concerns, &mut settings);
        let program = programs::fastcgi(scope, self.server.upstreams, &at.concerns, &mut settings);
        let is_left = proxy::settings(at, &mut settings) || programs::other(scope, &at.concerns).is_some();
        let mut answers = answers::settings(at, &mut settings);
        settings.extend(conditions::field_rules(scope).map(|rules| ("field-rules", rules)));
        answers.is_missing |= is_left || is_guard_left;
        if let Some((address, of)) = &program {
            let key = match &at.concerns {
                Paths::Ends(end) => end.clone(),
                Paths::Exact(path) => path.clone(),
                _ if at.prefix.len() > 1 => at.prefix.trim_end_matches('/').to_owned(),
                _ => "/".into(),
            };
            set(&mut settings, "fastcgi", Value::Table(BTreeMap::from([(key, address.clone())])), Some(of));
        }
        let cache = cache_control(scope).map(|(value, _)| value);
        let is_internal = scope.own("internal").next().is_some();
        let is_proxied = settings.contains_key("proxy");
        if is_internal && (is_proxied || !matches!(at.concerns, Paths::Exact(_))) {
            settings.insert("internal", Setting::new(Value::Flag(true), None));
        }
        Made { settings, answers, cache, is_program: program.is_some() }
    }

    fn location(&mut self, location: &Location<'t>, default: Option<&str>) {
        match &location.kind {
            Kind::Prefix(path, _) if path == "/" => {}
            Kind::Exact(path) => self.exact(location, path),
            Kind::Prefix(path, is_strong) => {
                if *is_strong {
                    self.strong.push(path.trim_end_matches('/').into());
                }
                self.prefix(location, path, default);
            }
            Kind::Regex(expression, is_case_kept) => self.regex(location, expression, *is_case_kept, default),
        }
    }

    fn exact(&mut self, location: &Location<'t>, path: &str) {
        let concerns = Paths::Exact(path.into());
        let made = self.made(&self.at(&location.scope, concerns, path));
        if location.scope.own("internal").next().is_some() && !made.settings.contains_key("fastcgi") {
            // The page of an error.
            location.scope.differs(
                &location.of.source,
                "clients may ask for the page, too",
                Paths::Exact(path.into()),
                Of::Everything,
            );
        }
        let Some(mut made) = self.answered(location, made, &[Shape::Exact(path.into())]) else { return };
        if made.is_program {
            self.program(location, &mut made, path);
        }
        if let Some(value) = made.cache.filter(|_| !made.is_program && path != "/") {
            self.cache.push((path.trim_end_matches('/').into(), value));
        }
        self.add(PlaceName::Exact(path.into()), made.settings, Some(&location.of.source));
    }

    fn prefix(&mut self, location: &Location<'t>, path: &str, default: Option<&str>) {
        let concerns = Paths::Begins(path.into());
        let made = self.made(&self.at(&location.scope, concerns, path));
        let plain = path.trim_end_matches('/').to_owned();
        if made.settings.contains_key("internal") {
            return self.internal(location, &plain, &made);
        }
        let Some(made) = self.answered(location, made, &[Shape::Begins(path.into())]) else { return };
        let is_aliased = made.settings.contains_key("strip-prefix");
        match (&made.cache, default) {
            _ if made.is_program || made.settings.contains_key("proxy") => {}
            (None, None) if self.strong.contains(&plain) => {
                let why = "ends of names have their Cache-Control here, too";
                location.scope.differs(
                    &location.of.source,
                    why,
                    Paths::Begins(path.into()),
                    Of::CacheControl,
                );
            }
            (Some(value), _) if !is_aliased => self.cache.push((plain.clone(), value.clone())),
            (None, Some(_)) => {
                let why = "files here have the Cache-Control of their site, too";
                location.scope.differs(
                    &location.of.source,
                    why,
                    Paths::Begins(path.into()),
                    Of::CacheControl,
                );
            }
            _ => {}
        }
        let mut settings = made.settings;
        if let (true, Some(value)) = (is_aliased, made.cache) {
            settings.insert("cache-control", Setting::new(Value::Texts(vec![value]), None));
        }
        let own = &self.site.own;
        let is_inner = self.prefixes.iter().any(|other| other != path && path.starts_with(other.as_str()));
        let changes = |key: &str| settings.get(key).map(|of| &of.value) != own.get(key).map(|of| &of.value);
        let is_changed = [
            "root",
            "strip-prefix",
            "auth",
            "field-rules",
            "allow",
            "deny",
            "redirect",
            "fastcgi",
            "proxy",
            "fallback",
            "header",
            "gone",
            "respond",
            "list",
            "types",
        ]
        .into_iter()
        .any(changes);
        let keeps_out = keeps_out(&settings, own);
        if is_inner || is_changed || keeps_out {
            location.scope.prefix_is_name(location.of, path, keeps_out);
        }
        self.add(PlaceName::Below(plain), settings, Some(&location.of.source));
    }

    /// Files that programs hand on.
    fn internal(&mut self, location: &Location<'t>, plain: &str, made: &Made) {
        if made.is_program || made.answers.is_missing || made.settings.contains_key("proxy") {
            set_more(&mut self.site.own, "deny", plain, &location.of.source);
            let why = "programs hand on files alone, and not what another program answers";
            return location.scope.left(location.of, why, Paths::Begins(plain.into()));
        }
        location.scope.prefix_differs(location.of, &format!("{plain}/"));
        let folder = match made.settings.get("root").map(|root| &root.value) {
            Some(Value::Text(root)) if made.settings.contains_key("strip-prefix") => root.clone(),
            Some(Value::Text(root)) => format!("{root}{plain}"),
            _ => return,
        };
        let files = self
            .site
            .own
            .entry("files")
            .or_insert_with(|| Setting::new(Value::Table(BTreeMap::new()), Some(&location.of.source)));
        if let Value::Table(files) = &mut files.value {
            files.insert(plain.into(), folder);
        }
    }

    fn regex(
        &mut self,
        location: &Location<'t>,
        expression: &str,
        is_case_kept: bool,
        default: Option<&str>,
    ) {
        let (scope, of) = (&location.scope, location.of);
        let concerns = Paths::Matches(expression.into(), is_case_kept);
        let Some(shapes) = pattern::shapes(expression) else {
            see_all(scope);
            // Nobody gets the sources of scripts that were to run.
            if location.scope.own("fastcgi_pass").next().is_some() {
                set_more(&mut self.site.own, "deny", "*.php", &of.source);
            }
            return scope.left(
                of,
                "Flash has prefixes, ends of names and single paths: write a place for each",
                concerns,
            );
        };
        if let Some(within) = &location.within {
            return self.nested(location, within.clone(), &shapes);
        }
        let tails = pattern::tails(expression).unwrap_or_default();
        let tail = tails.first().map(|(tail, _)| tail);
        let first = match &shapes[..] {
            [Shape::Exact(path), ..] => Paths::Exact(path.clone()),
            _ => shapes
                .iter()
                .find_map(|shape| match shape {
                    Shape::Ends(end) => Some(Paths::Ends(end.clone())),
                    _ => None,
                })
                .unwrap_or(concerns.clone()),
        };
        let prefix = match &shapes[..] {
            [Shape::Begins(path)] => path.as_str(),
            _ => "",
        };
        let made = self.made(&At { tail, ..self.at(scope, first, prefix) });
        if !is_case_kept {
            scope.differs(&of.source, "names are compared with their case", Paths::Capitals, Of::Everything);
        }
        let Some(mut made) = self.answered(location, made, &shapes) else { return };
        if made.is_program {
            return self.script(location, &mut made, &shapes, expression);
        }
        for shape in &shapes {
            let (rule, name) = match shape {
                Shape::Ends(end) => (format!("*{end}"), PlaceName::Ends(end.clone())),
                Shape::Exact(path) => (path.clone(), PlaceName::Exact(path.clone())),
                Shape::Begins(path) => {
                    scope.prefix_is_name(of, path, keeps_out(&made.settings, &self.site.own));
                    let path = path.trim_end_matches('/').to_owned();
                    (path.clone(), PlaceName::Below(path))
                }
                _ => {
                    scope.left(
                        of,
                        "Flash has prefixes, ends of names and single paths: write a place for each",
                        concerns.clone(),
                    );
                    continue;
                }
            };
            match (&made.cache, default) {
                (Some(value), _) => self.cache.push((rule, value.clone())),
                (None, Some(_)) => {
                    let why = "files here have the Cache-Control of their site, too";
                    scope.differs(&of.source, why, concerns.clone(), Of::CacheControl);
                }
                _ => {}
            }
            self.add(name, made.settings.clone(), Some(&of.source));
        }
    }

    /// Answers for parts of a location, and what is not taken of it where a program answers.
    fn beside(&mut self, location: &Location<'t>, made: &mut Made, shapes: &[Shape]) {
        let (scope, of) = (&location.scope, location.of);
        for (name, settings) in std::mem::take(&mut made.answers.parts) {
            self.add(name, settings, Some(&of.source));
        }
        if made.cache.is_some() && (made.is_program || made.settings.contains_key("proxy")) {
            let why = "cache-control is for files: let the program say it";
            scope.differs(&of.source, why, paths_of(shapes), Of::CacheControl);
        }
    }

    /// Answers that stand for all of a location: 404, 403, a proxy.
    fn answered(&mut self, location: &Location<'t>, mut made: Made, shapes: &[Shape]) -> Option<Made> {
        let (scope, of) = (&location.scope, location.of);
        self.beside(location, &mut made, shapes);
        let forbids = made.settings.get("deny").is_some_and(
            |deny| matches!(&deny.value, Value::Texts(all) if all.iter().any(|one| one == "0.0.0.0/0")),
        );
        let is_missing = made.answers.is_missing;
        if !is_missing && !forbids {
            return Some(made);
        }
        for shape in shapes {
            let mut deny = |rule: &str| set_more(&mut self.site.own, "deny", rule, &of.source);
            let with_status = |paths: Paths| {
                if forbids {
                    scope.differs(&of.source, "404 takes the place of 403", paths, Of::Everything);
                }
            };
            match shape {
                Shape::Exact(path) if is_missing => deny(path),
                Shape::Begins(path) if is_missing => {
                    scope.prefix_is_name(of, path, true);
                    deny(path.trim_end_matches('/'));
                }
                Shape::Ends(end) if is_missing && end != ".php" => deny(&format!("*{end}")),
                Shape::Ends(end) if is_missing => {
                    // Another location may run one of them.
                    let mut settings = made.settings.clone();
                    settings.insert("internal", Setting::new(Value::Flag(true), Some(&of.source)));
                    self.add(PlaceName::Ends(end.clone()), settings, Some(&of.source));
                }
                Shape::Exact(path) => {
                    self.add(PlaceName::Exact(path.clone()), made.settings.clone(), Some(&of.source))
                }
                Shape::Begins(path) => {
                    scope.prefix_is_name(of, path, true);
                    let path = path.trim_end_matches('/').to_owned();
                    self.add(PlaceName::Below(path), made.settings.clone(), Some(&of.source));
                }
                Shape::Ends(end) => {
                    self.add(PlaceName::Ends(end.clone()), made.settings.clone(), Some(&of.source))
                }
                Shape::Name(name) => {
                    deny(name);
                    with_status(Paths::Has(format!("/{name}")));
                }
                Shape::BelowEnds(path, end) => {
                    set_more(&mut self.site.own, "no-programs", path, &of.source);
                    let paths = Paths::BelowEnds(path.clone(), end.clone());
                    let what = format!("403 for scripts of all kinds below {path}");
                    scope.differs(&of.source, what, paths, Of::Everything);
                }
                Shape::InEnds(folder, end) => {
                    set_more(&mut self.site.own, "no-programs", folder, &of.source);
                    let paths = Paths::Has(format!("/{folder}"));
                    scope.differs(&of.source, format!("403 for scripts of all kinds below {folder}, and {end} is served where it is none"), paths, Of::Everything);
                }
                Shape::Hidden(_) => with_status(Paths::Has("/.".into())),
                Shape::Info(end) if !shapes.contains(&Shape::Ends(end.clone())) => {
                    let why = "Flash denies names and their ends, and not parts of them: write deny";
                    scope.left(of, why, Paths::Has(end.clone()));
                }
                Shape::Info(end) => {
                    let paths = Paths::Has(format!("{end}/"));
                    scope.differs(&of.source, "a script has the path after its name", paths, Of::Everything);
                }
                Shape::All => scope.left(of, "all would be denied", Paths::All),
            }
        }
        None
    }

    pub(super) fn add(&mut self, name: PlaceName, settings: Settings, source: Option<&Source>) {
        // What wins in nginx came first.
        if !self.site.places.iter().any(|place| place.name == name) {
            let inherits = source.is_none();
            let mut settings = settings;
            if inherits {
                // A redirection alone.
                settings.entry("root").or_insert_with(|| {
                    self.site.own.get("root").cloned().unwrap_or(Setting::new(Value::Text("/".into()), None))
                });
            }
            self.site.places.push(Place { name, settings, source: source.cloned() });
        }
    }

    fn cache_rules(&mut self, default: Option<String>) {
        let mut rules: Vec<String> = Vec::new();
        for (rule, value) in &self.cache {
            let text = format!("{rule}={value}");
            if !rules.iter().any(|known| known.starts_with(&format!("{rule}="))) {
                rules.push(text);
            }
        }
        rules.extend(default);
        if !rules.is_empty() {
            let setting = Setting::new(Value::Texts(rules), None);
            self.site.own.insert("cache-control", setting.clone());
            for place in &mut self.site.places {
                place.settings.entry("cache-control").or_insert(setting.clone());
            }
        }
    }

    pub(super) fn strong(&self) -> &[String] {
        &self.strong
    }
}

fn keep_answers(mut settings: Settings) -> Settings {
    settings.retain(|key, _| {
        ["redirect", "respond", "gone", "header", "limit", "rate", "access-log", "log-status"].contains(key)
    });
    settings
}

/// Lines to which no request leads.
pub(super) fn see_all(scope: &Scope<'_>) {
    scope.levels.last().copied().unwrap_or_default().iter().for_each(|of| scope.see_all(of));
}
