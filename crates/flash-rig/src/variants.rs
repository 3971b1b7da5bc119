//! The variants of servers, as a table: every name that a plan may write.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use flash_system::{Missing, find, find_own};

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
    /// A balancer before three servers of Flash.
    Haproxy,
}

/// A variant of a program.
#[derive(Debug, PartialEq, Eq)]
pub struct Variant {
    pub name: &'static str,
    pub program: Program,
    /// For lists, in a few words.
    pub about: &'static str,
    /// What [`Setup::threads`](crate::Setup::threads) is without a number.
    pub(crate) threads: usize,
    /// What its configuration differs in.
    pub(crate) words: &'static [(&'static str, &'static str)],
    /// The module with which it asks `flash helper`, and the folder of the module's source.
    pub(crate) module: Option<(&'static str, &'static str)>,
}

use Program::{Apache, Caddy, Flash, Floor, H2o, Haproxy, Lighttpd, Nginx};

const fn variant(name: &'static str, program: Program, about: &'static str) -> Variant {
    Variant { name, program, about, threads: 64, words: &[], module: None }
}

/// Where the floor's body comes from, if it does not send it with its head.
pub(crate) const BODY: &str = "body";

const OPEN_FILES: (&str, &str) = ("@CACHE@", "max=10000 inactive=600s");

/// All of them.
pub static VARIANTS: [Variant; 24] = [
    variant("floor", Floor, "the least a server can do: one send of a ready answer"),
    Variant {
        words: &[(BODY, "file")],
        ..variant("floor-file", Floor, "the same, with sendfile from the page cache for the body")
    },
    Variant {
        words: &[(BODY, "memory")],
        ..variant("floor-memory", Floor, "the same, with sendfile from a memory file for the body")
    },
    variant("amped", Flash, "event loops; helper threads do what would block"),
    variant("uring", Flash, "as amped, on io_uring"),
    variant("sped", Flash, "event loops that wait for the disk themselves"),
    variant("pipelined", Flash, "a thread for each step of a request"),
    variant("mt", Flash, "a thread per connection"),
    variant("mp", Flash, "a process per connection"),
    Variant {
        words: &[("@SEND@", "sendfile on;"), ("@POOL@", ""), OPEN_FILES],
        ..variant("nginx", Nginx, "sendfile, open files cached")
    },
    Variant {
        words: &[("@SEND@", "sendfile off;"), ("@POOL@", ""), OPEN_FILES],
        ..variant("nginx-copy", Nginx, "read and write, open files cached")
    },
    Variant {
        threads: 32,
        words: &[("@SEND@", "sendfile on; aio threads=reads;"), POOL, ("@CACHE@", "off")],
        ..variant("nginx-aio", Nginx, "aio threads with the 32 threads that are the default")
    },
    Variant {
        threads: 128,
        words: &[("@SEND@", "sendfile on; aio threads=reads;"), POOL, OPEN_FILES],
        ..variant("nginx-threads", Nginx, "tuned: aio threads, 128 of them, open files cached")
    },
    Variant {
        threads: 256,
        words: &[("@MPM@", "event")],
        ..variant("apache", Apache, "event: threads, idle connections in a loop")
    },
    Variant {
        threads: 256,
        words: &[("@MPM@", "worker")],
        ..variant("apache-worker", Apache, "a thread per connection")
    },
    Variant {
        words: &[("@MPM@", "prefork")],
        ..variant("apache-prefork", Apache, "a process per connection")
    },
    Variant {
        words: &[("@SEND@", "sendfile on;"), ("@POOL@", ""), OPEN_FILES],
        module: NGINX_MODULE,
        ..variant("nginx-flash", Nginx, "asks flash helper for what is not in memory")
    },
    Variant {
        threads: 256,
        words: &[("@MPM@", "event")],
        module: APACHE_MODULE,
        ..variant("apache-flash", Apache, "event, and asks flash helper")
    },
    Variant {
        words: &[("@MPM@", "prefork")],
        module: APACHE_MODULE,
        ..variant("apache-prefork-flash", Apache, "prefork, and asks flash helper")
    },
    variant("h2o", H2o, "event loops that wait for the disk themselves"),
    variant("lighttpd", Lighttpd, "event loops that wait for the disk themselves, stat results cached"),
    variant("caddy", Caddy, "goroutines"),
    Variant {
        words: &[("@BALANCE@", "balance uri\n    hash-type consistent")],
        ..variant("haproxy-hashed", Haproxy, "before three of amped; the path's hash chooses one")
    },
    Variant {
        words: &[("@BALANCE@", "balance roundrobin")],
        ..variant("haproxy-round-robin", Haproxy, "before three of amped, each in turn")
    },
];

const NGINX_MODULE: Option<(&str, &str)> = Some(("ngx_http_flash_module.so", "nginx"));
const APACHE_MODULE: Option<(&str, &str)> = Some(("mod_flash.so", "apache"));

const POOL: (&str, &str) = ("@POOL@", "thread_pool reads threads=@THREADS@ max_queue=65536;");

impl Program {
    /// Where it is.
    ///
    /// # Errors
    /// When it is missing, with the package that has it.
    pub fn find(self) -> Result<PathBuf, Missing> {
        match self {
            Flash => find_own("flash"),
            Floor => find_own("flash-floor"),
            Nginx => find("nginx"),
            Apache => find("apache2"),
            H2o => find("h2o"),
            Lighttpd => find("lighttpd"),
            Caddy => find("caddy"),
            Haproxy => find("haproxy"),
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
            Nginx | Apache | Lighttpd | Haproxy => "-v",
            Caddy => "version",
        };
        let output = Command::new(program).arg(ask).output();
        let output = output.with_context(|| format!("starting {}", program.display()))?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        Ok(line.with_context(|| format!("{} {ask} prints nothing", program.display()))?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_and_differ() {
        for (n, variant) in VARIANTS.iter().enumerate() {
            assert!(!variant.name.contains(' ') && !variant.about.is_empty());
            assert!(VARIANTS[..n].iter().all(|other| other.name != variant.name), "{}", variant.name);
        }
    }

    #[test]
    fn peers_say_their_versions() {
        for program in [Nginx, Apache, H2o, Lighttpd, Caddy, Haproxy] {
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
