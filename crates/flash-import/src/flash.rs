//! A configuration of Flash: sites and places with their settings, each with the lines that it was made of.

mod pairs;
mod write;

use std::collections::BTreeMap;

use crate::note::Source;

/// The settings of the server, and its sites.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flash {
    pub(crate) server: Settings,
    pub(crate) sites: Vec<Site>,
}

#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// The first one is the key of its table.
    pub(crate) names: Vec<String>,
    pub(crate) own: Settings,
    pub(crate) places: Vec<Place>,
    pub(crate) sources: Vec<Source>,
}

#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: PlaceName,
    pub(crate) settings: Settings,
    pub(crate) source: Option<Source>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlaceName {
    Below(String),
    Exact(String),
    Ends(String),
}

/// By their keys.
pub(crate) type Settings = BTreeMap<&'static str, Setting>;

#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) value: Value,
    pub(crate) source: Option<Source>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Flag(bool),
    Number(usize),
    Text(String),
    Texts(Vec<String>),
    /// Names with their texts, as of fields.
    Table(BTreeMap<String, String>),
    /// A table of values on one line, as of `tls`.
    Named(Vec<(&'static str, Value)>),
    Many(Vec<Value>),
}

/// Where a place inherits all that it needs, `root` alone keeps these keys away.
const OF_THE_FOLDER: [&str; 4] = ["fallback", "spa", "strip-prefix", "proxy"];
/// Keys that no place inherits.
pub(crate) const ANSWERS: [&str; 2] = ["redirect", "gone"];

impl Setting {
    pub(crate) fn new(value: Value, source: Option<&Source>) -> Self {
        Self { value, source: source.cloned() }
    }
}

impl PlaceName {
    /// How the file names it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Below(path) => path.clone(),
            Self::Exact(path) => format!("={path}"),
            Self::Ends(end) => format!("*{end}"),
        }
    }

    fn inherits_from(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Below(path) | Self::Exact(path), Self::Below(above)) => {
                path != above && is_below(path, above) || matches!(self, Self::Exact(_)) && path == above
            }
            _ => false,
        }
    }
}

/// Whether a path is this prefix, or lies below it.
pub(crate) fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Site {
    /// What a place inherits from its site, and from the places above it.
    fn inherited(&self, name: &PlaceName, server: &Settings) -> Settings {
        let mut above: Vec<&Place> =
            self.places.iter().filter(|place| name.inherits_from(&place.name)).collect();
        above.sort_by_key(|place| place.name.text().len());
        let mut settings = server.clone();
        lay_over(&mut settings, &self.own);
        for place in above {
            settings.retain(|key, _| !ANSWERS.contains(key));
            lay_over(&mut settings, &place.settings);
        }
        settings.retain(|key, _| !ANSWERS.contains(key));
        settings
    }

    /// Leaves out of each place what it inherits anyway, and takes back what it must not inherit. Returns the keys that stay, of each
    /// place that cannot be without them.
    pub(crate) fn settle(&mut self, server: &Settings) -> Vec<(PlaceName, &'static str)> {
        let mut stay = Vec::new();
        let ends: Vec<PlaceName> = self.places.iter().map(|place| place.name.clone()).collect();
        let has_end = |path: &str| {
            ends.iter().any(|name| matches!(name, PlaceName::Ends(end) if path.ends_with(end.as_str())))
        };
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        order.sort_by_key(|&at| {
            (matches!(self.places[at].name, PlaceName::Exact(_)), self.places[at].name.text().len())
        });
        for at in order {
            let name = self.places[at].name.clone();
            let inherited = self.inherited(&name, server);
            let wanted = &mut self.places[at].settings;
            let has_own_folder = take_back(&inherited, wanted, &name, &mut stay);
            let root = wanted.get("root").cloned();
            wanted.retain(|key, own| {
                !inherited.get(key).is_some_and(|above| above.value == own.value) || {
                    has_own_folder && OF_THE_FOLDER.contains(key)
                }
            });
            // Without the place, the rules of its end would hold.
            let is_needed = wanted.is_empty() && matches!(&name, PlaceName::Exact(path) if has_end(path));
            if let (true, Some(root)) = (has_own_folder || is_needed, root) {
                wanted.insert("root", root);
            }
        }
        self.places.retain(|place| !place.settings.is_empty());
        stay
    }
}

/// Sets what a place must not inherit to what means nothing. Returns whether the place needs to name its folder for that.
fn take_back(
    inherited: &Settings,
    wanted: &mut Settings,
    name: &PlaceName,
    stay: &mut Vec<(PlaceName, &'static str)>,
) -> bool {
    let mut names_folder =
        wanted.get("root").map(|root| &root.value) != inherited.get("root").map(|root| &root.value);
    let answers = ANSWERS.iter().any(|key| wanted.contains_key(key));
    for (&key, above) in inherited {
        if let (Value::Table(above), Some(Setting { value: Value::Table(own), .. })) =
            (&above.value, wanted.get(key))
            && key == "header"
        {
            let dropped: Vec<_> = above.keys().filter(|name| !own.contains_key(*name)).cloned().collect();
            drop_fields(wanted, dropped);
            continue;
        }
        if wanted.contains_key(key) || answers && key != "auth" && key != "allow" && key != "deny" {
            continue;
        }
        let nothing = match key {
            "proxy-host" | "proxy-header" if wanted.contains_key("proxy") => {
                stay.push((name.clone(), key));
                continue;
            }
            "fallback" | "spa" | "strip-prefix" | "proxy" => {
                names_folder = true;
                continue;
            }
            "list" | "internal" | "gone" => Value::Flag(false),
            "auth" | "signed" | "charset" | "compress" => Value::Text("off".into()),
            "allow" => Value::Texts(["0.0.0.0/0", "::/0", "unix"].map(Into::into).into()),
            "header" => {
                if let Value::Table(fields) = &above.value {
                    drop_fields(wanted, fields.keys().cloned().collect());
                }
                continue;
            }
            "fastcgi" => match name {
                PlaceName::Below(path) => {
                    stay.push((name.clone(), "no-programs"));
                    wanted
                        .entry("no-programs")
                        .or_insert(Setting { value: Value::Texts(vec![path.clone()]), source: None });
                    continue;
                }
                // Its file is none, or the location would say so.
                PlaceName::Exact(_) | PlaceName::Ends(_) => continue,
            },
            "limit" | "rate" | "methods" | "cache-control" | "extensions" => {
                stay.push((name.clone(), key));
                continue;
            }
            _ => continue,
        };
        wanted.insert(key, Setting { value: nothing, source: None });
    }
    names_folder
}

fn drop_fields(settings: &mut Settings, dropped: Vec<String>) {
    if dropped.is_empty() {
        return;
    }
    let setting = settings
        .entry("no-header")
        .or_insert_with(|| Setting { value: Value::Texts(Vec::new()), source: None });
    if let Value::Texts(names) = &mut setting.value {
        names.extend(dropped);
    }
}

/// Puts settings over those that are inherited, as Flash does.
fn lay_over(inherited: &mut Settings, own: &Settings) {
    if own.contains_key("root") {
        inherited.retain(|key, _| !OF_THE_FOLDER.contains(key));
    }
    for (key, setting) in own {
        match (inherited.get_mut(key), &setting.value) {
            (Some(Setting { value: Value::Table(above), .. }), Value::Table(own)) => {
                above.extend(own.clone());
            }
            _ => _ = inherited.insert(key, setting.clone()),
        }
    }
}
