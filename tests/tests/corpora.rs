//! Replays the corpora of the fuzz targets. What a fuzzer has found once stays found.

#![forbid(unsafe_code)]

#[path = "../../fuzz/properties/mod.rs"]
mod properties;

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

/// The name of a target's corpus, and its property.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 16] = [
    ("cgi_response", properties::cgi_response::check),
    ("cgi_variables", properties::cgi_variables::check),
    ("chunked", properties::chunked::check),
    ("configuration", properties::configuration::check),
    ("fastcgi", properties::fastcgi::check),
    ("h2_frames", properties::h2_frames::check),
    ("head", properties::head::check),
    ("helper_answer", properties::helper_answer::check),
    ("helper_question", properties::helper_question::check),
    ("hpack", properties::hpack::check),
    ("foreign_configuration", properties::foreign_configuration::check),
    ("password_file", properties::password_file::check),
    ("proxy_header", properties::proxy_header::check),
    ("range", properties::range::check),
    ("site_path", properties::site_path::check),
    ("tls_session", properties::tls_session::check),
];

#[test]
fn no_input_of_a_corpus_breaks_the_property_of_its_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let mut broken = Vec::new();
    for (target, check) in TARGETS {
        let inputs = fs::read_dir(folder.join("corpus").join(target)).expect("the target has a corpus");
        let paths: Vec<_> = inputs.map(|input| input.expect("an input").path()).collect();
        assert!(paths.len() >= 2, "{target} has {} inputs", paths.len());
        for path in paths {
            let input = fs::read(&path).expect("an input");
            if catch_unwind(|| check(&input)).is_err() {
                broken.push(path);
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn each_target_is_replayed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let known: BTreeSet<String> = TARGETS.iter().map(|(target, _)| (*target).to_owned()).collect();
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("the manifest");
    let names = manifest.split("[[bin]]").skip(1).filter_map(|text| text.split('"').nth(1));
    assert_eq!(names.map(str::to_owned).collect::<BTreeSet<_>>(), known);
}
