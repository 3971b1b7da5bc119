//! A folder of scripts, a fork helper and a process monitor; what they report; and which processes exist.
#![allow(dead_code)] // Tests of two crates use this, each its part.

use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flash_cgi::Variables;
use flash_core::upstream::OpenError;
use flash_process::{
    Command, ExitStatus, Folder, ForkHelper, Limits, ProcessHandle, ProcessMonitor, ProcessObserver,
    ProgramRef, Reporter, Setup, SpawnRequest, Started, Stdio,
};
use tempfile::TempDir;

/// Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Between SIGTERM and SIGKILL: enough for a shell on a busy machine.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) monitor: Option<Arc<ProcessMonitor>>,
    pub(crate) said: Arc<Mutex<Vec<String>>>,
    /// Until the server ends.
    pub(crate) helper: Option<ForkHelper>,
}

pub(crate) struct Pending {
    begun: Receiver<Result<Started, OpenError>>,
    ended: Receiver<ExitStatus>,
}

/// A program that runs.
pub(crate) struct Program {
    pub(crate) stream: UnixStream,
    pub(crate) handle: ProcessHandle,
    pub(crate) name_bytes: usize,
    pub(crate) ended: Receiver<ExitStatus>,
}

struct Observer {
    begun: Sender<Result<Started, OpenError>>,
    ended: Sender<ExitStatus>,
}

impl ProcessObserver for Observer {
    fn started(&mut self, begun: Result<Started, OpenError>) {
        // A test may have lost interest.
        let _ = self.begun.send(begun);
    }

    fn exited(&mut self, how: ExitStatus) {
        let _ = self.ended.send(how);
    }
}

pub(crate) fn setup(folder: &Path) -> Setup {
    Setup {
        folders: vec![Folder { prefix: b"/cgi".to_vec(), path: folder.to_owned() }],
        commands: Vec::new(),
        commands_folder: None,
        running_max: 64,
        queue_max: 64,
        queue_wait: PATIENCE,
        grace: GRACE,
        limits: Vec::new(),
        nice: 0,
    }
}

pub(crate) fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

impl Bench {
    pub(crate) fn new(change: impl FnOnce(&mut Setup)) -> Self {
        Self::prepared(change, &|| Ok(()))
    }

    pub(crate) fn prepared(change: impl FnOnce(&mut Setup), prepare: &dyn Fn() -> io::Result<()>) -> Self {
        let folder = folder();
        let mut setup = setup(folder.path());
        change(&mut setup);
        let helper = ForkHelper::start(setup, prepare).unwrap();
        let bench = Self::with(folder, &helper);
        Self { helper: Some(helper), ..bench }
    }

    /// The server forks for itself.
    pub(crate) fn inside() -> Self {
        let folder = folder();
        let helper = ForkHelper::in_thread(setup(folder.path())).unwrap();
        Self::with(folder, &helper)
    }

    pub(crate) fn with(folder: TempDir, helper: &ForkHelper) -> Self {
        let said = Arc::default();
        let monitor = Some(Arc::new(monitor(helper, Arc::clone(&said))));
        Self { folder, monitor, said, helper: None }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str, mode: u32) {
        // Not the file behind a link.
        let _ = fs::remove_file(self.path(name));
        fs::write(self.path(name), content).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn script(&self, name: &str, content: &str) {
        self.write(name, &format!("#!/bin/sh\n{content}\n"), 0o755);
    }

    pub(crate) fn ask(&self, path: &str) -> Pending {
        self.order(ProgramRef::Script { folder: 0, path: path.as_bytes().to_vec() }, Stdio::Stream, path)
    }

    pub(crate) fn order(&self, what: ProgramRef, stdio: Stdio, name: &str) -> Pending {
        self.order_with(what, stdio, name, &[(b"DOCUMENT_ROOT", b"/srv/site"), (b"REQUEST_METHOD", b"GET")])
    }

    pub(crate) fn order_with(
        &self,
        what: ProgramRef,
        stdio: Stdio,
        name: &str,
        pairs: &[(&[u8], &[u8])],
    ) -> Pending {
        let ((begun, begun_there), (ended, ended_there)) = (channel(), channel());
        let mut variables = Variables::default();
        pairs.iter().for_each(|(name, value)| variables.push(name, value));
        self.monitor.as_ref().unwrap().spawn(SpawnRequest {
            what,
            variables: Arc::new(variables),
            stdio,
            name: name.into(),
            observer: Box::new(Observer { begun, ended }),
        });
        Pending { begun: begun_there, ended: ended_there }
    }

    /// Begins a program that runs.
    #[track_caller]
    pub(crate) fn begin(&self, path: &str) -> Program {
        self.ask(path).begun().unwrap()
    }

    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    #[track_caller]
    pub(crate) fn wait_for_word(&self, word: &str) {
        wait_until(
            || self.said().iter().any(|line| line.contains(word)),
            || format!("{word:?}: {:?}", self.said()),
        );
    }
}

pub(crate) fn monitor(helper: &ForkHelper, said: Arc<Mutex<Vec<String>>>) -> ProcessMonitor {
    let also = Arc::clone(&said);
    let reporter = Reporter {
        stderr_line: Box::new(move |name, line| {
            said.lock().unwrap().push(format!("{name}: {}", String::from_utf8_lossy(line)));
        }),
        log: Box::new(move |what| also.lock().unwrap().push(what.to_string())),
    };
    let limits = Limits { pending_max: 500, linger: Duration::from_millis(500) };
    ProcessMonitor::start(helper, limits, Arc::new(reporter)).unwrap()
}

impl Pending {
    #[track_caller]
    pub(crate) fn begun(self) -> Result<Program, OpenError> {
        let Started { stream, name_bytes, handle, .. } = self.answer()?;
        let stream = UnixStream::from(stream.unwrap());
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Ok(Program { stream, handle, name_bytes, ended: self.ended })
    }

    #[track_caller]
    pub(crate) fn answer(&self) -> Result<Started, OpenError> {
        self.begun.recv_timeout(PATIENCE).expect("every order is answered")
    }

    #[track_caller]
    pub(crate) fn refusal(self) -> Option<OpenError> {
        self.begun().err()
    }

    pub(crate) fn is_answered(&self, within: Duration) -> bool {
        self.begun.recv_timeout(within).is_ok()
    }

    #[track_caller]
    pub(crate) fn ended(&self) -> ExitStatus {
        self.ended.recv_timeout(PATIENCE).expect("every program ends")
    }
}

impl Program {
    /// All that it says, up to its end.
    #[track_caller]
    pub(crate) fn read(&mut self) -> String {
        let mut said = String::new();
        self.stream.read_to_string(&mut said).unwrap();
        said
    }

    #[track_caller]
    pub(crate) fn read_line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            // A server that forks programs itself hears of their ends by a signal, which interrupts.
            match self.stream.read_exact(&mut byte) {
                Ok(()) if byte[0] != b'\n' => line.push(byte[0]),
                Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => panic!("{error}"),
                _ => return String::from_utf8(line).unwrap(),
            }
        }
    }

    #[track_caller]
    pub(crate) fn write_all(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    #[track_caller]
    pub(crate) fn ended(&self) -> ExitStatus {
        self.ended.recv_timeout(PATIENCE).expect("every program ends")
    }

    /// Without its stream, as when a client has left or has all it wanted.
    pub(crate) fn parts(self) -> (ProcessHandle, Receiver<ExitStatus>) {
        (self.handle, self.ended)
    }
}

#[track_caller]
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool, what: impl Fn() -> String) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "not within {PATIENCE:?}: {}", what());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Name, state and parent of a process.
pub(crate) fn look(pid: u32) -> Option<(String, char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((name.to_owned(), fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

pub(crate) fn processes() -> impl Iterator<Item = (u32, String, char, u32)> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| look(pid).map(|(name, state, parent)| (pid, name, state, parent)))
}

pub(crate) fn children(of: u32) -> Vec<u32> {
    processes().filter(|(_, _, _, parent)| *parent == of).map(|(pid, ..)| pid).collect()
}

pub(crate) fn supervisor() -> u32 {
    let [supervisor] = children(std::process::id())[..] else { panic!("this process has one child") };
    supervisor
}

/// The fork helper that is there now, other than that one.
pub(crate) fn helper(other: u32) -> u32 {
    let mut found = None;
    let is_there = || {
        let named =
            |pid: &u32| look(*pid).is_some_and(|(name, state, _)| name == "flash-fork" && state != 'Z');
        // A program on its way to be executed has that name too, for a moment.
        let lasts = |pid: &u32| {
            named(pid) && {
                std::thread::sleep(std::time::Duration::from_millis(20));
                named(pid)
            }
        };
        found = children(supervisor()).into_iter().find(|pid| *pid != other && lasts(pid));
        found.is_some()
    };
    wait_until(is_there, || "there is no fork helper".into());
    found.unwrap()
}

pub(crate) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

pub(crate) fn descriptors(of: u32) -> usize {
    fs::read_dir(format!("/proc/{of}/fd")).unwrap().count()
}

pub(crate) fn is_alive(pid: u32) -> bool {
    look(pid).is_some_and(|(_, state, _)| state != 'Z')
}

pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let c_string = |text: &&str| CString::new(*text).unwrap();
    Command { program: c_string(&program), arguments: arguments.iter().map(c_string).collect() }
}
