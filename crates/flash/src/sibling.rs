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

/// Replaces this process by `flash-NAME`, where NAME is the first of `words`. Returns only if that fails; `flash` has the other commands.
pub(crate) fn become_sibling(words: &[OsString], flash: &clap::Command) -> Result<(), Failure> {
    let (name, arguments) = words.split_first().expect("clap gives an external command its name");
    let program = find(name).ok_or_else(|| {
        let name = name.to_string_lossy();
        Failure::Usage(match SIBLINGS.contains(&&*name) {
            true => format!("flash-{name} is neither beside flash nor along PATH; {}", how_to_get(&name)),
            false => format!("there is no command '{}'{}", name.escape_debug(), advice(&name, flash)),
        })
    })?;
    let error = Command::new(&program).args(arguments).exec();
    Err(Failure::Run(format!("cannot run {}: {error}", program.display())))
}

/// Becomes `flash-NAME`, which prints its manual page, or that of its command.
pub(crate) fn print_page(name: &str, below: &[String], flash: &clap::Command) -> Result<(), Failure> {
    let words = [name, "--man"].into_iter().chain(below.iter().map(String::as_str));
    become_sibling(&words.map(OsString::from).collect::<Vec<_>>(), flash)
}

/// Whether it belongs to Flash.
pub(crate) fn is_known(name: &str) -> bool {
    SIBLINGS.contains(&name)
}

/// Whether there is such a program, or should be.
pub(crate) fn exists(name: &OsStr) -> bool {
    SIBLINGS.iter().any(|sibling| *sibling == name) || find(name).is_some()
}

/// What an unknown command may mean.
fn advice(name: &str, flash: &clap::Command) -> String {
    let names = flash.get_subcommands().map(clap::Command::get_name).chain(SIBLINGS);
    match flash_config::nearest(name, names) {
        Some(command) => format!(": did you mean 'flash {command}'?"),
        None => " (see flash --help)".into(),
    }
}

/// What to type for a program that is missing. Cargo locks the folders that it builds into.
fn how_to_get(name: &str) -> String {
    let beside = beside();
    let profile =
        beside.as_deref().filter(|folder| folder.join(".cargo-lock").exists()).and_then(Path::file_name);
    match profile.and_then(OsStr::to_str) {
        Some("debug") => format!("type: cargo build --package flash-{name}"),
        Some(profile) => format!("type: cargo build --profile {profile} --package flash-{name}"),
        None => format!(
            "install the package flash-tools, or type in the sources: cargo install --profile dist --path crates/flash-{name}"
        ),
    }
}

/// The folder of this program.
fn beside() -> Option<PathBuf> {
    env::current_exe().ok()?.parent().map(Path::to_path_buf)
}

fn find(name: &OsStr) -> Option<PathBuf> {
    // A command is a word, never a path.
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !name.as_encoded_bytes().iter().all(is_word) {
        return None;
    }
    let mut file_name = OsString::from("flash-");
    file_name.push(name);
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = beside().into_iter().chain(env::split_paths(&path));
    folders
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(&file_name))
        .find(|p| is_program(p))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
