//! `calibrate` and `validate` as people run them, on this machine and with a real server where one is named.

#![forbid(unsafe_code)]
use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn flash_sim(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flash-sim")).args(words).output().expect("the program runs")
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_quick_calibration_is_a_parameter_file() {
    let Some(flash) = env::var("FLASH_BIN").ok().filter(|flash| Path::new(flash).is_file()) else {
        return eprintln!("NOT TESTED: calibrate needs a server: FLASH_BIN=target/release/flash");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("this.toml");
    let out = out.to_str().expect("plain words");
    // Not where other temporary files are: those may lie in memory, which is no disk.
    let disk = env!("CARGO_TARGET_TMPDIR");
    let output = flash_sim(&["calibrate", "--quick", "--flash", &flash, "--disk", disk, "--out", out]);
    let said = error(&output);
    if said.contains("another run") || said.contains("processors for the server") {
        return eprintln!("NOT TESTED: {said}");
    }
    assert!(output.status.success(), "{said}");
    assert!(said.contains("requests, round 1 of 1"), "it says where it is: {said}");
    let text = fs::read_to_string(out).expect("it was written");
    let number = |key: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
        line.unwrap_or_else(|| panic!("no {key} in {text}")).parse().expect("a number")
    };
    // Bounds for any machine, busy or not.
    for (key, least, most) in [
        ("connection_us", 1.0, 5_000.0),
        ("read_request_us", 1.0, 2_000.0),
        ("path_lookup_us", 0.005, 20.0),
        ("transmit_us_per_512_bytes", 0.005, 10.0),
        ("thread_switch_us", 0.1, 500.0),
        ("data_entry_bytes", 100.0, 20_000.0),
        ("thread_kb", 4.0, 2_000.0),
    ] {
        let value = number(key);
        assert!((least..most).contains(&value), "{key} = {value}: {text}");
    }
    let run = flash_sim(&["run", "--file", out, "run.measured_requests=300", "run.settling_requests=100"]);
    assert!(run.status.success(), "{}", error(&run));
    let left = fs::read_dir(disk).expect("cargo made it").flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("flash-sim-"));
    assert_eq!(left.count(), 0, "what was made for measuring is gone");
}

#[test]
fn what_cannot_be_is_said_on_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let bad = folder.path().join("bad.toml");
    fs::write(&bad, "[costs]\nhand_off_us = -1\n").expect("room");
    let bad = bad.to_str().expect("plain words");
    let good = folder.path().join("good.toml");
    fs::write(&good, "[costs]\nhand_off_us = 1\nmore_us = { mt = 2 }\n").expect("room");
    let good = good.to_str().expect("plain words");
    for (code, part, words) in [
        (2, "line 2", &["validate", "--parameters", bad][..]),
        (1, "/no/such/file", &["validate", "--parameters", "/no/such/file"]),
        (1, "/no/such/flash", &["calibrate", "--flash", "/no/such/flash"]),
        (1, "/no/such/run", &["validate", "--parameters", good, "--measured", "/no/such/run"]),
        (1, "good.toml: expected", &["validate", "--parameters", good, "--measured", good]),
        (2, "expected mp, mt, sped", &["validate", "--architecture", "sped,apache"]),
        (2, "--fast", &["calibrate", "--fast"]),
    ] {
        let output = flash_sim(words);
        let said = error(&output);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(part) && said.lines().count() == 1, "{words:?}: {said}");
    }
}
