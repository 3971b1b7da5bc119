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
fn a_reader_that_leaves_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let [out, into] = ["lab", "tables"].map(|name| folder.path().join(name));
    store(&out, "memory", &[1.5]);
    let [out, into] = [&out, &into].map(|path| path.to_str().unwrap());
    for words in [
        &["list"][..],
        &["show", "hot-cold"],
        &["--help"],
        &["run", "--help"],
        &["--version"],
        &["--man", "run"],
        &["report", "--out", out],
        &["export", "memory", "--csv", "--out", out],
        &["export", "--csv", "--out", out, "--into", into],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_flash-lab"));
        let (code, _, error) = said(&command.args(words).stdout(writer).output().unwrap());
        assert_eq!((code, &*error), (Some(0), ""), "{words:?}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let failed =
        Command::new(env!("CARGO_BIN_EXE_flash-lab")).args(["show", "fig99"]).stderr(writer).status();
    assert_eq!(failed.unwrap().code(), Some(2));
    let full = std::fs::File::create("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_flash-lab")).arg("list").stdout(full).output().unwrap();
    let (code, _, error) = said(&output);
    assert!(code == Some(1) && error.contains("standard output: No space left"), "{error}");
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

#[test]
fn results_are_exported_as_csv() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("lab");
    let [out_word, into] =
        [&out, &folder.path().join("tables")].map(|path| path.to_str().unwrap().to_owned());
    let export = |words: &[&str]| said(&lab(&[&["export", "--csv", "--out", &out_word], words].concat()));

    let (code, _, error) = export(&[]);
    assert!(code == Some(1) && error.contains("no plan has been run there"), "{error}");
    store(&out, "memory", &[]);
    let (code, _, error) = export(&[]);
    assert!(code == Some(1) && error.contains("nothing of 'memory' was measured yet"), "{error}");

    store(&out, "memory", &[1.5, 2.5]);
    let (code, table, _) = export(&[]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(code, Some(0));
    assert!(
        lines[0].starts_with("plan,run,reduced,server,")
            && lines[0].ends_with(",failed,invalid,at_least,memory_mb"),
        "{table}"
    );
    assert!(lines.len() == 3 && lines[1].ends_with(",1.5") && lines[2].ends_with(",2.5"), "{table}");

    store(&out, "scaling", &[4.0]);
    let (code, table, error) = export(&[]);
    assert_eq!((code, &*table), (Some(2), ""), "{error}");
    assert!(error.contains("2 plans (memory, scaling)") && error.contains("--into DIR"), "{error}");
    let (code, _, error) = export(&["fig99"]);
    assert!(code == Some(1) && error.contains("no results of 'fig99', but of memory, scaling"), "{error}");
    assert_eq!(export(&["scaling"]).1.lines().count(), 2);

    let (code, listed, error) = export(&["--into", &into]);
    assert_eq!(code, Some(0), "{error}");
    for name in ["memory.csv", "scaling.csv"] {
        assert!(listed.contains(name), "{listed}");
        let text = std::fs::read_to_string(format!("{into}/{name}")).unwrap();
        assert!(text.starts_with("plan,run,reduced,server,"), "{text}");
    }
}

/// Records of a plan that comes along, with a round of its first server for each of these numbers.
fn store(out: &std::path::Path, plan: &str, memory_mb: &[f64]) {
    use flash_lab::plan::Extent;
    use flash_lab::record::{Figures, Machine, Measured, Measurement, Outcome, Run, Store};

    let (plan, plan_text) = flash_lab::plan::find(plan).unwrap();
    let (server, x) = (plan.servers[0].name().to_owned(), plan.places(Extent::Full)[0].clone());
    let mut store = Store::new(out, &plan.name);
    let run = Run {
        plan: plan.name.clone(),
        plan_text,
        extent: Extent::Full,
        seed: 1,
        began_unix: 0,
        machine: Machine::default(),
        servers: vec![Measured { name: server.clone(), version: None }],
        missing: Vec::new(),
        notes: Vec::new(),
        commands: Vec::new(),
        reduced: Vec::new(),
    };
    store.begin(&run).unwrap();
    for (repeat, value) in (0..).zip(memory_mb) {
        let figures = Figures { figures: [("memory_mb".to_owned(), *value)].into(), ..Figures::default() };
        let (server, x, outcome) = (server.clone(), x.clone(), Outcome::Done(figures));
        let (turn, began_unix, took_seconds) = (0, 0, 1.0);
        store.add(&Measurement { server, x, repeat, turn, began_unix, took_seconds, outcome }).unwrap();
    }
}
