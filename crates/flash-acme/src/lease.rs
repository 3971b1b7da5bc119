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
    /// If the file cannot be written.
    pub(crate) fn hold(&mut self, store: &Store, now: u64) -> io::Result<bool> {
        let holder: Option<Holder> = Store::read_json(&self.path);
        match holder {
            Some(holder) if holder.name != self.own && now < holder.until => {
                self.is_held = false;
                return Ok(false);
            }
            Some(holder) if holder.name == self.own => {
                self.is_held |= now >= self.written_at + SETTLED_S;
                if now < self.written_at + RENEWED_EACH_S {
                    return Ok(self.is_held);
                }
            }
            _ => self.is_held = false,
        }
        store.write_json(&self.path, &Holder { name: self.own.clone(), until: now + FOR_S })?;
        self.written_at = now;
        Ok(self.is_held)
    }

    /// As of the last look.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// The next one need not wait.
    pub(crate) fn release(&self) {
        let holder: Option<Holder> = Store::read_json(&self.path);
        if holder.is_some_and(|holder| holder.name == self.own) {
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
        assert!(!first.hold(&store, 1000).unwrap());
        fs::remove_file(&first.path).unwrap();
        assert!(!second.hold(&store, 1000).unwrap());
        for now in 1001..1100 {
            assert!(!first.hold(&store, now).unwrap(), "{now}");
            assert_eq!(second.hold(&store, now).unwrap(), now >= 1002, "{now}");
        }
        // The holder is killed.
        let mut held = (1100..2000).filter(|now| first.hold(&store, *now).unwrap());
        let since = held.next().expect("it is held in the end");
        assert!((1200..1300).contains(&since), "{since}");
        assert!(!second.hold(&store, since).unwrap());
        // It ends in order.
        second.release();
        assert!(first.hold(&store, since + 1).unwrap());
        first.release();
        assert!(!second.hold(&store, since + 2).unwrap() && second.hold(&store, since + 4).unwrap());
    }
}
