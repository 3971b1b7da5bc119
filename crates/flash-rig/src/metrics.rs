//! What Flash says of itself, as values: its last words, and the same when it is asked (`POST /counters`).
//!
//! ```text
//! flash: stopped: requests=2 connections=2 … loop_blocks=0 …
//! flash: loop-0: turns=8 ready=1:7,2+:1 busy_us=1553 longest_turn_us=869 blocks=0 major_faults=0
//! ```

use std::collections::BTreeMap;

use serde::Serialize;

/// Counts since the server's start, or between two moments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Metrics {
    /// By the names that Flash gives them: `requests`, `helper_jobs`, `loop_blocks`, …
    pub counts: BTreeMap<String, u64>,
    pub loops: Vec<Loop>,
}

/// A loop, or a step of a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loop {
    pub name: String,
    /// `turns`, `busy_us`, `longest_turn_us`, `blocks`, `major_faults`.
    pub counts: BTreeMap<String, u64>,
    /// Turns by the ready events that they began with: from each key up to the next, which is twice as many.
    pub ready: BTreeMap<u64, u64>,
}

impl Metrics {
    /// Reads the last report of each process in these lines; several processes (mp) are summed. None where none is.
    pub fn parse(text: &str) -> Option<Metrics> {
        let mut reports: Vec<Metrics> = Vec::new();
        let mut stopped = false;
        for line in text.lines().filter_map(|line| line.strip_prefix("flash: ")) {
            let Some((name, rest)) = line.split_once(": ") else { continue };
            match name {
                "serving" | "stopped" if rest.starts_with("requests=") => {
                    // The end says all that was said before, once more.
                    if name == "stopped" && !stopped {
                        stopped = true;
                        reports.clear();
                    }
                    reports.push(Metrics { counts: counts(rest), loops: Vec::new() });
                }
                _ if rest.starts_with("turns=") => {
                    if let Some(report) = reports.last_mut() {
                        report.loops.push(Loop {
                            name: name.into(),
                            counts: counts(rest),
                            ready: ready(rest),
                        });
                    }
                }
                _ => {}
            }
        }
        let mut reports = reports.into_iter();
        let mut sum = reports.next()?;
        for report in reports {
            for (name, count) in report.counts {
                *sum.counts.entry(name).or_default() += count;
            }
            sum.loops.extend(report.loops);
        }
        Some(sum)
    }

    /// A count by its name; none where this Flash does not keep it.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.counts.get(name).copied()
    }

    /// What was counted since. A longest turn is the longest since the start, for there is no other.
    #[must_use]
    pub fn since(&self, before: &Metrics) -> Metrics {
        let loops = self.loops.iter().map(|now| {
            let Some(then) = before.loops.iter().find(|then| then.name == now.name) else {
                return now.clone();
            };
            let mut counts = less(&now.counts, &then.counts);
            let longest = "longest_turn_us";
            if let Some(us) = now.counts.get(longest) {
                counts.insert(longest.into(), *us);
            }
            Loop { name: now.name.clone(), counts, ready: less(&now.ready, &then.ready) }
        });
        Metrics { counts: less(&self.counts, &before.counts), loops: loops.collect() }
    }

    /// The ready events of all loops together.
    pub fn ready(&self) -> BTreeMap<u64, u64> {
        let mut sum = BTreeMap::new();
        for (least, turns) in self.loops.iter().flat_map(|of| &of.ready) {
            *sum.entry(*least).or_default() += turns;
        }
        sum
    }
}

fn less<K: Clone + Ord>(now: &BTreeMap<K, u64>, then: &BTreeMap<K, u64>) -> BTreeMap<K, u64> {
    let of =
        |(key, count): (&K, &u64)| (key.clone(), count.saturating_sub(then.get(key).copied().unwrap_or(0)));
    now.iter().map(of).collect()
}

/// `name=1 other=2`; words of another form are ignored.
fn counts(words: &str) -> BTreeMap<String, u64> {
    let pairs = words.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?))).collect()
}

/// `ready=0:3,1:7,2+:1`.
fn ready(words: &str) -> BTreeMap<u64, u64> {
    let classes = words.split_whitespace().find_map(|word| word.strip_prefix("ready=")).unwrap_or_default();
    let pairs = classes.split(',').filter_map(|class| class.split_once(':'));
    pairs
        .filter_map(|(least, turns)| Some((least.trim_end_matches('+').parse().ok()?, turns.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: &str = "\
flash: serving /srv at http://127.0.0.1:1/ (amped, 2 loops)
flash: serving: requests=2 connections=2 loop_blocks=0 walk_us=43
flash: loop-0: turns=7 ready=1:6,2+:1 busy_us=1538 longest_turn_us=869 blocks=0 major_faults=0
";
    const ENDED: &str = "\
flash: loop-0 slept outside its wait: 1.0 ms in openat2 of /srv: a file
flash: stopped: requests=9 connections=3 loop_blocks=1 walk_us=50
flash: loop-0: turns=17 ready=1:12,2+:3,4+:2 busy_us=2538 longest_turn_us=900 blocks=1 major_faults=0
flash: loop-1: turns=1 ready=1:1 busy_us=11 longest_turn_us=11 blocks=0 major_faults=0
";

    #[test]
    fn the_end_says_all() {
        let metrics = Metrics::parse(&(ASKED.to_owned() + ENDED)).expect("a report");
        assert_eq!(metrics.count("requests"), Some(9));
        assert_eq!(metrics.count("loop_blocks"), Some(1));
        assert_eq!(metrics.count("nothing"), None);
        assert_eq!(metrics.loops.len(), 2);
        assert_eq!(metrics.ready(), BTreeMap::from([(1, 13), (2, 3), (4, 2)]));
        assert_eq!(metrics.loops[0].counts["busy_us"], 2538);
    }

    #[test]
    fn what_was_before_can_be_taken_away() {
        let (before, after) = (Metrics::parse(ASKED).expect("one"), Metrics::parse(ENDED).expect("one"));
        let between = after.since(&before);
        assert_eq!(between.count("requests"), Some(7));
        assert_eq!(between.loops[0].counts["turns"], 10);
        assert_eq!(between.loops[0].counts["longest_turn_us"], 900);
        assert_eq!(between.ready(), BTreeMap::from([(1, 7), (2, 2), (4, 2)]));
    }

    #[test]
    fn processes_are_summed_and_silence_is_none() {
        let two = "flash: serving: requests=2 shed=1\nflash: serving: requests=3 shed=0\nflash: stopped\n";
        assert_eq!(Metrics::parse(two).expect("two").counts["requests"], 5);
        assert_eq!(Metrics::parse("flash: stopped\nnginx: requests=2\nloop_blocks=7\n"), None);
    }
}
