//! The command from outside: what it prints, where, and the exit code it leaves.

#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

fn flash(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flash"));
    command.args(words);
    command
}

fn run(words: &[&str]) -> Output {
    flash(words).output().expect("flash runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it is text")
}

#[test]
fn alone_it_prints_a_short_help() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("serve") && text(&output.stdout).lines().count() < 40);
}

#[test]
fn help_and_version_go_to_standard_output() {
    for (words, says) in [
        (&["serve", "--help"][..], "Examples:"),
        (&["serve", "-h"], "--listen <ADDR>"),
        (&["help", "serve"], "Experiments"),
        (&["help"], "Commands:"),
        (&["--version"], concat!("flash ", env!("CARGO_PKG_VERSION"))),
        (&["serve", "-V"], concat!("flash-serve ", env!("CARGO_PKG_VERSION"))),
        (&["man", "-V"], concat!("flash-man ", env!("CARGO_PKG_VERSION"))),
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        assert!(text(&output.stdout).contains(says), "{words:?}");
        assert!(output.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn a_wrong_command_line_is_one_line_and_code_2() {
    for words in [
        &["serve", "--lisen", ":80"][..],
        &["serve", "--revalidate", "soon"],
        &["nonsense"],
        &["serve", "--loops", "many"],
        &["serve", "--cors"],
        &["--gzip"],
        &["man", "nonsense"],
        &["completions", "tcl"],
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(output.stdout.is_empty(), "{words:?}");
        let said = text(&output.stderr);
        assert!(said.starts_with("flash: ") && said.ends_with("--help)\n"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_server_that_cannot_start_says_why_and_leaves_code_1() {
    for (words, why) in [
        (&["./nowhere"][..], "cannot serve ./nowhere: there is no such folder"),
        (&["../flash/Cargo.toml"], "cannot serve ../flash/Cargo.toml: it is not a folder"),
        (&["serve", "--port", "0", "--access-log", "/"], "cannot write a log to /: it is a folder"),
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert_eq!(text(&output.stderr), format!("flash: {why}\n"));
    }
}

#[test]
fn more_fields_than_a_head_holds_are_refused() {
    let field = format!("X-Long: {}", "x".repeat(20_000));
    let page = tempfile::tempdir().expect("a temporary folder");
    let folder = page.path().to_str().expect("its path is text");
    for words in
        [&["--header", &field, "--header", &field][..], &["--header", &field, "--cache-control", &field]]
    {
        let output = run(&[&["serve", folder, "--listen", "127.0.0.1:0"], words].concat());
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.starts_with("flash: 400") && said.contains("32768 are the most"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn the_manual_and_completions_come_from_the_flags() {
    for words in [&["man"][..], &["man", "serve"], &["completions", "zsh"]] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("flash.toml");
    fs::write(&file, format!("root = {:?}\n", folder.path())).expect("it can be written");
    let file = file.to_str().expect("a name");
    for words in [
        &[][..],
        &["--help"],
        &["serve", "--help"],
        &["--version"],
        &["man", "serve"],
        &["completions", "bash"],
        &["schema"],
        &["check", "--config", file],
        &["explain", "--config", file, "http://localhost/"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = flash(words).stdout(writer).output().expect("flash runs");
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{words:?}");
    }
}

#[test]
fn another_word_runs_the_sibling_program() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    symlink("/bin/echo", path("flash-echo")).expect("a link is made");
    symlink("/bin/false", path("flash-fail")).expect("a link is made");
    fs::write(path("flash-text"), "not a program").expect("a file is written");
    let run = |words: &[&str]| flash(words).env("PATH", folder.path()).output().expect("flash runs");

    assert_eq!(text(&run(&["echo", "--rate", "7"]).stdout), "--rate 7\n");
    assert_eq!(run(&["fail"]).status.code(), Some(1), "its exit code is ours");
    assert_eq!(run(&["text"]).status.code(), Some(2));
}

/// What is said depends on how flash itself came here.
#[test]
fn a_missing_sibling_says_what_to_type() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    for (profile, built, typed) in [
        ("dist", true, "cargo build --profile dist --package flash-load"),
        ("debug", true, "cargo build --package flash-load"),
        ("bin", false, "cargo install --profile dist --path crates/flash-load"),
    ] {
        let folder = folder.path().join(profile);
        fs::create_dir(&folder).expect("a folder is made");
        if built {
            fs::write(folder.join(".cargo-lock"), "").expect("a file is written");
        }
        fs::hard_link(env!("CARGO_BIN_EXE_flash"), folder.join("flash")).expect("a link is made");
        let output = Command::new(folder.join("flash")).args(["load", "http://h/"]).env("PATH", "").output();
        let output = output.expect("flash runs");
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.trim_end().ends_with(typed), "{said}");
    }
}
