//! Rules of a site's places that can have no effect, because of where they stand. A server says so, and serves.

use std::os::unix::ffi::OsStrExt;

use flash_core::path::SitePath;
use flash_core::site::path_rules::{PathRule, PathRules};
use flash_core::site::places::PlaceName;
use flash_core::site::routes::RouteMatch;

use super::site_plan::Fault;
use crate::failure::Failure;
use crate::flags::{self, Denial, RulesFlags, SiteFlags};

/// What is wrong: in which place of the site, and at which key.
type Wrong = (Option<usize>, (&'static str, Failure));

/// Finds the rules without effect of all sites.
pub(super) fn check(flags: &flags::Serve) -> impl Iterator<Item = Fault> {
    flags.sites.iter().enumerate().flat_map(|(position, site)| {
        let fault = move |(place, (key, failure))| Fault { key, site: Some((position, place)), failure };
        of_site(site).into_iter().map(fault)
    })
}

fn of_site(site: &SiteFlags) -> Vec<Wrong> {
    let SiteFlags { own, names, places, .. } = site;
    // The rules of a name, whatever its end.
    let rules_of = |prefix: Option<&[u8]>| {
        let name = PlaceName { exact: None, prefix, suffix: None };
        names.pairs().position(|pair| pair == name).map_or(own, |number| &places[number])
    };
    let prefix_of = |path: &[u8]| SitePath::of_decoded(path).and_then(|path| names.of(&path).prefix);
    let mut found: Vec<Wrong> = fallback(own, None, site).map(|wrong| (None, wrong)).into_iter().collect();
    for (number, (name, rules)) in names.pairs().zip(places).enumerate() {
        let (Some(prefix), None) = (name.exact.or(name.prefix), name.suffix) else { continue };
        let above = rules_of(names.above(prefix).last().copied());
        for (key, of) in PATHS {
            let inherited = of(&above.flags);
            for path in of(&rules.flags).iter().filter(|path| !inherited.contains(path)) {
                // A deeper place may have other rules.
                let is_kept = || of(&rules_of(prefix_of(path)).flags).contains(path);
                let has_effect = covers(path, prefix) || covers(prefix, path) && is_kept();
                if !has_effect {
                    found.push((Some(number), (key, never(prefix, path, rules))));
                }
            }
        }
        found.extend(fallback(rules, Some(above), site).map(|wrong| (Some(number), wrong)));
        if rules.flags.rules.internal
            && let Some(path) = public_path(rules, own)
            && !is_denied(&path, rules_of(names.of(&path).prefix))
        {
            let path = String::from_utf8_lossy(path.as_bytes());
            let why = format!(
                "clients can request its files below {path}, because its folder is in that of the site"
            );
            found.push((Some(number), ("internal", Failure::Usage(why))));
        }
    }
    found
}

/// Where the site has the folder of these rules, too.
fn public_path(rules: &RulesFlags, own: &RulesFlags) -> Option<SitePath<'static>> {
    let below = rules.root.as_ref()?.strip_prefix(own.root.as_ref()?).ok()?;
    SitePath::of_decoded(&[b"/", below.as_os_str().as_bytes()].concat())
}

fn denied(rules: &RulesFlags) -> PathRules {
    rules.flags.deny.iter().filter_map(Denial::path).cloned().collect()
}

fn is_denied(path: &SitePath<'_>, rules: &RulesFlags) -> bool {
    path.is_hidden() && !rules.flags.dotfiles || rules.flags.rules.gone || denied(rules).cover(path)
}

/// Finds the paths that rules name.
type Paths = fn(&flags::Serve) -> Vec<Vec<u8>>;

/// Keys whose rules name paths.
const PATHS: [(&str, Paths); 5] = [
    ("deny", |flags| below(flags.deny.iter().filter_map(Denial::path))),
    ("no-programs", |flags| below(flags.programs.no_programs.iter())),
    ("cache-control", |flags| below(flags.cache_control.iter().filter_map(|(rule, _)| rule.as_ref()))),
    ("types", |flags| below(flags.types.iter().map(|(rule, _)| rule))),
    ("fastcgi", |flags| {
        let prefix = |route: &flags::RouteFlag<flags::Upstream>| match &route.place {
            RouteMatch::Prefix(prefix) => Some(prefix.to_vec()),
            RouteMatch::Suffix(_) | RouteMatch::Rest => None,
        };
        flags.programs.fastcgi.iter().filter_map(prefix).collect()
    }),
];

fn below<'r>(rules: impl Iterator<Item = &'r PathRule>) -> Vec<Vec<u8>> {
    let path = |rule: &PathRule| match rule {
        PathRule::Below(path) => Some(path.to_vec()),
        PathRule::Suffix(_) | PathRule::Name(_) => None,
    };
    rules.filter_map(path).collect()
}

/// Whether the path is the other one, or lies above it.
fn covers(path: &[u8], other: &[u8]) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    other.strip_prefix(path).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
}

fn never(prefix: &[u8], path: &[u8], rules: &RulesFlags) -> Failure {
    let [prefix, path] = [prefix, path].map(String::from_utf8_lossy);
    let stripped = rules.flags.rules.strip_prefix.as_ref().map(|stripped| stripped.as_bytes());
    let instead = match stripped {
        Some(stripped) if !path.starts_with(&*prefix) => {
            format!(
                ", and strip-prefix does not change that: write {}{path}",
                String::from_utf8_lossy(stripped)
            )
        }
        _ => String::new(),
    };
    Failure::Usage(format!(
        "{path} never matches here: rules name paths of requests, as {prefix} does{instead}"
    ))
}

/// The fallback that is set here, if it never answers.
fn fallback(
    rules: &RulesFlags,
    above: Option<&RulesFlags>,
    SiteFlags { own, names, places, .. }: &SiteFlags,
) -> Option<(&'static str, Failure)> {
    let given = |flags: &flags::Serve| match (&flags.fallback, &flags.spa) {
        (Some(path), _) => Some(("fallback", path.clone())),
        (None, path) => path.clone().map(|path| ("spa", path)),
    };
    let (key, path) = given(&rules.flags)?;
    if above.is_some_and(|above| given(&above.flags).is_some_and(|(_, other)| other == path)) {
        return None;
    }
    let at = names.of(&path);
    let there = names.pairs().position(|pair| pair == at).map_or(own, |number| &places[number]);
    // What denies it where it is set is said elsewhere.
    let why = match () {
        () if there.flags.rules.gone => "its own place is gone",
        () if !std::ptr::eq(there, rules) && denied(there).cover(&path) => "its own place denies it",
        () => return None,
    };
    let path = String::from_utf8_lossy(path.as_bytes());
    Some((key, Failure::Usage(format!("{path} never answers: {why}"))))
}
