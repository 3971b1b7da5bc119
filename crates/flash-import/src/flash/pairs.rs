//! Names below a prefix and with an end. Flash applies the rules of both, where other servers have those of one.

use std::collections::BTreeMap;

use super::{Place, PlaceName, Setting, Settings, Site, Value, lay_over};

/// A prefix and an end whose names have other rules than they should, and the keys that differ.
pub(crate) struct Pair {
    pub(crate) below: String,
    pub(crate) end: String,
    pub(crate) keys: Vec<&'static str>,
}

impl Site {
    /// Sets again, for ends of names, what prefixes change. `whole` has all settings of each place, before inheritance. Prefixes in
    /// `strong` should win over ends. Returns what still differs.
    pub(crate) fn reconcile(
        &mut self,
        server: &Settings,
        whole: &BTreeMap<PlaceName, Settings>,
        strong: &[String],
        merged: &[&str],
    ) -> Vec<Pair> {
        let mut pairs = Vec::new();
        let belows: Vec<String> = whole
            .keys()
            .filter_map(|name| match name {
                PlaceName::Below(path) => Some(path.clone()),
                _ => None,
            })
            .collect();
        for (name, of_end) in whole {
            let PlaceName::Ends(end) = name else { continue };
            for below in &belows {
                let of_path = &whole[&PlaceName::Below(below.clone())];
                if super::ANSWERS.iter().any(|key| of_path.contains_key(key)) {
                    continue;
                }
                let is_strong = strong.contains(below);
                let wanted = if is_strong { of_path } else { of_end };
                let differing = |site: &Self| {
                    let mut keys = site.differing(server, below, name, wanted);
                    keys.retain(|key| !merged.contains(key));
                    keys
                };
                let mut keys = differing(self);
                if !is_strong && !keys.is_empty() {
                    self.restate(name, &keys, wanted);
                    keys = differing(self);
                }
                if !keys.is_empty() {
                    pairs.push(Pair { below: below.clone(), end: end.clone(), keys });
                }
            }
        }
        pairs
    }

    /// The keys that names of both places have other values of.
    fn differing(
        &self,
        server: &Settings,
        below: &str,
        end: &PlaceName,
        wanted: &Settings,
    ) -> Vec<&'static str> {
        let below = PlaceName::Below(below.into());
        let mut settings = self.inherited(&below, server);
        let own = |name: &PlaceName| self.places.iter().find(|place| place.name == *name);
        for place in [own(&below), own(end)].into_iter().flatten() {
            lay_over(&mut settings, &place.settings);
        }
        let value = |settings: &Settings, key: &str| settings.get(key).map(|of| of.value.clone());
        let is_nothing = |value: &Option<Value>| match value {
            None | Some(Value::Flag(false)) => true,
            Some(Value::Text(text)) => text == "off",
            _ => false,
        };
        let keys = settings.keys().chain(wanted.keys()).copied();
        let mut keys: Vec<_> = keys
            .filter(|key| !["no-programs", "no-header", "fastcgi"].contains(key))
            .filter(|key| wanted.contains_key(key) || !server.contains_key(key))
            .filter(|key| {
                let (is, should) = (value(&settings, key), value(wanted, key));
                is != should
                    && !(is_nothing(&is) && is_nothing(&should))
                    && !(*key == "deny" && should.is_none())
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn restate(&mut self, name: &PlaceName, keys: &[&'static str], wanted: &Settings) {
        let mut restated: Vec<(&'static str, Setting)> =
            keys.iter().filter_map(|key| Some((*key, wanted.get(key)?.clone()))).collect();
        if keys.iter().any(|key| super::OF_THE_FOLDER.contains(key)) {
            restated.extend(wanted.get("root").map(|root| ("root", root.clone())));
            restated
                .extend(super::OF_THE_FOLDER.iter().filter_map(|key| Some((*key, wanted.get(key)?.clone()))));
        }
        if restated.is_empty() {
            return;
        }
        match self.places.iter_mut().find(|place| place.name == *name) {
            Some(place) => place.settings.extend(restated),
            None => self.places.push(Place {
                name: name.clone(),
                settings: restated.into_iter().collect(),
                source: None,
            }),
        }
    }
}
