//! The manners in which servers run, as a table: every name that a plan may write.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::programs::{self, Missing};

/// A server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    Flash,
    /// The least that a server on one event loop can do.
    Floor,
    Nginx,
    Apache,
    H2o,
    Lighttpd,
    Caddy,
}

/// A manner in which a program runs.
#[derive(Debug, PartialEq, Eq)]
pub struct Manner {
    pub name: &'static str,
    pub program: Program,
    /// For lists, in a few words.
    pub about: &'static str,
    /// What [`Setup::threads`](crate::Setup::threads) is without a number.
    pub(crate) threads: usize,
    /// What its configuration differs in.
    pub(crate) words: &'static [(&'static str, &'static str)],
}

use Program::{Apache, Caddy, Flash, Floor, H2o, Lighttpd, Nginx};

const fn manner(name: &'static str, program: Program, about: &'static str) -> Manner {
    Manner { name, program, about, threads: 64, words: &[] }
}

const OPEN_FILES: (&str, &str) = ("@CACHE@", "max=10000 inactive=600s");

/// All of them.
pub static MANNERS: [Manner; 17] = [
    manner("floor", Floor, "the least a server can do: one send of a ready answer"),
    manner("amped", Flash, "event loops; helper threads do what would block"),
    manner("uring", Flash, "as amped, on io_uring"),
    manner("sped", Flash, "event loops that wait for the disk themselves"),
    manner("pipelined", Flash, "a thread for each step of a request"),
    manner("mt", Flash, "a thread per connection"),
    manner("mp", Flash, "a process per connection"),
    Manner {
        words: &[("@SEND@", "sendfile on;"), ("@POOL@", ""), OPEN_FILES],
        ..manner("nginx", Nginx, "sendfile, open files cached")
    },
    Manner {
        words: &[("@SEND@", "sendfile off;"), ("@POOL@", ""), OPEN_FILES],
        ..manner("nginx-copy", Nginx, "read and write, open files cached")
    },
    Manner {
        threads: 32,
        words: &[("@SEND@", "sendfile on; aio threads=reads;"), POOL, ("@CACHE@", "off")],
        ..manner("nginx-aio", Nginx, "aio threads with the 32 threads that are the default")
    },
    Manner {
        threads: 128,
        words: &[("@SEND@", "sendfile on; aio threads=reads;"), POOL, OPEN_FILES],
        ..manner("nginx-threads", Nginx, "tuned: aio threads, 128 of them, open files cached")
    },
    Manner {
        threads: 256,
        words: &[("@MPM@", "event")],
        ..manner("apache", Apache, "event: threads, idle connections in a loop")
    },
    Manner {
        threads: 256,
        words: &[("@MPM@", "worker")],
        ..manner("apache-worker", Apache, "a thread per connection")
    },
    Manner { words: &[("@MPM@", "prefork")], ..manner("apache-prefork", Apache, "a process per connection") },
    manner("h2o", H2o, "event loops that wait for the disk themselves"),
    manner("lighttpd", Lighttpd, "event loops that wait for the disk themselves, stat results cached"),
    manner("caddy", Caddy, "goroutines"),
];

const POOL: (&str, &str) = ("@POOL@", "thread_pool reads threads=@THREADS@ max_queue=65536;");

impl Program {
    /// Where it is.
    ///
    /// # Errors
    /// When it is missing, with the package that has it.
    pub fn find(self) -> Result<PathBuf, Missing> {
        match self {
            Flash => programs::find_own("flash"),
            Floor => programs::find_own("flash-floor"),
            Nginx => programs::find("nginx"),
            Apache => programs::find("apache2"),
            H2o => programs::find("h2o"),
            Lighttpd => programs::find("lighttpd"),
            Caddy => programs::find("caddy"),
        }
    }

    /// What the program at this path says of its version, in its own words. The floor has none.
    ///
    /// # Errors
    /// When it cannot be run, or says nothing.
    pub fn version(self, program: &std::path::Path) -> Result<String> {
        let ask = match self {
            Floor => return Ok(String::new()),
            Flash | H2o => "--version",
            Nginx | Apache | Lighttpd => "-v",
            Caddy => "version",
        };
        let output = Command::new(program).arg(ask).output();
        let output = output.with_context(|| format!("starting {}", program.display()))?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        Ok(line.with_context(|| format!("{} {ask} says nothing", program.display()))?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_and_differ() {
        for (n, manner) in MANNERS.iter().enumerate() {
            assert!(!manner.name.contains(' ') && !manner.about.is_empty());
            assert!(MANNERS[..n].iter().all(|other| other.name != manner.name), "{}", manner.name);
        }
    }

    #[test]
    fn peers_say_their_versions() {
        for program in [Nginx, Apache, H2o, Lighttpd, Caddy] {
            match program.find() {
                Ok(path) => {
                    let version = program.version(&path).expect("it runs");
                    assert!(version.contains('.'), "{version}");
                }
                Err(missing) => eprintln!("NOT TESTED: {missing}"),
            }
        }
    }
}
