//! Configuration files. No text may cause a panic, each problem marks a place that the file has, and the report shows each. What was
//! understood has the form that flags have, and no host has two sites.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::LazyLock;

use flash_config::{Config, Files, Host, Key, Keys, Kind, Place, Setting, Stands};
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

pub(crate) fn check(input: &[u8]) {
    let Some(text) = std::str::from_utf8(input).ok().filter(|text| !reaches_other_folders(text)) else {
        return;
    };
    let path: PathBuf = FOLDER.path().join("flash.toml");
    fs::write(&path, text).expect("a file");
    let keys = keys();
    let mut files = Files::read(&path, &path, |path| File::open(path)).expect("it is UTF-8");
    let (config, problems) = Config::parse(&mut files, &keys);
    // Only the disk may say something else at another time.
    let report = files.report(&problems);
    assert!(problems.len() <= report.matches("error: ").count(), "{report}");
    let lines: Vec<String> =
        (1..=text.split('\n').count()).map(|line| format!("{}:{line}", path.display())).collect();
    let mut places = problems.iter().filter_map(|problem| problem.place.as_ref());
    assert!(text.contains("include") || places.all(|place| lines.contains(&files.line(place))));
    let mut again = Files::read(&path, &path, |path| File::open(path)).expect("it is there");
    assert_eq!(Config::parse(&mut again, &keys), (config.clone(), problems));

    let mut hosts = HashSet::new();
    check_settings(&config.settings, &keys, Stands::Server);
    for site in &config.sites {
        check_settings(&site.settings, &keys, Stands::Site);
        for host in &site.hosts {
            assert!(hosts.insert(host.clone()), "{host} has two sites");
            let (Host::Exact(name) | Host::Below(name)) = host else { continue };
            assert!(name.is_ascii() && !name.bytes().any(|byte| byte.is_ascii_uppercase()), "{name}");
        }
        let places: HashSet<_> = site.places.iter().map(|place| &place.name).collect();
        assert_eq!(places.len(), site.places.len());
        site.places.iter().for_each(|Place { settings, .. }| check_settings(settings, &keys, Stands::Place));
    }
    config.check();
}

/// Whether the text may name files that are not this property's own.
fn reaches_other_folders(text: &str) -> bool {
    let may_name_files = ["include", "file", "\\u", "\\U", "\\x"].iter().any(|word| text.contains(word));
    may_name_files && text.contains(['/', '\\'])
}

fn check_settings(settings: &[Setting], keys: &Keys, stands: Stands) {
    let (mut names, mut with_values) = (HashSet::new(), HashSet::new());
    for setting in settings {
        let key = keys.get(&setting.key).expect("a setting has a known key");
        assert!(key.name == setting.key && names.insert(&setting.key) && key.stands >= stands);
        // What takes a key back, or has no value that is right, stands beside others.
        if !setting.values.is_empty() {
            with_values.insert(&setting.key);
            assert!(!key.conflicts.iter().any(|other| with_values.contains(other)));
        }
        // What a switch may be besides is checked by its form.
        if !matches!(key.kind, Kind::SwitchOr { .. }) {
            let mut texts = setting.values.iter().filter_map(|value| value.text.as_deref());
            assert!(texts.all(|text| (key.validate)(text).is_ok()));
        }
    }
}

/// A key of each kind.
fn keys() -> Keys {
    let key = |name: &str, stands, kind| Key {
        name: name.into(),
        aliases: vec![format!("{name}s")],
        kind,
        is_list: matches!(name, "listen" | "index"),
        answers: name == "redirect",
        answers_below: false,
        stands,
        heading: String::new(),
        help: String::new(),
        default: None,
        example: String::new(),
        conflicts: Vec::new(),
        validate: Box::new(|text| if text.contains("bad") { Err("it is bad".into()) } else { Ok(()) }),
    };
    let table = |value, is_list, separator| Kind::Table { separator, value: Box::new(value), is_list };
    let (server, site, place) = (Stands::Server, Stands::Site, Stands::Place);
    let keys = vec![
        key("root", place, Kind::Folder),
        key("list", place, Kind::Switch),
        key(
            "tls",
            site,
            Kind::SwitchOr { words: vec!["acme".into()], names: vec!["certificate".into(), "key".into()] },
        ),
        Key { conflicts: vec!["port".into()], ..key("listen", server, Kind::Address) },
        Key { conflicts: vec!["listen".into()], ..key("port", server, Kind::Number) },
        key("index", place, Kind::Text),
        key("drain", server, Kind::Duration),
        key("cache", server, Kind::Bytes),
        key("arch", server, Kind::Choice(vec!["amped".into(), "mt".into()])),
        key("access-log", server, Kind::Log),
        key("error-log", server, Kind::ErrorLog),
        key("user-file", site, Kind::File),
        key("auth", place, Kind::FileOrOff),
        key("redirect", place, Kind::Redirect),
        key("header", place, table(Kind::Text, true, ": ")),
        key("cgi", site, table(Kind::Folder, false, "=")),
    ];
    Keys::new(keys, |name| (name == "gzip").then_some("make a copy with gzip -k9"))
}
