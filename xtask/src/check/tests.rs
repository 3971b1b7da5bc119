//! Every rule goes red on a small text that breaks it, and stays green on one that does not.

use serde_json::json;

use super::source::Source;
use super::*;

const CORE: &str = "crates/flash-core/src/path.rs";
const STEP: &str = "crates/flash-core/src/exchange/lookup.rs";
const OS: &str = "crates/flash-os/src/memory.rs";

/// No line: a rule stays green.
const NONE: [usize; 0] = [];

/// The lines that findings name.
fn lines(findings: Vec<Finding>) -> Vec<usize> {
    let line = |finding: &Finding| finding.place.rsplit(':').next().and_then(|line| line.parse().ok());
    findings.iter().filter_map(line).collect()
}

#[test]
fn the_lexer_tells_code_from_comments_and_quotes() {
    let text = concat!(
        "let a = \"// no comment\"; // but this\n",
        "let b = r#\"raw \" // still\"#; /* one /* two */ one */ let c = '\"';\n",
        "fn f<'a>(x: &'a str) -> char { '\\'' } // after\n",
        "let multi = \"first\n",
        "second // within\"; let b = br\"x\\\";\n",
    );
    let source = Source::new(CORE, text);
    assert_eq!(source.lines.len(), 5);
    assert_eq!(source.lines[0].bare, "let a = \"\"; ");
    assert_eq!(source.lines[0].code, "let a = \"// no comment\"; ");
    assert_eq!(source.lines[0].comment, " but this");
    assert_eq!(source.lines[1].bare, "let b = \"\";  let c = ';");
    assert_eq!(source.lines[1].comment, " one  two  one ");
    assert_eq!(source.lines[2].bare, "fn f<'a>(x: &'a str) -> char { ' } ");
    assert_eq!(source.lines[2].comment, " after");
    assert_eq!(source.lines[4].bare, "\"; let b = b\"\";");
}

#[test]
fn modules_open_with_docs() {
    let check = |text: &str| lines(docs::check(&Source::new(CORE, text)));
    assert_eq!(check("\n//! A module.\nfn f() {}\n"), NONE);
    assert_eq!(check("fn f() {}\n"), [1]);
    assert_eq!(check("// Not a doc.\n//! A module.\n"), [1]);
    assert_eq!(check(""), [1]);
}

#[test]
fn architectures_have_no_name_below_dispatch() {
    let check = |path: &str, text: &str| lines(names::check(&Source::new(path, text)));
    assert_eq!(
        check(CORE, "// amped and sped differ above\n/* Arch */ let stamped = pipelined(mt);\n"),
        NONE
    );
    assert_eq!(
        check(CORE, "use x::Arch;\n\nif is_sped {}\nlet n = \"amped\";\nMode::Mp => AmpedLoop,\n"),
        [1, 3, 4, 5, 5]
    );
    assert_eq!(
        check(CORE, "use io_uring::squeue;\nlet uring = 1;\n"),
        [2],
        "the kernel's rings are no architecture"
    );
    assert_eq!(check("crates/flash-arch/src/lib.rs", "pub enum Arch { Amped }\n"), NONE);
}

#[test]
fn programs_do_not_panic_where_nobody_reads() {
    let check = |path: &str, text: &str| lines(prints::check(&Source::new(path, text)));
    let program = "crates/flash-lab/src/bin/flash-lab/list.rs";
    assert_eq!(check(program, "println!(\"a\");\nlet b = || eprint!(\"b\");\nwriteln!(c, \"c\");\n"), [1, 2]);
    assert_eq!(check(program, "/// `println!(\"a\")`\nlet b = \"print!(b)\";\nfingerprint!(c);\n"), NONE);
    assert_eq!(check(program, "#[cfg(test)]\nmod tests;\nprintln!(\"a\");\n"), [3]);
    assert_eq!(check(program, "#[cfg(test)]\nmod tests {\n    println!(\"a\");\n"), NONE);
    for path in ["crates/flash-lab/tests/run.rs", "crates/flash-os/src/spawn/tests.rs", "xtask/src/main.rs"] {
        assert_eq!(check(path, "println!(\"a\");\n"), NONE, "{path}");
    }
}

#[test]
fn steps_have_no_cfg() {
    let check = |path: &str, text: &str| lines(steps::check(&Source::new(path, text)));
    assert_eq!(check(STEP, "#[cfg(test)]\nmod tests;\nif cfg!(debug_assertions) {} // cfg(unix)\n"), NONE);
    assert_eq!(
        check(STEP, "#[cfg(unix)]\nif cfg!(target_os = \"linux\") {}\n#[cfg_attr(miri, ignore)]\n"),
        [1, 2, 3]
    );
    assert_eq!(check(CORE, "#[cfg(unix)]\n"), NONE);
}

#[test]
fn crate_roots_forbid_unsafe() {
    let check = |text: &str| unsafety::check_root(&Source::new("crates/flash/src/main.rs", text)).is_none();
    assert!(check("//! Main.\n#![forbid(unsafe_code)]\n"));
    assert!(!check("//! Main.\n// #![forbid(unsafe_code)]\n"));
    assert!(!check("//! Main.\n#![deny(unsafe_code)]\n"));
}

#[test]
fn unsafe_blocks_carry_their_proof() {
    let check = |text: &str| lines(unsafety::check_blocks(&Source::new(OS, text)));
    assert_eq!(check("// SAFETY: it is.\nlet n =\n    unsafe { f() };\n"), NONE);
    assert_eq!(check("// SAFETY: it is,\n// as can be seen.\nunsafe impl Send for X {}\n"), NONE);
    assert_eq!(check("unsafe fn f() {} // its docs say more\nlet unsafe_code = 1; \"unsafe {\";\n"), NONE);
    assert_eq!(check("let n = unsafe { f() };\n"), [1]);
    assert_eq!(check("// SAFETY: of the first alone.\nunsafe { f() };\nunsafe { g() };\n"), [3]);
    assert_eq!(check("// It is fine.\nunsafe\n{ f() }\n"), [2]);
    assert_eq!(check("// SAFETY: far above.\n\nunsafe impl Send for X {}\n"), [3]);
}

#[test]
fn dependencies_have_reasons() {
    let check = |text: &str| lines(manifest::check(&Source::new("crates/flash-core/Cargo.toml", text)));
    let good = "[package]\nname = \"x\"\n[dependencies]\nflash-http.workspace = true\nmemchr = \"2\" # finds\n\
                # Two lines\n# of reasons.\nslab = { version = \"1\" }\n[lints]\nworkspace = true\n";
    assert_eq!(check(good), NONE);
    assert_eq!(check("[dependencies]\nmemchr = \"2\"\n"), [2]);
    assert_eq!(check("[target.'cfg(unix)'.dev-dependencies]\n# Why.\na = \"1\"\nb = \"1\"\n"), [4]);
    assert_eq!(
        check("# Why.\n[dependencies.rustix]\nversion = \"1\"\n\n[dependencies.libc]\nversion = \"1\"\n"),
        [5]
    );
    assert_eq!(
        check(
            "[workspace.dependencies]\nclap = \"4\"\n[dependencies]\nflash-core.workspace = true\nclap.workspace = true\n"
        ),
        [5],
        "versions are the workspace's, reasons the crates'"
    );
}

/// A crate's name, and what it depends on with the kind that cargo gives it.
type Crate<'a> = (&'a str, &'a [(&'a str, Option<&'a str>)]);

/// What cargo would say of these crates.
fn metadata(crates: &[Crate]) -> Value {
    let packages: Vec<_> = crates.iter().map(|(name, _)| json!({ "id": name, "name": name })).collect();
    let nodes = crates.iter().map(|(name, below)| {
        let deps = below
            .iter()
            .map(|(dependency, kind)| json!({ "pkg": dependency, "dep_kinds": [{ "kind": kind }] }));
        json!({ "id": name, "deps": deps.collect::<Vec<_>>() })
    });
    json!({ "packages": packages, "resolve": { "nodes": nodes.collect::<Vec<_>>() } })
}

#[test]
fn the_request_path_reaches_no_system_call() {
    let good = metadata(&[
        ("flash-core", &[("flash-http", None), ("cache", None), ("flash-disk", Some("dev"))]),
        ("flash-http", &[]),
        ("flash-disk", &[("libc", None), ("flash-core", None)]),
        ("cache", &[("parking_lot_core", None)]),
        ("parking_lot_core", &[("libc", None)]),
        ("libc", &[]),
    ]);
    assert_eq!(layers::check(&good), []);
    let indirect = metadata(&[
        ("flash-core", &[("cache", None)]),
        ("cache", &[("libc", Some("build")), ("random", None)]),
        ("random", &[("rustix", None)]),
        ("libc", &[]),
        ("rustix", &[]),
    ]);
    let messages: Vec<_> = layers::check(&indirect).iter().map(ToString::to_string).collect();
    assert_eq!(messages.len(), 1, "a build script is no part of the request path");
    assert!(messages[0].contains("flash-core → cache → random → rustix"), "{messages:?}");
}

#[test]
fn dependencies_point_one_way() {
    let metadata = metadata(&[
        ("flash-sim", &[("flash-core", None), ("helper", None)]),
        ("helper", &[("flash-arch", None)]),
        ("flash-core", &[]),
        ("flash-arch", &[("flash-core", None), ("flash-os", None)]),
        ("flash-os", &[("flash-disk", None)]),
        ("flash-disk", &[]),
    ]);
    let places: Vec<_> = layers::check(&metadata).into_iter().map(|finding| finding.place).collect();
    assert_eq!(places, ["flash-os", "flash-sim"]);
}

#[test]
fn the_server_never_reaches_what_tests_run_on() {
    let tests_only = metadata(&[("flash", &[("flash-slowdisk", Some("dev"))]), ("flash-slowdisk", &[])]);
    assert_eq!(layers::check(&tests_only), []);
    let served = metadata(&[("flash", &[("flash-slowdisk", None)]), ("flash-slowdisk", &[])]);
    assert_eq!(layers::check(&served).len(), 1);
}
