//! The paper's claims (C1 to C13). Each is a number that our runs give, and a rule for it: claimed, ours, holds or not.
//!
//! Each claim is checked for each seed on its own, with the same requests for all architectures. So its spread over the seeds
//! is that of the comparison, not that of the traffic. The rules stand beside the numbers; none is tuned.

mod claim;
mod list;

use std::path::Path;

use serde::Serialize;

use self::claim::{Claim, One};
use super::exhibit::Exhibit;
use super::results::{Results, Seeds};
use crate::output;
use flash_cli::Failure;

/// What became of a claim.
#[derive(Debug, Serialize)]
struct Finding {
    id: &'static str,
    claimed: &'static str,
    ours: String,
    median: f64,
    least: f64,
    most: f64,
    rule: &'static str,
    /// For each seed.
    holds: Vec<bool>,
    because: &'static str,
}

/// Looks at every claim about what was run, and writes claims.md and claims.json.
pub(super) fn write(out: &Path, results: &Results, wanted: &[Exhibit]) -> Result<(), Failure> {
    let about_these = |claim: &&Claim| claim.about.iter().all(|exhibit| wanted.contains(exhibit));
    let findings: Vec<Finding> =
        list::CLAIMS.iter().filter(about_these).map(|claim| find(claim, results)).collect();
    let json = serde_json::to_string_pretty(&findings).expect("findings have no maps and no foreign types");
    output::write(&out.join("claims.json"), &(json + "\n"))?;
    output::write(&out.join("claims.md"), &markdown(&findings))
}

fn find(claim: &Claim, results: &Results) -> Finding {
    // What is only a formula has no seeds, and is looked at once.
    let seeds = if claim.about.iter().any(|exhibit| exhibit.is_simulated()) { results.seeds() } else { 1 };
    let (numbers, holds): (Vec<f64>, Vec<bool>) =
        (0..seeds).map(|seed| (claim.check)(&One { results, seed })).unzip();
    let numbers = Seeds(numbers);
    let (median, least, most) = (numbers.median(), numbers.low(), numbers.high());
    let number = |number: f64| format!("{number:.*}", if claim.unit.is_empty() { 2 } else { 1 });
    let spread = if seeds > 1 { format!(" ({} to {})", number(least), number(most)) } else { String::new() };
    let unit = if claim.unit.is_empty() { String::new() } else { format!(" {}", claim.unit) };
    let ours = format!("{}: {}{unit}{spread}", claim.measure, number(median));
    let because = if holds.iter().all(|holds| *holds) { "" } else { claim.otherwise };
    Finding {
        id: claim.id,
        claimed: claim.claimed,
        ours,
        median,
        least,
        most,
        rule: claim.rule,
        holds,
        because,
    }
}

fn markdown(findings: &[Finding]) -> String {
    let mut text = String::from(
        "# The paper's claims\n\n\
         Ours is the median over the seeds, with the least and the most. The last column says why a claim does not hold.\n\n\
         | | claimed | ours | taken to hold if | holds | because |\n|---|---|---|---|---|---|\n",
    );
    for finding in findings {
        let held = finding.holds.iter().filter(|holds| **holds).count();
        let holds = match (held, finding.holds.len()) {
            (held, all) if held == all => "yes".to_owned(),
            (0, _) => "**no**".to_owned(),
            (held, all) => format!("with {held} seeds of {all}"),
        };
        let Finding { id, claimed, ours, rule, because, .. } = finding;
        text += &format!("| {id} | {claimed} | {ours} | {rule} | {holds} | {because} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(id: &str) -> Finding {
        let claim = list::CLAIMS.iter().find(|claim| claim.id == id).unwrap();
        find(claim, &Results::new(Vec::new(), Vec::new()))
    }

    #[test]
    fn what_follows_from_formulas_alone() {
        for id in ["C1a", "C1b", "C1c"] {
            assert_eq!(finding(id).holds, [true], "{id}");
            assert_eq!(finding(id).because, "");
        }
        for id in ["C2a", "C2b"] {
            assert_eq!(finding(id).holds, [false], "{id}");
            assert!(!finding(id).because.is_empty());
        }
        let text = markdown(&[finding("C1a"), finding("C2a")]);
        assert!(text.contains("8.97 | 8 to 10 times | yes |  |\n| C2a |"), "{text}");
        assert!(text.contains("74.0 MB | 105 to 135 MB | **no** | The paper measured"), "{text}");
    }

    #[test]
    fn what_was_not_run_follows_no_rule() {
        let results = Results::new(Vec::new(), Vec::new());
        let one = One { results: &results, seed: 0 };
        for claim in
            list::CLAIMS.iter().filter(|claim| claim.about.iter().any(|exhibit| exhibit.is_simulated()))
        {
            assert!(!(claim.check)(&one).1, "{}", claim.id);
        }
    }
}
