//! What the output of a program of tests says: which tests failed, and why. It knows the output of Rust's own harness, and
//! that of flash-process's programs, which looks the same where it matters.

use crate::summary::Failure;

/// A panic's message takes so many lines of the summary at most.
const WHY_LINES_MAX: usize = 3;

/// The tests that failed, in the words of `cargo test`.
pub(super) fn failures(program: &str, output: &str) -> Vec<Failure> {
    let names = failed(output);
    names.iter().map(|name| Failure { test: format!("{program} {name}"), why: why(name, output) }).collect()
}

/// Their names. Both harnesses list them at the end, each on a line of its own after four spaces.
fn failed(output: &str) -> Vec<&str> {
    let from = ["\nfailures:\n", "\ntest result: "].iter().filter_map(|mark| output.rfind(mark));
    // Rust's harness says its result after the names, and flash-process's before them.
    let sections = from.map(|at| output[at + 1..].split_inclusive('\n').skip(1));
    let mut names: Vec<&str> = Vec::new();
    for line in sections.flat_map(|lines| lines.take_while(|line| line.starts_with("    ") || *line == "\n"))
    {
        let name = line.trim();
        if !name.is_empty() && !name.contains(' ') && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The first panic that the output shows of this test, on one line.
pub(super) fn why(name: &str, output: &str) -> String {
    let section = [format!("---- {name} stdout ----"), format!("test {name} ... ")];
    let from = section.iter().find_map(|mark| output.find(mark)).unwrap_or_default();
    // Other threads of it may have panicked as they should.
    let own = output[from..].find(&format!("thread '{name}'")).map_or(from, |at| from + at);
    let Some(at) = output[own..].find("panicked at ") else {
        return "no panic in its output".to_owned();
    };
    let lines = output[own + at..].lines().map(str::trim);
    let is_end = |line: &str| ["", "stack backtrace:"].contains(&line) || line.starts_with("note: ");
    lines.take_while(|line| !is_end(line)).take(WHY_LINES_MAX).collect::<Vec<_>>().join(" ")
}

/// The tests that ran, with their seconds, where the harness tells.
pub(super) fn times<'a>(program: &'a str, output: &'a str) -> impl Iterator<Item = (String, f64)> + 'a {
    output.lines().filter_map(move |line| {
        let (name, end) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let seconds = end.split_once('<')?.1.strip_suffix("s>")?.parse().ok()?;
        Some((format!("{program} {name}"), seconds))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found() {
        let output =
            "running 2 tests\ntest a::b ... ok <1.250s>\ntest c ... FAILED <0.100s>\ntest d ... ok\n";
        let times: Vec<_> = times("-p flash --lib", output).collect();
        assert_eq!(times, [("-p flash --lib a::b".to_owned(), 1.25), ("-p flash --lib c".to_owned(), 0.1)]);
    }

    #[test]
    fn failures_are_found_in_what_rusts_harness_says() {
        let output = "
running 3 tests
test a::passes ... ok
test a::fails ... FAILED
test b::fails ... FAILED

successes:

---- a::passes stdout ----
NOT TESTED: nothing

successes:
    a::passes

failures:

---- a::fails stdout ----

thread 'a::fails' (7) panicked at src/lib.rs:1:2:
assertion `left == right` failed
  left: 1
 right: 2
stack backtrace:
   0: rust_begin_unwind

---- b::fails stdout ----
thread 'helper' (7) panicked at src/b.rs:1:1:
on purpose
thread 'b::fails' (8) panicked at src/b.rs:3:4:
boom
note: run with `RUST_BACKTRACE=1`


failures:
    a::fails
    b::fails

test result: FAILED. 1 passed; 2 failed; 0 ignored
";
        let found = failures("-p x --lib", output);
        let told: Vec<(&str, &str)> = found.iter().map(|one| (&*one.test, &*one.why)).collect();
        assert_eq!(
            told,
            [
                (
                    "-p x --lib a::fails",
                    "panicked at src/lib.rs:1:2: assertion `left == right` failed left: 1"
                ),
                ("-p x --lib b::fails", "panicked at src/b.rs:3:4: boom"),
            ]
        );
    }

    #[test]
    fn failures_are_found_in_what_the_programs_of_flash_app_say() {
        let output = "test pool::a ... ok
test pool::b ... FAILED
thread 'main' panicked at tests/programs/pool.rs:7:1:
too late

test result: 2 run, 1 failed
    pool::b
";
        let found = failures("-p flash-process --test programs", output);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].test, "-p flash-process --test programs pool::b");
        assert_eq!(found[0].why, "panicked at tests/programs/pool.rs:7:1: too late");
    }

    #[test]
    fn nothing_failed_where_all_passed_or_the_program_died() {
        let passed = "\nrunning 1 test\ntest a ... ok\n\nsuccesses:\n\nsuccesses:\n    a\n\ntest result: ok. 1 passed\n\n";
        assert!(failed(passed).is_empty());
        assert!(failed("running 1 test\n").is_empty());
    }
}
