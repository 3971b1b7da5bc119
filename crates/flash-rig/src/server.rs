//! Servers as data: a program, the variant of it that runs, and for Flash any other flags. A name that people and
//! plans write becomes a [`ServerSpec`]; with a [`Setup`] it becomes a server that accepts connections.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::back_ends::BackEnd;
use crate::fetch::{self, fetch};
use crate::machine::Machine;
use crate::metrics::Metrics;
use crate::peers;
use crate::process::Process;
use crate::setup::{CGI_FOLDER, Setup, wrapped};
use crate::variants::{BODY, Program, VARIANTS, Variant};
use flash_system::{Missing, find_module, find_own};

/// How long Flash may take to say what it has done.
const TELL_SECONDS_MAX: u64 = 5;
/// So many ports are given once before any is given again.
const PORTS_MAX: usize = 1_000;

/// A server program and the variant of it that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    pub variant: &'static Variant,
    /// More words for `flash serve`. A flag that is given here replaces our own.
    pub flags: Vec<String>,
}

/// `amped`, `nginx-threads`, `amped --helpers-max 8`: a variant's name, and flags for Flash.
impl FromStr for ServerSpec {
    type Err = anyhow::Error;

    fn from_str(words: &str) -> Result<ServerSpec> {
        let mut words = words.split_whitespace().map(str::to_owned);
        let name = words.next().context("a server needs a name")?;
        let Some(variant) = VARIANTS.iter().find(|variant| variant.name == name) else {
            let names: Vec<_> = VARIANTS.iter().map(|variant| variant.name).collect();
            bail!("no server is called {name}; there are {}", names.join(", "));
        };
        let flags: Vec<String> = words.collect();
        if !flags.is_empty() && variant.program != Program::Flash {
            bail!("{name} takes no flags here: {}", flags.join(" "));
        }
        Ok(ServerSpec { variant, flags })
    }
}

/// As it is written.
impl fmt::Display for ServerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.variant.name)?;
        self.flags.iter().try_for_each(|flag| write!(f, " {flag}"))
    }
}

impl ServerSpec {
    pub fn is_flash(&self) -> bool {
        self.variant.program == Program::Flash
    }

    /// Where the program is.
    ///
    /// # Errors
    /// When it is missing, with the package that has it.
    pub fn find(&self) -> Result<PathBuf, Missing> {
        if let Some((name, source)) = self.variant.module {
            find_module(name, source)?;
            find_own("flash")?;
        }
        self.variant.program.find()
    }
}

/// A server that accepts connections. Dropping it ends it.
pub struct Running {
    pub port: u16,
    pub process: Process,
    /// Flash's admin socket.
    pub(crate) admin: Option<PathBuf>,
    /// The servers behind a balancer.
    back_ends: Vec<BackEnd>,
}

impl Machine {
    /// Starts a server, and waits until it accepts.
    ///
    /// # Errors
    /// When its program is [`Missing`], or it ends or is silent, with its last words.
    pub fn start(&self, spec: &ServerSpec, setup: &Setup) -> Result<Running> {
        // Whether its program is installed or not.
        if setup.dynamic.is_some()
            && matches!(
                spec.variant.program,
                Program::Floor | Program::H2o | Program::Caddy | Program::Haproxy
            )
        {
            bail!("{spec} is not set up for programs here");
        }
        if setup.tls.is_some()
            && matches!(
                spec.variant.program,
                Program::Floor | Program::Lighttpd | Program::Apache | Program::Haproxy
            )
        {
            bail!("{spec} is not set up for TLS here");
        }
        let program = match setup.program {
            Some(program) => program.to_path_buf(),
            None => spec.find()?,
        };
        let port = setup.port.map_or_else(free_port, Ok)?;
        let (mut beside, back_ends): (Vec<_>, Vec<_>) = match spec.variant.program {
            Program::Haproxy => self.start_back_ends(setup, port)?.into_iter().unzip(),
            _ => Default::default(),
        };
        let ports: Vec<u16> = back_ends.iter().map(|back_end| back_end.port).collect();
        let setup = &Setup { back_ends: &ports, ..setup.clone() };
        // A balancer has no files to hold. Version 2 of cgroups wants processes in the innermost groups only.
        let group = setup.group.filter(|_| back_ends.is_empty());
        let mut command = wrapped(&program, group);
        let name = format!("{}-{port}", spec.variant.name);
        command.stdin(Stdio::null());
        match spec.variant.program {
            Program::Flash => flash(&mut command, spec, setup, port)?,
            Program::Floor => {
                let file = setup.work.join(format!("{name}.answer"));
                fs::write(&file, setup.answer)?;
                command.arg(format!("127.0.0.1:{port}")).stdin(File::open(&file)?);
                let body = spec.variant.words.iter().find(|(what, _)| *what == BODY);
                command.args(body.map(|(_, place)| place));
            }
            _ => peers::configure(&mut command, spec.variant, setup, port)?,
        }
        // Apache's parent reads its configuration as root, and its workers connect later.
        beside.extend(spec.variant.module.map(|_| self.start_helper(setup, port)).transpose()?);
        let mut process = Process::start(&self.journal, command, setup.cpus, setup.work, &name)?;
        process.beside = beside;
        // A connection to a port where nobody listens may be given the same port, and so be one to itself.
        let accepts = || {
            TcpStream::connect(("127.0.0.1", port))
                .is_ok_and(|stream| stream.local_addr().is_ok_and(|us| us.port() != port))
        };
        process.wait_ready(&format!("port {port}"), accepts).with_context(|| format!("starting {spec}"))?;
        let admin = spec.is_flash().then(|| admin_socket(setup, port));
        Ok(Running { port, process, admin, back_ends })
    }
}

impl Running {
    /// What Flash has done so far; none from other servers.
    ///
    /// # Errors
    /// When it has ended, or says nothing.
    pub fn metrics(&mut self) -> Result<Option<Metrics>> {
        let Some(socket) = &self.admin else { return Ok(None) };
        let said = self.process.stderr().len();
        let mut admin = UnixStream::connect(socket).context("asking for the metrics")?;
        admin
            .write_all(b"POST /counters HTTP/1.1\r\nHost: flash\r\n\r\n")
            .context("asking for the metrics")?;
        let end = Instant::now() + Duration::from_secs(TELL_SECONDS_MAX);
        let mut before = String::new();
        loop {
            thread::sleep(Duration::from_millis(50));
            let text = self.process.stderr();
            // Processes speak one after the other; they are done when nobody adds a word.
            if text.len() == before.len()
                && let Some(metrics) = Metrics::parse(text.get(said..).unwrap_or_default())
            {
                return Ok(Some(metrics));
            }
            self.process.check()?;
            if Instant::now() > end {
                bail!("flash logs no metrics");
            }
            before = text;
        }
    }

    /// The part of look-ups that the caches of Flash answered: of all servers behind a balancer, too. None from other servers.
    ///
    /// # Errors
    /// When a server has ended, or says nothing.
    pub fn cache_hit_rate(&self) -> Result<Option<f64>> {
        let sockets = self.back_ends.iter().map(|back_end| &back_end.admin).chain([&self.admin]);
        let (mut hits, mut misses) = (0, 0);
        for socket in sockets.flatten() {
            let text = metrics_text(socket)?;
            let count = |name: &str| metric(&text, name).with_context(|| format!("no {name}"));
            hits += count("flash_cache_hits_total")?;
            misses += count("flash_cache_misses_total")?;
        }
        Ok((hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64))
    }

    /// The memory of the files in Flash's cache. None where it does not say (mp), and from other servers.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn cache_used_bytes(&self) -> Result<Option<u64>> {
        let Some(socket) = &self.admin else { return Ok(None) };
        Ok(metric(&metrics_text(socket)?, "flash_cache_used_bytes"))
    }

    /// Ends the server. What Flash has done in all; none from other servers, and where it does not say (mp).
    pub fn stop(self) -> Option<Metrics> {
        let text = self.process.stop();
        // What it said when it was asked is not what it did in all.
        let end = text.rfind("flash: stopped: requests=").filter(|_| self.admin.is_some())?;
        Metrics::parse(&text[end..])
    }

    /// The server must send exactly these bytes for this path, or its figures mean nothing.
    ///
    /// # Errors
    /// When it sends others.
    pub fn verify(&self, path: &str, content: &[u8]) -> Result<()> {
        let answer = fetch(self.port, path, &[])?;
        if answer.status != 200 || answer.body != content {
            bail!(
                "{path}: status {}, {} bytes instead of {}",
                answer.status,
                answer.body.len(),
                content.len()
            );
        }
        Ok(())
    }
}

/// All metrics, as Prometheus reads them.
fn metrics_text(admin_socket: &Path) -> Result<String> {
    let mut admin = UnixStream::connect(admin_socket).context("asking for the metrics")?;
    let answer = fetch::exchange(&mut admin, "/metrics", &[])?;
    Ok(String::from_utf8(answer.body)?)
}

/// One of them, without labels.
fn metric(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.parse().ok()
}

/// Where the folder of CGI programs, and the socket of php-fpm, are put into a spec's own flags.
const CGI: &str = "@CGI@";
const PHP: &str = "@PHP@";

/// Where Flash is asked for its metrics.
fn admin_socket(setup: &Setup, port: u16) -> PathBuf {
    setup.work.join(format!("{port}.sock"))
}

fn flash(command: &mut Command, spec: &ServerSpec, setup: &Setup, port: u16) -> Result<()> {
    command.arg("serve").arg(setup.root).arg("--verbose");
    let mut ours = vec![
        ("--listen", format!("{}127.0.0.1:{port}", if setup.tls.is_some() { "https://" } else { "" })),
        ("--arch", spec.variant.name.to_owned()),
        ("--loops", setup.loops.to_string()),
        ("--admin", format!("unix:{}", admin_socket(setup, port).display())),
        // As the peers': who is idle for a minute is still a client.
        ("--idle-timeout", "600s".to_owned()),
    ];
    if !rustix::process::geteuid().is_root() {
        // Otherwise only root sees how much memory it has.
        ours.push(("--core-dumps", "on".to_owned()));
    }
    let waiters = match spec.variant.name {
        "mt" => Some("--threads-max"),
        "mp" => Some("--processes-max"),
        "amped" | "uring" => Some("--helpers-max"),
        _ => None,
    };
    ours.extend(waiters.zip(setup.threads.map(|threads| threads.to_string())));
    if let Some(tls) = setup.tls {
        for (flag, file) in [("--tls-certificate", tls.certificate), ("--tls-key", tls.key)] {
            ours.push((flag, file.to_str().context("a path that is not UTF-8")?.to_owned()));
        }
    }
    let given = |flag: &str| {
        spec.flags
            .iter()
            .any(|word| word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
    };
    let (mut cgi, mut php) = (String::new(), String::new());
    if let Some(dynamic) = setup.dynamic {
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
        };
        cgi = text(&setup.root.join(CGI_FOLDER))?;
        if !given("--cgi-direct") {
            ours.push(("--cgi", format!("/cgi-bin={cgi}")));
        }
        if let Some(socket) = dynamic.php {
            php = format!("unix:{}", text(socket)?);
            ours.push(("--fastcgi", format!(".php={php}")));
        }
    }
    for (flag, value) in ours {
        if !given(flag) {
            command.args([flag, &value]);
        }
    }
    for flag in &spec.flags {
        if flag.contains(CGI) && cgi.is_empty() || flag.contains(PHP) && php.is_empty() {
            bail!("{flag} asks for programs, and there are none");
        }
        command.arg(flag.replace(CGI, &cgi).replace(PHP, &php));
    }
    Ok(())
}

/// A port that is free, and that no other server of this program is about to take.
fn free_port() -> Result<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        if given.len() >= PORTS_MAX {
            given.clear();
        }
        if given.insert(port) {
            return Ok(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus::Cpus;
    use crate::setup::Dynamic;

    #[test]
    fn specs_are_read_and_wrong_ones_refused() {
        let spec: ServerSpec = "amped --helpers-max  8".parse().expect("a spec");
        assert_eq!(spec.flags, ["--helpers-max", "8"]);
        assert_eq!(spec.to_string(), "amped --helpers-max 8");
        assert!(spec.is_flash());
        let wrong = |words: &str| words.parse::<ServerSpec>().expect_err(words).to_string();
        assert!(wrong("nginx --fast").contains("no flags"));
        assert!(wrong("iis").contains("nginx-threads"), "it says what there is");
        assert!(wrong(" ").contains("name"));
    }

    #[test]
    fn flags_replace_our_own() {
        let cpus = Cpus { server: vec![0], client: vec![1] };
        let mut setup = Setup::new("/site".as_ref(), "/work".as_ref(), &cpus);
        setup.threads = Some(9);
        let words = |spec: &str| -> Vec<String> {
            let mut command = Command::new("flash");
            flash(&mut command, &spec.parse().expect("a spec"), &setup, 80).expect("plain paths");
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let has = |words: &[String], pair: [&str; 2]| words.windows(2).any(|two| two == pair);
        let usual = words("mt");
        assert_eq!(usual[..2], ["serve", "/site"]);
        assert!(has(&usual, ["--threads-max", "9"]) && !usual.contains(&"--cgi".to_owned()), "{usual:?}");
        assert!(!words("sped").contains(&"9".to_owned()));
        let changed = words("amped --loops=2 --helpers-max 3");
        assert!(
            !changed.contains(&"--loops".to_owned()) && !changed.contains(&"9".to_owned()),
            "{changed:?}"
        );
    }

    #[test]
    fn flash_is_told_of_programs_once() {
        let cpus = Cpus { server: vec![0], client: vec![1] };
        let dynamic = Dynamic { php: Some("/php".as_ref()) };
        let mut setup =
            Setup { dynamic: Some(dynamic), ..Setup::new("/site".as_ref(), "/work".as_ref(), &cpus) };
        let words = |spec: &str, setup: &Setup| -> Result<String> {
            let mut command = Command::new("flash");
            flash(&mut command, &spec.parse()?, setup, 80)?;
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            Ok(words.collect::<Vec<_>>().join(" "))
        };
        let usual = words("amped", &setup).expect("plain paths");
        assert!(usual.ends_with("--cgi /cgi-bin=/site/cgi-bin --fastcgi .php=unix:/php"), "{usual}");
        let direct =
            words("amped --cgi-direct /cgi-bin=@CGI@ --fastcgi=/x=@PHP@", &setup).expect("plain paths");
        assert!(direct.ends_with(" --cgi-direct /cgi-bin=/site/cgi-bin --fastcgi=/x=unix:/php"), "{direct}");
        assert!(!direct.contains("--cgi /") && !direct.contains(".php"), "{direct}");
        setup.dynamic = None;
        assert!(words("amped --cgi /x=@CGI@", &setup).is_err());
    }
}
