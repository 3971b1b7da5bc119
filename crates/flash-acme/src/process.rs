//! The process that asks an authority for certificates: it looks each second what is wanted and what is due.

use std::cell::RefCell;
use std::io;
use std::net::ToSocketAddrs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use flash_os::shared_text::SharedText;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::account;
use crate::asker::Asker;
use crate::board::{Board, Pending, cut};
use crate::clock::unix_seconds;
use crate::hook::Hook;
use crate::http_client::Http;
use crate::lease::Lease;
use crate::refusal::{Kind, Refusal};
use crate::settings::Settings;
use crate::store::Store;
use crate::wanted::{self, Wanted};

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
/// How often a server looks what others want, and in how many of these looks it says anew what it wants itself.
const LOOK_EACH_S: u64 = 10;
const LOOKS_TO_SAY: u64 = 10;
const LOOK: Duration = Duration::from_secs(1);
/// Of the reason of a failure, for the server's status: as much of it as there is room for with so many.
const REASON_BYTES_MAX: [usize; 5] = [500, 200, 80, 30, 0];

/// What goes on while an order waits.
struct Background<'a> {
    board: &'a Board,
    server: &'a OwnedFd,
    store: Store,
    lease: Lease,
    /// What is on the board, once that is known.
    shown: Option<Vec<Pending>>,
    /// What the server wants, by which version of the board, and how often and when other servers were told.
    own: Vec<Vec<String>>,
    version: u64,
    told: u64,
    told_at: u64,
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
    let Refusal { kind, why, .. } = match ask(process) {
        Ok(ended) | Err(ended) => ended,
    };
    match kind {
        Kind::ServerEnded => return Ok(()),
        // Its certificates' lines tell of it. The next process reads anew how names are looked up.
        Kind::NoAddress => {}
        _ => process.board.tell(&format!("no certificates are asked for: {why}")),
    }
    // The next one would find the same.
    let _ = wait_for_end(process.server, PAUSE);
    Err(io::Error::other(why))
}

/// Asks until something ends that.
fn ask(process: &Process<'_>) -> Result<Refusal, Refusal> {
    let Process { settings, board, failures, server, sandbox } = process;
    // Each needs files that the sandbox hides, and so does the first look-up of a name.
    let hook = Hook::start(&settings.hooks)?;
    let http = Http::new(settings)?;
    let binding = account::binding(settings)?;
    let store = Store::open(&settings.folder)?;
    let _ = ("localhost", 443).to_socket_addrs();
    sandbox()?;
    let lease = Lease::new(&store, board.server);
    let background = RefCell::new(Background::new(board, server, store.clone(), lease));
    let wait = |pause: Duration| {
        let mut background = background.borrow_mut();
        background.wait(pause)?;
        if background.lease.is_held() { Ok(()) } else { Err(Refusal::lease_lost()) }
    };
    let asker = Asker { settings: settings.clone(), store, http, binding, hook, wait: &wait };
    let ended = keep_asking(&asker, &background, failures);
    background.borrow().lease.release();
    asker.store.want_no_more(board.server);
    Ok(ended)
}

/// Asks for what is due, until something keeps this process from it.
fn keep_asking(asker: &Asker<'_>, background: &RefCell<Background<'_>>, failures: &SharedText) -> Refusal {
    let (mut all, mut known_told, mut was_held) = (Vec::new(), 0, false);
    let mut asks_from = Instant::now();
    loop {
        if let Err(ended) = background.borrow_mut().wait(LOOK) {
            return ended;
        }
        let (board, own, is_held, told) = {
            let of = background.borrow();
            (of.board, of.own.clone(), of.lease.is_held(), of.told)
        };
        if is_held && !was_held {
            asker.store.clear_leftovers();
        }
        if told != known_told || is_held != was_held {
            known_told = told;
            let mut known = if was_held { std::mem::take(&mut all) } else { Vec::new() };
            let find = |hosts| match known.iter().position(|wanted: &Wanted| wanted.hosts == hosts) {
                Some(at) => known.swap_remove(at),
                // Another server may have asked for it.
                None => Wanted::find(hosts, &asker.store),
            };
            let wanted = if is_held { asker.store.all_wanted(&own, unix_seconds()) } else { own.clone() };
            all = wanted.into_iter().map(find).collect();
        }
        was_held = is_held;
        let mut failed = None;
        if is_held {
            let is_requested = asker.store.take_requests();
            all.iter_mut()
                .filter(|wanted| is_requested(&wanted.hosts[0]))
                .for_each(|wanted| wanted.request(asker));
            if Instant::now() >= asks_from {
                failed = wanted::take_turn(&mut all, asker, board);
            }
        }
        // The first ones are those of this server.
        tell(failures, &all[..own.len()]);
        match failed {
            Some(Kind::NoAddress) => return Refusal::no_address(),
            Some(Kind::HookEnded) => return Refusal::hook_ended(),
            // Others would have to wait for it as long.
            Some(_) => asks_from = Instant::now() + PAUSE,
            None => {}
        }
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

/// Tells the server what has failed, in the authority's words, if they have changed. The more there is, the shorter.
fn tell(failures: &SharedText, certificates: &[Wanted]) {
    let failed = || certificates.iter().filter(|wanted| wanted.state.failures > 0);
    let fits = |bytes_max: &usize| {
        let line = |wanted: &Wanted| {
            let reason = wanted.state.failure.replace('\n', " ");
            format!("{} {}\n", wanted.hosts[0], cut(&reason, *bytes_max))
        };
        let text: String = failed().map(line).collect();
        text.as_bytes() == failures.read() || failures.write(text.as_bytes()).is_ok()
    };
    let _ = REASON_BYTES_MAX.iter().find(|bytes_max| fits(bytes_max));
}

/// Waits that long. An error if the server ends: it sends nothing else.
fn wait_for_end(server: &OwnedFd, pause: Duration) -> Result<(), Refusal> {
    let timeout = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: i64::from(pause.subsec_nanos()) };
    match poll(&mut [PollFd::new(server, PollFlags::IN)], Some(&timeout)) {
        Ok(1..) => Err(Refusal::server_ended()),
        _ => Ok(()),
    }
}

impl<'a> Background<'a> {
    fn new(board: &'a Board, server: &'a OwnedFd, store: Store, lease: Lease) -> Self {
        Self { board, server, store, lease, shown: None, own: Vec::new(), version: 0, told: 0, told_at: 0 }
    }

    /// Waits, shows what is pending, keeps the lease, and says what the server wants. An error if the server is gone.
    fn wait(&mut self, pause: Duration) -> Result<(), Refusal> {
        let until = Instant::now() + pause;
        loop {
            let pending = self.store.pending();
            if self.shown.as_ref() != Some(&pending) {
                self.board.show(&pending)?;
                self.shown = Some(pending);
            }
            self.lease.hold(&self.store, &unix_seconds)?;
            self.tell_others()?;
            let left = until.saturating_duration_since(Instant::now()).min(LOOK);
            wait_for_end(self.server, left)?;
            if Instant::now() >= until {
                return Ok(());
            }
        }
    }

    fn tell_others(&mut self) -> io::Result<()> {
        let now = unix_seconds();
        let is_new = self.board.wanted_since(&mut self.version).map(|wanted| self.own = wanted).is_some();
        if is_new || !(self.told_at..self.told_at + LOOK_EACH_S).contains(&now) {
            if is_new || self.told.is_multiple_of(LOOKS_TO_SAY) {
                self.store.want(self.board.server, &self.own, now)?;
            }
            (self.told, self.told_at) = (self.told + 1, now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::Refusal;

    #[test]
    fn many_failures_are_told_with_shorter_reasons() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let failures = SharedText::new(64 << 10).unwrap();
        for count in [1, 100, 1000] {
            let failed = |number: usize| {
                let mut wanted = Wanted::find(vec![format!("host{number}.example")], &store);
                wanted.state.fail(Refusal::new("no\n".repeat(1000)), 1_800_000_000);
                wanted
            };
            tell(&failures, &(0..count).map(failed).collect::<Vec<_>>());
            let text = String::from_utf8(failures.read()).unwrap();
            assert_eq!(text.lines().count(), count);
            assert!(text.lines().all(|line| line.contains(".example no no")), "{text}");
        }
        tell(&failures, &[]);
        assert!(failures.is_empty());
    }
}
