//! The places that `files` implies: each folder has one, which is internal.

use flash_config::{Config, Place, PlaceName as Name, Problem, Setting, Value};

use super::keys::ROOT;

/// The key.
const FILES: &str = "files";

/// Adds them. Returns what is wrong.
pub(super) fn add(config: &mut Config) -> Vec<Problem> {
    let of_server = config.setting(FILES).map(|files| files.values.clone()).unwrap_or_default();
    let mut problems = Vec::new();
    for site in &mut config.sites {
        let own = site.settings.iter().find(|setting| setting.key == FILES);
        let mut values = own.map(|files| files.values.clone()).unwrap_or_default();
        let inherited =
            of_server.iter().filter(|value| !values.iter().any(|own| prefix(own) == prefix(value)));
        values.extend(inherited.cloned().collect::<Vec<_>>());
        for value in values {
            let Some((prefix, folder)) = split(&value) else { continue };
            let is_there = |place: &Place| match &place.name {
                Name::Exact(path) | Name::Below(path) => {
                    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                }
                Name::Ends(_) => false,
            };
            if let Some(place) = site.places.iter().find(|place| is_there(place)) {
                let message =
                    format!("{prefix} is for what programs hand on, so no place can be there or below");
                problems.push(Problem::at(place.place.clone(), message, "another path is possible".into()));
                continue;
            }
            let settings = [(ROOT, Some(folder)), ("strip-prefix", Some(prefix)), ("internal", None)];
            let settings = settings.map(|(key, text)| Setting::implied(key, text.map(str::to_owned), &value));
            let (name, place) = (Name::Below(prefix.to_owned()), value.place.clone());
            site.places.push(Place { name, settings: settings.into(), place, is_shared: false });
        }
    }
    problems
}

fn prefix(value: &Value) -> Option<&str> {
    split(value).map(|(prefix, _)| prefix)
}

/// The prefix, and the folder.
fn split(value: &Value) -> Option<(&str, &str)> {
    let (prefix, folder) = value.text.as_deref()?.split_once('=')?;
    Some((prefix.trim_end_matches('/'), folder))
}
