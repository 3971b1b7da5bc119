//! What is known of a certificate beside itself: when it is renewed, what has failed, and when the authority may be asked.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::issued::Issued;
use crate::refusal::Refusal;
use crate::renewal::{Life, RETRY_AFTER_S_MAX, pause_s};

/// When a certificate is to be renewed (RFC 9773 §4.2).
#[derive(Clone, Debug)]
pub(crate) struct Advice {
    pub(crate) window: Range<u64>,
    /// The authority is asked again after that long.
    pub(crate) again_s: u64,
    /// A page that says why.
    pub(crate) explanation: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    pub hosts: Vec<String>,
    /// The directory of the authority that is asked.
    pub authority: String,
    /// The serial number of the certificate that this is about; empty without one.
    pub certificate: String,
    /// When it is renewed. 0 is at once.
    pub renew_at: u64,
    /// When the authority is asked again for its advice.
    pub advice_at: u64,
    /// The URL of a page about its advice, in its own words.
    pub explanation: String,
    /// Orders that have begun since the last success.
    pub tries: u32,
    /// Those that the authority has refused.
    pub failures: u32,
    /// In the authority's own words.
    pub failure: String,
    /// When the failure was logged.
    pub logged_at: u64,
    /// Nothing is asked before.
    pub retry_at: u64,
    /// How often in a row its authority has not given its advice.
    pub advice_failures: u32,
    /// Its authority's answer by OCSP, where it has one.
    pub staple: Staple,
}

/// An answer that is stapled to a certificate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Staple {
    /// When the authority is asked again. 0 is at once.
    pub ask_at: u64,
    pub failures: u32,
    /// Why there is no new one.
    pub failure: String,
    pub logged_at: u64,
}

/// When an authority that gives no advice, or does not say when to ask again, is asked again (RFC 9773 §4.3.3).
pub(crate) const ADVICE_S: u64 = 6 * 3600;
/// RFC 9773 §4.3.2.
const ADVICE_S_MIN: u64 = 60;
const ADVICE_S_MAX: u64 = 24 * 3600;
/// A failure that goes on is logged again after that long.
const LOGGED_EACH_S: u64 = 24 * 3600;
/// What has failed is asked for within this time once something else is wanted.
const CHANGED_PAUSE_S: u64 = 60;
/// After an answer of OCSP.
const STAPLE_S_MIN: u64 = 30;

impl State {
    /// It is about this certificate from now on, about which the authority has given no advice.
    pub(crate) fn begin(&mut self, issued: &Issued) {
        self.certificate.clone_from(&issued.serial);
        (self.renew_at, self.advice_at) = (issued.life.renewal(fastrand::f64()), 0);
        self.staple = Staple::default();
    }

    /// Brings it in line with what is wanted, of whom, and with the present certificate.
    pub(crate) fn compare(&mut self, hosts: &[String], authority: &str, issued: Option<&Issued>, now: u64) {
        self.forget_impossible_times(now);
        if self.hosts != hosts || self.authority != authority {
            // What failed was another question. What another authority has issued is replaced now.
            let is_anothers = !self.authority.is_empty() && self.authority != authority;
            let certificate = issued.map(|issued| issued.serial.clone()).filter(|_| is_anothers);
            *self = Self {
                hosts: hosts.to_vec(),
                authority: authority.into(),
                certificate: certificate.unwrap_or_default(),
                tries: self.tries,
                retry_at: if self.tries > 0 { self.retry_at.min(now + CHANGED_PAUSE_S) } else { 0 },
                ..Self::default()
            };
        }
        match issued {
            Some(issued) if issued.is_for(hosts) => {
                if issued.serial != self.certificate {
                    self.begin(issued);
                }
            }
            _ => self.renew_at = 0,
        }
    }

    /// What no process can have written by the present time is of a clock that was wrong.
    fn forget_impossible_times(&mut self, now: u64) {
        if self.retry_at > now + RETRY_AFTER_S_MAX {
            self.retry_at = 0;
        }
        if self.advice_at > now + ADVICE_S_MAX {
            self.advice_at = 0;
        }
        if self.staple.ask_at > now + RETRY_AFTER_S_MAX {
            self.staple.ask_at = 0;
        }
        for logged_at in [&mut self.logged_at, &mut self.staple.logged_at] {
            if *logged_at > now {
                *logged_at = 0;
            }
        }
    }

    /// When an order begins.
    pub(crate) fn due_at(&self) -> u64 {
        self.renew_at.max(self.retry_at)
    }

    /// When the authority is asked for advice. There is none about what was requested, and it is no way around a refusal.
    pub(crate) fn advice_due_at(&self) -> u64 {
        match self.renew_at {
            0 => u64::MAX,
            _ if self.tries == 0 => self.advice_at,
            _ => self.advice_at.max(self.retry_at),
        }
    }

    /// The authority could not be asked for advice (RFC 9773 §4.3.3).
    pub(crate) fn fail_to_advise(&mut self, retry_after_s: Option<u64>, now: u64) {
        self.advice_failures = self.advice_failures.saturating_add(1);
        let pause = pause_s(self.advice_failures, retry_after_s, fastrand::f64());
        self.advice_at = now + pause.min(ADVICE_S_MAX);
    }

    /// The authority has advised that, or nothing. Returns whether it explains it anew.
    pub(crate) fn advise(&mut self, advice: Option<Advice>, issued: &Issued, now: u64) -> bool {
        self.advice_failures = 0;
        let Some(Advice { window, again_s, explanation }) = advice else {
            self.advice_at = now + ADVICE_S;
            return false;
        };
        // A window that has not changed leaves the moment that was chosen in it.
        if !window.contains(&self.renew_at) {
            self.renew_at = issued.life.renewal_within(&window, fastrand::f64()).max(1);
        }
        self.advice_at = now + again_s.clamp(ADVICE_S_MIN, ADVICE_S_MAX);
        let is_new = !explanation.is_empty() && explanation != self.explanation;
        self.explanation = explanation;
        is_new
    }

    /// The user wants it now.
    pub(crate) fn request(&mut self) {
        (self.renew_at, self.retry_at) = (0, 0);
    }

    /// An order begins. This is kept before, so that the next process asks no earlier, however this one ends.
    pub(crate) fn begin_try(&mut self, now: u64) {
        self.tries = self.tries.saturating_add(1);
        self.retry_at = now + pause_s(self.tries, None, fastrand::f64());
    }

    pub(crate) fn succeed(&mut self, issued: &Issued, now: u64) {
        let (hosts, authority) = (std::mem::take(&mut self.hosts), std::mem::take(&mut self.authority));
        *self = Self { hosts, authority, retry_at: now + issued.life.pause_s(), ..Self::default() };
        self.begin(issued);
    }

    /// Returns whether that is to be logged.
    pub(crate) fn fail(&mut self, refusal: Refusal, now: u64) -> bool {
        let is_logged = is_logged(self.failures, &mut self.logged_at, now);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now + pause_s(self.tries, refusal.retry_after_s, fastrand::f64());
        self.failure = refusal.why;
        is_logged
    }
}

impl Staple {
    /// There is one that is true for so long.
    pub(crate) fn succeed(&mut self, life: Life, now: u64) {
        let ask_at = life.later_staple(now).clamp(now + STAPLE_S_MIN, now + RETRY_AFTER_S_MAX);
        *self = Self { ask_at, ..Self::default() };
    }

    /// Returns whether that is to be logged.
    pub(crate) fn fail(&mut self, refusal: Refusal, now: u64) -> bool {
        let is_logged = is_logged(self.failures, &mut self.logged_at, now);
        self.failures = self.failures.saturating_add(1);
        self.ask_at = now + pause_s(self.failures, refusal.retry_after_s, fastrand::f64());
        self.failure = refusal.why;
        is_logged
    }
}

/// Whether a failure is logged that comes after so many others.
fn is_logged(failures: u32, logged_at: &mut u64, now: u64) -> bool {
    let is_logged = failures == 0 || now >= *logged_at + LOGGED_EACH_S;
    if is_logged {
        *logged_at = now;
    }
    is_logged
}

#[cfg(test)]
mod tests {
    use super::*;

    impl State {
        fn is_due(&self, now: u64) -> bool {
            now >= self.due_at()
        }

        fn is_advice_due(&self, now: u64) -> bool {
            now >= self.advice_due_at()
        }
    }

    const NOW: u64 = 1_800_000_000;
    const DAY_S: u64 = 24 * 3600;
    const AUTHORITY: &str = "https://localhost/dir";

    fn hosts(names: &str) -> Vec<String> {
        names.split(' ').map(str::to_owned).collect()
    }

    fn issued(serial: &str, begins: u64, days: u64) -> Issued {
        let life = Life { begins, ends: begins + days * DAY_S };
        let names = hosts("a.example");
        Issued { id: None, serial: serial.into(), life, names, must_staple: false, responder: None }
    }

    /// Of a certificate that nothing was asked about.
    fn new() -> State {
        let mut state = State::default();
        state.compare(&hosts("a.example"), AUTHORITY, None, NOW);
        assert!(state.is_due(NOW));
        state
    }

    #[test]
    fn a_process_that_ends_in_each_order_asks_as_seldom_as_one_that_is_refused() {
        let (mut state, mut now, mut orders) = (new(), NOW, 0);
        while now < NOW + DAY_S {
            if state.is_due(now) {
                state.begin_try(now);
                orders += 1;
                // The process is killed, and the next one has what is on disk.
                state = serde_json::from_slice(&serde_json::to_vec(&state).unwrap()).unwrap();
                state.compare(&hosts("a.example"), AUTHORITY, None, now);
            }
            now += 3;
        }
        assert!((7..12).contains(&orders), "{orders}");
        assert_eq!(state.failures, 0);
    }

    #[test]
    fn no_advice_and_no_clock_has_orders_follow_each_other() {
        // The window is always in the past; the clock is 70 days ahead; the certificate has expired.
        for (begins, window) in [(NOW, Some(0..1)), (NOW - 70 * DAY_S, None), (NOW - 100 * DAY_S, None)] {
            let (mut state, mut now, mut orders) = (new(), NOW, 0);
            let mut present = None;
            while now < NOW + DAY_S {
                state.compare(&hosts("a.example"), AUTHORITY, present.as_ref(), now);
                if let Some(present) = present.as_ref().filter(|_| state.is_advice_due(now)) {
                    let advice = window.clone().map(|window| Advice {
                        window,
                        again_s: 60,
                        explanation: String::new(),
                    });
                    state.advise(advice, present, now);
                }
                if state.is_due(now) {
                    state.begin_try(now);
                    orders += 1;
                    let new = issued(&orders.to_string(), begins, 90);
                    state.succeed(&new, now);
                    present = Some(new);
                }
                now += 10;
            }
            assert!(orders <= 25, "{orders}");
        }
        assert!(issued("", NOW, 0).life.pause_s() == 0 && issued("", NOW, 90).life.pause_s() == 3600);
    }

    #[test]
    fn what_fails_beside_an_order_is_asked_for_again_with_pauses_that_grow() {
        let mut state = new();
        state.succeed(&issued("1", NOW, 90), NOW);
        for (failures, pause) in (1..).zip([60, 180, 540, 1620, 4860, 14_580, 21_600, 21_600]) {
            let near = NOW + pause..=NOW + pause + pause / 10;
            state.fail_to_advise(None, NOW);
            assert!(near.contains(&state.advice_at), "{}", state.advice_at - NOW);
            assert_eq!(state.staple.fail(Refusal::new("no"), NOW), failures == 1, "it is said once");
            assert!(near.contains(&state.staple.ask_at), "{}", state.staple.ask_at - NOW);
        }
        state.fail_to_advise(Some(RETRY_AFTER_S_MAX), NOW);
        assert_eq!(state.advice_at, NOW + ADVICE_S_MAX);
        let window = NOW + DAY_S..NOW + 2 * DAY_S;
        state.advise(
            Some(Advice { window, again_s: 7200, explanation: String::new() }),
            &issued("1", NOW, 90),
            NOW,
        );
        state.fail_to_advise(None, NOW);
        assert!(state.advice_at < NOW + 70, "a success ends the row");
        assert!(state.staple.fail(Refusal::new("no"), NOW + DAY_S), "it is said each day");
        // Half of the answer's life; one that is older, and much older; one that lives for an hour; one that lives for a year.
        for (begins, ends, ask_at) in [
            (NOW - DAY_S, NOW + 3 * DAY_S, NOW + DAY_S),
            (NOW - 3 * DAY_S, NOW + 2 * DAY_S, NOW + DAY_S / 4),
            (NOW - 6 * DAY_S, NOW + 3600, NOW + 3600),
            (NOW - 3000, NOW + 600, NOW + 450),
            (NOW - 200, NOW + 10, NOW + STAPLE_S_MIN),
            (NOW, NOW + 364 * DAY_S, NOW + RETRY_AFTER_S_MAX),
        ] {
            state.staple.succeed(Life { begins, ends }, NOW);
            assert_eq!(state.staple, Staple { ask_at, ..Staple::default() });
        }
        state.compare(&hosts("a.example"), AUTHORITY, Some(&issued("1", NOW, 90)), NOW - 30 * DAY_S);
        assert_eq!(state.staple.ask_at, 0, "the clock was set back");
    }

    #[test]
    fn an_answer_that_does_not_change_is_asked_for_seldom() {
        let life = Life { begins: NOW - 7 * DAY_S, ends: NOW };
        let (mut staple, mut now, mut asked) = (Staple::default(), life.begins, 0);
        while now < life.ends {
            staple.succeed(life, now);
            (now, asked) = (staple.ask_at, asked + 1);
        }
        assert!((20..40).contains(&asked), "{asked}");
    }

    #[test]
    fn times_of_a_wrong_clock_are_forgotten() {
        let mut state = new();
        state.begin_try(4_000_000_000);
        assert!(state.fail(Refusal::new("no"), 4_000_000_000));
        state.advice_at = 4_000_000_000;
        state.compare(&hosts("a.example"), AUTHORITY, None, NOW);
        assert!(state.is_due(NOW) && state.advice_at == 0);
        // A pause that the authority has asked for.
        state.begin_try(NOW);
        let refusal = Refusal { retry_after_s: Some(RETRY_AFTER_S_MAX), ..Refusal::new("later") };
        assert!(state.fail(refusal, NOW), "the line before was of another time");
        state.compare(&hosts("a.example"), AUTHORITY, None, NOW);
        assert!(!state.is_due(NOW + RETRY_AFTER_S_MAX - 1) && state.is_due(NOW + RETRY_AFTER_S_MAX));
    }

    #[test]
    fn a_request_waits_for_no_advice_and_other_hosts_for_a_minute() {
        let mut state = new();
        let present = issued("1", NOW, 90);
        state.begin_try(NOW);
        state.succeed(&present, NOW);
        assert!(state.is_advice_due(NOW));
        let window = NOW + DAY_S..NOW + 2 * DAY_S;
        let advice = Advice { window, again_s: 60, explanation: String::new() };
        state.advise(Some(advice), &present, NOW);
        assert!(!state.is_due(NOW + 7200) && state.is_advice_due(NOW + 7200));
        state.request();
        assert!(state.is_due(NOW + 7200) && !state.is_advice_due(NOW + 7200));
        // After a refusal, too.
        state.begin_try(NOW + 7200);
        state.fail(Refusal::new("no"), NOW + 7200);
        state.compare(&hosts("a.example"), AUTHORITY, Some(&present), NOW + 7200);
        assert!(!state.is_advice_due(NOW + 9000) && state.is_due(NOW + 9000));
        for _ in 0..8 {
            state.begin_try(NOW + 9000);
        }
        assert!(!state.is_due(NOW + 9000 + CHANGED_PAUSE_S));
        state.compare(&hosts("a.example b.example"), AUTHORITY, Some(&present), NOW + 9000);
        assert!(!state.is_due(NOW + 9000) && state.is_due(NOW + 9000 + CHANGED_PAUSE_S));
        assert_eq!(state.tries, 9);
    }

    #[test]
    fn what_an_authority_adds_and_what_another_one_has_issued() {
        let mut present = issued("1", NOW, 90);
        present.names.push("www.a.example".into());
        let mut state = new();
        state.begin_try(NOW);
        state.succeed(&present, NOW);
        state.compare(&hosts("a.example"), AUTHORITY, Some(&present), NOW);
        assert!(!state.is_due(NOW + DAY_S));
        state.compare(&hosts("a.example"), "https://other/dir", Some(&present), NOW);
        assert!(state.is_due(NOW));
    }
}
