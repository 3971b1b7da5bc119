//! The program that sets a record of DNS and removes it again, with the arguments of lego's programs and the variables of certbot's.
//!
//! It runs as a child of a process that was forked before the one that asks confined itself.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flash_os::fork::{self, Forked};
use flash_process::child;
use flash_process::ipc::{self, Received};
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

#[derive(Debug)]
pub(crate) struct Hook {
    socket: OwnedFd,
}

/// A record that is to be set or removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Without `*.`.
    pub(crate) host: String,
    pub(crate) value: String,
    /// All hosts of the certificate.
    pub(crate) hosts: Vec<String>,
    /// Those whose records are set after this one.
    pub(crate) remaining: usize,
    /// What the program wrote when it set the record.
    pub(crate) output: Option<String>,
}

/// A program that takes longer is killed: some wait until all servers of a zone have the record.
const TIMEOUT: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(50);
/// What a program writes is longer only if something is wrong with it.
const OUTPUT_BYTES_MAX: u64 = 16 << 10;

impl Hook {
    /// Forks the process that runs the programs: the first sets records, and the last removes them.
    ///
    /// # Errors
    /// When the kernel refuses another process.
    pub(crate) fn start(programs: &[PathBuf]) -> io::Result<Option<Self>> {
        let (Some(set), Some(remove)) = (programs.first(), programs.last()) else { return Ok(None) };
        let (socket, theirs) = ipc::pair()?;
        match fork::fork()? {
            Forked::Parent { .. } => Ok(Some(Self { socket })),
            Forked::Child => {
                drop(socket);
                child::run_and_exit("the DNS hook", || serve(&theirs, set, remove))
            }
        }
    }

    /// Sets a record, or removes it if it has an output. Returns what the program wrote. Meanwhile `wait` is called.
    ///
    /// # Errors
    /// If the program fails, with what it has said.
    pub(crate) fn run(
        &self,
        record: &Record,
        wait: impl Fn(Duration) -> Result<(), Refusal>,
    ) -> Result<String, Refusal> {
        let send = || ipc::send(&self.socket, &serde_json::to_vec(record)?, &[]).map_err(io::Error::from);
        send()?;
        let mut buffer = ipc::buffer();
        loop {
            match ipc::try_receive(&self.socket, &mut buffer)? {
                Received::Message(answer) => {
                    let answer: Result<String, String> =
                        serde_json::from_slice(&answer.bytes).map_err(Refusal::new)?;
                    return answer.map_err(Refusal::new);
                }
                Received::Nothing => wait(LOOK)?,
                Received::Gone => return Err(Refusal::new("the process that runs acme-dns has ended")),
            }
        }
    }
}

fn serve(socket: &OwnedFd, set: &PathBuf, remove: &PathBuf) -> io::Result<()> {
    let mut buffer = ipc::buffer();
    while let Some(message) = ipc::receive(socket, &mut buffer)? {
        let record: Record = serde_json::from_slice(&message.bytes)?;
        let program = if record.output.is_none() { set } else { remove };
        let answer = execute(&mut command(program, &record));
        let answer = answer.map_err(|error| format!("{}: {error}", program.display()));
        ipc::send(socket, &serde_json::to_vec(&answer)?, &[])?;
    }
    Ok(())
}

fn command(program: &PathBuf, record: &Record) -> Command {
    let mut command = Command::new(program);
    let verb = if record.output.is_none() { "present" } else { "cleanup" };
    command.args([verb, &format!("_acme-challenge.{}.", record.host), &record.value]);
    command.env("CERTBOT_DOMAIN", &record.host).env("CERTBOT_VALIDATION", &record.value);
    command.env("CERTBOT_ALL_DOMAINS", record.hosts.join(","));
    command.env("CERTBOT_REMAINING_CHALLENGES", record.remaining.to_string());
    if let Some(output) = &record.output {
        command.env("CERTBOT_AUTH_OUTPUT", output);
    }
    command
}

fn execute(command: &mut Command) -> io::Result<String> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // Read while it runs, so that it never waits for this process.
    let read = |from: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut text = Vec::new();
            let mut from = from?;
            let _ = from.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut text);
            let _ = io::copy(&mut from, &mut io::sink());
            Some(String::from_utf8_lossy(&text).trim().to_owned())
        })
    };
    let output = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let errors = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let give_up = Instant::now() + TIMEOUT;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() >= give_up => {
                child.kill()?;
                child.wait()?;
                return Err(io::Error::other(format!("killed after {} minutes", TIMEOUT.as_secs() / 60)));
            }
            None => thread::sleep(LOOK),
        }
    };
    let text = |thread: thread::JoinHandle<Option<String>>| thread.join().ok().flatten().unwrap_or_default();
    match status.success() {
        true => Ok(text(output)),
        false => Err(io::Error::other(format!("{status}: {}", text(errors)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a shell says as the program of this record.
    fn said(script: &str, record: &Record) -> io::Result<String> {
        let mut command = command(&"/bin/sh".into(), record);
        let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script, "hook"]).args(words);
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args([""]);
        execute(&mut shell)
    }

    #[test]
    fn programs_of_others_understand_it() {
        let set = Record {
            host: "a.example".into(),
            value: "digest".into(),
            hosts: vec!["a.example".into(), "*.a.example".into()],
            remaining: 1,
            output: None,
        };
        let lego = "echo $1 $2 $3";
        assert_eq!(said(lego, &set).unwrap(), "present _acme-challenge.a.example. digest");
        let certbot =
            "echo $CERTBOT_DOMAIN $CERTBOT_VALIDATION $CERTBOT_ALL_DOMAINS $CERTBOT_REMAINING_CHALLENGES";
        assert_eq!(said(certbot, &set).unwrap(), "a.example digest a.example,*.a.example 1");
        let remove = Record { output: Some("id 7".into()), ..set };
        assert_eq!(said("echo $1 $CERTBOT_AUTH_OUTPUT", &remove).unwrap(), "cleanup id 7");
    }

    #[test]
    fn what_fails_says_why() {
        let record = Record {
            host: String::new(),
            value: String::new(),
            hosts: Vec::new(),
            remaining: 0,
            output: None,
        };
        let why = said("echo no such zone >&2; exit 3", &record).unwrap_err().to_string();
        assert!(why.contains('3') && why.contains("no such zone"), "{why}");
        // More than a pipe holds.
        let long =
            said("i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done", &record).unwrap();
        assert_eq!(long.len() as u64, OUTPUT_BYTES_MAX);
        assert!(execute(&mut Command::new("/no/such/program")).is_err());
    }
}
