//! Which settings hold for a site or a place: its own, and those that it inherits.
//!
//! A site inherits from the server, and a place from its site. A place below a place inherits from that one. The end of a name
//! comes last: what `*.woff2` sets wins over what `/assets` sets. A place inherits neither a redirection nor `gone`, because it
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
    PlaceName { prefix, suffix }: PlaceName<'_>,
) -> Vec<Setting> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let place = |name: &Name| place(site, name).map(|place| &place.settings[..]);
    let prefixes = prefix.iter().flat_map(|prefix| names.above(prefix).into_iter().chain([*prefix]));
    let prefixes = prefixes.filter_map(|prefix| place(&Name::Below(text(prefix))));
    let suffix = suffix.and_then(|suffix| place(&Name::Ends(text(suffix))));
    let mut settings = server.to_vec();
    add(keys, &mut settings, &site.settings);
    for layer in prefixes {
        settings.retain(|setting| !keys::is_answer(&setting.key));
        add(keys, &mut settings, layer);
    }
    suffix.into_iter().for_each(|layer| add(keys, &mut settings, layer));
    settings
}

/// The place with this name.
pub(super) fn place<'s>(site: &'s Site, name: &Name) -> Option<&'s Place> {
    site.places.iter().find(|place| place.name == *name)
}

/// Puts the settings of an inner table over those that it inherits.
fn add(keys: &Keys, inherited: &mut Vec<Setting>, own: &[Setting]) {
    let has_folder = own.iter().any(|setting| setting.key == ROOT);
    inherited.retain_mut(|setting| {
        let is_set = |name: &String| own.iter().any(|own| own.key == *name);
        if has_folder && keys::is_of_folder(&setting.key) {
            return false;
        }
        let same = own.iter().find(|own| own.key == setting.key);
        let separator = keys.get(&setting.key).and_then(|key| match &key.kind {
            Kind::Table { separator, .. } => Some(*separator),
            _ => None,
        });
        match (same, separator) {
            // Each name of a table is a setting of its own.
            (Some(own), Some(separator)) => {
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
