//! The configuration file with the real program: what it sets, and what is said about wrong ones.

#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use flash_tests::{ARCHITECTURES, Server, program, site};
use tempfile::TempDir;

const GET_A: &[u8] = b"GET /a.txt HTTP/1.0\r\n\r\n";

/// A file in a folder of its own.
fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("flash.toml");
    fs::write(&path, text).expect("the file is written");
    (folder, path)
}

fn run(words: &[&str], path: &PathBuf) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(program()).args(words).arg("--config").arg(path).output().expect("flash runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_file_is_served_by_every_architecture() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let (arch, helpers) = arch.split_once(" --helpers ").unwrap_or((arch, "thread"));
        let text = format!(
            "root = '{}'\nlisten = '127.0.0.1:0'\narch = '{arch}'\nhelpers = '{helpers}'\nverbose = true\n[header]\nX-Of = ['the file', 'both']\n",
            site.path().display()
        );
        let (_folder, path) = file(&text);
        let server = Server::start_configured(&path, &[]);
        let reply = String::from_utf8(server.raw(GET_A)).expect("it is text");
        assert!(
            reply.starts_with("HTTP/1.1 200 ") && reply.ends_with("\r\n\r\n0123456789"),
            "{arch}: {reply}"
        );
        assert!(reply.contains("X-Of: the file\r\nX-Of: both\r\n"), "{arch}: {reply}");
    }
}

#[test]
fn flags_win_and_relative_paths_begin_at_the_file() {
    let text = "root = 'site'\nlisten = '127.0.0.1:0'\nindex = ['none.html', 'page.html']\nlist = true\n[header]\nX-Of = 'the file'\n";
    let (folder, path) = file(text);
    fs::create_dir(folder.path().join("site")).expect("a folder");
    for (name, content) in [("site/page.html", "page"), ("site/other.html", "other")] {
        site::write(&folder.path().join(name), content.as_bytes());
    }
    let ask = |flags: &[&str]| {
        let reply = Server::start_configured(&path, flags).raw(b"GET / HTTP/1.0\r\n\r\n");
        let reply = String::from_utf8(reply).expect("it is text");
        let (head, body) = reply.split_once("\r\n\r\n").expect("a head ends");
        (head.to_owned(), body.to_owned())
    };
    let (head, body) = ask(&[]);
    assert!(head.contains("X-Of: the file") && body == "page", "{head}{body}");
    let (head, body) = ask(&["--index", "other.html", "--header", "X-Of: the flag"]);
    assert!(head.contains("X-Of: the flag") && !head.contains("the file") && body == "other", "{head}{body}");
}

const WRONG: &str = "\
root = 'nowhere'
lisen = ':80'
drain = 10
arch = 'apmed'
[header]
Date = 'now'
";

#[test]
fn all_errors_are_said_at_once_with_their_places() {
    let (_folder, path) = file(WRONG);
    let shown = path.display();
    for words in [&["check"][..], &["serve"], &["serve", "--list"]] {
        let (code, out, said) = run(words, &path);
        assert_eq!((code, &out[..]), (Some(2), ""), "{said}");
        assert!(said.starts_with(&format!("flash: {shown} has 5 errors\n\n")), "{said}");
        let mut rest = &said[..];
        for expected in [
            format!("{shown}:1:8"),
            "1 | root = 'nowhere'\n  |        ^^^^^^^^^ there is no such folder\n".into(),
            format!("{shown}:2:1"),
            "2 | lisen = ':80'\n  | ^^^^^ did you mean `listen`?\n".into(),
            format!("{shown}:3:9"),
            "^^ add the unit, as in 10s or 10ms\n".into(),
            format!("{shown}:4:8"),
            "^^^^^^^ did you mean \"amped\"?\n".into(),
            format!("{shown}:6:8"),
            "Date is not yours to set".into(),
        ] {
            let at = rest.find(&expected).unwrap_or_else(|| panic!("no {expected} in {rest}"));
            rest = &rest[at + expected.len()..];
        }
    }
}

#[test]
fn check_says_what_serve_would_find_later() {
    let site = site::make();
    let root = format!("root = '{}'\n", site.path().display());
    for (text, marked) in [
        ("helpers = 'process'\narch = 'mt'\n", "--helpers process needs an architecture"),
        ("user = 'no-such-user'\n", "cannot become user no-such-user"),
        ("app = { '/a' = '/no/such/program' }\n", "cannot run /no/such/program"),
        ("fallback = 'none.html'\n", "--fallback /none.html: there is no such file"),
        ("spa = 'none.html'\n", "--spa /none.html: there is no such file"),
        ("user = 'no-such-user'\napp = { '/a' = '/no/such/program' }\n", "has 2 errors"),
    ] {
        let (_folder, path) = file(&format!("{root}{text}"));
        let (code, out, said) = run(&["check"], &path);
        assert_eq!((code, &out[..]), (Some(2), ""), "{said}");
        assert!(said.contains(marked) && said.contains(":2:1"), "{said}");
    }
    let (_folder, path) = file(&format!("{root}user = 'root'\nlisten = '127.0.0.1:0'\n"));
    let (code, out, said) = run(&["check"], &path);
    assert_eq!((code, out, said), (Some(0), format!("{} has no errors\n", path.display()), String::new()));
}

#[test]
fn a_file_that_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("none.toml");
    for words in [&["check"][..], &["serve"]] {
        let (code, out, said) = run(words, &path);
        assert_eq!((code, &out[..]), (Some(2), ""), "{said}");
        assert!(said.starts_with("flash: cannot read ") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_folder_that_is_missing_may_come_later() {
    let (_folder, path) = file("root = 'nowhere'\n");
    assert_eq!(run(&["check"], &path).0, Some(2));
    assert_eq!(run(&["serve"], &path).0, Some(1));
}

#[test]
fn the_schema_is_json_for_editors() {
    let output = Command::new(program()).arg("schema").output().expect("flash runs");
    let schema = String::from_utf8(output.stdout).expect("it is text");
    assert!(output.status.success() && schema.contains("\"file-cache-bytes\": {"), "{schema}");
}
