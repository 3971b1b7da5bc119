//! Parameter files: what they may leave out, and what is refused and how.

use super::*;

fn refusal(text: &str) -> String {
    Parameters::from_toml(text).expect_err(text).to_string()
}

#[test]
fn what_a_file_leaves_out_keeps_the_papers_value() {
    let parameters = Parameters::from_toml(
        "architecture = 'pipelined'\n\
         [machine]\nprocessors = 16\nmemory_mb = 110\ndisks = [{ access_ms = 5.35, transfer_mbit_s = 594 }]\n\
         [server]\ncaches = 'private'\n",
    )
    .expect("it is sound");
    let mut expected = Parameters { architecture: Architecture::Pipelined, ..Parameters::default() };
    expected.machine.processors = 16;
    expected.machine.memory_mb = 110.0;
    expected.machine.disks = vec![Disk::SLOW];
    expected.server.caches = Some(Caches::Private);
    assert_eq!(parameters, expected);
    assert_eq!(Parameters::from_toml(""), Ok(Parameters::default()));
}

#[test]
fn a_refusal_names_the_line_the_expectation_and_the_unit() {
    for (text, line, expected) in [
        ("[costs]\nconnection_us = -1\n", "line 2", "-1: expected a number, 0 or more"),
        ("[costs]\n\npath_lookup_us = 'fast'\n", "line 3", "invalid type: string \"fast\", expected f64"),
        ("[machine]\nmemory_mb = 0\n", "line 2", "0: expected a number above 0"),
        ("[machine]\nprocessors = 0\n", "line 2", "0: expected a whole number, 1 or more"),
        ("[costs]\ntranslate_disk_fraction = 2\n", "line 2", "2: expected a number from 0 to 1"),
        ("[run]\nmeasured_requests = 0\n", "line 2", "expected a nonzero u32"),
        ("architecture = 'flash'\n", "line 1", "expected one of `mp`, `mt`, `sped`, `amped`, `pipelined`"),
        ("[machine]\nmemory = 3\n", "line 2", "expected one of `processors`, `memory_mb`"),
    ] {
        let message = refusal(text);
        assert!(message.contains(line) && message.contains(expected), "{message}");
        // The line is shown as it stands, and every quantity's name ends in its unit.
        let shown = text.lines().last().expect("it has lines");
        assert!(message.contains(shown), "{message}");
    }
}
