//! What a file that changes was, and when. From this the age of an answer follows.
//!
//! The publisher notes each change twice: before it begins, and when it is done. A client notes when it asked and when
//! the answer came. An answer with a state that was replaced before the client asked is at least as old as the time
//! between the two. So an age that is found here is never larger than the true one.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

/// How long a state that was replaced is remembered. An answer that is older matches nothing.
const REMEMBERED: Duration = Duration::from_secs(120);

/// What there is under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Absent,
    /// `modified` in seconds since the epoch, where that is what changes.
    Present {
        version: u64,
        bytes: u64,
        modified: Option<i64>,
    },
}

/// What an answer says of it. A response without a body shows no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Absent,
    Present { version: Option<u64>, bytes: u64, modified: Option<i64> },
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen::Present { version, bytes, modified } = self else { return f.write_str("no file") };
        write!(f, "{bytes} bytes")?;
        version.map_or(Ok(()), |version| write!(f, " of version {version}"))?;
        modified.map_or(Ok(()), |modified| write!(f, ", changed at {modified}"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// It was the newest state when the client asked, or became that before the answer came.
    Current,
    /// It had been replaced for at least so long when the client asked.
    Replaced(Duration),
    /// No state that is remembered is like it.
    Unknown,
}

struct Change {
    to: State,
    begun: Instant,
    /// None while the publisher is at it.
    done: Option<Instant>,
}

/// The states of one file, the oldest first.
pub(crate) struct History {
    changes: VecDeque<Change>,
}

impl History {
    pub(crate) fn new(state: State, now: Instant) -> History {
        History { changes: VecDeque::from([Change { to: state, begun: now, done: Some(now) }]) }
    }

    /// The publisher is about to make this change.
    pub(crate) fn begin(&mut self, to: State, now: Instant) {
        while self.changes.get(1).is_some_and(|next| next.done.is_some_and(|done| done + REMEMBERED < now)) {
            self.changes.pop_front();
        }
        self.changes.push_back(Change { to, begun: now, done: None });
    }

    /// The change that was begun last is done.
    pub(crate) fn done(&mut self, now: Instant) {
        self.changes.back_mut().expect("it begins with one").done = Some(now);
    }

    pub(crate) fn newest(&self) -> State {
        self.changes.back().expect("it begins with one").to
    }

    /// The versions that are remembered, the newest first.
    pub(crate) fn versions(&self) -> Vec<u64> {
        let versions = self.changes.iter().rev().filter_map(|change| match change.to {
            State::Present { version, .. } => Some(version),
            State::Absent => None,
        });
        let mut versions: Vec<u64> = versions.collect();
        versions.dedup();
        versions
    }

    /// How old an answer was that a client asked for and got at these moments.
    pub(crate) fn age(&self, seen: Seen, asked: Instant, answered: Instant) -> Age {
        let begun = self.changes.iter().take_while(|change| change.begun <= answered).count();
        let matches = |&at: &usize| self.changes[at].to.is(seen) || self.grew_through(at, seen);
        let Some(at) = (0..begun).rev().find(matches) else { return Age::Unknown };
        let replaced = self.changes.get(at + 1).and_then(|next| next.done);
        match replaced.and_then(|replaced| asked.checked_duration_since(replaced)) {
            Some(age) if !age.is_zero() => Age::Replaced(age),
            _ => Age::Current,
        }
    }

    /// Whether the file had this length while it grew from this state to the next. The kernel shows lengths between.
    fn grew_through(&self, at: usize, seen: Seen) -> bool {
        let Some(next) = self.changes.get(at + 1) else { return false };
        match (self.changes[at].to, next.to, seen) {
            (
                State::Present { version, bytes, .. },
                State::Present { version: after, bytes: longer, .. },
                Seen::Present { version: shown, bytes: length, .. },
            ) => {
                version == after
                    && shown.is_none_or(|shown| shown == version)
                    && bytes < length
                    && length < longer
            }
            _ => false,
        }
    }
}

impl State {
    fn is(self, seen: Seen) -> bool {
        match (self, seen) {
            (State::Absent, Seen::Absent) => true,
            (
                State::Present { version, bytes, modified },
                Seen::Present { version: shown, bytes: length, modified: date },
            ) => {
                shown.is_none_or(|shown| shown == version)
                    && bytes == length
                    && modified.is_none_or(|modified| date == Some(modified))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn present(version: u64, bytes: u64) -> State {
        State::Present { version, bytes, modified: None }
    }

    fn seen(version: u64, bytes: u64) -> Seen {
        Seen::Present { version: Some(version), bytes, modified: None }
    }

    /// A change every ten seconds, each of which takes a second.
    fn history(states: &[State]) -> (History, Instant) {
        let start = Instant::now();
        let mut history = History::new(states[0], start);
        for (&state, number) in states[1..].iter().zip(1..) {
            history.begin(state, start + 10 * number * SECOND);
            history.done(start + (10 * number + 1) * SECOND);
        }
        (history, start)
    }

    #[test]
    fn an_answer_is_as_old_as_what_replaced_its_state() {
        let (history, start) = history(&[present(1, 100), present(2, 101), present(3, 102)]);
        let age = |seen, asked| history.age(seen, start + asked * SECOND, start + (asked + 1) * SECOND);
        assert_eq!(age(seen(1, 100), 5), Age::Current);
        // The change was done at 11.
        assert_eq!(age(seen(1, 100), 10), Age::Current);
        assert_eq!(age(seen(1, 100), 13), Age::Replaced(2 * SECOND));
        assert_eq!(age(seen(3, 102), 99), Age::Current);
        // It came while the answer was on its way.
        assert_eq!(age(seen(2, 101), 9), Age::Current);
        assert_eq!(age(seen(2, 101), 8), Age::Unknown, "it was not there yet");
        assert_eq!(age(seen(2, 100), 30), Age::Unknown, "one version's bytes with another's length");
        let head = Seen::Present { version: None, bytes: 101, modified: None };
        assert_eq!(age(head, 25), Age::Replaced(4 * SECOND));
    }

    #[test]
    fn a_name_that_comes_and_goes_is_as_old_as_its_last_absence() {
        let (history, start) = history(&[State::Absent, present(1, 9), State::Absent, present(2, 9)]);
        let age = |seen, asked| history.age(seen, start + asked * SECOND, start + asked * SECOND);
        assert_eq!(age(Seen::Absent, 29), Age::Current);
        assert_eq!(age(Seen::Absent, 34), Age::Replaced(3 * SECOND));
        assert_eq!(age(seen(1, 9), 24), Age::Replaced(3 * SECOND));
        assert_eq!(history.versions(), [2, 1]);
    }

    #[test]
    fn a_file_that_grows_has_every_length_between() {
        let (mut history, start) = history(&[present(1, 100), present(1, 200)]);
        let age = |history: &History, bytes, asked| {
            history.age(seen(1, bytes), start + asked * SECOND, start + asked * SECOND)
        };
        assert_eq!(age(&history, 150, 12), Age::Replaced(SECOND));
        assert_eq!(age(&history, 99, 12), Age::Unknown);
        assert_eq!(age(&history, 201, 12), Age::Unknown);
        history.begin(present(1, 300), start + 20 * SECOND);
        assert_eq!(age(&history, 250, 22), Age::Current, "it is being written");
        assert_eq!(age(&history, 200, 22), Age::Current);
    }

    #[test]
    fn a_touched_file_is_told_by_its_date() {
        let touched = |modified| State::Present { version: 0, bytes: 9, modified: Some(modified) };
        let (history, start) = history(&[touched(70), touched(71)]);
        let age = |modified, asked| {
            let seen = Seen::Present { version: Some(0), bytes: 9, modified: Some(modified) };
            history.age(seen, start + asked * SECOND, start + asked * SECOND)
        };
        assert_eq!(age(70, 14), Age::Replaced(3 * SECOND));
        assert_eq!(age(71, 14), Age::Current);
        assert_eq!(age(72, 14), Age::Unknown);
    }

    #[test]
    fn what_is_long_gone_is_forgotten() {
        let (mut history, start) = history(&[present(1, 1), present(2, 2)]);
        history.begin(present(3, 3), start + 200 * SECOND);
        assert_eq!(history.versions(), [3, 2]);
        assert_eq!(history.newest(), present(3, 3));
    }
}
