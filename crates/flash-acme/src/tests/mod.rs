//! The whole process with an authority in this one, and a clock that is turned by hand.

mod authority;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use flash_os::shared_text::SharedText;
use flash_process::ipc;
use tempfile::TempDir;

use crate::process::{Process, run};
use crate::settings::{KeyKind, Settings};
use crate::state::State;
use crate::store::Store;
use crate::{Board, file_of};
use authority::{Authority, LIFE_S};

type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// 1 January 2030.
const NOW: u64 = 1_893_456_000;
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that wants certificates, its folder, and the time.
struct Bench {
    folder: TempDir,
    authority: Authority,
    board: Board,
    failures: SharedText,
    /// What a server has logged.
    lines: Mutex<Vec<String>>,
    turned_s: Arc<AtomicU64>,
    clock: Clock,
}

impl Bench {
    fn new(certificates: &[&str]) -> Self {
        let (turned_s, since) = (Arc::<AtomicU64>::default(), Instant::now());
        let turned = Arc::clone(&turned_s);
        let clock: Clock = Arc::new(move || NOW + turned.load(Ordering::Relaxed) + since.elapsed().as_secs());
        let authority = Authority::start(&clock);
        let board = Board::new().unwrap();
        let hosts = |hosts: &&str| hosts.split(' ').map(str::to_owned).collect();
        board.want(&certificates.iter().map(hosts).collect::<Vec<_>>()).unwrap();
        let (folder, failures) = (tempfile::tempdir().unwrap(), SharedText::new(64 << 10).unwrap());
        Self { folder, authority, board, failures, lines: Mutex::default(), turned_s, clock }
    }

    /// Runs the process while `act` does.
    fn run(&self, act: impl FnOnce()) {
        let settings = Settings {
            directory: self.authority.directory.clone(),
            roots: Some(self.authority.ca()),
            email: None,
            profile: None,
            folder: self.folder.path().into(),
            key: KeyKind::Ecdsa,
            hooks: Vec::new(),
            account_binding: None,
            has_plain_listener: true,
        };
        let (ours, server) = ipc::pair().unwrap();
        thread::scope(move |scope| {
            // It closes with the end of a test that fails, too.
            let ours = ours;
            let process = scope.spawn(move || {
                let (board, failures, server) = (&self.board, &self.failures, &server);
                let clock = &*self.clock;
                run(&Process { settings, board, failures, server, clock, sandbox: &|| Ok(()) }).unwrap();
            });
            scope.spawn(move || {
                while !process.is_finished() {
                    self.lines.lock().unwrap().extend(self.board.take_line());
                    thread::sleep(Duration::from_millis(20));
                }
            });
            act();
            drop(ours);
        });
    }

    fn turn(&self, seconds: u64) {
        self.turned_s.fetch_add(seconds, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        (self.clock)()
    }

    fn store(&self) -> Store {
        Store::at(self.folder.path())
    }

    fn state(&self, host: &str) -> State {
        self.store().state(host).unwrap()
    }

    fn has_certificate(&self, host: &str) -> bool {
        file_of(self.folder.path(), host).exists()
    }
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_there() {
        assert!(Instant::now() < give_up, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn others_are_issued_while_some_orders_wait() {
    let bench = Bench::new(&["slow1", "slow2", "slow3", "fast1", "fast2", "slow4", "slow5"]);
    let slow = ["slow1", "slow2", "slow3", "slow4", "slow5"];
    bench.authority.known().stuck = slow.map(str::to_owned).into();
    bench.run(|| {
        wait_for("the fast ones", || ["fast1", "fast2"].iter().all(|host| bench.has_certificate(host)));
        wait_for("a fourth slow one", || bench.authority.known().orders() == 6);
        assert!(slow.iter().all(|host| bench.state(host).failures == 0 && !bench.has_certificate(host)));
        bench.authority.known().stuck.remove("slow2");
        wait_for("its certificate", || bench.has_certificate("slow2"));
        wait_for("the last order", || bench.authority.known().orders() == 7);
        bench.authority.known().stuck.clear();
        wait_for("all", || slow.iter().all(|host| bench.has_certificate(host)));
    });
    let known = bench.authority.known();
    assert_eq!((known.pending_max, known.orders()), (4, 7));
}

#[test]
fn an_order_that_is_pending_outlives_its_process() {
    let bench = Bench::new(&["slow"]);
    bench.authority.known().stuck.insert("slow".into());
    bench.run(|| wait_for("the order", || bench.authority.known().orders() == 1));
    assert_eq!(bench.state("slow").failures, 0, "nothing was refused");
    bench.authority.known().stuck.clear();
    bench.turn(120);
    bench.run(|| wait_for("its certificate", || bench.has_certificate("slow")));
    assert_eq!(bench.authority.known().orders(), 1);
    assert!(bench.store().begun("slow").is_none());
}

#[test]
fn an_order_that_is_refused_five_times_gives_way_to_another_one() {
    let bench = Bench::new(&["refused"]);
    bench.authority.known().refusals = 5;
    bench.run(|| {
        for failures in 1..=5 {
            wait_for("a failure", || bench.state("refused").failures == failures);
            assert_eq!(bench.authority.known().orders(), 1);
            bench.turn(7 * 3600);
        }
        wait_for("a certificate", || bench.has_certificate("refused"));
    });
    assert_eq!(bench.authority.known().orders(), 2);
}

#[test]
fn an_account_is_opened_once_and_again_if_the_authority_has_forgotten_it() {
    let hosts: Vec<String> = (0..12).map(|number| format!("host{number}")).collect();
    let bench = Bench::new(&hosts.iter().map(String::as_str).collect::<Vec<_>>());
    bench.authority.known().window = Some(100_000..200_000);
    let opened = || ["/dir", "/account"].map(|path| bench.authority.requests(path));
    bench.run(|| {
        let is_known = |host: &String| bench.state(host).advice_at > NOW;
        wait_for("advice for all", || hosts.iter().all(is_known));
        assert_eq!(opened(), [1, 1]);
        assert_eq!((bench.authority.requests("/renewal"), bench.authority.known().orders()), (12, 12));
        bench.authority.known().forgets_accounts = true;
        bench.turn(3600);
        hosts[..4].iter().for_each(|host| bench.store().request(host).unwrap());
        wait_for("four more orders", || bench.board.renewals() == 16);
    });
    assert_eq!(opened(), [2, 2]);
    bench.turn(3600);
    bench.run(|| {
        bench.store().request("host0").unwrap();
        wait_for("another one", || bench.board.renewals() == 17);
    });
    assert_eq!(opened(), [3, 2], "the next process");
    let busy_max = bench.authority.known().busy_max;
    assert!((2..=4).contains(&busy_max), "{busy_max}");
}

#[test]
fn advice_is_explained_and_asked_for_again_when_the_authority_says() {
    let bench = Bench::new(&["advised"]);
    {
        let mut known = bench.authority.known();
        (known.window, known.ask_again_s) = (Some(200_000..200_001), Some(7 * 3600));
        known.explanation = Some("https://localhost/why".into());
    }
    let advice_in_s = || bench.state("advised").advice_at.saturating_sub(bench.now());
    let near = |hours: u64| hours * 3600 - 60..=hours * 3600;
    let is_asked = |times| wait_for("advice", || bench.authority.requests("/renewal") == times);
    bench.run(|| {
        wait_for("advice", || bench.state("advised").renew_at == NOW + 200_000);
        assert!(near(7).contains(&advice_in_s()), "{}", advice_in_s());
        let line =
            "advised: the authority advises a renewal in 55 hours, and explains it at https://localhost/why";
        wait_for("its reason", || bench.lines.lock().unwrap().iter().any(|of| of == line));
        // RFC 9773 §4.3.3.
        bench.authority.known().ask_again_s = None;
        bench.authority.known().window = Some(210_000..210_001);
        bench.turn(7 * 3600);
        wait_for("other advice", || bench.state("advised").renew_at == NOW + 210_000);
        assert!(near(6).contains(&advice_in_s()), "{}", advice_in_s());
        // A window without a moment is no answer, and a week is too long.
        bench.authority.known().window = Some(9..9);
        bench.turn(6 * 3600);
        is_asked(3);
        wait_for("no advice", || near(6).contains(&advice_in_s()));
        assert_eq!(bench.state("advised").renew_at, NOW + 210_000);
        bench.authority.known().ask_again_s = Some(7 * 24 * 3600);
        bench.authority.known().window = Some(210_000..210_001);
        bench.turn(6 * 3600);
        wait_for("a day", || near(24).contains(&advice_in_s()));
        assert_eq!(bench.lines.lock().unwrap().iter().filter(|line| line.contains("explains")).count(), 1);
    });
}

#[test]
fn ten_renewals_of_six_days_and_none_later_than_at_the_half() {
    const STEP_S: u64 = 600;
    let bench = Bench::new(&["short"]);
    {
        // The authority has longer lives in mind.
        let mut known = bench.authority.known();
        (known.window, known.ask_again_s) = (Some(30 * 86_400..31 * 86_400), Some(6 * 3600));
    }
    bench.run(|| {
        wait_for("a certificate and advice", || bench.state("short").advice_at > 0);
        while bench.board.renewals() <= 10 {
            bench.turn(STEP_S);
            wait_for("what is due", || {
                let state = bench.state("short");
                state.renew_at > bench.now() && state.advice_at > 0
            });
            let age = bench.now() - bench.store().issued("short").unwrap().life.begins;
            assert!(age <= LIFE_S / 2 + 2 * STEP_S, "{age} seconds");
        }
    });
    let orders = bench.authority.known().orders();
    assert_eq!(orders, 11);
    assert!(bench.authority.requests("/renewal") >= 11, "advice was asked for");
}

#[test]
fn addresses_have_the_profile_that_is_made_for_them() {
    for (hosts, profile) in [
        ("192.0.2.1", Some("shortlived")),
        ("a.example 2001:db8::1", Some("shortlived")),
        ("a.example", None),
    ] {
        let bench = Bench::new(&[hosts]);
        bench.run(|| wait_for("a certificate", || bench.board.renewals() == 1));
        assert_eq!(bench.authority.known().last_profile(), profile, "{hosts}");
    }
}
