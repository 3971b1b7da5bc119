//! The process that asks an authority for certificates: it looks each second what is wanted and what is due.

use std::io;
use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};
use std::{cell::RefCell, thread};

use flash_os::shared_text::SharedText;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::account;
use crate::asker::Asker;
use crate::board::{Board, Pending};
use crate::hook::Hook;
use crate::http_client::Http;
use crate::lease::Lease;
use crate::refusal::{Kind, Refusal};
use crate::renewal::pause_s;
use crate::settings::Settings;
use crate::store::{Issued, State, Store};

/// Gives up the rights that the process does not need.
pub type Sandbox<'a> = &'a dyn Fn() -> io::Result<()>;

/// What the process is given by the server.
pub struct Process<'a> {
    pub settings: Settings,
    pub board: &'a Board,
    /// What has failed, for the server's status: a line for each certificate, with its first host in front.
    pub failures: &'a SharedText,
    /// It closes with the server.
    pub server: &'a OwnedFd,
    pub sandbox: Sandbox<'a>,
}

/// Before a process that has failed is replaced.
const PAUSE: Duration = Duration::from_secs(60);
/// How often a server says what it wants, and looks what others want.
const SHARED_EACH_S: u64 = 10;
const LOOK: Duration = Duration::from_secs(1);
/// A failure that goes on is logged again after that long.
const LOGGED_EACH_S: u64 = 24 * 3600;
/// When an authority that gives no advice, or cannot be asked for it, is asked again.
const ADVICE_S: u64 = 6 * 3600;
const ADVICE_S_MIN: u64 = 60;
/// How long a line waits for a process of the server to log it.
const HEARD_WITHIN: Duration = Duration::from_secs(5);

/// A certificate that is wanted.
struct Wanted {
    hosts: Vec<String>,
    issued: Option<Issued>,
    state: State,
    /// For the error log, once the state is on disk.
    line: Option<String>,
}

/// What goes on while an order waits.
struct Background<'a> {
    board: &'a Board,
    server: &'a OwnedFd,
    store: Store,
    lease: Lease,
    shown: Vec<Pending>,
}

/// Reads what the process will read besides its folder.
///
/// # Errors
/// If the authority could not be verified, or would not know the account.
pub fn check(settings: &Settings) -> io::Result<()> {
    Http::new(settings)?;
    account::binding(settings).map(drop).map_err(|refusal| io::Error::other(refusal.why))
}

/// The process's life, until the server is gone.
///
/// # Errors
/// If the folder cannot be used, or the authority could not be verified. The server has logged it.
pub fn run(process: &Process<'_>) -> io::Result<()> {
    let result = ask(process);
    if let Err(error) = &result {
        say(process.board, &format!("no certificates are asked for: {error}"));
        // The next one would find the same.
        let _ = wait_for_end(process.server, PAUSE);
    }
    result
}

fn ask(process: &Process<'_>) -> io::Result<()> {
    let Process { settings, board, failures, server, sandbox } = process;
    // Each needs files that the sandbox hides, and so does the first look-up of a name.
    let hook = Hook::start(&settings.hooks)?;
    let http = Http::new(settings)?;
    let binding = account::binding(settings).map_err(|refusal| io::Error::other(refusal.why))?;
    let store = Store::open(&settings.folder)?;
    let _ = ("localhost", 443).to_socket_addrs();
    sandbox()?;
    let lease = Lease::new(&store, board.server);
    let background =
        RefCell::new(Background { board, server, store: store.clone(), lease, shown: Vec::new() });
    let wait = |pause: Duration| background.borrow_mut().wait(pause);
    let asker = Asker { settings: settings.clone(), store, http, binding, hook, wait: &wait };
    let ended = keep_asking(&asker, board, failures, &|| background.borrow().lease.is_held());
    background.borrow().lease.release();
    asker.store.want_no_more(board.server);
    match ended {
        Refusal { kind: Kind::ServerEnded, .. } => Ok(()),
        Refusal { why, .. } => Err(io::Error::other(why)),
    }
}

/// Asks for what is due, until something keeps this process from it.
fn keep_asking(
    asker: &Asker<'_>,
    board: &Board,
    failures: &SharedText,
    holds_lease: &dyn Fn() -> bool,
) -> Refusal {
    let (mut own, mut all) = (Vec::new(), Vec::new());
    let (mut version, mut shared_at, mut was_held) = (0, 0, false);
    loop {
        if let Err(ended) = (asker.wait)(LOOK) {
            return ended;
        }
        let (now, is_held) = (unix_seconds(), holds_lease());
        let is_new = board.wanted_since(&mut version).map(|wanted| own = wanted).is_some();
        if is_new || is_held != was_held || now >= shared_at + SHARED_EACH_S {
            shared_at = now;
            if let Err(error) = asker.store.want(board.server, &own, now) {
                return error.into();
            }
            let mut known = if was_held { std::mem::take(&mut all) } else { Vec::new() };
            let find = |hosts| match known.iter().position(|wanted: &Wanted| wanted.hosts == hosts) {
                Some(at) => known.swap_remove(at),
                // Another server may have asked for it.
                None => Wanted::find(hosts, &asker.store),
            };
            let wanted = if is_held { asker.store.all_wanted(&own, now) } else { own.clone() };
            all = wanted.into_iter().map(find).collect();
        }
        was_held = is_held;
        if is_held {
            let is_requested = asker.store.take_requests();
            for wanted in &mut all {
                if is_requested(&wanted.hosts[0]) {
                    (wanted.state.renew_at, wanted.state.retry_at) = (0, 0);
                    // The server may end before it is done.
                    let _ = asker.store.keep(&wanted.hosts[0], &wanted.state);
                }
                wanted.look_after_and_tell(asker, board);
            }
        }
        // The first ones are those of this server.
        tell(failures, &all[..own.len()]);
    }
}

/// Tells the authority that the certificate whose first host this is must not be trusted any more. The process that asks for
/// certificates gets another one once it is asked to.
///
/// # Errors
/// In the authority's own words.
pub fn revoke(settings: &Settings, host: &str) -> io::Result<()> {
    let asker = Asker {
        settings: settings.clone(),
        store: Store::at(&settings.folder),
        http: Http::new(settings)?,
        binding: None,
        hook: None,
        wait: &|_| Ok(()),
    };
    asker.revoke(host).map_err(|refusal| io::Error::other(refusal.why))
}

/// Tells the server what has failed, in the authority's words, if they have changed.
fn tell(failures: &SharedText, certificates: &[Wanted]) {
    let failed = certificates.iter().filter(|wanted| wanted.state.failures > 0);
    let line = |wanted: &Wanted| format!("{} {}\n", wanted.hosts[0], wanted.state.failure.replace('\n', " "));
    let text: String = failed.map(line).collect();
    if text.as_bytes() != failures.read() {
        let _ = failures.write(text.as_bytes());
    }
}

/// Waits that long. An error if the server ends: it sends nothing else.
fn wait_for_end(server: &OwnedFd, pause: Duration) -> Result<(), Refusal> {
    let timeout = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: i64::from(pause.subsec_nanos()) };
    match poll(&mut [PollFd::new(server, PollFlags::IN)], Some(&timeout)) {
        Ok(1..) => Err(Refusal::server_ended()),
        _ => Ok(()),
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Background<'_> {
    /// Waits, shows what is pending, and keeps the lease. An error if the server is gone.
    fn wait(&mut self, pause: Duration) -> Result<(), Refusal> {
        let until = Instant::now() + pause;
        loop {
            let pending = self.store.pending();
            if pending != self.shown {
                self.board.show(&pending)?;
                self.shown = pending;
            }
            self.lease.hold(&self.store, unix_seconds())?;
            let left = until.saturating_duration_since(Instant::now()).min(LOOK);
            wait_for_end(self.server, left)?;
            if Instant::now() >= until {
                return Ok(());
            }
        }
    }
}

impl Wanted {
    fn find(hosts: Vec<String>, store: &Store) -> Self {
        let (issued, state) = (store.issued(&hosts[0]), store.state(&hosts[0]));
        Self { hosts, issued, state, line: None }
    }

    /// Asks the authority if it is time. Keeps what comes of it, and has the server log it.
    fn look_after_and_tell(&mut self, asker: &Asker<'_>, board: &Board) {
        let before = self.state.clone();
        self.look_after(asker, board);
        if self.state != before {
            let _ = asker.store.keep(&self.hosts[0], &self.state);
        }
        if let Some(line) = self.line.take() {
            say(board, &line);
        }
    }

    fn look_after(&mut self, asker: &Asker<'_>, board: &Board) {
        let now = unix_seconds();
        let (id, authority) =
            (self.issued.as_ref().map(|issued| issued.id.to_string()), &asker.settings.directory);
        if self.state.hosts != self.hosts || self.state.authority != *authority {
            // What failed was another question. What another authority has issued is replaced now.
            let is_anothers = !self.state.authority.is_empty() && self.state.authority != *authority;
            let certificate = id.clone().filter(|_| is_anothers).unwrap_or_default();
            self.state = State { certificate, ..self.new_state(asker) };
        }
        match &self.issued {
            Some(issued) if issued.is_for(&self.hosts) => {
                if id.is_some_and(|id| id != self.state.certificate) {
                    self.state.begin(issued);
                }
                if self.state.advice_at <= now && self.state.retry_at <= now {
                    self.take_advice(asker, now);
                }
            }
            _ => self.state.renew_at = 0,
        }
        if now >= self.state.renew_at.max(self.state.retry_at) {
            self.renew(asker, board);
        }
    }

    fn new_state(&self, asker: &Asker<'_>) -> State {
        let (hosts, authority) = (self.hosts.clone(), asker.settings.directory.clone());
        State { hosts, authority, ..State::default() }
    }

    fn take_advice(&mut self, asker: &Asker<'_>, now: u64) {
        let Some(issued) = &self.issued else { return };
        let again = match asker.advice(&issued.id) {
            Ok(Some((window, again))) => {
                // A window that has not changed leaves the moment that was chosen in it.
                if !window.contains(&self.state.renew_at) {
                    self.state.renew_at = issued.life.renewal_within(&window, fastrand::f64());
                }
                again
            }
            // The certificate is renewed in time without it.
            Ok(None) | Err(_) => ADVICE_S,
        };
        self.state.advice_at = now + again.clamp(ADVICE_S_MIN, ADVICE_S);
    }

    fn renew(&mut self, asker: &Asker<'_>, board: &Board) {
        let hosts = self.hosts.join(", ");
        let replaces = self.issued.as_ref().map(|issued| &issued.id);
        let result = asker.obtain(&self.hosts, replaces, self.state.failures);
        let now = unix_seconds();
        match result {
            Ok(issued) => {
                board.renewed().fetch_add(1, Ordering::Release);
                let days = issued.life.ends.saturating_sub(now) / (24 * 3600);
                let by = &asker.settings.directory;
                self.line =
                    Some(format!("{hosts}: {by} has issued a certificate, which expires in {days} days"));
                self.state = self.new_state(asker);
                self.state.begin(&issued);
                self.issued = Some(issued);
            }
            Err(Refusal { kind: Kind::ServerEnded, .. }) => {}
            Err(refusal) => {
                let failures = self.state.failures.saturating_add(1);
                let pause = pause_s(failures, refusal.retry_after_s, fastrand::f64());
                let logged_at = self.state.logged_at;
                let is_logged = self.state.failures == 0 || now >= logged_at + LOGGED_EACH_S;
                self.state = State {
                    failures,
                    retry_at: now + pause,
                    logged_at: if is_logged { now } else { logged_at },
                    failure: refusal.why,
                    ..self.state.clone()
                };
                if is_logged {
                    let why = &self.state.failure;
                    self.line = Some(format!(
                        "{hosts}: no certificate was issued: {why}; the next try is in {} minutes",
                        pause.div_ceil(60)
                    ));
                }
            }
        }
    }
}

/// Has the server log a line, and waits until it has.
fn say(board: &Board, line: &str) {
    board.say(line);
    let give_up = Instant::now() + HEARD_WITHIN;
    while !board.is_heard() && Instant::now() < give_up {
        thread::sleep(Duration::from_millis(50));
    }
}
