//! A site of a Caddyfile, as one of Flash with places: one for each path that a matcher names, worked out with all that Caddy would do
//! for a request there. What a place shares with its site is left out later.

use std::collections::BTreeMap;

use super::directives::{OF_SITES, opens_nothing};
use super::evaluate;
use super::lines::Lines;
use super::matcher::Pattern;
use crate::directive::Directive;
use crate::flash::{
    Place, PlaceName, Settings, Site, Value, forbid, is_below, is_refused, keeps_out, set, set_more,
};
use crate::note::{Of, Paths};
use crate::scope::Scope;

/// Where matchers have their paths.
#[derive(Default)]
struct Places<'t> {
    /// Each with the first line that names it.
    all: BTreeMap<PlaceName, &'t Directive>,
    /// Those that Caddy has as prefixes, with all lines: `/a/` for what is below, and `/a` for what begins so.
    prefixes: Vec<(&'t Directive, String)>,
}

/// Fills in the settings of a site, and its places.
pub(super) fn fill<'t>(scope: &'t Scope<'t>, of: &'t Directive, site: &mut Site) {
    let lines = Lines::of_site(scope, of);
    let mut places = Places::default();
    find_places(&lines, &[String::new()], &mut places);
    places.all.remove(&PlaceName::Below(String::new()));
    if !places.all.is_empty() {
        let why = "paths of matchers have their case: with Caddy they have none";
        scope.everywhere(why, Paths::Capitals, Of::Everything);
    }
    site.own = evaluate::of(&lines, &PlaceName::Below(String::new()), of);
    for (name, of) in places.all {
        let settings = evaluate::of(&lines, &name, of);
        site.places.push(Place { name, settings, source: Some(of.source.clone()) });
    }
    for (of, prefix) in &places.prefixes {
        let name = PlaceName::Below(prefix.strip_suffix('/').unwrap_or(prefix).into());
        let place = site.places.iter().find(|place| place.name == name);
        let keeps_out = place.is_some_and(|place| keeps_out(&place.settings, &site.own));
        scope.prefix_is_name(of, prefix, keeps_out && !opens_nothing(&of.name));
    }
    ends_below(scope, site);
    of_site(&lines, &mut site.own);
}

/// Nobody gets into a site until somebody has looked at this line.
pub(super) fn close(scope: &Scope<'_>, of: &Directive, why: &str, site: &mut Site) {
    scope.see_all(of);
    scope.left(of, format!("{why}: nobody gets in here"), Paths::All);
    forbid(&mut site.own, of);
    site.places.iter_mut().for_each(|place| forbid(&mut place.settings, of));
}

/// Names below a prefix and with an end have the rules of both places, where Caddy's order decides. What is refused stays refused.
fn ends_below(scope: &Scope<'_>, site: &mut Site) {
    let ends: Vec<Place> =
        site.places.iter().filter(|place| matches!(place.name, PlaceName::Ends(_))).cloned().collect();
    let mut denied: Vec<String> = Vec::new();
    for place in &site.places {
        let (PlaceName::Below(path), Some(source)) = (&place.name, &place.source) else { continue };
        for end in &ends {
            let differs = |key: &&str| {
                let value = |of: &Settings| of.get(*key).map(|of| of.value.clone());
                value(&place.settings) != value(&end.settings)
            };
            let keys = place.settings.keys().chain(end.settings.keys()).copied();
            if let (true, PlaceName::Ends(end)) = (keys.collect::<Vec<_>>().iter().any(differs), &end.name) {
                let why = format!("names below {path} that end in {end} have the rules of both places");
                scope.differs(source, why, Paths::BelowEnds(path.clone(), end.clone()), Of::Everything);
            }
        }
        if !ends.is_empty() && is_refused(&place.settings) {
            set_more(&mut site.own, "deny", path, source);
            scope.differs(source, "what is below is 404", Paths::Begins(path.clone()), Of::Everything);
            denied.push(path.clone());
        }
    }
    site.places.retain(|place| match &place.name {
        PlaceName::Below(path) | PlaceName::Exact(path) => {
            !denied.iter().any(|denied| is_below(path, denied))
        }
        PlaceName::Ends(_) => true,
    });
}

/// The places of all matchers, also of those in blocks. The prefixes are what may have been stripped there; of the first one, `uri` has
/// stripped nothing.
fn find_places<'t>(lines: &Lines<'t>, prefixes: &[String], places: &mut Places<'t>) {
    let mut prefixes = prefixes.to_vec();
    let all = || lines.block.iter().filter(|of| !of.name.starts_with('@') && !OF_SITES.contains(&&*of.name));
    for of in all().filter(|of| of.name == "uri") {
        if let (_, [what, prefix]) = lines.matcher(of)
            && what == "strip_prefix"
        {
            prefixes.push(format!("{}{}", prefixes[0], prefix.trim_end_matches('/')));
        }
    }
    for of in all() {
        let (matcher, _) = lines.matcher(of);
        for path in matcher.paths.iter().chain(&matcher.not_paths) {
            prefixes.iter().for_each(|prefix| find_place(of, (path, prefix), places));
        }
        match (&*of.name, &matcher.paths[..]) {
            ("handle_path", [Pattern::Below(path) | Pattern::Begins(path)]) => {
                let inner: Vec<String> = prefixes.iter().map(|prefix| format!("{prefix}{path}")).collect();
                find_places(&lines.inner(of), &inner, places);
            }
            ("handle" | "handle_path" | "route", _) => find_places(&lines.inner(of), &prefixes, places),
            _ => {}
        }
    }
}

/// The place of a path of a line, behind a prefix.
fn find_place<'t>(of: &'t Directive, (path, prefix): (&Pattern, &str), places: &mut Places<'t>) {
    let place = match path.place() {
        Some(PlaceName::Below(path)) => PlaceName::Below(format!("{prefix}{path}")),
        Some(PlaceName::Exact(path)) => PlaceName::Exact(format!("{prefix}{path}")),
        Some(PlaceName::Ends(end)) if prefix.is_empty() => PlaceName::Ends(end),
        _ => return,
    };
    match path {
        Pattern::Below(path) => places.prefixes.push((of, format!("{prefix}{path}/"))),
        Pattern::Begins(path) => places.prefixes.push((of, format!("{prefix}{path}"))),
        _ => {}
    }
    places.all.entry(place).or_insert(of);
}

/// Lines that are about a whole site.
fn of_site(lines: &Lines<'_>, settings: &mut Settings) {
    for of in lines.block {
        match &*of.name {
            "log" => {
                lines.scope.see_all(of);
                let output = of.block.iter().flatten().find(|of| of.name == "output").map(|of| &of.words[..]);
                match output {
                    Some([kind, path, ..]) if kind == "file" => {
                        set(settings, "access-log", Value::Text(path.clone()), Some(of));
                        let why = "lines have one of Flash's formats (log-format), and logrotate turns the file over";
                        lines.scope.differs(&of.source, why, Paths::None, Of::Everything);
                    }
                    Some([kind]) if kind == "discard" => {
                        set(settings, "access-log", Value::Text("off".into()), Some(of))
                    }
                    _ => {}
                }
            }
            "bind" | "tls" => lines.scope.context.see(of),
            _ => {}
        }
    }
}
