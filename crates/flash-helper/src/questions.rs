//! The questions that have no answer yet: whose they are, what they wait for, and until when.
//!
//! Equal windows that are asked for at the same time are loaded once. Helpers themselves join equal look-ups. What is done for
//! a question is decided elsewhere.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use flash_core::file::{File, Stamp};

use crate::protocol::Question;

#[derive(Debug)]
pub(crate) struct Pending {
    /// The asker's place and number.
    pub(crate) asker: (usize, u64),
    pub(crate) question: Question,
    pub(crate) stage: Stage,
    due_ms: u64,
    /// A find is begun anew once, if the root has changed meanwhile.
    pub(crate) is_second: bool,
}

#[derive(Debug)]
pub(crate) enum Stage {
    Finding,
    /// A window of this file is being loaded.
    Loading(Arc<File>),
}

/// Windows are equal if they are of the same version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Load {
    pub(crate) stamp: Stamp,
    pub(crate) window: Range<u64>,
    pub(crate) copy: bool,
    /// It goes through a file that an asker has opened, and can do things to.
    pub(crate) is_askers: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// By serial numbers.
    pending: HashMap<u64, Pending>,
    due: BTreeSet<(u64, u64)>,
    serial: u64,
    /// The questions that wait for each load, by the load's token.
    loads: HashMap<u64, (Load, Vec<u64>)>,
    tokens: HashMap<Load, u64>,
}

impl Questions {
    /// A number that no other question or load has.
    pub(crate) fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    pub(crate) fn add(&mut self, serial: u64, asker: (usize, u64), question: Question, due_ms: u64) {
        self.due.insert((due_ms, serial));
        let pending = Pending { asker, question, stage: Stage::Finding, due_ms, is_second: false };
        self.pending.insert(serial, pending);
    }

    pub(crate) fn get_mut(&mut self, serial: u64) -> Option<&mut Pending> {
        self.pending.get_mut(&serial)
    }

    /// Takes a question out, because it is answered or nobody waits for the answer.
    pub(crate) fn remove(&mut self, serial: u64) -> Option<Pending> {
        let pending = self.pending.remove(&serial)?;
        self.due.remove(&(pending.due_ms, serial));
        Some(pending)
    }

    /// The questions of an asker that is gone.
    pub(crate) fn of_asker(&self, number: u64) -> Vec<u64> {
        let of_it = self.pending.iter().filter(|(_, pending)| pending.asker.1 == number);
        of_it.map(|(serial, _)| *serial).collect()
    }

    /// The next question whose deadline has passed.
    pub(crate) fn overdue(&self, now_ms: u64) -> Option<u64> {
        self.due.first().filter(|(due_ms, _)| *due_ms <= now_ms).map(|(_, serial)| *serial)
    }

    /// When the next deadline passes.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Has a question wait for a load. Returns the token of a load that is to be begun.
    pub(crate) fn join(&mut self, load: Load, serial: u64) -> Option<u64> {
        if let Some((_, waiting)) = self.tokens.get(&load).and_then(|token| self.loads.get_mut(token)) {
            waiting.push(serial);
            return None;
        }
        let token = self.next_serial();
        self.tokens.insert(load.clone(), token);
        self.loads.insert(token, (load, vec![serial]));
        Some(token)
    }

    /// A load that is over, and the questions that waited for it. `None` if the token is a question's.
    pub(crate) fn loaded(&mut self, token: u64) -> Option<(Load, Vec<u64>)> {
        let (load, waiting) = self.loads.remove(&token)?;
        self.tokens.remove(&load);
        Some((load, waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::QuestionKind;

    fn question() -> Question {
        Question {
            kind: QuestionKind::Find,
            root: 0,
            id: 1,
            deadline_ms: 0,
            path: b"/".to_vec(),
            window: 0..0,
            known: None,
            accepts: 0,
            copy: false,
        }
    }

    #[test]
    fn deadlines_pass_in_their_order() {
        let mut questions = Questions::default();
        for (asker, due_ms) in [(1, 30), (2, 10), (1, 20)] {
            let serial = questions.next_serial();
            questions.add(serial, (0, asker), question(), due_ms);
        }
        assert_eq!((questions.next_due_ms(), questions.overdue(9)), (Some(10), None));
        assert_eq!(questions.overdue(25), Some(2));
        assert!(questions.remove(2).is_some() && questions.remove(2).is_none());
        assert_eq!(questions.overdue(25), Some(3));
        let mut of_first = questions.of_asker(1);
        of_first.sort_unstable();
        assert_eq!(of_first, [1, 3]);
    }

    #[test]
    fn equal_windows_are_loaded_once() {
        let mut questions = Questions::default();
        let load = |start| Load { stamp: Stamp::default(), window: start..9, copy: false, is_askers: false };
        let token = questions.join(load(0), 101).expect("it is the first");
        assert_eq!(questions.join(load(0), 102), None);
        let other = questions.join(load(1), 103).expect("it is another window");
        assert_eq!(questions.loaded(token), Some((load(0), vec![101, 102])));
        assert_eq!(questions.loaded(token), None);
        assert!(questions.join(load(0), 104).is_some(), "the first load is over");
        assert_eq!(questions.loaded(other), Some((load(1), vec![103])));
    }
}
