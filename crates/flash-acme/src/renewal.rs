//! When a certificate is renewed, and when a failed request is made again. Times are seconds since 1970.

use std::ops::Range;

/// The validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) begins: u64,
    pub(crate) ends: u64,
}

const DAY_S: u64 = 24 * 3600;
/// Of a shorter life, no more than the half passes.
const SHORT_S: u64 = 10 * DAY_S;
/// The first pause after a failure. Each further one is three times as long.
const PAUSE_S: u64 = 60;
const PAUSE_S_MAX: u64 = 6 * 3600;
/// An authority that asks to wait longer is mistaken, or wants no certificate to be renewed.
pub(crate) const RETRY_AFTER_S_MAX: u64 = 7 * DAY_S;
/// While no responder has a later answer of OCSP than the one that is kept. Less if that one lives for less than eight.
const STAPLE_PAUSE_S: u64 = 3600;
/// Of the time that an answer is true.
const STAPLE_SHARE: u64 = 8;
/// After a success, whatever an authority advises or a clock says.
const SUCCESS_PAUSE_S_MAX: u64 = 3600;
const SUCCESS_SHARE: u64 = 20;

impl Life {
    fn share(self, share: f64) -> u64 {
        self.begins + (self.ends.saturating_sub(self.begins) as f64 * share) as u64
    }

    /// How long after it was issued the next one is asked for at the earliest.
    pub(crate) fn pause_s(self) -> u64 {
        (self.ends.saturating_sub(self.begins) / SUCCESS_SHARE).min(SUCCESS_PAUSE_S_MAX)
    }

    /// When half of it has passed.
    pub(crate) fn half(self) -> u64 {
        self.begins + self.ends.saturating_sub(self.begins) / 2
    }

    /// When a later answer of OCSP than this one is asked for: when half of its life has passed, and then after an eighth of the rest.
    pub(crate) fn later_staple(self, now: u64) -> u64 {
        if now < self.half() {
            return self.half();
        }
        let whole = self.ends.saturating_sub(self.begins);
        let rest = self.ends.saturating_sub(now);
        now + (rest / STAPLE_SHARE).max(STAPLE_PAUSE_S.min(whole / STAPLE_SHARE))
    }

    fn is_short(self) -> bool {
        self.ends.saturating_sub(self.begins) < SHORT_S
    }

    /// When it is renewed if nobody gives advice: when a third of it is left, or half of a short one. A bit earlier by chance (0..1), so
    /// that many do not come at once.
    pub(crate) fn renewal(self, chance: f64) -> u64 {
        match self.is_short() {
            true => self.share(0.5 - chance / 10.0),
            false => self.share(2.0 / 3.0 - chance / 30.0),
        }
    }

    /// When it is renewed if the authority advises a window (RFC 9773 §4.2): anywhere in it, and never too late.
    pub(crate) fn renewal_within(self, window: &Range<u64>, chance: f64) -> u64 {
        let latest = if self.is_short() { self.renewal(chance) } else { self.share(11.0 / 12.0) };
        let chosen = window.start + (window.end.saturating_sub(window.start) as f64 * chance) as u64;
        chosen.min(latest)
    }
}

/// How long after so many failures in a row the next request is made.
pub(crate) fn pause_s(failures: u32, retry_after_s: Option<u64>, chance: f64) -> u64 {
    let pause = PAUSE_S.saturating_mul(3_u64.saturating_pow(failures.saturating_sub(1))).min(PAUSE_S_MAX);
    let pause = pause + (pause as f64 * chance / 10.0) as u64;
    pause.max(retry_after_s.unwrap_or_default().min(RETRY_AFTER_S_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANCES: [f64; 4] = [0.0, 0.3, 0.7, 0.999];

    /// Renews a certificate ten times, and looks once a minute. Returns the highest age, as a share of its life.
    fn highest_age(days: u64, renewal: impl Fn(Life) -> u64) -> f64 {
        let (mut now, mut highest) = (1_700_000_000, 0.0_f64);
        for _ in 0..10 {
            // An authority dates certificates back by an hour.
            let life = Life { begins: now - 3600, ends: now - 3600 + days * DAY_S };
            let at = renewal(life);
            while now < at {
                now += 60;
            }
            highest = highest.max((now - life.begins) as f64 / (days * DAY_S) as f64);
        }
        highest
    }

    #[test]
    fn a_certificate_of_six_days_is_never_older_than_its_half() {
        for chance in CHANCES {
            assert!(highest_age(6, |life| life.renewal(chance)) <= 0.501, "{chance}");
            // What an authority advises who has long lives in mind.
            let late = |life: Life| life.ends - 2 * DAY_S..life.ends - DAY_S;
            assert!(highest_age(6, |life| life.renewal_within(&late(life), chance)) <= 0.501, "{chance}");
            assert!((0.63..0.67).contains(&highest_age(90, |life| life.renewal(chance))), "{chance}");
        }
    }

    #[test]
    fn an_authoritys_window_is_followed() {
        let life = Life { begins: 0, ends: 90 * DAY_S };
        for (window, from, to) in [
            (58 * DAY_S..60 * DAY_S, 58, 60),
            // At once: the certificate will be revoked.
            (0..1, 0, 0),
            (85 * DAY_S..95 * DAY_S, 82, 83),
        ] {
            for chance in CHANCES {
                let at = life.renewal_within(&window, chance);
                assert!((from * DAY_S..=to * DAY_S + 1).contains(&at), "{window:?}: {at}");
            }
        }
    }

    #[test]
    fn a_later_answer_is_asked_for_at_the_half_and_then_after_an_eighth_of_the_rest() {
        let life = Life { begins: DAY_S, ends: 8 * DAY_S };
        assert_eq!(life.half(), DAY_S + 302_400);
        for (now, at) in
            [(0, life.half()), (life.half() - 1, life.half()), (life.half(), life.half() + 37_800)]
        {
            assert_eq!(life.later_staple(now), at, "{now}");
        }
    }

    #[test]
    fn pauses_grow_and_end() {
        let pauses: Vec<u64> = (1..9).map(|failures| pause_s(failures, None, 0.0)).collect();
        assert_eq!(pauses, [60, 180, 540, 1620, 4860, 14_580, 21_600, 21_600]);
        assert_eq!(pause_s(1, Some(3600), 0.0), 3600);
        assert_eq!(pause_s(1, Some(u64::MAX), 0.0), RETRY_AFTER_S_MAX);
        assert_eq!(pause_s(u32::MAX, Some(60), 0.0), PAUSE_S_MAX);
    }
}
