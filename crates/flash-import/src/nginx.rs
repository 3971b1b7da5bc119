//! nginx: its files, read and written anew as a configuration of Flash.

mod access;
mod answer;
mod answers;
mod conditions;
mod content;
mod listen;
mod locations;
mod programs;
mod proxy;
mod read;
mod scope;
mod scripts;
mod server;
mod servers;
mod site;
mod target;
mod types;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

pub use read::Include;

use crate::flash::{Flash, PlaceName, Setting, Settings, Site, Value};
use crate::note::{Concerns, Error, Note, Of, Paths};
use crate::{Imported, include};
use answer::{HostRedirect, Server};
use programs::Upstreams;
use read::Directive;
use scope::{Context, Scope};
use servers::{Block, Group};
use site::Draft;

/// Imports a file with all that it includes.
///
/// # Errors
/// The first error of its syntax, with file and line.
pub fn import(path: &Path, text: &str, include: Include<'_>) -> Result<Imported, Error> {
    let tree = read::file(path, text, include)?;
    let context = Context::default();
    everywhere(&context);
    let flash = flash(&context, &tree);
    let (mut directives, mut unknown) = (0, Vec::new());
    count(&context, &tree, &mut directives, &mut unknown);
    for of in unknown {
        let concerns = Concerns { paths: Paths::None, ..Concerns::nothing() };
        let text = server::advice(&of.name).into();
        context.note(Note { source: Some(of.source.clone()), is_left: true, text, concerns });
    }
    Ok(Imported { text: flash.text(), notes: context.into_notes(), directives })
}

/// Imports a file of this machine.
///
/// # Errors
/// As [`import`], or the file cannot be read.
pub fn import_file(path: &Path) -> Result<Imported, String> {
    let text = include::read(path)?;
    import(path, &text, &include::files).map_err(|error| error.to_string())
}

/// What is different in every site.
fn everywhere(context: &Context) {
    for (text, paths, of) in [
        (
            "pages for errors that no error_page names are Flash's own, and fields of add_header stand in them, too",
            Paths::None,
            Of::Everything,
        ),
        (
            "files have no other methods than GET and HEAD: 405 comes before 404",
            Paths::OtherMethods,
            Of::Everything,
        ),
        ("redirections have paths in their canonical form, encoded anew", Paths::Uncanonical, Of::Location),
        (
            "names that begin with a dot are 404: dotfiles = true serves them",
            Paths::Has("/.".into()),
            Of::Everything,
        ),
    ] {
        let concerns = Concerns { hosts: Vec::new(), paths, of };
        context.note(Note { source: None, is_left: false, text: text.into(), concerns });
    }
}

fn count<'t>(context: &Context, tree: &'t [Directive], all: &mut usize, unknown: &mut Vec<&'t Directive>) {
    // Of lines that every configuration includes, the block counts.
    for of in tree.iter().filter(|of| of.name != "fastcgi_param") {
        *all += 1;
        match context.has_seen(of) || server::needs_nothing(&of.name) {
            true if of.name == "types" => {}
            true => count(context, of.block.as_deref().unwrap_or_default(), all, unknown),
            false => unknown.push(of),
        }
    }
}

fn flash(context: &Context, tree: &[Directive]) -> Flash {
    let http = tree.iter().find(|of| of.name == "http").and_then(|of| of.block.as_deref()).unwrap_or(tree);
    let scope = |block, hosts: &[String]| Scope { levels: vec![block], context, hosts: hosts.to_vec() };
    let blocks = servers::blocks(http);
    let upstreams: BTreeMap<&str, &Directive> = http
        .iter()
        .filter(|of| of.name == "upstream")
        .filter_map(|of| Some((of.words.first()?.as_str(), of)))
        .collect();
    let groups = servers::groups(&blocks);
    let answers_unknown = |at: usize| {
        let mut of_unknown = groups.iter().filter(|group| group.names.iter().any(|name| name == "*"));
        of_unknown.any(|group| group.plain == Some(at) || group.tls == Some(at))
    };
    let facts: Vec<(Scope<'_>, Server<'_>)> = blocks
        .iter()
        .enumerate()
        .map(|(at, block)| {
            let unknown = answers_unknown(at).then(|| "*".to_owned());
            let hosts: Vec<String> = block.names.iter().cloned().chain(unknown).collect();
            facts(&scope(http, &hosts), block, &upstreams)
        })
        .collect();
    let drafts: Vec<Draft<'_>> = facts
        .iter()
        .zip(&blocks)
        .map(|((scope, server), block)| site::draft(scope, server, &block.of.source))
        .collect();
    let mut flash =
        Flash { server: server::settings(&scope(tree, &[]), &scope(http, &[]), &blocks), sites: Vec::new() };
    let mut strong: Vec<Vec<String>> = Vec::new();
    for group in groups {
        for other in &group.others {
            let why =
                "a site answers alike at all listeners: this server is left out for names that others have";
            facts[*other].0.left(blocks[*other].of, why, Paths::All);
        }
        for (site, of) in sites(&group, &facts, &drafts, &blocks) {
            strong.push(drafts[of].strong().to_vec());
            flash.sites.push(site);
        }
    }
    finish(&mut flash, &strong, context);
    flash
}

fn facts<'t>(http: &Scope<'t>, block: &Block<'t>, upstreams: &'t Upstreams<'t>) -> (Scope<'t>, Server<'t>) {
    let scope = http.inner(block.block);
    for of in &block.strange {
        scope.left(of, "names of sites are whole, or *.example.org: write each", Paths::All);
    }
    let has = |is_tls: bool| block.listens.iter().any(|listen| listen.is_tls == is_tls);
    let named = block.block.iter().filter(|of| of.name == "location");
    let named =
        named.filter_map(|of| Some((of.words.first().filter(|word| word.starts_with('@'))?.as_str(), of)));
    let server = Server {
        name: block.names.first().cloned().unwrap_or_default(),
        scheme: if has(true) { "https" } else { "http" },
        has_both: has(true) && has(false),
        named: named.collect::<HashMap<_, _>>(),
        upstreams,
    };
    (scope, server)
}

/// The sites of names that the same servers answer, each with the server that it is made of.
fn sites(
    group: &Group,
    facts: &[(Scope<'_>, Server<'_>)],
    drafts: &[Draft<'_>],
    blocks: &[Block<'_>],
) -> Vec<(Site, usize)> {
    let Some(main) = group.tls.or(group.plain) else { return Vec::new() };
    let mut found: Vec<(Site, usize)> = Vec::new();
    for name in &group.names {
        let mut site = face(&drafts[main], name);
        if let (Some(plain), true) = (group.plain, group.plain != group.tls && group.tls.is_some()) {
            insecure(
                &mut site,
                &face(&drafts[plain], name),
                drafts[plain].answers.is_missing,
                &facts[plain].0,
                blocks[plain].of,
            );
        }
        if let Some(https) = &drafts[main].answers.https {
            site.own.insert("https", https.clone());
        }
        if blocks[main].listens.iter().any(|listen| listen.is_tls) {
            server::tls(&facts[main].0, &mut site.own);
        }
        if drafts[main].answers.is_missing && !site.own.contains_key("redirect") {
            let of = blocks[main].of;
            match &**name {
                "*" => facts[main].0.differs(&of.source, "unknown hosts get 421", Paths::All, Of::Everything),
                _ => facts[main].0.left(of, "the site is left out, so that its hosts get 421", Paths::All),
            }
            continue;
        }
        site.names = vec![name.clone()];
        let same = found.iter_mut().find(|(known, _)| known.text_of_rules() == site.text_of_rules());
        match same {
            Some((known, _)) => known.names.push(name.clone()),
            None => found.push((site, main)),
        }
    }
    found
}

/// What a server answers under one name.
fn face(draft: &Draft<'_>, name: &str) -> Site {
    let mut site = draft.site.clone();
    let holds = |of: &&HostRedirect| of.hosts.iter().any(|host| host == name) != of.is_except;
    if let Some(HostRedirect { redirect, .. }) = draft.answers.hosts.iter().find(holds) {
        site.own = Settings::from([("redirect", redirect.clone())]);
        site.places.clear();
    }
    site
}

fn target(site: &Site) -> Option<&str> {
    let Value::Named(named) = &site.own.get("redirect")?.value else { return None };
    named.iter().find_map(|(key, value)| match value {
        Value::Text(to) if *key == "to" => Some(to.as_str()),
        _ => None,
    })
}

/// Requests without TLS, which another server answers.
fn insecure(site: &mut Site, plain: &Site, is_missing: bool, scope: &Scope<'_>, of: &Directive) {
    match target(plain) {
        Some(to) if target(site) == Some(to) => {}
        Some(to) if to.starts_with("https://") => {
            let redirect = plain.own.get("redirect").and_then(|redirect| redirect.source.as_ref());
            site.own.insert("https", Setting::new(Value::Text("required".into()), redirect));
            let why = "requests without TLS are sent to the same host and path with TLS, with 308";
            scope.differs(redirect.unwrap_or(&of.source), why, Paths::Insecure, Of::Everything);
        }
        _ if is_missing => {
            let why = "requests without TLS have the answers of those with TLS";
            scope.differs(&of.source, why, Paths::Insecure, Of::Everything);
        }
        _ => scope.left(
            of,
            "a site answers alike with and without TLS: the server with TLS is taken",
            Paths::Insecure,
        ),
    }
}

/// A script without a program that runs it is no fallback.
fn without_program(site: &mut Site, context: &Context) {
    let is_script = |of: &Setting| matches!(&of.value, Value::Text(path) if path.ends_with(".php"));
    if site.own.contains_key("fastcgi") || !site.own.get("fallback").is_some_and(is_script) {
        return;
    }
    let source = site.own.remove("fallback").and_then(|fallback| fallback.source);
    site.places.iter_mut().filter(|place| !place.settings.contains_key("fastcgi")).for_each(|place| {
        if place.settings.get("fallback").is_some_and(is_script) {
            place.settings.remove("fallback");
        }
    });
    let concerns = Concerns { hosts: site.names.clone(), paths: Paths::All, of: Of::Everything };
    let text = "no fastcgi_pass was taken that runs the script".into();
    context.note(Note { source, is_left: true, text, concerns });
}

/// Shared settings move up, and places leave out what they inherit.
fn finish(flash: &mut Flash, strong: &[Vec<String>], context: &Context) {
    let whole: Vec<BTreeMap<PlaceName, Settings>> = flash
        .sites
        .iter()
        .map(|site| site.places.iter().map(|place| (place.name.clone(), place.settings.clone())).collect())
        .collect();
    server::hoist(&mut flash.server, &mut flash.sites);
    for site in &mut flash.sites {
        without_program(site, context);
    }
    for ((site, whole), strong) in flash.sites.iter_mut().zip(&whole).zip(strong) {
        let names = site.names.clone();
        for (name, key) in site.settle(&flash.server) {
            let paths = match &name {
                PlaceName::Below(path) if key == "no-programs" => {
                    Paths::BelowEnds(path.clone(), ".php".into())
                }
                PlaceName::Below(path) => Paths::Begins(path.clone()),
                PlaceName::Exact(path) => Paths::Exact(path.clone()),
                PlaceName::Ends(end) => Paths::Ends(end.clone()),
            };
            let hosts = names.clone();
            let text = match key {
                "no-programs" => format!("{}: scripts get 403, and not their sources", name.text()),
                "proxy-header" => format!(
                    "{}: the server gets no fields that others get, and none of the client's with their names",
                    name.text()
                ),
                _ => format!("{}: the place inherits {key}", name.text()),
            };
            context.note(Note {
                source: None,
                is_left: false,
                text,
                concerns: Concerns { hosts, paths, of: Of::Everything },
            });
        }
        for pair in site.reconcile(&flash.server, whole, strong) {
            let hosts = names.clone();
            let text = format!(
                "below {} names that end in {} have other values of {}",
                pair.below,
                pair.end,
                pair.keys.join(", ")
            );
            let paths = Paths::BelowEnds(pair.below, pair.end);
            context.note(Note {
                source: None,
                is_left: false,
                text,
                concerns: Concerns { hosts, paths, of: Of::Everything },
            });
        }
    }
}
