//! The page about the papers: it names each plan, whether it needs root, and whether it needs logs.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use flash_lab::plan::{MachineNeeds, Plan, built_in};

/// The page lies in this repository, and not beside an installed program.
const PAGE: &str = include_str!("../../../docs/papers.md");
const CITATION: &str = include_str!("../../../CITATION.cff");

#[test]
fn each_plan_has_its_row_with_what_it_needs() {
    let rows = PAGE.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [_, plan, root, logs] = cells[..] else { return None };
        Some((plan.strip_prefix('`')?.strip_suffix('`')?.to_owned(), (root == "yes", logs == "yes")))
    });
    let needs = built_in().iter().map(|plan| {
        let parsed = Plan::parse(plan.name, plan.text).expect("a plan of ours is right");
        let logs = plan.text.contains("log = \"");
        (plan.name.to_owned(), (parsed.machine != MachineNeeds::default(), logs))
    });
    assert_eq!(rows.collect::<BTreeMap<_, _>>(), needs.collect::<BTreeMap<_, _>>());
}

#[test]
fn the_citation_names_this_version_and_the_papers_of_the_page() {
    assert!(CITATION.contains(&format!("\nversion: {}\n", env!("CARGO_PKG_VERSION"))));
    let words = |text: &str| text.replace("\\\"", "\"").split_whitespace().collect::<Vec<_>>().join(" ");
    let page = words(PAGE);
    let titles = CITATION.lines().filter_map(|line| line.strip_prefix("    title: "));
    for title in titles {
        let title = words(title.trim_matches('"'));
        assert!(page.contains(&title), "the page lacks {title}");
    }
}
