//! A server's processes, as `/proc` shows them.

use std::fs;

use crate::Server;

/// The server and all its descendants.
pub fn of(server: &Server) -> Vec<Process> {
    let mut family = vec![Process { pid: server.pid() }];
    let mut next = 0;
    while let Some(process) = family.get(next) {
        let children = process.children();
        family.extend(children);
        next += 1;
    }
    family
}

/// Those of its helpers that live.
pub fn helpers(server: &Server) -> Vec<Process> {
    of(server).into_iter().filter(|process| process.name().starts_with("helper-")).collect()
}

/// The process of that name; the last, if it was replaced.
pub fn named(server: &Server, name: &str) -> Option<Process> {
    of(server).into_iter().rfind(|process| process.name() == name && process.lives())
}

pub fn supervisor(server: &Server) -> Process {
    named(server, "flash-supervise").expect("there is a supervisor process")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub pid: u32,
}

impl Process {
    fn read(self, file: &str) -> String {
        // It may have ended.
        fs::read_to_string(format!("/proc/{}/{file}", self.pid)).unwrap_or_default()
    }

    fn children(self) -> Vec<Process> {
        let pids = self.read(&format!("task/{}/children", self.pid));
        pids.split_whitespace().map(|pid| Process { pid: pid.parse().expect("a pid") }).collect()
    }

    pub fn name(self) -> String {
        self.read("comm").trim().into()
    }

    /// Neither gone, nor dead and only not yet waited for.
    pub fn lives(self) -> bool {
        let stat = self.read("stat");
        stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
    }

    /// A line of the status of each of its threads: thread names, and words behind the key.
    pub fn status(self, key: &str) -> Vec<(String, Vec<String>)> {
        self.threads(key).into_iter().map(|(_, name, words)| (name, words)).collect()
    }

    /// The same with the threads' numbers.
    pub fn threads(self, key: &str) -> Vec<(String, String, Vec<String>)> {
        let folder = format!("/proc/{}/task", self.pid);
        let threads = fs::read_dir(folder).into_iter().flatten().flatten();
        let line = |thread: fs::DirEntry| {
            let status = fs::read_to_string(thread.path().join("status")).ok()?;
            let field = |key: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
                line.map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            };
            Some((field("Pid")?.concat(), field("Name")?.concat(), field(key)?))
        };
        threads.filter_map(line).collect()
    }

    pub fn kill(self) {
        use rustix::process::{Pid, Signal, kill_process};
        if let Some(pid) = Pid::from_raw(self.pid as i32) {
            // It may have ended.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
