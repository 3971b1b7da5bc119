//! A plan that limits the machine, as a user without root runs it. The test itself may be root, and then gives its rights away.

#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};

/// nobody, on every system.
const NOBODY: u32 = 65_534;

/// Runs the lab in this folder as a user without root.
fn lab(folder: &Path, words: &[&str]) -> Output {
    let program = folder.join("flash-lab");
    let mut command = match rustix::process::geteuid().is_root() {
        false => Command::new(&program),
        true => {
            let id = NOBODY.to_string();
            let mut command = Command::new("setpriv");
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(&program);
            command
        }
    };
    // A user has the machine once; this folder is only the test's.
    command.args(words).current_dir(folder).env("XDG_RUNTIME_DIR", folder).output().expect("it runs")
}

/// A folder of that user's, with the programs: they may lie where only root may go.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let lab = Path::new(env!("CARGO_BIN_EXE_flash-lab"));
    fs::copy(lab, folder.path().join("flash-lab")).expect("the lab is there");
    let flash = lab.with_file_name("flash");
    fs::copy(&flash, folder.path().join("flash"))
        .unwrap_or_else(|error| panic!("{}: {error}: run cargo build -p flash", flash.display()));
    if rustix::process::geteuid().is_root() {
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("we are root");
    }
    folder
}

const PLAN: &str = r#"
name = "small"
title = "Small"
about = "For tests."
servers = ["amped"]
workload = { kind = "file", kilobytes = 1 }
load = { clients = 2, warm_up_seconds = 0, seconds = 0.3 }
machine = { memory_mb = 64, disk_reads_per_second = 100, read_ahead_kb = 16, cold = true }
repeats = 1
[[figure]]
title = "Rate"
kind = "bars"
y = "requests_per_second"
[[finding]]
claim = "It serves"
source = "our own"
[finding.check]
kind = "value"
figure = "requests_per_second"
of = { servers = ["amped"] }
bounds = { at_least = 1 }
"#;

#[test]
fn a_plan_runs_without_root_and_says_what_is_left_out() {
    let folder = folder();
    fs::write(folder.path().join("small.toml"), PLAN).unwrap();
    let output = lab(folder.path(), &["run", "small.toml"]);
    let [said, told] =
        [&output.stderr, &output.stdout].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{said}");
    let left_out = "no memory limit of 64 MB, no limit of 100 disk reads a second, the disk's own read-ahead instead of 16 KB, \
                    only the pages of files are dropped before a measurement, and no names";
    assert!(said.contains(&format!("small: REDUCED, because this user is not root: {left_out}")), "{said}");
    assert!(told.contains("small: holds: It serves (reduced: amped: "), "{told}");

    let report = lab(folder.path(), &["report"]);
    assert!(report.status.success(), "{report:?}");
    let page = fs::read_to_string(folder.path().join("lab/report.html")).unwrap();
    assert_eq!(page.matches("no memory limit of 64 MB").count(), 2, "above the plan and at its figure");
    assert!(page.contains("flash lab run small.toml</code>"), "the command, as it was given");
    let table = lab(folder.path(), &["export", "--csv"]).stdout;
    assert!(String::from_utf8_lossy(&table).contains("no memory limit of 64 MB"));
}

#[test]
fn a_plan_of_which_nothing_is_left_says_why_and_what_to_do() {
    let folder = folder();
    let output = lab(folder.path(), &["run", "device-class", "--quick", "--servers", "amped"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("it varies the time of a disk read")
            && said.contains("sudo flash lab run device-class"),
        "{said}"
    );
    assert!(!folder.path().join("lab/device-class").exists(), "nothing was measured");
}
