//! Ways around a log-in that the rules of a site would leave open. Each is an error.

use flash_core::path::SitePath;
use flash_core::places::PlaceName;

use super::folders::indexes;
use crate::failure::Failure;
use crate::flags::{RulesFlags, SiteFlags};

/// What is wrong: in which place of the site, and at which key.
type Around = (Option<usize>, (&'static str, Failure));

/// Finds the ways around the log-ins of a site and its places.
pub(super) fn check(site: &SiteFlags) -> Vec<Around> {
    let SiteFlags { own, names, places, .. } = site;
    let mut found = Vec::new();
    // The rules of a path, or of a place of no end.
    let rules_at = |path: &SitePath<'_>| {
        let at = names.of(path);
        names.pairs().position(|pair| pair == at).map_or(own, |number| &places[number])
    };
    let mut of_prefix = own;
    found.extend(fallback(own, &rules_at).map(|wrong| (None, wrong)));
    for (number, (PlaceName { prefix, suffix }, rules)) in names.pairs().zip(places).enumerate() {
        let mut note = |key, why: String| found.push((Some(number), (key, Failure::Usage(why))));
        match (prefix, suffix) {
            (_, Some(suffix)) if rules.flags.rules.auth != of_prefix.flags.rules.auth => {
                let end = String::from_utf8_lossy(suffix);
                note(
                    "auth",
                    format!(
                        "a log-in cannot follow from a name's end: /x{end}/y, and the folder of an index file, would go around \
                     it. Write a place such as \"/admin\""
                    ),
                );
            }
            (Some(prefix), None) => {
                of_prefix = rules;
                if let Some(name) = index_in(prefix, rules, &rules_at) {
                    note(
                        "auth",
                        format!(
                            "{name} answers for its folder, too, which would go around the log-in: protect the folder"
                        ),
                    );
                }
            }
            _ => {}
        }
        found.extend(fallback(rules, &rules_at).map(|wrong| (Some(number), wrong)));
    }
    found
}

/// The fallback answers for other names, so those would need its log-in.
fn fallback<'r>(
    rules: &RulesFlags,
    rules_at: &impl Fn(&SitePath<'_>) -> &'r RulesFlags,
) -> Option<(&'static str, Failure)> {
    let flags = &rules.flags;
    let (key, path) = match (&flags.fallback, &flags.spa) {
        (Some(path), _) => ("fallback", path),
        (None, path) => ("spa", path.as_ref()?),
    };
    let there = rules_at(path);
    let needs = there.flags.rules.users()?;
    let is_around = there.root == rules.root && rules.flags.rules.users() != Some(needs);
    let why = "it lies in a place that needs a log-in, and would go around it";
    is_around.then(|| (key, Failure::Usage(why.into())))
}

/// The file's name, if the place is an index file whose folder needs no such log-in.
fn index_in<'r>(
    prefix: &[u8],
    rules: &RulesFlags,
    rules_at: &impl Fn(&SitePath<'_>) -> &'r RulesFlags,
) -> Option<String> {
    let needs = rules.flags.rules.users()?;
    let slash = prefix.iter().rposition(|byte| *byte == b'/')?;
    let folder = rules_at(&SitePath::of_decoded(&prefix[..=slash])?);
    let name = &prefix[slash + 1..];
    let mut indexes = indexes(&folder.flags).into_iter();
    let is_around = indexes.any(|index| index == name) && folder.flags.rules.users() != Some(needs);
    is_around.then(|| String::from_utf8_lossy(name).into_owned())
}
