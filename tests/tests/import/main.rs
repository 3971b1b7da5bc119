//! Configurations of nginx, Apache and Caddy, imported: Flash answers as they do, but for what the import has named.
//!
//! Each configuration is served by both, and both get the same requests. A difference is an error, unless a note of the import
//! concerns the request and that part of its answer.

#![forbid(unsafe_code)]

mod concerned;
mod migrations;
mod requests;
mod servers;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flash_import::Imported;
use flash_import::note::Of;
use flash_tests::peer;
use flash_tests::reply::Reply;

use concerned::Asked;
use servers::{Both, Foreign, Php};

const REQUESTS: usize = 1000;

/// How one configuration went.
struct Outcome {
    name: String,
    requests: usize,
    named: usize,
    taken: usize,
    directives: usize,
    differences: Vec<String>,
}

#[test]
fn imported_configurations_of_nginx_answer_alike_but_for_what_is_named() {
    all_of(Foreign::Nginx);
}

#[test]
fn imported_configurations_of_apache_answer_alike_but_for_what_is_named() {
    all_of(Foreign::Apache);
}

#[test]
fn imported_configurations_of_caddy_answer_alike_but_for_what_is_named() {
    all_of(Foreign::Caddy);
}

/// `docs/import.md` shows what imports write. `FLASH_WRITE_DOCS=1` writes it anew.
#[test]
fn the_page_shows_what_imports_write() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = folder.join("../docs/import.md");
    let page = fs::read_to_string(&path).expect("the page is there");
    let mut parts = page.split("<!-- ");
    let mut expected = parts.next().expect("the page begins").to_owned();
    for part in parts {
        let (name, rest) = part.split_once(" -->").expect("a mark ends");
        let after = rest
            .split_once("```toml\n")
            .and_then(|(_, block)| block.split_once("```\n"))
            .map_or(rest, |(_, after)| after);
        let conf = folder.join(format!("tests/import/configurations/{name}.conf"));
        let shown = servers::imported(name, &fs::read_to_string(conf).expect("the configuration"));
        let after = after.trim_start();
        let gap = if after.is_empty() { "" } else { "\n" };
        expected.push_str(&format!("<!-- {name} -->\n\n```toml\n{shown}```\n{gap}{after}"));
    }
    if std::env::var_os("FLASH_WRITE_DOCS").is_some() {
        fs::write(&path, expected).expect("the page is written");
    } else {
        assert_eq!(page, expected, "run FLASH_WRITE_DOCS=1 cargo test -p flash-tests --test import the_page");
    }
}

/// What clients call themselves, in turn.
const AGENTS: [&str; 7] = [
    "Mozilla/5.0",
    "Mozilla/5.0 (compatible; GPTBot/1.2)",
    "curl/8.5.0",
    "bytespider",
    "Sogou web spider/4.0",
    "FeedBot 2",
    "Sogou",
];

fn all_of(foreign: Foreign) {
    if let Some(missing) = foreign.missing() {
        return println!("NOT TESTED: {missing} is missing");
    }
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/configurations").join(foreign.name());
    let only = std::env::var("FLASH_IMPORT").unwrap_or_default();
    let mut paths: Vec<_> = fs::read_dir(folder)
        .expect("the configurations")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().contains(&only))
        .collect();
    paths.sort();
    let php = Php::start();
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = compare(foreign, path, &php);
                    outcomes.lock().expect("no thread has failed").push(outcome);
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no thread has failed");
    outcomes.sort_by(|one, other| one.name.cmp(&other.name));
    for Outcome { name, requests, named, taken, directives, differences } in &outcomes {
        println!(
            "{name}: {requests} requests, {named} named differences, {taken} of {directives} lines, {} unnamed",
            differences.len()
        );
    }
    let wrong: Vec<&String> = outcomes.iter().flat_map(|outcome| &outcome.differences).collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), text(&wrong));
    let sum = |of: fn(&Outcome) -> usize| outcomes.iter().map(of).sum::<usize>();
    let (taken, directives) = (sum(|outcome| outcome.taken), sum(|outcome| outcome.directives));
    println!("{} configurations, {taken} of {directives} lines", outcomes.len());
    assert!(taken * 100 >= directives * 80, "{taken} of {directives} lines were taken");
}

fn text(lines: &[&String]) -> String {
    lines.iter().take(usize::MAX).map(|line| format!("{line}\n")).collect()
}

fn compare(foreign: Foreign, path: &Path, php: &Php) -> Outcome {
    let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let text = fs::read_to_string(path).expect("the configuration");
    let both = match Both::start(foreign, &name, &text, php) {
        Ok(both) => both,
        Err(why) => {
            let differences = vec![format!("{name}: {why}")];
            return Outcome { name, requests: 0, named: 0, taken: 0, directives: 0, differences };
        }
    };
    let requests = requests::of(&both.conf, both.folder.path(), REQUESTS);
    let (mut differences, mut named): (BTreeMap<String, usize>, usize) = (BTreeMap::new(), 0);
    for (asked, agent) in requests.iter().zip(AGENTS.iter().cycle()) {
        let ask = |server| {
            let request = format!(
                "{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n",
                asked.method, asked.target, asked.host
            );
            let bytes = servers::exchange(server, request.as_bytes());
            let bytes =
                bytes.unwrap_or_else(|error| panic!("{name}: {error} at {server}: {}", both.logged()));
            peer::whole(&bytes, &asked.method)
        };
        let (theirs, ours) = (ask(both.foreign), ask(both.flash));
        // No note makes up for a file that is shown, and is not to be.
        let is_known = asked.known_hosts.contains(&asked.host);
        let is_refused = theirs
            .as_ref()
            .is_some_and(|of| matches!(of.status, 401 | 403 | 410) || of.status == 404 && is_known);
        let is_opened = is_refused && ours.as_ref().is_some_and(|of| asked.is_shown_by(&of.body));
        for (of, what) in difference(theirs.as_ref(), ours.as_ref(), asked) {
            match is_named(&both.imported, asked, of) && !is_opened {
                true => named += 1,
                false => {
                    *differences
                        .entry(format!(
                            "{} {} at {} by {agent}: {what}",
                            asked.method, asked.target, asked.host
                        ))
                        .or_default() += 1
                }
            }
        }
    }
    Outcome {
        requests: requests.len(),
        named,
        taken: both.imported.taken(),
        directives: both.imported.directives,
        differences: differences.into_keys().map(|what| format!("{name}: {what}")).collect(),
        name,
    }
}

fn difference(theirs: Option<&Reply>, ours: Option<&Reply>, asked: &Asked) -> Vec<(Of, String)> {
    let (Some(theirs), Some(ours)) = (theirs, ours) else {
        return match (theirs, ours) {
            (None, None) => Vec::new(),
            _ => vec![(
                Of::Status,
                format!("{:?} became {:?}", theirs.map(|of| of.status), ours.map(|of| of.status)),
            )],
        };
    };
    if theirs.status != ours.status {
        return vec![(Of::Status, format!("{} became {}", theirs.status, ours.status))];
    }
    let mut found = Vec::new();
    let location = |of: &Reply| of.field("Location").map(|to| asked.leads_to(to));
    let cache = |of: &Reply| {
        let all = of.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cache-control"));
        all.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
    };
    let kind = |of: &Reply| of.field("Content-Type").map(|of| of.replace(' ', "").to_ascii_lowercase());
    if location(theirs) != location(ours) {
        found.push((Of::Location, format!("{:?} became {:?}", location(theirs), location(ours))));
    }
    if !matches!(theirs.status, 200 | 206) {
        return found;
    }
    if cache(theirs) != cache(ours) {
        found.push((Of::CacheControl, format!("{:?} became {:?}", cache(theirs), cache(ours))));
    }
    if kind(theirs) != kind(ours) {
        found.push((Of::Type, format!("{:?} became {:?}", kind(theirs), kind(ours))));
    }
    if theirs.body != ours.body {
        let text = |of: &Reply| String::from_utf8_lossy(&of.body[..of.body.len().min(200)]).into_owned();
        found.push((Of::Everything, format!("{:?} became {:?}", text(theirs), text(ours))));
    }
    found
}

fn is_named(imported: &Imported, asked: &Asked, of: Of) -> bool {
    imported.notes.iter().any(|note| {
        let concerns = &note.concerns;
        let of_host = concerns.hosts.is_empty() || concerns.hosts.iter().any(|host| asked.is_host(host));
        // Another status comes with another page and another place.
        let of_part = concerns.of == of || concerns.of == Of::Everything;
        of_host && of_part && asked.is_in(&concerns.paths)
    })
}
