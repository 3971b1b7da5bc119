//! Which of several servers with one folder asks the authority: the one whose name is in a file of the folder. Its clock may differ from
//! the others' by a minute. No lock is used, because a network's filesystem may have none.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::store::Store;

#[derive(Debug)]
pub(crate) struct Lease {
    path: PathBuf,
    own: String,
    /// When this process has last written its name.
    written_at: u64,
    /// It had its name in the file the last time that it looked, some time after it was written.
    is_held: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Holder {
    name: String,
    until: u64,
}

const FOR_S: u64 = 180;
const CLOCKS_DIFFER_S: u64 = 60;
const RENEWED_EACH_S: u64 = 20;
/// Of two that write at the same time, the later one has it. Each waits until the other one must have written, too.
const SETTLED_S: u64 = 2;

impl Lease {
    /// `server` tells one server of this machine from another. The next process of the same server goes on with its lease.
    pub(crate) fn new(store: &Store, server: u64) -> Self {
        let machine = rustix::system::uname();
        let machine = machine.nodename().to_string_lossy();
        let own = format!("{machine} {server:016x}");
        Self { path: store.folder().join("lease"), own, written_at: 0, is_held: false }
    }

    /// Whether this process asks. Called again and again.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub(crate) fn hold(&mut self, store: &Store, clock: &dyn Fn() -> u64) -> io::Result<bool> {
        let now = clock();
        let holder = self.holder().inspect_err(|_| self.is_held = false)?;
        // A time that nobody can have written now is of a clock that was wrong.
        let is_valid = |until| until > now && until <= now + FOR_S + CLOCKS_DIFFER_S;
        match holder {
            Some(holder) if holder.name != self.own && is_valid(holder.until) => {
                self.is_held = false;
                return Ok(false);
            }
            Some(holder) if holder.name == self.own => {
                self.is_held |= now >= self.written_at + SETTLED_S;
                if (self.written_at..self.written_at + RENEWED_EACH_S).contains(&now) {
                    return Ok(self.is_held);
                }
            }
            _ => self.is_held = false,
        }
        store.write_json_for_now(&self.path, &Holder { name: self.own.clone(), until: now + FOR_S })?;
        // Writing may have taken long, and another one may have written meanwhile.
        self.written_at = clock();
        Ok(self.is_held)
    }

    /// Who has it. A file without sense is nobody's.
    fn holder(&self) -> io::Result<Option<Holder>> {
        match Store::read_json(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
            read => read,
        }
    }

    /// As of the last look.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// The next one need not wait.
    pub(crate) fn release(&self) {
        if self.holder().ok().flatten().is_some_and(|holder| holder.name == self.own) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_holds_it_until_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (mut first, mut second) = (Lease::new(&store, 1), Lease::new(&store, 2));
        // Both see that nobody has it, and write.
        assert!(!first.hold(&store, &|| 1000).unwrap());
        fs::remove_file(&first.path).unwrap();
        assert!(!second.hold(&store, &|| 1000).unwrap());
        for now in 1001..1100 {
            assert!(!first.hold(&store, &|| now).unwrap(), "{now}");
            assert_eq!(second.hold(&store, &|| now).unwrap(), now >= 1002, "{now}");
        }
        // The holder is killed.
        let mut held = (1100..2000).filter(|now| first.hold(&store, &|| *now).unwrap());
        let since = held.next().expect("it is held in the end");
        assert!((1200..1300).contains(&since), "{since}");
        assert!(!second.hold(&store, &|| since).unwrap());
        // It ends in order.
        second.release();
        assert!(first.hold(&store, &|| since + 1).unwrap());
        first.release();
        assert!(!second.hold(&store, &|| since + 2).unwrap() && second.hold(&store, &|| since + 4).unwrap());
    }

    #[test]
    fn a_clock_that_was_wrong_and_a_slow_write_mislead_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (mut first, mut second) = (Lease::new(&store, 1), Lease::new(&store, 2));
        // Its clock is decades ahead, and is set right.
        assert!(!first.hold(&store, &|| 4_000_000_000).unwrap());
        assert!(first.hold(&store, &|| 4_000_000_002).unwrap());
        assert!(!second.hold(&store, &|| 1000).unwrap() && second.hold(&store, &|| 1002).unwrap());
        assert!(!first.hold(&store, &|| 1003).unwrap());
        second.release();
        // Its file takes a minute to be written.
        let times = std::cell::Cell::new(2000);
        let slow = || times.replace(times.get() + 60);
        assert!(!first.hold(&store, &slow).unwrap());
        assert!(!first.hold(&store, &|| 2061).unwrap() && first.hold(&store, &|| 2062).unwrap());
        // What cannot be read may be another's.
        fs::remove_file(&first.path).unwrap();
        fs::create_dir(&first.path).unwrap();
        assert!(first.hold(&store, &|| 2063).is_err() && !first.is_held());
    }
}
