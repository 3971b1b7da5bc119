//! The program as people run it: what it writes, what it says of bad input, and that the same again gives the same bytes.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn flash_sim(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flash-sim")).args(words).output().expect("the program runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error of a program that must fail, on one line, with this exit code.
fn refused(code: i32, words: &[&str]) -> String {
    let output = flash_sim(words);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {error}");
    assert!(error.starts_with("flash sim: ") && error.lines().count() == 1, "{words:?}: {error}");
    error
}

fn succeeds(words: &[&str]) -> String {
    let output = flash_sim(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    said(&output)
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
    };
    entries.map(read).collect()
}

const SHORT: [&str; 4] = [
    "run.measured_requests=300",
    "run.settling_requests=100",
    "workload.trace=nasa",
    "machine.memory_mb=160",
];

#[test]
fn a_run_says_how_fast_it_was_and_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run.json");
    let out = out.to_str().unwrap();
    let text = succeeds(&[&["run", "architecture=mt", "--out", out], &SHORT[..]].concat());
    assert!(text.starts_with("mt, 1 processors, 1000 clients, NASA: 300 requests"), "{text}");
    assert!(text.contains("throughput") && text.contains("lock 1"), "{text}");
    let record: serde_json::Value = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
    assert_eq!(record["scenario"]["architecture"], "mt");
    assert_eq!(record["scenario"]["workload"]["trace"], "nasa");
    assert!(record["outcome"]["requests_per_s"].as_f64().unwrap() > 100.0);
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    for words in [&["keys"][..], &[&["run"], &SHORT[..]].concat(), &["--help"], &["--man", "run"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_flash-sim"));
        let output = command.args(words).stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    }
    let full = fs::File::create("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_flash-sim")).arg("keys").stdout(full).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && error.contains("No space left"), "{error}");
}

#[test]
fn policies_are_compared_on_the_same_requests() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("policies.json");
    let site = "workload.synthetic={ files = 400, data_set_mb = 20, ln_size_sd = 1, zipf_exponent = 0.8 }";
    let words = ["policies", "--memory-mb", "8,16", "--out", out.to_str().unwrap(), site];
    let text = succeeds(&[&words[..], &["run.measured_requests=5000"]].concat());
    assert!(text.starts_with("400 synthetic files: 5000 requests after 5000, 131072 bytes a read"), "{text}");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&fs::read_to_string(out).unwrap()).unwrap();
    assert_eq!(rows.len(), 14, "{text}");
    for rows in rows.chunks(7) {
        let reads = |row: &serde_json::Value| row["reads_per_request"].as_f64().unwrap();
        let (belady, others) = rows.split_last().unwrap();
        assert_eq!(belady["policy"], "Belady");
        assert!(others.iter().all(|row| reads(row) > reads(belady) && reads(row) < 1.0), "{text}");
    }
    let said =
        refused(2, &["policies", "--memory-mb", "8", site, "run.settling_requests=0", "--memory-mb", "0"]);
    assert!(said.contains("0") && said.contains("--memory-mb"), "{said}");
}

#[test]
fn a_run_takes_a_file_and_settings_on_top() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.toml");
    let text = "architecture = 'sped'\n[machine]\nmemory_mb = 160\n[run]\nclients = 7\nmeasured_requests = 200\n\
                [workload]\ntrace = 'worldcup98'\n";
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let text = succeeds(&["run", "-f", file, "run.clients=9"]);
    assert!(text.starts_with("sped, 1 processors, 9 clients, WorldCup98: 200 requests"), "{text}");
}

#[test]
fn the_sample_of_a_machine_runs_as_it_stands() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/machine.toml");
    let text = succeeds(&["run", "-f", file, "run.measured_requests=2000"]);
    assert!(
        text.starts_with("amped, 4 processors, 2000 clients, 400000 synthetic files: 2000 requests"),
        "{text}"
    );
    let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).expect(name);
    assert!(line("disk 1").ends_with("; an access for each 131.072 KB"), "{text}");
    assert!(line("link").contains(" % busy, "), "{text}");
    assert!(line("full").contains("the link (") || line("full").contains("nothing, "), "{text}");
}

#[test]
fn a_run_says_what_was_full() {
    let last = |more: &[&str]| {
        let words = ["run", "architecture=mt", "run.settling_requests=3000", "run.measured_requests=3000"];
        let text = succeeds(&[&words, more].concat());
        text.lines().last().expect("a line").trim_start().to_owned()
    };
    let nasa = ["workload.trace=nasa", "run.clients=50"];
    let with = |more: &[&'static str]| last(&[&nasa[..], more].concat());
    let full = with(&["machine.memory_mb=160", "machine.link_mbit_s=10"]);
    assert!(
        full.starts_with("full") && full.contains("the link (") && !full.contains("processors"),
        "{full}"
    );
    let slow = with(&["machine.memory_mb=10", "machine.disks=[{ access_ms = 60, transfer_mbit_s = 100 }]"]);
    assert!(slow.contains("disk 0 (") && !slow.contains("processors"), "{slow}");
    assert!(with(&["machine.memory_mb=2000"]).contains("the processors ("));
    // Two threads wait for disks, and nothing else is busy.
    let few = with(&[
        "machine.memory_mb=10",
        "server.threads_per_processor=1",
        "machine.disks=[{ access_ms = 20, transfer_mbit_s = 1200 }, { access_ms = 20, transfer_mbit_s = 1200 }]",
    ]);
    assert!(few.contains("nothing, ") && few.contains(" wait in the queue of "), "{few}");
}

#[test]
fn keys_are_listed() {
    let text = succeeds(&["keys"]);
    for line in ["machine.memory_mb = 1000.0  [MB]", "machine.data_cache_mb (unset)  [MB]", "run.seed = 1"] {
        assert!(text.lines().any(|have| have == line), "no {line} in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100 && line.trim_end() == line), "{text}");
    let some = succeeds(&["keys", "disks"]);
    assert!(
        some.starts_with("machine.disks[].access_ms = 2.99  [ms]\n") && !some.contains("memory"),
        "{some}"
    );
    assert!(refused(2, &["keys", "zzz"]).contains("no key contains 'zzz'"));
}

#[test]
fn bad_input_gets_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    fs::write(&file, "[machine]\nprocessors = 2\nmemory_mb = 'much'\n").unwrap();
    let error = refused(2, &["run", "-f", file.to_str().unwrap()]);
    assert!(error.contains("bad.toml, line 3: 'memory_mb = 'much''"), "{error}");
    assert!(refused(1, &["run", "-f", "/nowhere/run.toml"]).contains("/nowhere/run.toml"));
    assert!(refused(1, &["run", "workload.log.path=/nowhere/access.log"]).contains("/nowhere/access.log"));
    assert!(refused(2, &["run", "machine.processors=0"]).contains("machine.processors=0: "));
    assert!(refused(2, &["run", "processors"]).contains("KEY=VALUE"));
    assert!(refused(2, &["run", "workload.trace=apache"]).contains("penn-state-cse"));
    assert!(refused(2, &["run", "machine.memory_mb=0.5", "architecture=mt"]).contains("MB"));
    assert!(
        refused(2, &["run", "workload.truncated={ trace = 'nasa', data_set_mb = -1 }"])
            .contains("data_set_mb")
    );
    assert!(refused(2, &["paper", "--figure", "4"]).contains("table1"));
    assert!(refused(2, &["paper", "--jobs", "0"]).contains("--jobs"));
    assert!(refused(2, &["explain", "--request", "300", SHORT[0]]).contains("--request 300"));
    assert!(refused(2, &["sweep", "run.seed=1,2"]).contains("--out"));
    assert!(
        refused(2, &["sweep", "--out", folder.path().to_str().unwrap(), "run.seed=1..9999999"])
            .contains("1000000")
    );
    assert!(refused(2, &[]).contains("run, sweep, keys, explain, paper"));
    assert!(refused(2, &["fly"]).contains("fly"));
    assert!(refused(1, &["run", SHORT[0], SHORT[2], "--out", "/nowhere/x.json"]).contains("/nowhere/x.json"));
}

#[test]
fn a_request_s_life_is_told_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("life.svg");
    let words = ["explain", "architecture=pipelined", "run.clients=20", "--request", "5"];
    let words = [&words, &SHORT[..]].concat();
    let text = succeeds(&[&words[..], &["--svg", picture.to_str().unwrap()]].concat());
    assert!(text.starts_with("Request 5 of NASA under PIPELINED on 1 processors"), "{text}");
    for word in ["queued for accept connection", "has processor 0", "done", "100.0 %  in all"] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    let picture = fs::read_to_string(picture).unwrap();
    assert!(refused(1, &[&words[..], &["run.clients=2000"]].concat()).contains("measure more"));
    assert!(picture.starts_with("<svg") && picture.contains("in a queue") && picture.ends_with("</svg>\n"));
}

#[test]
fn a_sweep_resumes_and_can_be_done_by_others() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let varied = ["sweep", "--out", out, "--jobs", "2", "architecture=mt,sped", "machine.processors=1..2"];
    let words = [&varied, &SHORT[..]].concat();
    let commands = succeeds(&[&words[..], &["--commands"]].concat());
    assert_eq!(commands.lines().count(), 4, "{commands}");
    // One of them is run by somebody else; its line is what a shell would run.
    let line = commands.lines().nth(2).unwrap();
    let theirs: Vec<&str> = line.strip_prefix("flash sim ").unwrap().split(' ').collect();
    succeeds(&theirs);
    let text = succeeds(&words);
    assert!(text.starts_with("4 runs, 3 of them new"), "{text}");
    let first = files(folder.path());
    assert_eq!(first.len(), 5, "{:?}", first.keys());
    let results = &first["results.csv"];
    assert!(results.starts_with("architecture,machine.processors,requests_per_s,"), "{results}");
    assert_eq!(results.lines().count(), 5);

    let text = succeeds(&words);
    assert!(text.starts_with("4 runs, 0 of them new"), "{text}");
    assert_eq!(files(folder.path()), first);
    // What was run with other settings, or not to its end, is run again.
    fs::write(folder.path().join("architecture=mt,machine.processors=1.json"), "{").unwrap();
    let text = succeeds(&words);
    assert!(text.starts_with("4 runs, 1 of them new"), "{text}");
    assert_eq!(files(folder.path()), first);
    let text = succeeds(&[&words[..], &["run.seed=2"]].concat());
    assert!(text.starts_with("4 runs, 4 of them new"), "{text}");
}

#[test]
fn the_quick_paper_leaves_all_its_files_and_the_same_ones_each_time() {
    let folder = tempfile::tempdir().unwrap();
    // Shorter still than quick: what the figures say is not looked at here.
    let paper = |name: &str, words: &[&str]| {
        let out = folder.path().join(name);
        let shorter = ["run.measured_requests=50", "run.settling_requests=10"];
        succeeds(&[&["paper", "--quick", "--out", out.to_str().unwrap()], words, &shorter[..]].concat());
        files(&out)
    };
    let once = paper("once", &[]);
    let mut expected: Vec<String> = Vec::new();
    for panel in ["2a", "2b", "5a", "5b"]
        .map(str::to_owned)
        .into_iter()
        .chain(["3a", "3b", "3c", "3d", "3e"].map(str::to_owned))
        .chain(
            [6, 7, 8]
                .into_iter()
                .flat_map(|figure| ["a", "b", "c", "d"].map(|panel| format!("{figure}{panel}"))),
        )
    {
        expected.extend(["svg", "csv", "json"].map(|form| format!("figure{panel}.{form}")));
    }
    for table in [1, 4, 5] {
        expected.extend(["md", "csv", "json"].map(|form| format!("table{table}.{form}")));
    }
    expected.extend(["claims.md".to_owned(), "claims.json".to_owned()]);
    expected.sort();
    assert_eq!(once.keys().cloned().collect::<Vec<_>>(), expected);
    for (name, text) in &once {
        // So short a run need not meet a taken lock, and claims say so.
        assert!(!text.is_empty() && (name.starts_with("claims") || !text.contains("NaN")), "{name}");
    }
    let claims: serde_json::Value = serde_json::from_str(&once["claims.json"]).unwrap();
    let made = concat!(
        "flash sim ",
        env!("CARGO_PKG_VERSION"),
        ", flash sim paper --quick run.measured_requests=50 run.settling_requests=10: seed 1, 50 requests after 10 in all. ",
        "A disk has an access for each 8.192 KB."
    );
    for name in ["claims.md", "figure6a.svg", "figure6a.json", "figure8d.json"] {
        assert!(once[name].contains(made), "{name}: {}", once[name]);
    }
    for name in ["table1.json", "table4.md", "figure3a.json"] {
        assert!(once[name].contains(": formulas, without a run."), "{name}: {}", once[name]);
    }
    assert!(
        once["table5.md"].contains(": seed 1, 200000 requests, the paper's settings."),
        "{}",
        once["table5.md"]
    );
    assert_eq!(claims["made"]["scenario"]["run"]["measured_requests"], 50);
    assert_eq!((&claims["made"]["seeds"], &claims["made"]["quick"]), (&1.into(), &true.into()));
    for claim in claims["claims"].as_array().unwrap() {
        let (because, id) = (claim["because"].as_str().unwrap(), claim["id"].as_str().unwrap());
        let is_formula =
            id.starts_with("C1") && id.len() == 3 && id.ends_with(['a', 'b', 'c']) || id.starts_with("C2");
        let says_so = because.starts_with("Written for the default settings: ");
        assert!(because.is_empty() || is_formula || says_so, "{id}: {because}");
    }
    let ids: Vec<&str> =
        claims["claims"].as_array().unwrap().iter().map(|claim| claim["id"].as_str().unwrap()).collect();
    for claim in 1..=13 {
        assert!(
            ids.iter().any(|id| id.trim_end_matches(|c: char| c.is_ascii_lowercase()) == format!("C{claim}"))
        );
    }
    let again = paper("again", &["--jobs", "1", "--figure", "6", "--figure", "table5"]);
    let same = |(name, text): (&String, &String)| name.starts_with("claims") || once.get(name) == Some(text);
    assert!(again.len() == 3 * 5 + 2 && again.iter().all(same), "neither chance nor --jobs changes a byte");
}

#[test]
fn one_figure_is_one_figure() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    succeeds(&["paper", "--figure", "3", "--figure", "table1", "--out", out]);
    let names: Vec<String> = files(folder.path()).into_keys().collect();
    assert_eq!(names.len(), 2 + 3 + 15, "{names:?}");
    let table = fs::read_to_string(folder.path().join("table1.md")).unwrap();
    assert!(table.contains("| AMPED | file_entries × 850 × N + 3M × N |"), "{table}");
}

#[test]
fn a_log_is_replayed_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let line = |file: usize| {
        let bytes = 1000 * (file + 1);
        format!("client - - [01/Aug/1995:00:00:0{file} -0400] \"GET /{file}.html HTTP/1.0\" 200 {bytes}\n")
    };
    fs::write(&log, (0..4).map(line).collect::<String>()).unwrap();
    let path = format!("workload.log.path={}", log.display());
    let run = ["run", "run.clients=1", "run.measured_requests=100", "run.settling_requests=100", &path];
    // 4 files of 2,500 bytes on average, all in the cache: 129 + 6.16 + 13.5 us, and 5 packets of 24 us on average.
    let text = succeeds(&run);
    assert!(text.contains("100 requests") && text.contains("data 100.00 %"), "{text}");
    assert!(text.contains("mean 0.269 ms"), "{text}");
    let out = folder.path().join("run.json");
    let truncated = ["workload.log.data_set_mb=0.003", "--out", out.to_str().unwrap()];
    let text = succeeds(&[&run[..], &truncated].concat());
    // Two files are left, with 2 and 4 packets.
    assert!(text.contains("mean 0.221 ms"), "{text}");
}
