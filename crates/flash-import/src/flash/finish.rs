//! The last step: shared settings move up, places leave out what they inherit, and notes say what differs after that.

use std::collections::BTreeMap;

use super::{Flash, PlaceName, Setting, Settings, Site, Value};
use crate::note::{Concerns, Note, Of, Paths};
use crate::scope::Context;

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
    let text = "nothing here runs the script".into();
    context.note(Note { source, is_left: true, text, concerns });
}

/// Shared settings move up, and places leave out what they inherit.
/// Of `merged` keys, a prefix keeps its own below it where an end of names says nothing.
pub(crate) fn finish(flash: &mut Flash, strong: &[Vec<String>], merged: &[&str], context: &Context) {
    let whole: Vec<BTreeMap<PlaceName, Settings>> = flash
        .sites
        .iter()
        .map(|site| site.places.iter().map(|place| (place.name.clone(), place.settings.clone())).collect())
        .collect();
    hoist(&mut flash.server, &mut flash.sites);
    for site in &mut flash.sites {
        without_program(site, context);
    }
    for ((site, whole), strong) in flash.sites.iter_mut().zip(&whole).zip(strong) {
        let names = site.names.clone();
        for (name, key) in site.settle(&flash.server) {
            let paths = match &name {
                PlaceName::Below(path) if ["no-programs", "fastcgi"].contains(&key) => {
                    Paths::BelowEnds(path.clone(), ".php".into())
                }
                PlaceName::Below(path) => Paths::Begins(path.clone()),
                PlaceName::Exact(path) => Paths::Exact(path.clone()),
                PlaceName::Ends(end) => Paths::Ends(end.clone()),
            };
            let hosts = names.clone();
            let text = match key {
                "no-programs" => format!("{}: scripts get 403, and not their sources", name.text()),
                "fastcgi" => format!("{}: names that end in .php run as scripts here, too", name.text()),
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
        for pair in site.reconcile(&flash.server, whole, strong, merged) {
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

/// Keys that all sites have with one value stand above them.
fn hoist(server: &mut Settings, sites: &mut [Site]) {
    for key in ["charset", "compress", "no-precompressed", "types", "index", "body-bytes-max"] {
        let of_files = |site: &&mut Site| site.own.contains_key("root");
        let mut values: Vec<Option<Setting>> =
            sites.iter_mut().filter(of_files).map(|site| site.own.get(key).cloned()).collect();
        let Some(Some(first)) = values.pop() else { continue };
        if values.iter().all(|other| other.as_ref().is_some_and(|other| other.value == first.value)) {
            sites.iter_mut().for_each(|site| _ = site.own.remove(key));
            server.insert(key, first);
        }
    }
    // What holds for requests of no site may hold for sites, too.
    for site in sites {
        site.own.retain(|key, own| {
            !key.starts_with("access-log") || server.get(key).is_none_or(|above| above.value != own.value)
        });
    }
}
