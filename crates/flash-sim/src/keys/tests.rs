//! The list against the parser itself.

use std::collections::BTreeSet;

use super::*;
use crate::scenario::{Draft, Scenario, Setting};

fn all() -> Vec<Key> {
    Scenario::keys().0
}

/// The names that the parser takes at a place, as it says itself when it gets another one.
fn taken(text: &str) -> BTreeSet<String> {
    let message = toml::from_str::<Scenario>(text).expect_err(text).message().to_owned();
    let (_, expected) = message.split_once("expected ").unwrap_or_else(|| panic!("{text}: {message}"));
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The names that the list has directly below a section.
fn listed(section: &str) -> BTreeSet<String> {
    let keys = all();
    let below = keys.iter().filter_map(|key| match section {
        "" => Some(&*key.path),
        _ => key.path.strip_prefix(section)?.strip_prefix('.'),
    });
    let first = |path: &str| path.split('.').next().unwrap_or(path).trim_end_matches("[]").to_owned();
    below.map(first).collect()
}

#[test]
fn the_list_has_the_keys_that_the_parser_takes_and_no_others() {
    for (section, probe) in [
        ("", "stranger = 1"),
        ("machine", "[machine]\nstranger = 1"),
        ("machine.disks[]", "[machine]\ndisks = [{ stranger = 1 }]"),
        ("server", "[server]\nstranger = 1"),
        ("costs", "[costs]\nstranger = 1"),
        ("costs.more_us", "[costs]\nmore_us = { stranger = 1 }"),
        ("costs.take_over_us", "[costs]\ntake_over_us = { stranger = 1 }"),
        ("memory", "[memory]\nstranger = 1"),
        ("run", "[run]\nstranger = 1"),
        ("workload", "[workload]\nstranger = 1"),
        ("workload.truncated", "[workload.truncated]\nstranger = 1"),
        ("workload.synthetic", "[workload.synthetic]\nstranger = 1"),
        ("workload.log", "[workload.log]\nstranger = 1"),
    ] {
        assert_eq!(listed(section), taken(probe), "{section}");
    }
    let sections: BTreeSet<String> = all().iter().map(|key| split(&key.path).0.to_owned()).collect();
    assert_eq!(sections.len(), 13, "a section is not probed above: {sections:?}");
}

#[test]
fn every_key_has_a_meaning_and_the_parsers_default() {
    for key in all() {
        assert!(key.meaning.ends_with('.'), "{key:?}");
        let is_quantity = key.default.as_ref().is_some_and(|default| default.contains('.'));
        assert!(!is_quantity || unit(&key.path).is_some(), "{key:?} has no unit");
        let Some(default) = &key.default else { continue };
        if key.path.contains("[]") {
            continue;
        }
        let setting = Setting::parse(&format!("{}={default}", key.path)).unwrap();
        assert_eq!(Draft::default().with(&[setting]).unwrap(), Scenario::default(), "{key:?}");
    }
}

#[test]
fn words_are_those_that_the_parser_takes() {
    let words = |path: &str| -> BTreeSet<String> {
        let key = all().into_iter().find(|key| key.path == path).expect(path);
        assert_eq!(
            key.choices.len(),
            key.choices.iter().collect::<BTreeSet<_>>().len(),
            "{path}: one is listed twice"
        );
        key.choices.into_iter().map(|(word, _)| word).collect()
    };
    assert_eq!(words("architecture"), taken("architecture = 'x'"));
    for name in ["caches", "locks", "lock_wait", "transmit"] {
        assert_eq!(words(&format!("server.{name}")), taken(&format!("[server]\n{name} = 'x'")));
    }
    for word in words("workload.trace") {
        let setting = Setting::parse(&format!("workload.trace={word}")).unwrap();
        assert!(Draft::default().with(&[setting]).is_ok(), "{word}");
    }
}

#[test]
fn a_typo_gets_the_nearest_key() {
    for (text, expected) in [
        (
            "[machine]\nmemory_gb = 5",
            "there is no key 'machine.memory_gb'; did you mean 'machine.memory_mb'?",
        ),
        ("memory_mb = 5", "did you mean 'machine.memory_mb'?"),
        ("[machines]\nprocessors = 5", "there is no key 'machines'; did you mean 'machine'?"),
        ("[machine]\ndisks = [{ acces_ms = 1 }]", "did you mean 'machine.disks[].access_ms'?"),
        ("[workload]\ntraces = 'nasa'", "did you mean 'workload.trace'?"),
        ("[workload.synthetic]\nfile = 1", "did you mean 'workload.synthetic.files'?"),
        ("[costs]\nzzz = 1", "there is no key 'costs.zzz' (flash sim keys lists them all)"),
    ] {
        let said = Draft::read("own.toml", text).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
    let said = Draft::read("own.toml", "architecture = 'x'").unwrap_err().to_string();
    assert!(said.contains("expected one of `mp`"), "a value is no key: {said}");
}
