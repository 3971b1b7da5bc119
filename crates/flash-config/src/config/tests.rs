//! Tests of the parser: right files, wrong files, and many errors at once.

use super::*;
use crate::file::of_text;

fn key(name: &str, kind: Kind) -> Key {
    Key {
        name: name.into(),
        aliases: Vec::new(),
        kind,
        is_list: false,
        in_site: matches!(name, "root" | "list" | "host" | "header"),
        heading: "Test".into(),
        help: "A test".into(),
        default: None,
        example: String::new(),
        conflicts: Vec::new(),
        validate: Box::new(|text| if text.contains("bad") { Err("it is bad".into()) } else { Ok(()) }),
    }
}

fn keys() -> Keys {
    let table = |value, is_list, separator| Kind::Table { separator, value: Box::new(value), is_list };
    Keys::new(
        vec![
            key("root", Kind::Folder),
            key("list", Kind::Switch),
            Key { is_list: true, conflicts: vec!["port".into()], ..key("listen", Kind::Address) },
            Key { conflicts: vec!["listen".into()], ..key("port", Kind::Number) },
            Key { aliases: vec!["bind".into()], ..key("host", Kind::Text) },
            key("drain", Kind::Duration),
            key("cache", Kind::Bytes),
            key("arch", Kind::Choice(vec!["amped".into(), "mt".into()])),
            key("access-log", Kind::Log),
            key("header", table(Kind::Text, true, ": ")),
            key("cgi", table(Kind::Folder, false, "=")),
        ],
        |name| (name == "gzip").then_some("make a copy with gzip -k9"),
    )
}

fn right(text: &str) -> Vec<(String, Vec<String>)> {
    let file = of_text(text);
    let (config, problems) = Config::parse(&file, &keys());
    assert!(problems.is_empty(), "{}", file.report(&problems));
    let texts = |setting: &Setting| {
        setting.values.iter().map(|value| value.text.clone().unwrap_or_default()).collect()
    };
    config.settings.iter().map(|setting| (setting.key.clone(), texts(setting))).collect()
}

/// Each problem: what it marks, its message and its label.
fn wrong(text: &str) -> Vec<(String, String, String)> {
    let file = of_text(text);
    let (_, mut problems) = Config::parse(&file, &keys());
    problems.sort_by_key(|problem| problem.place.clone().map(|place| place.start));
    let shown = |problem: Problem| {
        (problem.place.map_or("", |place| &text[place]).to_owned(), problem.message, problem.label)
    };
    problems.into_iter().map(shown).collect()
}

fn set(key: &str, values: &[&str]) -> (String, Vec<String>) {
    (key.into(), values.iter().map(|&value| value.into()).collect())
}

#[test]
fn values_have_the_form_of_flags() {
    for (text, expected) in [
        ("list = true", set("list", &[""])),
        ("list = false", set("list", &[])),
        ("listen = ':80'", set("listen", &[":80"])),
        (
            "listen = [':80', 'unix:f.sock,mode=660']",
            set("listen", &[":80", "unix:/etc/flash/f.sock,mode=660"]),
        ),
        ("bind = '::'", set("host", &["::"])),
        ("port = 80", set("port", &["80"])),
        ("drain = '10s'", set("drain", &["10s"])),
        ("drain = 0", set("drain", &["0"])),
        ("cache = 4_096", set("cache", &["4096"])),
        ("cache = '64M'", set("cache", &["64M"])),
        ("arch = 'mt'", set("arch", &["mt"])),
        ("root = '../site'", set("root", &["/etc/flash/../site"])),
        ("access-log = 'off'", set("access-log", &["off"])),
        ("access-log = 'a.log'", set("access-log", &["/etc/flash/a.log"])),
        ("header = { X-B = '1', X-A = ['2', '3'] }", set("header", &["X-B: 1", "X-A: 2", "X-A: 3"])),
        ("[header]\nX-A = '2'", set("header", &["X-A: 2"])),
        ("cgi = { '/c' = 'bin' }", set("cgi", &["/c=/etc/flash/bin"])),
    ] {
        assert_eq!(right(text), [expected], "{text}");
    }
}

#[test]
fn each_mistake_is_marked_and_explained() {
    for (text, marked, message, label) in [
        ("lisen = ':80'", "lisen", "unknown key `lisen`", "did you mean `listen`?"),
        ("access_log = 'a'", "access_log", "unknown key `access_log`", "write `access-log`"),
        ("zzz = 1", "zzz", "unknown key `zzz`", "there is no such key"),
        ("\"a\\n\" = 1", "\"a\\n\"", "unknown key `a\\n`", "there is no such key"),
        ("gzip = true", "gzip", "unknown key `gzip`", "make a copy with gzip -k9"),
        ("list = 'yes'", "'yes'", "`list` takes true or false", "this is a text"),
        ("port = 80.5", "80.5", "`port` takes a whole number", "this is a number with a fraction"),
        ("port = 0x50", "0x50", "`port` takes a whole number", "this is a number"),
        ("port = [80]", "[80]", "`port` takes a whole number", "this is a list"),
        (
            "host = ''\nroot = ''",
            "''",
            "`root` takes the path of a folder, in quotes",
            "this is an empty text",
        ),
        ("arch = 'apmed'", "'apmed'", "`arch` takes one of \"amped\", \"mt\"", "did you mean \"amped\"?"),
        ("host = 'bad'", "'bad'", "a wrong value of `host`", "it is bad"),
        ("listen = [':80', 7]", "7", "`listen` takes an address in quotes", "this is a number"),
        (
            "header = 'X: 1'",
            "'X: 1'",
            "`header` takes a table, such as { name = \"value\" }",
            "this is a text",
        ),
        ("cgi = { a = ['b'] }", "['b']", "`cgi` takes the path of a folder, in quotes", "this is a list"),
        ("[list]", "[list]", "`list` takes true or false", "this is a table"),
        ("host = 'a'\nbind = 'b'", "bind", "`host` and `bind` cannot both be set", "`host` is set already"),
        (
            "port = 1\nlisten = ':80'",
            "listen",
            "`port` and `listen` cannot both be set",
            "`port` is set already",
        ),
    ] {
        let expected = (marked.to_owned(), message.to_owned(), label.to_owned());
        assert_eq!(wrong(text), [expected], "{text}");
    }
}

#[test]
fn all_errors_are_found_at_once() {
    let text = "lisen = 1\nport = = 2\nlist = 3\nhost = 'bad'\nlist = true\n[[cgi]]\n";
    let found: Vec<usize> = {
        let (_, problems) = Config::parse(&of_text(text), &keys());
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        let mut lines: Vec<usize> =
            problems.iter().filter_map(|problem| Some(line(problem.place.as_ref()?.start))).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    };
    assert_eq!(found, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_folder_that_is_missing_is_marked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("file"), "").expect("a file is written");
    let path = folder.path().display();
    let text = format!("root = '{path}/no'\ncgi = {{ '/a' = '{path}/file', '/b' = '{path}' }}\n");
    let file = of_text(&text);
    let (config, problems) = Config::parse(&file, &keys());
    assert!(problems.is_empty());
    let found: Vec<_> = config
        .check()
        .into_iter()
        .map(|problem| (text[problem.place.expect("it has a place")].to_owned(), problem.label))
        .collect();
    let expected = [
        (format!("'{path}/no'"), "there is no such folder".to_owned()),
        (format!("'{path}/file'"), "it is not a folder".to_owned()),
    ];
    assert_eq!(found, expected);
}

/// The hosts of each site, and its settings.
fn sites(text: &str) -> Vec<(Vec<Host>, Vec<String>)> {
    let file = of_text(text);
    let (config, problems) = Config::parse(&file, &keys());
    assert!(problems.is_empty(), "{}", file.report(&problems));
    let settings = |site: &Site| site.settings.iter().map(|setting| setting.key.clone()).collect();
    config.sites.iter().map(|site| (site.hosts.clone(), settings(site))).collect()
}

#[test]
fn sites_have_names_and_settings() {
    let exact = |text: &str| Host::Exact(text.into());
    let text = "
        port = 80
        [site.'B.example']
        names = ['www.b.example', '*.c.example']
        root = 'b'
        list = true
        [site.'*']
        names = 'a.example.'
        root = 'a'
        [site.'a.b.example'.header]
        X-A = '1'
        [site.'a.b.example']
        root = 'c'";
    let expected = vec![
        (
            vec![exact("b.example"), exact("www.b.example"), Host::Below("c.example".into())],
            vec!["root".to_owned(), "list".into()],
        ),
        (vec![Host::Any, exact("a.example")], vec!["root".into()]),
        (vec![exact("a.b.example")], vec!["header".into(), "root".into()]),
    ];
    assert_eq!(sites(text), expected);
    assert!(sites("port = 80").is_empty());
}

#[test]
fn mistakes_of_sites() {
    let site = "[site.'a.example']\nroot = 'a'\n";
    for (text, marked, message, label) in [
        (
            "[site.'b.example']\nroot = 'b'\nnames = ['c.example', 'A.example.']\n",
            "'A.example.'",
            "two sites with the name A.example.",
            "[site.\"a.example\"] has it already",
        ),
        (
            "[site.'A.Example']\nroot = 'b'\n",
            "'A.Example'",
            "two sites with the name A.Example",
            "[site.\"a.example\"] has it already",
        ),
        ("[site.'b.example']\n", "'b.example'", "a site needs its `root`", "its folder is not said"),
        ("port = 80\n", "port", "`port` holds for the whole server", "write it above the first [site]"),
        ("lisst = true\n", "lisst", "unknown key `lisst`", "did you mean `list`?"),
        ("names = [7]\n", "7", "`names` takes hosts in quotes", "this is a number"),
        ("names = 'b:80'\n", "'b:80'", "`b:80` is no host", "write it without a port: b"),
        ("[site]\nx = 1\n", "1", "a site is a table", "this is a number"),
    ] {
        let expected = (marked.to_owned(), message.to_owned(), label.to_owned());
        assert_eq!(wrong(&format!("{site}{text}")), [expected], "{text}");
    }
    let found = wrong(&format!("root = 'x'\n{site}"));
    assert_eq!((&*found[0].0, &*found[0].1), ("root", "`root` stands in a site here"));
    assert_eq!(wrong("site = 7")[0].2, "this is a number");
}
