//! The page about the format of plans: its example is a plan, and it names each axis, workload and check that there is.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use flash_lab::plan::{Plan, built_in};

const PAGE: &str = include_str!("../../../docs/plans.md");

fn example() -> &'static str {
    let (_, rest) = PAGE.split_once("```toml\n").expect("an example");
    rest.split_once("```").expect("its end").0
}

#[test]
fn the_example_is_a_plan() {
    let plan = Plan::parse("example", example()).expect("what people copy works");
    assert_eq!(plan.figures.len() + plan.findings.len(), 2);
}

#[test]
fn the_page_names_every_word_that_the_plans_use() {
    // Between backticks, in a line or in the example.
    let code = PAGE.split('`').skip(1).step_by(2).chain([example()]);
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let named: BTreeSet<&str> = code.flat_map(|code| code.split(|c| !is_of_word(c))).collect();
    for plan in built_in() {
        let plan: toml::Value = plan.text.parse::<toml::Table>().expect("a plan is TOML").into();
        let mut words = Vec::new();
        collect(&plan, "", &mut words);
        for word in words {
            assert!(named.contains(&*word), "the page lacks {word}");
        }
    }
}

/// Keys, and values that are words of the format. Names, titles and targets are free.
fn collect(value: &toml::Value, key: &str, words: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let is_free = ["bars", "requests"].contains(&key.as_str());
                words.extend((!is_free).then(|| key.clone()));
                if !is_free {
                    collect(value, key, words);
                }
            }
        }
        toml::Value::Array(values) => values.iter().for_each(|value| collect(value, key, words)),
        toml::Value::String(word) if ["kind", "axis", "log", "ask", "pick", "waiters"].contains(&key) => {
            words.push(word.clone());
        }
        _ => {}
    }
}
