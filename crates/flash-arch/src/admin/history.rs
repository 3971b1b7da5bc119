//! What a server did in the last minutes.
//!
//! The counters of a server only grow. Here their differences are kept, so that a page shows how fast they grow.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::snapshot::{DURATION_BOUNDS_US, SiteSnapshot};

/// Seconds that are kept of the whole server.
pub(super) const SECONDS_MAX: usize = 300;
/// What sites did is compared with what they had done up to this time before.
const SITES_WINDOW: Duration = Duration::from_secs(60);
const SITES_EVERY: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct History {
    last: Option<(Instant, Sample)>,
    requests: VecDeque<u64>,
    bytes: VecDeque<u64>,
    /// The share of the last second that each loop did not wait.
    busy: HashMap<String, f64>,
    /// What sites had counted when they were added last.
    sites: HashMap<String, SiteCounts>,
    /// What those did that changed until each moment since the one before. The oldest moment first.
    moments: VecDeque<(Instant, HashMap<String, SiteCounts>)>,
}

/// The counters of a moment that are compared with the next one's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) requests: u64,
    pub(crate) sent_bytes: u64,
    /// How long each loop has been busy, by its name.
    pub(crate) busy_us: HashMap<String, u64>,
}

/// The counts of a site, its responses by their durations.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SiteCounts {
    pub(super) responses: u64,
    pub(super) errors: u64,
    pub(super) bytes: u64,
    durations: Vec<u64>,
}

impl History {
    /// Adds what the server has counted by now. It is asked once a second.
    pub(super) fn add(&mut self, sample: Sample, now: Instant) {
        if let Some((at, then)) = &self.last {
            let seconds = now.saturating_duration_since(*at).as_secs_f64().max(0.001);
            let rate = |now: u64, then: u64| (now.saturating_sub(then) as f64 / seconds).round() as u64;
            push(&mut self.requests, rate(sample.requests, then.requests));
            push(&mut self.bytes, rate(sample.sent_bytes, then.sent_bytes));
            let share = |name: &str, busy_us: u64| {
                let before = then.busy_us.get(name).copied().unwrap_or_default();
                (busy_us.saturating_sub(before) as f64 / 1e6 / seconds).min(1.0)
            };
            let shares = sample.busy_us.iter().map(|(name, busy_us)| (name.clone(), share(name, *busy_us)));
            self.busy = shares.collect();
        }
        self.last = Some((now, sample));
    }

    /// Whether enough time has passed since sites were added last.
    pub(super) fn needs_sites(&self, now: Instant) -> bool {
        self.moments.back().is_none_or(|(at, _)| now.saturating_duration_since(*at) >= SITES_EVERY)
    }

    /// Adds what sites have counted by now. Those that are left out have not changed.
    pub(super) fn add_sites(&mut self, changed: &[SiteSnapshot], now: Instant) {
        let since = changed.iter().map(|site| {
            let counts = SiteCounts::of(site);
            let before = self.sites.insert(site.site.clone(), counts.clone());
            (site.site.clone(), counts.since(&before.unwrap_or_default()))
        });
        self.moments.push_back((now, since.collect()));
        while self.moments.len() > 1 && now.saturating_duration_since(self.moments[1].0) >= SITES_WINDOW {
            self.moments.pop_front();
        }
    }

    /// Requests of each second, the latest last.
    pub(super) fn requests(&self) -> Vec<u64> {
        self.requests.iter().copied().collect()
    }

    /// Bytes of each second, the latest last.
    pub(super) fn bytes(&self) -> Vec<u64> {
        self.bytes.iter().copied().collect()
    }

    /// The share of the last second that a loop did not wait.
    pub(super) fn busy(&self, name: &str) -> Option<f64> {
        self.busy.get(name).copied()
    }

    /// The share of the busiest loop.
    pub(super) fn busiest(&self) -> Option<f64> {
        self.busy.values().copied().max_by(f64::total_cmp)
    }

    /// What a site has done in the last minute, and in how many seconds. After the start these are fewer.
    pub(super) fn site(&self, site: &SiteSnapshot, now: Instant) -> (SiteCounts, f64) {
        let counts = SiteCounts::of(site);
        let Some((at, _)) = self.moments.front() else { return (counts, 1.0) };
        let seconds = now.saturating_duration_since(*at).as_secs_f64().max(1.0);
        let mut did = counts.since(self.sites.get(&site.site).unwrap_or(&SiteCounts::default()));
        for (_, since) in self.moments.iter().skip(1) {
            since.get(&site.site).into_iter().for_each(|more| did.add(more));
        }
        (did, seconds)
    }
}

/// Under which name the history knows a process of mp.
pub(crate) fn worker_name(pid: u32) -> String {
    format!("worker {pid}")
}

fn push(series: &mut VecDeque<u64>, value: u64) {
    if series.len() == SECONDS_MAX {
        series.pop_front();
    }
    series.push_back(value);
}

impl SiteCounts {
    fn of(site: &SiteSnapshot) -> Self {
        let mut counts = Self { durations: vec![0; DURATION_BOUNDS_US.len() + 1], ..Self::default() };
        for class in &site.classes {
            counts.responses += class.count;
            counts.errors += if class.status == "5xx" { class.count } else { 0 };
            counts.bytes += class.body_bytes;
            for (sum, count) in counts.durations.iter_mut().zip(&class.durations) {
                *sum += count;
            }
        }
        counts
    }

    fn add(&mut self, more: &Self) {
        self.responses += more.responses;
        self.errors += more.errors;
        self.bytes += more.bytes;
        for (sum, count) in self.durations.iter_mut().zip(&more.durations) {
            *sum += count;
        }
    }

    fn since(&self, then: &Self) -> Self {
        let before = |place: usize| then.durations.get(place).copied().unwrap_or_default();
        let durations = self.durations.iter().enumerate();
        Self {
            responses: self.responses.saturating_sub(then.responses),
            errors: self.errors.saturating_sub(then.errors),
            bytes: self.bytes.saturating_sub(then.bytes),
            durations: durations.map(|(place, count)| count.saturating_sub(before(place))).collect(),
        }
    }

    /// The duration in microseconds that so many of a thousand responses did not exceed.
    pub(super) fn percentile_us(&self, per_mille: u64) -> Option<u64> {
        percentile_us(&self.durations, per_mille)
    }
}

/// The duration in microseconds that so many of a thousand did not exceed. Within a class of the histogram, it is estimated as if they were
/// spread evenly. `None` without any.
pub(super) fn percentile_us(durations: &[u64], per_mille: u64) -> Option<u64> {
    let all: u64 = durations.iter().sum();
    let wanted = (all * per_mille).div_ceil(1000).max(1);
    let mut before = 0;
    for (place, count) in durations.iter().enumerate() {
        if before + count >= wanted && *count > 0 {
            let low = if place == 0 { 0 } else { DURATION_BOUNDS_US[place - 1] };
            // Nothing is known of those in the last class but that they took longer.
            let high = DURATION_BOUNDS_US.get(place).copied().unwrap_or(low);
            return Some(low + (high - low) * (wanted - before) / count);
        }
        before += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::snapshot::ResponseClass;

    fn sample(requests: u64, busy_us: u64) -> Sample {
        Sample { requests, sent_bytes: 1000 * requests, busy_us: [("loop-0".into(), busy_us)].into() }
    }

    fn site(durations: &[(usize, u64)]) -> SiteSnapshot {
        let mut class = ResponseClass {
            status: "2xx".into(),
            durations: vec![0; DURATION_BOUNDS_US.len() + 1],
            ..ResponseClass::default()
        };
        for (place, count) in durations {
            class.durations[*place] = *count;
            class.count += count;
        }
        SiteSnapshot { site: "a".into(), classes: vec![class] }
    }

    #[test]
    fn differences_are_kept_for_five_minutes() {
        let (mut history, start) = (History::default(), Instant::now());
        history.add(sample(1000, 0), start);
        assert_eq!((history.requests(), history.busy("loop-0")), (vec![], None));
        history.add(sample(1100, 500_000), start + Duration::from_secs(2));
        assert_eq!((history.requests(), history.bytes()), (vec![50], vec![50_000]));
        assert_eq!((history.busy("loop-0"), history.busiest()), (Some(0.25), Some(0.25)));
        for second in 0..400 {
            history.add(sample(1100 + second, 500_000), start + Duration::from_secs(3 + second));
        }
        assert_eq!((history.requests().len(), history.requests()[299]), (300, 1));
    }

    #[test]
    fn totals_that_fall_count_as_nothing() {
        let (mut history, start) = (History::default(), Instant::now());
        history.add(sample(1000, 9), start);
        history.add(sample(10, 0), start + Duration::from_secs(1));
        assert_eq!((history.requests(), history.busy("loop-0")), (vec![0], Some(0.0)));
    }

    #[test]
    fn a_site_is_compared_with_a_minute_ago() {
        let (mut history, start) = (History::default(), Instant::now());
        for second in 0..=200 {
            let now = start + Duration::from_secs(second);
            if history.needs_sites(now) {
                history.add_sites(&[site(&[(3, 10 * second)])], now);
            }
        }
        let (counts, seconds) = history.site(&site(&[(3, 2000)]), start + Duration::from_secs(200));
        assert_eq!((counts.responses, seconds), (600, 60.0));
        assert!(history.moments.len() <= 7, "a few moments are kept");
    }

    #[test]
    fn a_site_that_does_nothing_is_kept_once() {
        let (mut history, start) = (History::default(), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        history.add_sites(&[site(&[(3, 10)])], start);
        history.add_sites(&[site(&[(3, 14)])], at(10));
        (2..6).for_each(|moment| history.add_sites(&[], at(10 * moment)));
        let did = |history: &History, second| history.site(&site(&[(3, 15)]), at(second)).0.responses;
        assert_eq!(did(&history, 50), 5);
        history.add_sites(&[], at(70));
        assert_eq!(did(&history, 70), 1, "the rest was more than a minute ago");
        assert!(history.moments.iter().skip(1).all(|(_, since)| since.is_empty()));
    }

    #[test]
    fn percentiles_are_within_the_right_class() {
        let counts = SiteCounts::of(&site(&[(0, 98), (7, 1), (22, 1)]));
        assert_eq!(counts.percentile_us(500), Some(50 * 50 / 98));
        assert_eq!(counts.percentile_us(980), Some(50));
        assert_eq!(counts.percentile_us(990), Some(10_000), "the only one of its class");
        assert_eq!(counts.percentile_us(1000), Some(600_000_000), "longer than all bounds");
        let three = SiteCounts::of(&site(&[(0, 1), (7, 2)]));
        assert_eq!(three.percentile_us(500), Some(7500), "one of three is less than half");
        assert_eq!(SiteCounts::default().percentile_us(500), None);
        let earlier = SiteCounts::of(&site(&[(0, 98)]));
        assert_eq!(counts.since(&earlier).percentile_us(10), Some(10_000));
    }
}
