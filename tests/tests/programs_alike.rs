//! What all programs have in common: errors of one form with the same exit codes, and a manual page for each.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flash_tests::program;

/// The programs besides `flash`, as `flash NAME` runs them.
const NAMES: [&str; 5] = ["lab", "load", "sim", "slowdisk", "why"];
/// What experiments compare with: a program of no use to people.
const INTERNAL: &str = "flash-floor";

/// Where cargo puts the programs that it builds for the tests of their packages: above the folder of this one.
fn programs() -> PathBuf {
    let this = std::env::current_exe().expect("this program has a path");
    this.ancestors().nth(2).expect("cargo's folder").to_owned()
}

fn sibling(name: &str) -> PathBuf {
    let path = programs().join(format!("flash-{name}"));
    assert!(path.exists(), "{} is missing: run cargo test --workspace --no-run", path.display());
    path
}

fn run(program: &Path, words: &[&str]) -> Output {
    // `flash lab` finds its program along PATH, if it is not beside it.
    let path = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap_or_default());
    Command::new(program).args(words).env("PATH", path).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("it is text")
}

#[test]
fn these_are_all_programs() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = BTreeSet::new();
    for one in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()) {
        if one.join("src/main.rs").exists() {
            found.insert(one.file_name().unwrap().to_str().unwrap().to_owned());
        }
        for program in fs::read_dir(one.join("src/bin")).into_iter().flatten() {
            found.insert(program.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    let known = NAMES.iter().map(|name| format!("flash-{name}"));
    assert_eq!(found, known.chain(["flash".into(), INTERNAL.into()]).collect());
}

#[test]
fn errors_are_of_one_form() {
    let load = "http://127.0.0.1:9/";
    let usage: [(&str, &[&str]); 14] = [
        ("", &["serve", "--nonsense"]),
        ("", &["serve", "--loops", "none"]),
        ("lab", &["--nonsense"]),
        ("lab", &[]),
        ("lab", &["run"]),
        ("lab", &["run", "hot-cold", "--rounds", "0"]),
        ("load", &["--nonsense"]),
        ("load", &[]),
        ("load", &[load, "-d", "soon"]),
        ("sim", &["--nonsense"]),
        ("sim", &[]),
        ("slowdisk", &["--nonsense"]),
        ("slowdisk", &[]),
        ("why", &["--nonsense"]),
    ];
    for (name, words) in usage {
        let said = refused(name, words, 2);
        let last = said.rsplit_once(" (see flash ").unwrap_or_else(|| panic!("no hint: {said}")).1;
        assert!(last.starts_with(name) && last.ends_with(" --help)"), "{said}");
    }
    let missing: [(&str, &[&str], i32, &str); 10] = [
        ("", &["serve", "/nowhere"], 1, "cannot "),
        ("lab", &["report", "--out", "/nowhere"], 1, "/nowhere: "),
        ("lab", &["show", "/nowhere/plan.toml"], 2, "cannot read /nowhere/plan.toml: "),
        ("load", &[load, "--urls", "/nowhere/list"], 1, "cannot read "),
        ("load", &[load, "--json", "/nowhere/report"], 1, "cannot write to /nowhere/report: "),
        ("sim", &["run", "-f", "/nowhere/run.toml"], 1, "cannot read /nowhere/run.toml: "),
        ("slowdisk", &["/nowhere", "/nowhere"], 1, "/nowhere: "),
        ("why", &["--report", "/nowhere/x", "--json", "/nowhere/y", "1"], 1, "cannot write to /nowhere/y: "),
        ("why", &["999999999"], 1, "no process has the number"),
        ("why", &["--", "/nowhere/server"], 1, "cannot run /nowhere/server: "),
    ];
    for (name, words, code, beginning) in missing {
        let said = refused(name, words, code);
        assert!(said.contains(beginning), "{name} {words:?}: {said}");
    }
}

/// What follows the program's name on the only line that it says.
fn refused(name: &str, words: &[&str], code: i32) -> String {
    let (program, prefix) = match name {
        "" => (program(), "flash: ".to_owned()),
        _ => (sibling(name), format!("flash {name}: ")),
    };
    let output = run(&program, words);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{name} {words:?}: {said}");
    assert!(output.stdout.is_empty(), "{name} {words:?}: errors go to standard error");
    assert_eq!(said.lines().count(), 1, "{name} {words:?}: {said}");
    let said = said.strip_prefix(&prefix).unwrap_or_else(|| panic!("{name} {words:?}: {said}"));
    assert!(!said.starts_with(char::is_uppercase) && !said.starts_with("error"), "{said}");
    said.trim_end().to_owned()
}

#[test]
fn each_program_has_a_manual_page() {
    for name in NAMES {
        let help = run(&sibling(name), &["--help"]);
        let help = text(&help.stdout);
        check_page(&[name], help);
        for command in commands(help) {
            let help = run(&sibling(name), &[command, "--help"]);
            check_page(&[name, command], text(&help.stdout));
        }
        let wrong = run(&program(), &["man", name, "nonsense"]);
        let said = text(&wrong.stderr);
        assert_eq!(wrong.status.code(), Some(2), "{said}");
        assert!(said.contains("there is no page for 'nonsense'"), "{said}");
    }
}

/// The page has its title, what it is about, and every flag of the help.
fn check_page(names: &[&str], help: &str) {
    let output = run(&program(), &[&["man"], names].concat());
    assert!(output.status.success(), "{names:?}: {}", text(&output.stderr));
    let page = text(&output.stdout);
    let name = names.join("-");
    assert!(page.contains(&format!(".TH flash-{name} 1 ")), "{names:?}: {page}");
    assert!(page.contains(&format!("flash\\-{} \\- ", name.replace('-', "\\-"))), "{page}");
    assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH DESCRIPTION"), "{page}");
    let sections = page.lines().filter_map(|line| line.strip_prefix(".SH "));
    sections.for_each(|title| assert!(title.len() < 25, "flash man {name}: a sentence as a title: {title}"));
    let flags = flags(help);
    assert!(flags.contains("--help"), "{help}");
    for flag in flags {
        assert!(page.contains(&flag.replace('-', "\\-")), "flash man {name} has no {flag}");
    }
}

/// The commands that a help lists.
fn commands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    lines
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|word| !word.is_empty())
        .collect()
}

/// The long flags that a help explains.
fn flags(help: &str) -> BTreeSet<&str> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split([' ', ',', '=', '[']));
    words.filter(|word| word.starts_with("--") && word.len() > 2).collect()
}
