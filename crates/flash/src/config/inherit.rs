//! Which settings hold for a site or a place: its own, and those that it inherits.
//!
//! A site inherits from the server, and a place from its site. A place below a place inherits from that one, and so does a single path.
//! The end of a name comes last: what `*.woff2` sets wins over what `/assets` sets. A single path does not inherit from ends of names, and
//! one of all sites only what guards them: who writes it does not see the site. A place inherits neither a redirection nor `gone`, because it
//! would answer nothing itself. What a setting does is not known here.

use flash_config::{Keys, Kind, Place, PlaceName as Name, Setting, Site, Value};
use flash_core::site::places::{PlaceName, PlaceNames};

use super::keys::{self, ROOT};

/// The settings of the place, or of the site itself, with those that it inherits. Each key is there once.
pub(super) fn settings(
    keys: &Keys,
    server: &[Setting],
    site: &Site,
    names: &PlaceNames,
    name: PlaceName<'_>,
) -> Vec<Setting> {
    let path = name.exact.or(name.prefix);
    let above = path.into_iter().flat_map(|path| names.above(path));
    let above = above.filter_map(|prefix| place(site, &Name::Below(text(prefix))));
    let [of_path, of_end] = places(site, name);
    let prefixes = above.chain(of_path).map(|place| &place.settings);
    let suffix = of_end.map(|place| &place.settings);
    let mut settings = server.to_vec();
    add(keys, &mut settings, &site.settings);
    for layer in prefixes {
        settings.retain(|setting| !keys::is_answer(&setting.key));
        add(keys, &mut settings, layer);
    }
    suffix.into_iter().for_each(|layer| add(keys, &mut settings, layer));
    let narrowest = if name.exact.is_some() { of_path } else { of_end };
    if let Some(end) = narrowest.filter(|place| place.is_shared).and_then(|place| own_end(site, &place.name))
    {
        let guards = end.settings.iter().filter(|setting| keys::is_guard(&setting.key));
        add(keys, &mut settings, &guards.cloned().collect::<Vec<_>>());
    }
    settings
}

/// The place of the site's own, by the end of names, that would cover this place if it were not there.
fn own_end<'s>(site: &'s Site, place: &Name) -> Option<&'s Place> {
    let (Name::Exact(of) | Name::Ends(of)) = place else { return None };
    let length = |place: &Place| match &place.name {
        Name::Ends(end) if !place.is_shared && of.ends_with(&**end) => Some(end.len()),
        _ => None,
    };
    site.places.iter().filter(|place| length(place).is_some()).max_by_key(|place| length(place))
}

/// The place of a path or a prefix, and that of the end of a name.
pub(super) fn places<'s>(site: &'s Site, name: PlaceName<'_>) -> [Option<&'s Place>; 2] {
    let PlaceName { exact, prefix, suffix } = name;
    let exact = exact.map(|path| Name::Exact(text(path)));
    let path = exact.or_else(|| prefix.map(|prefix| Name::Below(text(prefix))));
    [path, suffix.map(|suffix| Name::Ends(text(suffix)))].map(|name| place(site, &name?))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The place with this name.
fn place<'s>(site: &'s Site, name: &Name) -> Option<&'s Place> {
    site.places.iter().find(|place| place.name == *name)
}

/// Puts the settings of an inner table over those that it inherits.
fn add(keys: &Keys, inherited: &mut Vec<Setting>, own: &[Setting]) {
    let has_folder = own.iter().any(|setting| setting.key == ROOT);
    inherited.retain_mut(|setting| {
        // What takes the key back says nothing about others.
        let is_set = |name: &String| {
            own.iter().any(|own| own.key == *name && (own.key == setting.key || !own.values.is_empty()))
        };
        if has_folder && keys::is_of_folder(&setting.key) {
            return false;
        }
        let same = own.iter().find(|own| own.key == setting.key);
        let separator = keys.get(&setting.key).and_then(|key| match &key.kind {
            Kind::Table { separator, .. } => Some(*separator),
            Kind::Tables(_) => Some(" "),
            _ => None,
        });
        match (same, separator) {
            // Each name of a table is a setting of its own.
            (Some(own), Some(separator)) if !own.values.is_empty() => {
                let name = |value: &Value| {
                    let text = value.text.as_deref().unwrap_or_default();
                    text.split_once(separator).map_or(text, |(name, _)| name).to_ascii_lowercase()
                };
                setting.values.retain(|value| !own.values.iter().any(|own| name(own) == name(value)));
                !setting.values.is_empty()
            }
            _ => !names_of(keys, setting).any(is_set),
        }
    });
    inherited.extend(own.iter().cloned());
}

/// A setting's key, and the keys that cannot be set beside it.
pub(super) fn names_of<'k>(keys: &'k Keys, setting: &'k Setting) -> impl Iterator<Item = &'k String> {
    let conflicts = keys.get(&setting.key).map(|key| &key.conflicts[..]).unwrap_or_default();
    [&setting.key].into_iter().chain(conflicts)
}
