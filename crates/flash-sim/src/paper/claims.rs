//! The paper's claims (C1 to C13). Each is a number that our runs give, and a rule for it: claimed, ours, holds or not.
//!
//! Each claim is checked for each seed on its own, with the same requests for all architectures. So its spread over the seeds
//! is that of the comparison, not that of the traffic. The rules stand beside the numbers; none is tuned.
//!
//! Why a claim does not hold was written by hand, for a full run with the default settings. Each reason has a rule of its own,
//! which says whether other runs bear it out. A reason that was not written for a run says so.

mod claim;
mod list;
mod reasons;

use std::path::Path;

use serde::Serialize;

use self::claim::{Claim, One};
use super::exhibit::Exhibit;
use super::made::Made;
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
    because: String,
}

/// What claims.json has.
#[derive(Serialize)]
struct Findings<'a> {
    made: &'a Made,
    claims: Vec<Finding>,
}

/// Looks at every claim about what was run, and writes claims.md and claims.json.
pub(super) fn write(out: &Path, results: &Results, wanted: &[Exhibit], made: &Made) -> Result<(), Failure> {
    let about_these = |claim: &&Claim| claim.about.iter().all(|exhibit| wanted.contains(exhibit));
    let find = |claim| find(claim, results, made.is_default);
    let findings = Findings { made, claims: list::CLAIMS.iter().filter(about_these).map(find).collect() };
    let json = serde_json::to_string_pretty(&findings).expect("findings have no maps and no foreign types");
    output::write(&out.join("claims.json"), &(json + "\n"))?;
    output::write(&out.join("claims.md"), &markdown(&findings.claims, &made.said()))
}

fn find(claim: &Claim, results: &Results, is_default: bool) -> Finding {
    // What is only a formula has no seeds, and is looked at once.
    let is_simulated = claim.about.iter().any(|exhibit| exhibit.is_simulated());
    let seeds = if is_simulated { results.seeds() } else { 1 };
    let one = |seed| One { results, seed };
    let (numbers, holds): (Vec<f64>, Vec<bool>) = (0..seeds).map(|seed| (claim.check)(&one(seed))).unzip();
    let numbers = Seeds(numbers);
    let (median, least, most) = (numbers.median(), numbers.low(), numbers.high());
    let number = |number: f64| format!("{number:.*}", if claim.unit.is_empty() { 2 } else { 1 });
    let spread = if seeds > 1 { format!(" ({} to {})", number(least), number(most)) } else { String::new() };
    let unit = if claim.unit.is_empty() { String::new() } else { format!(" {}", claim.unit) };
    let ours = format!("{}: {}{unit}{spread}", claim.measure, number(median));
    let fails = |seed: &usize| !holds[*seed];
    let because = match () {
        () if holds.iter().all(|holds| *holds) || claim.otherwise.is_empty() => String::new(),
        () if is_simulated && !is_default => format!("Written for the default settings: {}", claim.otherwise),
        () if (0..seeds).filter(fails).all(|seed| (claim.is_borne_out)(&one(seed))) => {
            claim.otherwise.to_owned()
        }
        () => format!("Written for the full run, and not borne out by this one: {}", claim.otherwise),
    };
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

fn markdown(findings: &[Finding], made: &str) -> String {
    let mut text = format!(
        "# The paper's claims\n\n\
         {made}\n\n\
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
    use std::num::NonZeroU32;

    use flash_sim::{Architecture, Outcome};

    use super::super::panel::{Cell, Effort, PANELS, base};
    use super::*;
    use crate::runner::Runner;

    fn finding(id: &str) -> Finding {
        let claim = list::CLAIMS.iter().find(|claim| claim.id == id).unwrap();
        find(claim, &Results::new(Vec::new(), Vec::new()), true)
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
        let text = markdown(&[finding("C1a"), finding("C2a")], "Made so.");
        assert!(text.starts_with("# The paper's claims\n\nMade so.\n"), "{text}");
        assert!(text.contains("8.97 | 8 to 10 times | yes |  |\n| C2a |"), "{text}");
        assert!(text.contains("74.0 MB | 105 to 135 MB | **no** | The paper measured"), "{text}");
    }

    /// Runs of Figure 8 in which PIPELINED leads MT by so many per cent with 500, 2,000 and 2,500 clients.
    fn with_leads(leads: [f64; 3]) -> Results {
        let base = base(Effort::Quick, &[]).unwrap();
        let mut short = base.clone();
        (short.run.measured_requests, short.run.settling_requests) = (NonZeroU32::MIN, Some(0));
        let outcome = Runner::new(Some(1)).unwrap().run(&short, None).unwrap();
        let panels = PANELS.iter().filter(|panel| panel.figure == 8);
        let cells: Vec<Cell> = panels.flat_map(|panel| panel.cells(Effort::Quick, &base)).collect();
        let lead = |panel: &str| match panel {
            "figure8a" => leads[0],
            "figure8d" => leads[2],
            _ => leads[1],
        };
        let of = |cell: &Cell| match cell.architecture {
            Architecture::Pipelined => 1000.0 * (1.0 + lead(cell.panel.name) / 100.0),
            _ => 1000.0,
        };
        let outcomes =
            cells.iter().map(|cell| Outcome { requests_per_s: of(cell), ..outcome.clone() }).collect();
        Results::new(cells, outcomes)
    }

    #[test]
    fn a_reason_says_what_it_was_written_for() {
        let because = |leads, is_default| {
            let claim = list::CLAIMS.iter().find(|claim| claim.id == "C12a").unwrap();
            find(claim, &with_leads(leads), is_default).because
        };
        let grows = "The lead grows with clients as claimed";
        assert!(because([1.0, 16.0, 26.8], true).starts_with(grows));
        let not_borne_out = because([0.0, 55.5, 14.9], true);
        assert!(
            not_borne_out.starts_with("Written for the full run, and not borne out by this one: "),
            "{not_borne_out}"
        );
        assert!(because([1.0, 16.0, 26.8], false).starts_with("Written for the default settings: "));
        assert_eq!(because([12.0, 16.0, 26.8], true), "", "it holds");
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
