//! The file, the help, the parser, the schema and the page are of one source, and flags win over the file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use flash_core::path::SitePath;
use serde_json::Value as Json;
use tempfile::TempDir;

use super::*;
use crate::flags::command;

fn long_flags() -> BTreeSet<String> {
    let flash = command();
    let serve = flash.find_subcommand("serve").expect("there is flash serve");
    serve.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
}

fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("flash.toml");
    std::fs::write(&path, text).expect("the file is written");
    (folder, path)
}

/// What `flash serve --config` of this text understands, with more words behind.
fn serve(text: &str, words: &[&str]) -> Result<crate::flags::Serve, Failure> {
    let (_folder, path) = file(text);
    let words = ["flash", "serve", "--config", path.to_str().expect("it is text")]
        .into_iter()
        .chain(words.iter().copied());
    match read(words.map(OsString::from))?.command {
        Some(Command::Serve(flags)) => Ok(*flags),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_flag_is_a_key_and_each_key_a_flag() {
    let keys: BTreeSet<String> = keys::of_flags().iter().map(|key| key.name.clone()).collect();
    let expected: BTreeSet<String> = long_flags()
        .into_iter()
        .filter(|flag| !matches!(&**flag, "config" | "acme" | "tls-certificate" | "tls-key"))
        .chain(["root".into()])
        .collect();
    assert_eq!(keys, expected);
    assert!(keys.len() > 60, "{}", keys.len());
}

#[test]
fn errors_show_no_character_that_a_terminal_obeys() {
    let keys = keys::of_flags();
    let (_folder, path) = file("\"a\u{9b}2J\u{202e}\" = \"\u{9b}\u{200b}\"");
    let (Loaded { files, .. }, problems) = load(&path, open_to_look, &keys).expect("it is there");
    let report = report(&files, &problems);
    assert!(report.contains("\"a\u{fffd}2J\u{fffd}\" = \"\u{fffd}\u{fffd}\""), "{report:?}");
}

/// The values of a file through the parser of flags: each example sets its flag, and nothing else.
#[test]
fn each_example_is_read_as_its_flag() {
    let keys = keys::of_flags();
    for key in keys.iter() {
        let (_folder, path) = file(&key.example);
        let (Loaded { config, files }, problems) = load(&path, open_to_look, &keys).expect("it is there");
        assert!(problems.is_empty(), "{}", files.report(&problems));
        let words = ["flash".into(), "serve".into()].into_iter().chain(as_words(&config.settings[0]));
        let found = command().try_get_matches_from(words).unwrap_or_else(|error| panic!("{error}"));
        let (_, found) = found.subcommand().expect("it is flash serve");
        // Its table has a flag for each file.
        let flag = if key.name == "tls" { "tls_certificate".into() } else { id(&key.name) };
        assert_eq!(found.value_source(&flag), Some(ValueSource::CommandLine), "{}", key.name);
    }
}

#[test]
fn the_schema_takes_each_example_and_refuses_other_forms() {
    let keys = keys::of_flags();
    let schema: Json = serde_json::from_str(&flash_config::schema(&keys)).expect("it is JSON");
    assert_eq!(schema["additionalProperties"], Json::Bool(false));
    for key in keys.iter() {
        let property = &schema["properties"][&key.name];
        let (_, example) = key.example.split_once(" = ").expect("it is NAME = VALUE");
        assert!(takes(property, &json(example)), "{} and {property}", key.example);
        // The schema may take what the parser refuses, and never the other way round.
        for text in ["true", "7", "'x'", "['x', 'y']", "{ a = 'b' }", "{ a = ['b'] }", "2.5", "[[1]]"] {
            let (_folder, path) = file(&format!("{} = {text}", key.name));
            let (_, problems) = load(&path, open_to_look, &keys).expect("it is there");
            let is_taken = takes(property, &json(text));
            assert!(is_taken || !problems.is_empty(), "{} = {text}", key.name);
            let is_of_no_key = matches!(text, "2.5" | "[[1]]");
            assert!(!(is_taken && is_of_no_key), "{} = {text}", key.name);
        }
    }
}

/// A TOML value as JSON.
fn json(text: &str) -> Json {
    let table: toml::Table = toml::from_str(&format!("value = {text}")).expect("it is TOML");
    serde_json::to_value(&table["value"]).expect("it has no date")
}

/// As much of JSON Schema as the schema uses, without patterns.
fn takes(schema: &Json, value: &Json) -> bool {
    let is_type = |name: &Json| match name.as_str() {
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        other => panic!("{other:?}"),
    };
    schema.get("type").is_none_or(is_type)
        && schema.get("const").is_none_or(|only| only == value)
        && schema.get("enum").and_then(Json::as_array).is_none_or(|values| values.contains(value))
        && schema
            .get("anyOf")
            .and_then(Json::as_array)
            .is_none_or(|all| all.iter().any(|one| takes(one, value)))
        && schema
            .get("items")
            .is_none_or(|one| value.as_array().is_none_or(|all| all.iter().all(|v| takes(one, v))))
        && schema
            .get("additionalProperties")
            .is_none_or(|one| value.as_object().is_none_or(|all| all.values().all(|value| takes(one, value))))
}

#[test]
fn a_file_and_flags_give_the_same() {
    let text = "
        root = '/srv'
        list = true
        dotfiles = false
        listen = [':80', 'unix:/run/f']
        index = 'a.html'
        revalidate = 0
        file-cache-bytes = '1G'
        path-cache = 100
        arch = 'mt'
        cache-control = ''
        [header]
        X-A = ['1', '2']
        [fastcgi]
        '.php' = 'unix:/run/php.sock'";
    let words = [
        "flash",
        "serve",
        "/srv",
        "--list",
        "--listen=:80",
        "--listen=unix:/run/f",
        "--index=a.html",
        "--revalidate=0",
        "--file-cache-bytes=1G",
        "--path-cache=100",
        "--arch=mt",
        "--cache-control=",
        "--header=X-A: 1",
        "--header=X-A: 2",
        "--fastcgi=.php=unix:/run/php.sock",
    ];
    let Ok(Flags { command: Some(Command::Serve(flags)) }) = Flags::read(words.map(OsString::from)) else {
        panic!("the flags are right");
    };
    let mut of_file = serve(text, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    (of_file.config, of_file.files) = (None, Vec::new());
    assert_eq!(format!("{of_file:?}"), format!("{flags:?}"));
}

#[test]
fn folders_are_named_without_dots() {
    for root in [".", "./", "././"] {
        let (folder, path) = file(&format!("[site.'*']\nroot = '{root}'\n"));
        let words = ["flash", "serve", "--config", path.to_str().expect("it is text")].map(OsString::from);
        let Ok(Flags { command: Some(Command::Serve(flags)) }) = read(words) else { panic!("it is right") };
        // Paths are equal with a dot at the end, and without.
        let own = flags.sites[0].own.root.as_ref().map(|root| root.as_os_str());
        assert_eq!(
            (flags.dir.as_os_str(), own),
            (folder.path().as_os_str(), Some(folder.path().as_os_str()))
        );
    }
}

#[test]
fn another_process_has_all_that_the_file_says() {
    let text = "listen = ':80'
        index = ['a', 'b']
        [site.'a.example']
        names = ['*.a.example', 'b.example']
        root = '/tmp'
        cache-control = 'no-cache'
        '/x' = { root = '/usr', list = true }
        '/x/y' = { gone = true }
        '*.css' = { header = { 'X-A' = '1' } }
        '*.woff2' = { dotfiles = true }
        [site.'*']
        redirect = '/'";
    let (_folder, path) = file(text);
    let words =
        || ["flash", "serve", "--config"].map(OsString::from).into_iter().chain([path.clone().into()]);
    let encoded = RefCell::default();
    let read = Flags::read_with_file(words(), |path, given| {
        let of_file = of_file(path, given, open_to_look, &print)?;
        encoded.replace(in_place::encode(&of_file));
        Ok(of_file)
    });
    let encoded = encoded.into_inner();
    let again = Flags::read_with_file(words(), |_, _| Ok(in_place::decode(&encoded).expect("it is whole")));
    let shown = |flags: Result<Flags, Failure>| match flags.map(|flags| flags.command) {
        // Only the first process opens files.
        Ok(Some(Command::Serve(flags))) => format!("{:?}", flags::Serve { files: Vec::new(), ..*flags }),
        _ => panic!("the file is right"),
    };
    assert_eq!(shown(again), shown(read));
    for length in 0..encoded.len() {
        assert!(in_place::decode(&encoded[..length]).is_none(), "{length}");
    }
}

#[test]
fn flags_win_over_the_file() {
    let text = "root = '/srv'\nindex = ['a', 'b']\nlisten = ':80'\nthreads = 7\nlist = true";
    let flags =
        serve(text, &["/tmp", "--index", "c", "-p", "3000"]).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((flags.dir.as_os_str(), &flags.index[..]), ("/tmp".as_ref(), &["c".to_owned()][..]));
    assert_eq!(
        flags.listen,
        ["127.0.0.1:3000".parse().expect("it is a place")],
        "--port stands for --listen"
    );
    assert_eq!((flags.threads, flags.list), (Some(7), true), "the rest is the file's");
}

#[test]
fn what_is_wrong_is_usage_and_what_is_missing_is_not() {
    assert!(
        matches!(serve("lisst = true", &[]), Err(Failure::Usage(said)) if said.ends_with("has an error"))
    );
    assert!(
        matches!(serve("root = 'nowhere'", &[]), Err(Failure::Run(said)) if said.ends_with("has an error"))
    );
    assert!(serve("root = 'nowhere'", &["/"]).is_ok(), "DIR wins");
}

/// `docs/configuration.md` ends with the table of keys. `FLASH_WRITE_DOCS=1` writes it anew.
#[test]
fn the_page_of_keys_is_current() {
    const MARK: &str =
        "<!-- Below: made of the flags. FLASH_WRITE_DOCS=1 cargo test -p flash the_page_of_keys -->\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (before, after) = page.split_once(MARK).expect("the page has the mark");
    let expected = flash_config::page(&keys::of_flags());
    if std::env::var_os("FLASH_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{MARK}{expected}")).expect("the page is written");
    } else {
        assert_eq!(after, expected, "run FLASH_WRITE_DOCS=1 cargo test -p flash the_page_of_keys");
    }
}

#[test]
fn a_place_of_all_sites_opens_nothing_that_a_site_guards() {
    let text = "[site.'*']
root = '/'
'*.key' = { allow = '127.0.0.1' }
'=/own.key' = { cache-control = 'no-cache' }
[place.'=/a.key']
allow = '::1'
cache-control = 'no-cache'
[place.'*.pub.key']
cache-control = 'no-cache'
[place.'=/a.txt']
cache-control = 'no-cache'
";
    let flags = serve(text, &[]).expect("it is right");
    let site = &flags.sites[0];
    let allowed = |path: &str| {
        let name = site.names.of(&SitePath::parse(path.as_bytes()).expect("a path"));
        let at = site.names.pairs().position(|pair| pair == name).expect("a place");
        site.places[at].flags.allow.clone()
    };
    let local = vec!["127.0.0.1".parse().expect("an address")];
    for (path, expected) in [
        ("/b.key", &local),
        ("/a.key", &local),
        ("/x.pub.key", &local),
        ("/own.key", &vec![]),
        ("/a.txt", &vec![]),
    ] {
        assert_eq!(allowed(path), *expected, "{path}");
    }
}
