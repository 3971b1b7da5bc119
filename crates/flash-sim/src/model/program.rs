//! A request's life as a program, and the words to write it in.

use serde::{Deserialize, Serialize};

use crate::parameters::Locks;

/// The place of a role in its model.
pub type RoleId = usize;

/// A step that the machine takes. Jumps are places in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A runner of this role does the next steps. The runner that has the request hands it over, unless it has this role
    /// itself.
    On(RoleId),
    /// Takes a processor for as long as this costs.
    Spend(Work),
    Lock(usize),
    Unlock(usize),
    /// Remembers whether the cache has the file, which moves it to the front if so.
    Look(Cache),
    /// Goes there if it was found.
    IfFound(usize),
    /// The runner waits for a disk, if that has to be asked: not if another request brought the file in meanwhile.
    Wait(Read),
    /// The same, but the request waits alone and comes back to its runner's desk.
    Submit(Read),
    /// The file is in the cache from now on.
    Keep(Cache),
    /// Takes a processor for sending one window.
    Send,
    /// Sends the window. If sending takes time of its own, a multiplexed runner serves other requests meanwhile.
    Travel,
    /// Jumps there while bytes are left to send. A multiplexed runner serves other requests first.
    Again(usize),
    Done,
}

/// What takes processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Connection,
    ReadRequest,
    PathLookup,
    Translate,
    SendHeader,
    DataLookup,
    HandOff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    Path,
    Data,
}

/// What is read from a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Now and then, to find a file: an access, with next to nothing to transfer.
    Directory,
    /// A whole file.
    Content,
}

/// A program that is being written.
#[derive(Debug)]
pub struct Program {
    ops: Vec<Op>,
    locks: Locks,
}

impl Program {
    pub(super) fn new(locks: Locks) -> Program {
        Program { ops: Vec::new(), locks }
    }

    /// The next steps are this role's. The runner that had the request before pays for handing it over.
    pub(super) fn on(self, role: RoleId) -> Program {
        match self.ops.is_empty() {
            true => self.then(Op::On(role)),
            false => self.spend(Work::HandOff).then(Op::On(role)),
        }
    }

    pub(super) fn spend(self, work: Work) -> Program {
        self.then(Op::Spend(work))
    }

    /// Looks for the file, under the cache's lock if it has one; `missed` is done if it is not there.
    pub(super) fn look(self, cache: Cache, missed: impl FnOnce(Program) -> Program) -> Program {
        let work = match cache {
            Cache::Path => Work::PathLookup,
            Cache::Data => Work::DataLookup,
        };
        let looked = match self.lock(cache) {
            Some(lock) => self.then(Op::Lock(lock)).spend(work).then(Op::Look(cache)).then(Op::Unlock(lock)),
            None => self.spend(work).then(Op::Look(cache)),
        };
        looked.if_missed(missed)
    }

    /// Is told, with no look-up of its own, that the content is not in memory; `missed` is done then.
    pub(super) fn would_block(self, missed: impl FnOnce(Program) -> Program) -> Program {
        self.then(Op::Look(Cache::Data)).if_missed(missed)
    }

    /// Finds out which file a name means. A directory that has to be read for it is waited for.
    pub(super) fn translate(self) -> Program {
        self.spend(Work::Translate).then(Op::Wait(Read::Directory)).then(Op::Keep(Cache::Path))
    }

    /// Reads the file and waits for it.
    pub(super) fn read(self) -> Program {
        self.then(Op::Wait(Read::Content)).then(Op::Keep(Cache::Data))
    }

    /// The same as `translate`, but the kernel waits.
    pub(super) fn translate_in_ring(self) -> Program {
        let submitted = self.spend(Work::Translate).spend(Work::HandOff);
        submitted.then(Op::Submit(Read::Directory)).then(Op::Keep(Cache::Path))
    }

    /// The same as `read`, but the kernel waits.
    pub(super) fn read_in_ring(self) -> Program {
        self.spend(Work::HandOff).then(Op::Submit(Read::Content)).then(Op::Keep(Cache::Data))
    }

    /// Sends the file, window by window: the self loop of the paper's Figure 1. One look-up serves them all, since the cache
    /// holds whole files.
    pub(super) fn send(self) -> Program {
        let first = self.ops.len();
        self.then(Op::Send).then(Op::Travel).then(Op::Again(first))
    }

    pub(super) fn done(self) -> Vec<Op> {
        self.then(Op::Done).ops
    }

    fn if_missed(self, missed: impl FnOnce(Program) -> Program) -> Program {
        let jump = self.ops.len();
        let mut program = missed(self.then(Op::IfFound(0)));
        program.ops[jump] = Op::IfFound(program.ops.len());
        program
    }

    fn lock(&self, cache: Cache) -> Option<usize> {
        match (self.locks, cache) {
            (Locks::None, _) => None,
            (Locks::One, _) | (Locks::Each, Cache::Path) => Some(0),
            (Locks::Each, Cache::Data) => Some(1),
        }
    }

    fn then(mut self, op: Op) -> Program {
        self.ops.push(op);
        self
    }
}
