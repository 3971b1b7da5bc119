//! The process that asks an authority for certificates: each second it looks whether something is wanted, due or done.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use flash_os::shared_text::SharedText;
use flash_process::name_sources;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::account;
use crate::asker::{Asker, Halt};
use crate::board::{Board, Pending, cut};
use crate::clock::{Clock, unix_seconds};
use crate::hook::Hook;
use crate::http_client::Http;
use crate::lease::Lease;
use crate::refusal::{Kind, Refusal};
use crate::schedule::Schedule;
use crate::settings::Settings;
use crate::store::Store;
use crate::wanted::Wanted;

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
    pub clock: Clock<'a>,
    pub sandbox: Sandbox<'a>,
}

/// Before a process that has failed is replaced.
const PAUSE: Duration = Duration::from_secs(60);
/// How often a server looks what others want, and in how many of these looks it says anew what it wants itself.
const LOOK_EACH_S: u64 = 10;
const LOOKS_TO_SAY: u64 = 10;
const LOOK: Duration = Duration::from_secs(1);
/// Of the reason of a failure, for the server's status.
const REASON_BYTES_MAX: usize = 500;

/// What each server does, whether it asks or not.
struct Background<'a> {
    board: &'a Board,
    server: &'a OwnedFd,
    clock: Clock<'a>,
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
    let Process { settings, board, failures, server, clock, sandbox } = process;
    // Each needs files that the sandbox hides.
    let hook = Hook::start(&settings.hooks)?;
    let http = Http::new(settings)?;
    let binding = account::binding(settings)?;
    let store = Store::open(&settings.folder)?;
    name_sources::load();
    sandbox()?;
    let lease = Lease::new(&store, board.server);
    let mut background = Background::new(board, server, clock, store.clone(), lease);
    let (settings, halt, account) = (settings.clone(), Halt::default(), Mutex::default());
    let asker = Asker { settings, store, http, binding, hook, clock, halt, account };
    let ended = thread::scope(|scope| {
        let ended = keep_asking(Schedule::new(scope, &asker, board), &asker, &mut background, failures);
        asker.halt.set(Some(Refusal::server_ended));
        ended
    });
    background.lease.release();
    asker.store.want_no_more(board.server);
    Ok(ended)
}

/// Has what is due asked for, until something keeps this process from it.
fn keep_asking(
    mut schedule: Schedule<'_, '_>,
    asker: &Asker<'_>,
    background: &mut Background<'_>,
    failures: &SharedText,
) -> Refusal {
    let (mut known_told, mut was_held) = (0, false);
    loop {
        if let Err(ended) = background.look_and_wait() {
            return ended;
        }
        let Background { own, told, .. } = &*background;
        let is_held = background.lease.is_held();
        if is_held && !was_held {
            asker.store.clear_leftovers();
        }
        if *told != known_told || is_held != was_held {
            known_told = *told;
            let wanted = if is_held { asker.store.all_wanted(own, (asker.clock)()) } else { own.clone() };
            // What another server asks for is known from its files alone.
            let is_known = is_held == was_held && (is_held || !told.is_multiple_of(LOOKS_TO_SAY));
            schedule.want(wanted, is_known);
        }
        was_held = is_held;
        if !is_held {
            asker.halt.set(Some(Refusal::lease_lost));
        } else if schedule.is_idle() {
            asker.halt.set(None);
        }
        if let Some(ended) = schedule.take_answers() {
            schedule.tell_lines();
            return ended;
        }
        if asker.halt.wait(Duration::ZERO).is_ok() {
            schedule.take_requests();
            schedule.start_due();
        }
        schedule.say_next_line();
        if let Some(all) = schedule.if_changed() {
            // The first ones are those of this server.
            tell(failures, all.get(..own.len()).unwrap_or(all));
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
        clock: &unix_seconds,
        halt: Halt::default(),
        account: Mutex::default(),
    };
    asker.revoke(host).map_err(|refusal| io::Error::other(refusal.why))
}

/// Tells the server what has failed, each in the authority's words. The more there is, the shorter.
fn tell(failures: &SharedText, certificates: &[Wanted]) {
    let failed = || certificates.iter().filter(|wanted| wanted.state.failures > 0);
    let hosts_bytes: usize = failed().map(|wanted| wanted.hosts[0].len() + "  \n".len()).sum();
    let share = failures.room().saturating_sub(hosts_bytes) / failed().count().max(1);
    let line = |wanted: &Wanted| {
        let reason = wanted.state.failure.replace('\n', " ");
        format!("{} {}\n", wanted.hosts[0], cut(&reason, share.min(REASON_BYTES_MAX)))
    };
    let text: String = failed().map(line).collect();
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

impl<'a> Background<'a> {
    fn new(board: &'a Board, server: &'a OwnedFd, clock: Clock<'a>, store: Store, lease: Lease) -> Self {
        let (shown, own) = (None, Vec::new());
        Self { board, server, clock, store, lease, shown, own, version: 0, told: 0, told_at: 0 }
    }

    /// Shows what is pending, keeps the lease, says what the server wants, and waits. An error if the server is gone.
    fn look_and_wait(&mut self) -> Result<(), Refusal> {
        let pending = self.store.pending();
        if self.shown.as_ref() != Some(&pending) {
            self.board.show(&pending)?;
            self.shown = Some(pending);
        }
        self.lease.hold(&self.store, self.clock)?;
        self.tell_others()?;
        wait_for_end(self.server, LOOK)
    }

    fn tell_others(&mut self) -> io::Result<()> {
        let now = (self.clock)();
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
    fn many_failures_are_told_with_shorter_reasons_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let failures = SharedText::new(1 << 20).unwrap();
        for (count, shown) in [(1, 500), (5000, 150), (20_000, 20)] {
            let failed = |number: usize| {
                let mut wanted = Wanted::find(vec![format!("host{number}.example")], &store);
                wanted.state.fail(Refusal::new(format!("{number}:{}", "no\n".repeat(200))), 1_800_000_000);
                wanted
            };
            tell(&failures, &(0..count).map(failed).collect::<Vec<_>>());
            let text = String::from_utf8(failures.read()).unwrap();
            for (number, line) in text.lines().enumerate() {
                assert!(line.starts_with(&format!("host{number}.example {number}:no no")), "{line}");
                assert!(line.len() > shown, "{line}");
            }
            assert_eq!(text.lines().count(), count);
        }
        tell(&failures, &[]);
        assert!(failures.is_empty());
    }
}
