//! Which processes are watched: one by its number, all of a name, or a command that is started.

use std::process::{Child, Command, Stdio};

use crate::error::Error;
use crate::proc;

/// What the command line asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Pid(u32),
    Name(String),
    Command(Vec<String>),
}

/// Processes, and the one that was started for it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) pids: Vec<u32>,
    pub(crate) started: Option<Child>,
}

impl Target {
    /// Reads one word: a number, or a name.
    pub fn of(word: &str) -> Target {
        match word.parse() {
            Ok(pid) => Target::Pid(pid),
            Err(_) => Target::Name(word.to_owned()),
        }
    }

    /// How reports call it.
    pub fn name(&self) -> String {
        match self {
            Target::Pid(pid) => format!("process {pid}"),
            Target::Name(name) => name.clone(),
            Target::Command(words) => words.first().cloned().unwrap_or_default(),
        }
    }

    /// Finds the processes, or starts the command. All forked by one that is found belong to it.
    pub(crate) fn find(&self) -> Result<Found, Error> {
        let pids = match self {
            Target::Pid(pid) if proc::is_there(*pid) => vec![*pid],
            Target::Pid(pid) => return Err(Error::run(format!("no process has the number {pid}"))),
            Target::Name(name) => {
                let own = std::process::id();
                let all = proc::processes().into_iter().filter(|&pid| pid != own);
                let named: Vec<u32> =
                    all.filter(|&pid| proc::is_called(pid, name) && proc::is_there(pid)).collect();
                if named.is_empty() {
                    return Err(Error::run(format!(
                        "no process is called '{name}' (a number, or -- COMMAND, would do too)"
                    )));
                }
                named
            }
            Target::Command(words) => {
                let (program, arguments) =
                    words.split_first().ok_or_else(|| Error::Usage("no command after --".into()))?;
                let child = Command::new(program).args(arguments).stdin(Stdio::null()).spawn();
                let child = child.map_err(|error| Error::run(format!("cannot run {program}: {error}")))?;
                return Ok(Found { pids: vec![child.id()], started: Some(child) });
            }
        };
        let mut all = pids.clone();
        let mut at = 0;
        while at < all.len() {
            let children = proc::children(all[at]);
            all.extend(children.into_iter().filter(|child| !pids.contains(child)).collect::<Vec<_>>());
            at += 1;
        }
        all.sort_unstable();
        all.dedup();
        Ok(Found { pids: all, started: None })
    }
}
