//! The command line: what is listed and shown, and what it says to words that make no sense.

#![forbid(unsafe_code)]

use std::process::{Command, Output};

fn lab(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flash-lab")).args(words).output().unwrap()
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn plans_are_listed_and_shown() {
    let (code, list, _) = said(&lab(&["list"]));
    assert_eq!(code, Some(0));
    for plan in flash_lab::plan::built_in() {
        assert!(list.contains(plan.name), "{list}");
    }
    let (code, text, _) = said(&lab(&["show", "hot-cold"]));
    assert_eq!(code, Some(0));
    for part in ["3000 disk reads a second", "amped", "quick:", "full:", "never waits for a disk"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn nonsense_gets_one_line_and_the_code_of_misuse() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine.toml");
    std::fs::write(&mine, "name = 'mine'\ncolour = 'red'\n").unwrap();
    for (words, expected) in [
        (&["show", "fig99"][..], "no plan 'fig99'"),
        (&["show", mine.to_str().unwrap()], "colour"),
        (&["show", "/no/such.toml"], "/no/such.toml"),
        (&["run", "hot-cold", "--servers", "iis"], "'iis'"),
    ] {
        let (code, _, error) = said(&lab(words));
        assert_eq!(code, Some(2), "{words:?}: {error}");
        assert!(error.contains(expected), "{words:?}: {error}");
    }
}
