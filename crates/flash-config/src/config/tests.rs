//! Tests of the parser: right files, wrong files, and many errors at once.

use super::*;
use crate::file::of_text;

fn key(name: &str, kind: Kind) -> Key {
    Key {
        name: name.into(),
        aliases: Vec::new(),
        kind,
        is_list: false,
        answers: matches!(name, "gone" | "proxy"),
        answers_below: name == "proxy",
        stands: match name {
            "root" | "list" | "header" | "gone" => Stands::Place,
            "host" => Stands::Site,
            _ => Stands::Server,
        },
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
            key("gone", Kind::Switch),
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
    let mut files = of_text(text);
    let (config, problems) = Config::parse(&mut files, &keys());
    assert!(problems.is_empty(), "{}", files.report(&problems));
    let texts = |setting: &Setting| {
        setting.values.iter().map(|value| value.text.clone().unwrap_or_default()).collect()
    };
    config.settings.iter().map(|setting| (setting.key.clone(), texts(setting))).collect()
}

/// Each problem: what it marks, its message and its label.
fn wrong(text: &str) -> Vec<(String, String, String)> {
    let (_, mut problems) = Config::parse(&mut of_text(text), &keys());
    problems.sort_by_key(|problem| problem.place.clone().map(|place| place.bytes.start));
    let shown = |problem: Problem| {
        (problem.place.map_or("", |place| &text[place.bytes]).to_owned(), problem.message, problem.label)
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
        ("zzz = 1", "zzz", "unknown key `zzz`", "there is no such key: docs/configuration.md has them all"),
        (
            "\"a\\n\" = 1",
            "\"a\\n\"",
            "unknown key `a\\n`",
            "there is no such key: docs/configuration.md has them all",
        ),
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
        let (_, problems) = Config::parse(&mut of_text(text), &keys());
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        let mut lines: Vec<usize> =
            problems.iter().filter_map(|problem| Some(line(problem.place.as_ref()?.bytes.start))).collect();
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
    let (config, problems) = Config::parse(&mut of_text(&text), &keys());
    assert!(problems.is_empty());
    let found: Vec<_> = config
        .check()
        .into_iter()
        .map(|problem| (text[problem.place.expect("it has a place").bytes].to_owned(), problem.label))
        .collect();
    let expected = [
        (format!("'{path}/no'"), "there is no such folder".to_owned()),
        (format!("'{path}/file'"), "it is not a folder".to_owned()),
    ];
    assert_eq!(found, expected);
}

/// The hosts of each site, and its settings.
fn sites(text: &str) -> Vec<(Vec<Host>, Vec<String>)> {
    let mut files = of_text(text);
    let (config, problems) = Config::parse(&mut files, &keys());
    assert!(problems.is_empty(), "{}", files.report(&problems));
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
            "[site.\"a.example\"] at flash.toml:1 has it already",
        ),
        (
            "[site.'A.Example']\nroot = 'b'\n",
            "'A.Example'",
            "two sites with the name A.Example",
            "[site.\"a.example\"] at flash.toml:1 has it already",
        ),
        ("[site.'b.example']\n", "'b.example'", "a site needs its `root`", "its folder is not said"),
        ("port = 80\n", "port", "`port` holds for the whole server", "write it above the first [site]"),
        ("lisst = true\n", "lisst", "unknown key `lisst`", "did you mean `list`?"),
        ("names = [7]\n", "7", "`names` takes hosts in quotes", "this is a number"),
        ("names = 'b:80'\n", "'b:80'", "`b:80` is no host", "write it without a port: b"),
        (
            "[site]\nx = 1\n",
            "1",
            "a site is a table with its host's name, such as [site.\"www.example.org\"]",
            "this is a number",
        ),
        (
            "'docs' = { list = true }\n",
            "'docs'",
            "unknown key `docs`",
            "a place begins with a slash, as \"/docs\" does, or is the end of names, as \"*.css\" is",
        ),
        ("list = true;\n", "true;", "invalid boolean, expected `true`", "a line ends without a semicolon"),
        ("listen 80\n", "", "key with no value, expected `=`", "write KEY = VALUE"),
    ] {
        let expected = (marked.to_owned(), message.to_owned(), label.to_owned());
        assert_eq!(wrong(&format!("{site}{text}")), [expected], "{text}");
    }
    let found = wrong(&format!("root = 'x'\n{site}"));
    assert_eq!((&*found[0].0, &*found[0].1), ("root", "`root` stands in a site here"));
    assert_eq!(wrong("site = 7")[0].2, "this is a number");
}

#[test]
fn places_have_names_and_settings() {
    let text = "
        [site.'a.example']
        root = 'a'
        '/b/' = { list = true }
        '*.c' = { header = { X-A = '1' } }
        [site.'a.example'.'/b/d']
        root = 'd'";
    let (config, problems) = Config::parse(&mut of_text(text), &keys());
    assert!(problems.is_empty(), "{problems:?}");
    let shown = |place: &Place| {
        (place.name.clone(), place.settings.iter().map(|setting| setting.key.clone()).collect::<Vec<_>>())
    };
    let found: Vec<_> = config.sites[0].places.iter().map(shown).collect();
    let expected = [
        (PlaceName::Below("/b".into()), vec!["list".to_owned()]),
        (PlaceName::Ends(".c".into()), vec!["header".into()]),
        (PlaceName::Below("/b/d".into()), vec!["root".into()]),
    ];
    assert_eq!(found, expected);
    assert_eq!(config.check().len(), 2, "the folder of a place is looked for, too");
}

#[test]
fn mistakes_of_places() {
    let site = "[site.'a.example']\nroot = 'a'\n";
    for (text, marked, message, label) in [
        ("'/b' = 7", "7", "a place is a table, such as { list = true }", "this is a number"),
        ("'/b' = {}\n'/b/' = {}", "'/b/'", "two places with the name /b/", "the site has it already"),
        ("'*' = {}", "'*'", "`*` is no place", "write the end of files' names, as in \"*.woff2\""),
        ("'/' = {}", "'/'", "`/` is no place", "this is the site itself: write these keys above its places"),
        ("'/%41' = {}", "'/%41'", "`/%41` is no place", "no request has such a path: write it decoded"),
        (
            "'/b' = { port = 1 }",
            "port",
            "`port` holds for the whole server",
            "write it above the first [site]",
        ),
        (
            "'/b' = { host = 'x' }",
            "host",
            "`host` holds for a whole site",
            "write it above the places of its site",
        ),
        ("'/b' = { lisst = true }", "lisst", "unknown key `lisst`", "did you mean `list`?"),
        (
            "'/b' = { redirect = 7 }",
            "redirect",
            "unknown key `redirect`",
            "there is no such key: docs/configuration.md has them all",
        ),
        ("'/b' = { '/c' = {} }", "'/c'", "unknown key `/c`", "a place stands in a [site], beside its keys"),
    ] {
        let expected = (marked.to_owned(), message.to_owned(), label.to_owned());
        assert_eq!(wrong(&format!("{site}{text}")), [expected], "{text}");
    }
}

/// A folder with a file that includes others.
fn included(first: &str, others: &[(&str, &str)]) -> (tempfile::TempDir, Files, Config, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("flash.toml");
    std::fs::create_dir(folder.path().join("sites")).expect("a folder");
    for (name, text) in [("flash.toml", first)].iter().chain(others) {
        std::fs::write(folder.path().join(name), text).expect("a file is written");
    }
    let mut files = Files::read(&path, &path, |path| std::fs::File::open(path)).expect("it is there");
    let (config, problems) = Config::parse(&mut files, &keys());
    let report = files.report(&problems);
    (folder, files, config, report)
}

#[test]
fn included_files_define_sites() {
    let others = [
        ("sites/b.toml", "[site.'b.example']\nroot = 'x'\n"),
        ("sites/a.toml", "\n[site.'a.example']\nroot = '../a'\n"),
        ("sites/no.txt", "this is no TOML"),
    ];
    let (folder, files, config, report) = included("port = 1\ninclude = ['sites/*.toml', 'none/*']", &others);
    assert_eq!(report, "");
    let hosts: Vec<_> = config.sites.iter().map(|site| site.hosts[0].clone()).collect();
    assert_eq!(hosts, ["a.example", "b.example"].map(|name| Host::Exact(name.into())));
    let shown = folder.path().join("sites");
    let root = &config.sites[0].settings[0];
    assert_eq!(files.line(&root.place), format!("{}:3", shown.join("a.toml").display()));
    let text = root.values[0].text.clone().expect("it has a text");
    assert_eq!(text, shown.join("../a").to_str().expect("it is text"), "it begins at the included file");
}

#[test]
fn a_file_that_leads_to_no_folder_lacks_its_root() {
    let lacks = |text: &str| {
        let (_folder, files, config, report) = included(text, &[]);
        assert_eq!(report, "");
        config.without_root(&keys()).map(|problem| files.report(&[problem]))
    };
    for text in ["port = 1\ninclude = 'none/*'\n", "port = 1\n[site]\n", "port = 1\ninclude = []\n"] {
        let report = lacks(text).expect("it lacks one");
        assert!(report.starts_with("error: there is no site, and no `root`\n"), "{report}");
        assert!(report.contains("flash.toml:2:") && report.contains("no site came of this"), "{report}");
    }
    for text in ["", "port = 1\n"] {
        let report = lacks(text).expect("it lacks one");
        assert!(report.contains("there is no site, and no `root`"), "{report}");
    }
    for text in ["root = 'x'\ninclude = 'none/*'\n", "[site.'a.example']\nroot = 'x'\n", "gone = true\n"] {
        assert_eq!(lacks(text), None);
    }
}

#[test]
fn mistakes_of_included_files_name_them() {
    let others = [
        (
            "sites/a.toml",
            "list = true\ninclude = 'b'\n[site.'a.example']\nroot = 'a'\n'/x' = { lisst = true }\n",
        ),
        ("sites/b.toml", "[site.'A.example']\nroot = 'b'\nport = = 1\n"),
    ];
    let (folder, _, _, report) =
        included("root = 'x'\ninclude = ['sites/*.toml', 'none.toml', 7]\n", &others);
    let shown = folder.path().display();
    for expected in [
        format!("{shown}/flash.toml:1:1\n  |\n1 | root = 'x'\n  | ^^^^ each site has its own"),
        format!("{shown}/flash.toml:2:28"),
        "cannot include none.toml".into(),
        "`include` takes patterns of files in quotes".into(),
        format!(
            "{shown}/sites/a.toml:1:1\n  |\n1 | list = true\n  | ^^^^ an included file may define sites only"
        ),
        format!("{shown}/sites/a.toml:2:1"),
        format!("{shown}/sites/a.toml:5:10"),
        format!("{shown}/sites/b.toml:1:7"),
        "two sites with the name A.example".into(),
        format!("{shown}/sites/b.toml:3:"),
    ] {
        assert!(report.contains(&expected), "no {expected} in {report}");
    }
}

#[test]
fn secrets_are_read_from_elsewhere() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("secret");
    std::fs::write(&path, "s3cret: \u{fc}\r\n").expect("a file is written");
    let path = path.display();
    assert_eq!(right(&format!("host = {{ file = '{path}' }}")), [set("host", &["s3cret: \u{fc}"])]);
    assert_eq!(
        right(&format!("header = {{ X-A = [{{ file = '{path}' }}, 'b'] }}")),
        [set("header", &["X-A: s3cret: \u{fc}", "X-A: b"])]
    );
    let home = std::env::var("PATH").expect("cargo has one");
    assert_eq!(right("host = { env = 'PATH' }"), [set("host", &[&home])]);
    for (text, label) in [
        ("{ env = 'FLASH_NO_SUCH_VARIABLE' }", "FLASH_NO_SUCH_VARIABLE: environment variable not found"),
        ("{ file = '/nowhere' }", "cannot read /nowhere: No such file"),
        ("{ file = '/dev/zero' }", "it is not a file"),
        ("{ credential = '../x' }", "write { env ="),
        ("{ credential = 'x' }", "CREDENTIALS_DIRECTORY"),
        ("{ env = 'A', file = 'b' }", "write { env ="),
        ("{ envv = 'A' }", "write { env ="),
        ("{}", "write { env ="),
    ] {
        let found = wrong(&format!("host = {text}"));
        assert_eq!((found.len(), &*found[0].0, &*found[0].1), (1, text, "no secret for `host`"));
        assert!(found[0].2.contains(label), "{text}: {}", found[0].2);
    }
    assert_eq!(wrong("root = { env = 'PATH' }").len(), 1, "a path is no secret");
}

#[test]
fn a_site_that_answers_itself_needs_no_folder() {
    assert_eq!(sites("[site.'a.example']\ngone = true")[0].1, ["gone"]);
    let found = wrong("[site.'a.example']\ngone = false");
    assert_eq!(found[0].1, "a site needs its `root`");
    let found =
        wrong("[site.'a.example']\ngone = true\n'/a' = {}\n'/b' = { root = 'b' }\n'/c' = { gone = true }");
    let expected = ("'/a'".to_owned(), "a place needs its `root` where its site has none".to_owned());
    assert_eq!((found.len(), (found[0].0.clone(), found[0].1.clone())), (1, expected));
}
