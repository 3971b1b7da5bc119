//! What is a circle, and what is none.

use super::super::source::Source;
use super::check;

/// What is found in a crate of these files.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<Source> =
        files.iter().map(|(name, text)| Source::new(&format!("crates/flash-x/src/{name}"), text)).collect();
    check(&sources).iter().map(ToString::to_string).collect()
}

#[test]
fn two_files_that_import_each_other_are_a_circle() {
    let findings = found(&[
        ("lib.rs", "mod a;\nmod b;"),
        ("a.rs", "use crate::b::B;\npub struct A(B);"),
        ("b.rs", "//! B.\nuse super::a::A;\npub struct B(Box<A>);"),
    ]);
    assert_eq!(findings, ["crates/flash-x/src/a.rs:1: flash-x: an import circle: a -> b -> a"]);
}

#[test]
fn a_child_that_uses_what_its_parent_defines_is_in_a_circle_with_it_if_the_parent_uses_the_child() {
    let child = "use super::Shared;\npub struct Child(Shared);";
    let of = |parent: &str| found(&[("lib.rs", "mod a;"), ("a.rs", parent), ("a/child.rs", child)]);
    assert_eq!(of("mod child;\npub struct Shared;"), [""; 0]);
    assert_eq!(of("mod child;\nuse self::child::Child;\npub struct Shared;").len(), 1);
    assert_eq!(of("mod child;\npub struct Shared;\nfn f() { child::g() }").len(), 1);
    // Where the parent only hands it on, it is defined elsewhere.
    let files = [
        ("lib.rs", "mod a;\nmod leaf;"),
        ("a.rs", "mod child;\nuse self::child::Child;\npub use crate::leaf::Shared;"),
        ("a/child.rs", child),
        ("leaf.rs", "pub struct Shared;"),
    ];
    assert_eq!(found(&files), [""; 0]);
}

#[test]
fn paths_in_code_and_branches_of_imports_count_and_tests_do_not() {
    let of =
        |a: &str| found(&[("lib.rs", "mod a;\nmod b;"), ("a.rs", a), ("b.rs", "use crate::a::A;")]).len();
    assert_eq!(of("fn f() { crate::b::g() }"), 1);
    assert_eq!(of("use crate::{b::{self, B}};"), 1);
    assert_eq!(of("use super::{b};"), 1);
    assert_eq!(of("use super::b::*;"), 1);
    assert_eq!(of("fn f() { m!($crate::b::g) }"), 1);
    assert_eq!(of("mod inner { use super::super::b::B; }"), 1);
    assert_eq!(of("#[cfg(test)]\nmod tests { use crate::b::B; }\n"), 0);
    assert_eq!(of("#[cfg(test)]\nuse crate::b::B;\n"), 0);
    assert_eq!(of("#[cfg(not(test))]\nuse crate::b::B;\n"), 1);
    assert_eq!(of("// use crate::b::B;\nconst TEXT: &str = \"crate::b::B\";\n"), 0);
    assert_eq!(of("pub(in crate::b) struct A;\nuse other::b::B;"), 0);
}

#[test]
fn each_knot_is_found_once_by_its_shortest_circle() {
    let findings = found(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "use crate::{a::A, b::B};"),
        ("d.rs", "use crate::a::A;"),
    ]);
    assert_eq!(
        findings,
        [
            "crates/flash-x/src/b.rs:1: flash-x: an import circle: b -> c -> b; 1 more files hang together with it"
        ]
    );
}
