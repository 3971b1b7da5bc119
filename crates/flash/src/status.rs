//! `flash status`: what a running server does, in a few lines and an exit code.

use flash_arch::snapshot::Snapshot;
use flash_core::printable::printable_lines;

use crate::administer;
use crate::failure::Failure;
use crate::flags::Status;

/// Prints it. The exit code is 0 if the server serves and all of its devices answer, and 1 if not.
///
/// # Errors
/// If the server cannot be asked. The exit code is 2 then.
pub(crate) fn run(flags: &Status) -> Result<(), Failure> {
    let ask = |path| administer::get(&flags.to, path).map_err(unreachable);
    let json = ask("/status.json")?;
    if flags.json {
        flash_cli::print(json.as_bytes())?;
    } else {
        flash_cli::print(summary(&ask("/status.txt")?).as_bytes())?;
    }
    match what_is_wrong(&json) {
        None => Ok(()),
        Some(why) => Err(Failure::Run(why)),
    }
}

/// A server that cannot be asked is told from one that is not well by the exit code.
fn unreachable(failure: Failure) -> Failure {
    match failure {
        Failure::Run(why) => Failure::Usage(why),
        other => other,
    }
}

/// The first section of a page of text, without its heading.
fn summary(page: &str) -> String {
    let section = page.split("\n\n").next().unwrap_or_default();
    let (_heading, lines) = section.split_once('\n').unwrap_or(("", section));
    format!("{}\n", lines.trim_end())
}

/// Why an operator should look at the server: a line for each reason.
fn what_is_wrong(json: &str) -> Option<String> {
    let faults = match serde_json::from_str::<Snapshot>(json) {
        Ok(status) => status.faults(),
        Err(error) => vec![format!("the server's status makes no sense: {error}")],
    };
    (!faults.is_empty()).then(|| printable_lines(&faults.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_section_is_the_summary() {
        assert_eq!(
            summary("SUMMARY\nState  serving\nUp     3 s\n\nLOOPS\nLoop\n"),
            "State  serving\nUp     3 s\n"
        );
        assert_eq!(summary("SUMMARY\nState  serving\n"), "State  serving\n");
    }

    #[test]
    fn what_needs_an_operator() {
        assert_eq!(what_is_wrong("{}"), None);
        assert_eq!(what_is_wrong(r#"{"devices":[{"mount":"/a","healthy":true}]}"#), None);
        assert_eq!(what_is_wrong(r#"{"draining":true}"#).as_deref(), Some("the server is draining"));
        let down = r#"{"devices":[{"mount":"/a","healthy":false},{"mount":"/a","healthy":false},{"mount":"/b","healthy":false}]}"#;
        assert_eq!(what_is_wrong(down).as_deref(), Some("does not answer: /a, /b"));
        let fails =
            r#"{"devices":[{"mount":"/a","healthy":true,"fails":true},{"mount":"/b","fails":false}]}"#;
        assert_eq!(what_is_wrong(fails).as_deref(), Some("has errors: /a"));
        assert!(what_is_wrong("?").is_some());
        let all = r#"{"taken_unix_ms":5000999,"root_faults":[{"folder":"/srv/a","why":"is gone"}],"drops_log_lines":true,
            "programs":[{"route":"/api","program":"localhost:3000","unreachable":1},{"route":"/b","unreachable":0}],
            "certificates":[{"names":"a.example","not_after_unix_s":5000},{"names":"b.example","not_after_unix_s":5001}]}"#;
        let expected = "/srv/a is gone\n/api: cannot be reached: localhost:3000\nthe certificate for a.example has expired\n\
                        lines of a log were dropped within the last ten minutes";
        assert_eq!(what_is_wrong(all).as_deref(), Some(expected));
    }
}
