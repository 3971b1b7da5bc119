//! The programs of tests: what `cargo test --no-run` builds, and how each is run. It leaves out running them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo;

/// An executable that runs the tests of a library, a program, or a file in `tests/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// `-p flash-load --test truth`: what `cargo test` takes to run it.
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    pub(crate) arguments: Vec<&'static str>,
    /// The folder of its package, in which its tests run.
    pub(crate) folder: PathBuf,
}

const DOCUMENTATION: [&str; 3] = ["test", "--workspace", "--doc"];

impl Program {
    /// The examples in documentation, which only cargo can build and run.
    pub(crate) fn documentation(root: &Path) -> Program {
        Program {
            name: DOCUMENTATION[1..].join(" "),
            executable: cargo::program().into(),
            arguments: DOCUMENTATION.to_vec(),
            folder: root.to_path_buf(),
        }
    }

    /// Whether it tests the real program from outside.
    pub(crate) fn is_end_to_end(&self) -> bool {
        self.is_of("flash-tests")
    }

    pub(crate) fn is_of(&self, package: &str) -> bool {
        self.name.split(' ').nth(1) == Some(package)
    }

    /// Whether Rust's own harness runs its tests, and not one that forks.
    pub(crate) fn has_rusts_harness(&self) -> bool {
        !self.is_documentation() && !self.name.ends_with(" --test programs") || self.is_end_to_end()
    }

    pub(crate) fn is_documentation(&self) -> bool {
        !self.arguments.is_empty()
    }
}

/// Finds them in what `cargo test --no-run --message-format=json` prints.
///
/// # Errors
/// When that is not what cargo prints.
pub(crate) fn built(messages: &str) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).context("reading what cargo built")?;
        if message["reason"] == "compiler-artifact" && message["profile"]["test"] == true {
            programs.extend(program(&message));
        }
    }
    if programs.is_empty() {
        bail!("cargo built no tests");
    }
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(programs)
}

fn program(message: &Value) -> Option<Program> {
    let executable = message["executable"].as_str()?.into();
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let target = &message["target"];
    let name = target["name"].as_str()?;
    let which = match target["kind"][0].as_str()? {
        "test" => format!("--test {name}"),
        "bin" => format!("--bin {name}"),
        "example" => format!("--example {name}"),
        "bench" => format!("--bench {name}"),
        // `lib`, `rlib`, `proc-macro` and so on.
        _ => "--lib".to_owned(),
    };
    // `path+file:///work/crates/flash-core#0.1.0` or, where the folder is called otherwise, `...#flash-tests@0.1.0`.
    let (path, version) = message["package_id"].as_str()?.rsplit_once('#')?;
    let package = version.split_once('@').map(|(name, _)| name).or_else(|| path.rsplit('/').next())?;
    Some(Program { name: format!("-p {package} {which}"), executable, arguments: Vec::new(), folder })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_as_cargo_test_takes_them() {
        let messages = r##"{"reason":"compiler-artifact","package_id":"registry+https://x#libc@0.2.1","manifest_path":"/r/Cargo.toml","target":{"kind":["lib"],"name":"libc"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","package_id":"path+file:///w/crates/flash-core#0.1.0","manifest_path":"/w/crates/flash-core/Cargo.toml","target":{"kind":["lib"],"name":"flash_core"},"profile":{"test":true},"executable":"/w/target/debug/deps/flash_core-1"}
{"reason":"compiler-artifact","package_id":"path+file:///w/tests#flash-tests@0.1.0","manifest_path":"/w/tests/Cargo.toml","target":{"kind":["test"],"name":"http"},"profile":{"test":true},"executable":"/w/target/debug/deps/http-2"}
{"reason":"compiler-artifact","package_id":"path+file:///w/crates/flash#0.1.0","manifest_path":"/w/crates/flash/Cargo.toml","target":{"kind":["bin"],"name":"flash"},"profile":{"test":false},"executable":"/w/target/debug/flash"}
{"reason":"build-finished","success":true}"##;
        let programs = built(messages).expect("it is what cargo prints");
        let names: Vec<&str> = programs.iter().map(|program| &*program.name).collect();
        assert_eq!(names, ["-p flash-core --lib", "-p flash-tests --test http"]);
        assert_eq!(programs[1].executable, Path::new("/w/target/debug/deps/http-2"));
        assert_eq!(programs[1].folder, Path::new("/w/tests"));
        assert!(built("{}").is_err() && built("error: no").is_err());
    }
}
