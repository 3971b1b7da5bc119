//! The program that sets a record of DNS and removes it again, with the arguments of lego's programs and the variables of certbot's.
//!
//! It runs as a child of a process that was forked before the one that asks confined itself.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use flash_os::fork::{self, Forked};
use flash_os::signals;
use flash_process::child;
use flash_process::ipc::{self, Received};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

#[derive(Debug)]
pub(crate) struct Hook {
    socket: OwnedFd,
    /// Programs whose result was not waited for. Locked while one runs: none of certbot's and lego's is made to run beside another.
    unanswered: Mutex<usize>,
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
/// What a program has started may hold its output open after its end.
const OUTPUT_WITHIN: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(50);
/// What a program writes is longer only if something is wrong with it.
const OUTPUT_BYTES_MAX: usize = 16 << 10;

impl Hook {
    /// Forks the process that runs the programs: the first sets records, and the last removes them.
    ///
    /// # Errors
    /// When the kernel refuses another process.
    pub(crate) fn start(programs: &[PathBuf]) -> io::Result<Option<Self>> {
        let (Some(set), Some(remove)) = (programs.first(), programs.last()) else { return Ok(None) };
        let (socket, theirs) = ipc::pair()?;
        match fork::fork()? {
            Forked::Parent { .. } => Ok(Some(Self { socket, unanswered: Mutex::new(0) })),
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
        let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        let message = serde_json::to_vec(record).map_err(io::Error::from)?;
        ipc::send(&self.socket, &message, &[]).map_err(|_| Refusal::hook_ended())?;
        *unanswered += 1;
        let mut buffer = ipc::buffer();
        loop {
            match ipc::try_receive(&self.socket, &mut buffer)? {
                Received::Message(answer) => {
                    *unanswered -= 1;
                    if *unanswered > 0 {
                        continue;
                    }
                    let answer: Result<String, String> =
                        serde_json::from_slice(&answer.bytes).map_err(Refusal::new)?;
                    return answer.map_err(Refusal::new);
                }
                Received::Nothing => wait(LOOK)?,
                Received::Gone => return Err(Refusal::hook_ended()),
            }
        }
    }
}

fn serve(socket: &OwnedFd, set: &PathBuf, remove: &PathBuf) -> io::Result<()> {
    // The server's processes leave them to others, and a program would inherit that.
    signals::unblock_all();
    let mut buffer = ipc::buffer();
    while let Some(message) = ipc::receive(socket, &mut buffer)? {
        let record: Record = serde_json::from_slice(&message.bytes)?;
        let program = if record.output.is_none() { set } else { remove };
        let answer = execute(&mut command(program, &record), TIMEOUT);
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

fn execute(command: &mut Command, timeout: Duration) -> io::Result<String> {
    // With what it starts it is a group, and is killed with it.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // Read while it runs, so that it never waits for this process.
    let output = read(child.stdout.take());
    let errors = read(child.stderr.take());
    let give_up = Instant::now() + timeout;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() >= give_up => {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                child.wait()?;
                return Err(io::Error::other(format!("killed after {} minutes", timeout.as_secs() / 60)));
            }
            None => thread::sleep(LOOK),
        }
    };
    match status.success() {
        true => Ok(text(&output)),
        false => Err(io::Error::other(format!("{status}: {}", text(&errors)))),
    }
}

/// What a program writes, piece by piece, until nobody can write there any more.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (pieces, received) = mpsc::channel();
    thread::spawn(move || {
        let (Some(mut pipe), mut left) = (pipe, OUTPUT_BYTES_MAX) else { return };
        let mut buffer = [0; 4 << 10];
        while let Ok(read @ 1..) = pipe.read(&mut buffer) {
            let taken = read.min(left);
            left -= taken;
            let _ = pieces.send(buffer[..taken].to_vec());
        }
    });
    received
}

fn text(pieces: &Receiver<Vec<u8>>) -> String {
    let until = Instant::now() + OUTPUT_WITHIN;
    let next = || pieces.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
    let bytes: Vec<u8> = std::iter::from_fn(next).flatten().collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a shell says as the program of this record.
    fn said(script: &str, record: &Record) -> io::Result<String> {
        let command = command(&"/bin/sh".into(), record);
        let words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script, "hook"]).args(words);
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        execute(&mut shell, TIMEOUT)
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
        assert_eq!(long.len(), OUTPUT_BYTES_MAX);
        assert!(execute(&mut Command::new("/no/such/program"), TIMEOUT).is_err());
    }

    #[test]
    fn what_a_program_leaves_behind_is_not_waited_for_and_killed_if_it_takes_too_long() {
        let shell = |script: &str, timeout| {
            let mut shell = Command::new("/bin/sh");
            execute(shell.args(["-c", script]), timeout)
        };
        let since = Instant::now();
        assert_eq!(shell("sleep 600 & echo $!", TIMEOUT).unwrap().parse::<i32>().map(end), Ok(true));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", path.display());
        let why = shell(&script, Duration::from_millis(500)).unwrap_err().to_string();
        assert!(why.contains("killed"), "{why}");
        let left: i32 = std::fs::read_to_string(&path).unwrap().trim().parse().unwrap();
        while is_running(left) {
            thread::sleep(LOOK);
        }
        assert!(since.elapsed() < Duration::from_secs(300));
    }

    fn is_running(pid: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    }

    /// Ends a process that a test has left. Returns whether it was there.
    fn end(pid: i32) -> bool {
        Pid::from_raw(pid).is_some_and(|pid| rustix::process::kill_process(pid, Signal::KILL).is_ok())
    }
}
