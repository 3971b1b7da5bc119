//! Commands that are programs of their own: `flash NAME …` becomes `flash-NAME …`, as git and cargo do it.
//!
//! The program is looked for beside this one, then along PATH. Nothing is searched in the current folder.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;

/// Those that belong to Flash.
const SIBLINGS: [&str; 5] = ["lab", "load", "sim", "slowdisk", "why"];

/// Replaces this process by `flash-NAME`, where NAME is the first of `words`; returns only if that fails.
pub(crate) fn become_sibling(words: &[OsString]) -> Result<(), Failure> {
    let (name, arguments) = words.split_first().expect("clap gives an external command its name");
    let program = find(name).ok_or_else(|| {
        let name = name.to_string_lossy();
        Failure::Usage(match SIBLINGS.contains(&&*name) {
            true => format!(
                "flash-{name} is not installed beside flash or along PATH (cargo build --release --workspace builds it)"
            ),
            false => format!("there is no command '{}' (see flash --help)", name.escape_debug()),
        })
    })?;
    let error = Command::new(&program).args(arguments).exec();
    Err(Failure::Run(format!("cannot run {}: {error}", program.display())))
}

/// Becomes `flash-NAME`, which prints its manual page, or that of its command.
pub(crate) fn print_page(name: &str, below: &[String]) -> Result<(), Failure> {
    let words = [name, "--man"].into_iter().chain(below.iter().map(String::as_str));
    become_sibling(&words.map(OsString::from).collect::<Vec<_>>())
}

/// Whether it belongs to Flash.
pub(crate) fn is_known(name: &str) -> bool {
    SIBLINGS.contains(&name)
}

/// Whether there is such a program, or should be.
pub(crate) fn exists(name: &OsStr) -> bool {
    SIBLINGS.iter().any(|sibling| *sibling == name) || find(name).is_some()
}

fn find(name: &OsStr) -> Option<PathBuf> {
    // A command is a word, never a path.
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !name.as_encoded_bytes().iter().all(is_word) {
        return None;
    }
    let mut file_name = OsString::from("flash-");
    file_name.push(name);
    let beside = env::current_exe().ok().and_then(|us| us.parent().map(Path::to_path_buf));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(env::split_paths(&path));
    folders
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(&file_name))
        .find(|p| is_program(p))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
