//! A configuration of Flash: sites and places with their settings, each with the lines that it was made of.

pub(crate) mod finish;
mod pairs;
mod write;

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::directive::Directive;
use crate::note::Source;

/// The settings of the server, its upstreams and its sites.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flash {
    pub(crate) server: Settings,
    /// By their names.
    pub(crate) upstreams: BTreeMap<String, Settings>,
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
    /// A table of such tables.
    Tables(Vec<(String, Vec<(&'static str, Value)>)>),
}

/// All clients, but for those at Unix sockets.
pub(crate) const EVERYBODY: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// Where a place inherits all that it needs, `root` alone keeps these keys away.
const OF_THE_FOLDER: [&str; 4] = ["fallback", "spa", "strip-prefix", "proxy"];
/// Keys that a place adds its own to.
const ADDED: [&str; 3] = ["header", "proxy-header", "deny"];
/// Keys that hold where a place answers with a redirection, too.
const HOLD_TOO: [&str; 4] = ["auth", "allow", "deny", "respond"];
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
    let is_proxied = wanted.contains_key("proxy");
    for (&key, above) in inherited {
        let is_set = wanted.contains_key(key);
        if is_set && !ADDED.contains(&key)
            || !is_set && answers && !HOLD_TOO.contains(&key)
            || key.starts_with("proxy-") && !is_proxied
        {
            continue;
        }
        let nothing = match key {
            "fallback" | "spa" | "strip-prefix" | "proxy" => {
                names_folder = true;
                continue;
            }
            "list" | "internal" | "gone" | "log-status" => Value::Flag(false),
            "auth" | "signed" | "charset" | "compress" | "proxy-host" | "respond" => {
                Value::Text("off".into())
            }
            "allow" => Value::Texts(["0.0.0.0/0", "::/0", "unix"].map(Into::into).into()),
            "header" | "proxy-header" => {
                if let Value::Table(above) = &above.value
                    && leave_out(wanted, key, above)
                    && key == "proxy-header"
                {
                    stay.push((name.clone(), key));
                }
                continue;
            }
            "deny" => {
                deny(wanted, above);
                continue;
            }
            "fastcgi" => match name {
                // A place without programs passes nothing on.
                _ if is_proxied => {
                    stay.push((name.clone(), key));
                    continue;
                }
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
            "limit" | "rate" | "methods" | "field-rules" | "cache-control" | "extensions" => {
                stay.push((name.clone(), key));
                continue;
            }
            _ => continue,
        };
        wanted.insert(key, Setting { value: nothing, source: None });
    }
    names_folder
}

pub(crate) fn set(settings: &mut Settings, key: &'static str, value: Value, from: Option<&Directive>) {
    settings.insert(key, Setting::new(value, from.map(|of| &of.source)));
}

/// Clients of any network get 403.
pub(crate) fn forbid(settings: &mut Settings, by: &Directive) {
    set(settings, "deny", Value::Texts(EVERYBODY.map(Into::into).into()), Some(by));
}

/// Whether nobody gets anything.
pub(crate) fn is_refused(settings: &Settings) -> bool {
    let status = match settings.get("respond").map(|of| &of.value) {
        Some(Value::Named(named)) => named.iter().find_map(|(key, value)| match value {
            Value::Number(status) if *key == "status" => Some(*status),
            _ => None,
        }),
        _ => None,
    };
    let denies_all =
        settings.get("deny").is_some_and(|of| of.value == Value::Texts(EVERYBODY.map(Into::into).into()));
    denies_all || !settings.contains_key("fastcgi") && status.is_some_and(|status| status >= 400)
}

/// Whether a place keeps out clients that its site lets in.
pub(crate) fn keeps_out(place: &Settings, site: &Settings) -> bool {
    let own = |key: &str| {
        let value = place.get(key).map(|of| &of.value)?;
        (site.get(key).map(|of| &of.value) != Some(value)).then_some(value)
    };
    let has_everybody =
        |of: &Value| matches!(of, Value::Texts(all) if all.iter().any(|one| one == EVERYBODY[0]));
    is_refused(place) && !is_refused(site)
        || own("deny").is_some()
        || own("allow").is_some_and(|of| !has_everybody(of))
        || own("auth").is_some_and(|of| *of != Value::Text("off".into()))
}

/// Adds a text to a list.
pub(crate) fn set_more(settings: &mut Settings, key: &'static str, text: &str, source: &Source) {
    let setting = settings.entry(key).or_insert_with(|| Setting::new(Value::Texts(Vec::new()), Some(source)));
    if let Value::Texts(texts) = &mut setting.value
        && !texts.iter().any(|known| known == text)
    {
        texts.push(text.into());
    }
}

/// Whether a text is an address or a network of clients.
pub(crate) fn is_network(text: &str) -> bool {
    text.split('/').next().is_some_and(|address| address.parse::<IpAddr>().is_ok())
}

/// A list of a place takes the place of that of above. Its networks are its own, and its paths are those of above, too.
fn deny(wanted: &mut Settings, above: &Setting) {
    let Value::Texts(above) = &above.value else { return };
    let has_networks = above.iter().any(|rule| is_network(rule));
    if !has_networks && !wanted.contains_key("deny") {
        return;
    }
    // What runs scripts in a place takes back that nobody gets them.
    let routes = match wanted.get("fastcgi").map(|own| &own.value) {
        Some(Value::Table(routes)) => routes.clone(),
        _ => BTreeMap::new(),
    };
    let runs = |rule: &str| rule.strip_prefix('*').is_some_and(|end| routes.contains_key(end));
    let own = wanted.entry("deny").or_insert(Setting { value: Value::Texts(Vec::new()), source: None });
    if let Value::Texts(own) = &mut own.value {
        let missing = above.iter().filter(|rule| !is_network(rule) && !own.contains(*rule) && !runs(rule));
        let missing: Vec<String> = missing.cloned().collect();
        own.extend(missing);
    }
}

/// Leaves out the fields of above that a place does not set itself. Returns whether there are any.
fn leave_out(settings: &mut Settings, key: &'static str, above: &BTreeMap<String, String>) -> bool {
    let is_set = |name: &str| match settings.get(key).map(|own| &own.value) {
        Some(Value::Table(own)) => own.keys().any(|own| own.eq_ignore_ascii_case(name)),
        _ => false,
    };
    let left: Vec<String> = above.keys().filter(|name| !is_set(name)).cloned().collect();
    if left.is_empty() {
        return false;
    }
    let (list, empty) = match key {
        "header" => ("no-header", Value::Texts(Vec::new())),
        _ => (key, Value::Table(BTreeMap::new())),
    };
    match &mut settings.entry(list).or_insert(Setting { value: empty, source: None }).value {
        Value::Texts(names) => names.extend(left),
        Value::Table(fields) => fields.extend(left.into_iter().map(|name| (name, String::new()))),
        _ => {}
    }
    true
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
