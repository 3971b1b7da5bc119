//! Processors: which one is the server's, which the clients', and how much of it a tree of processes has
//! used.

use std::collections::HashMap;
use std::fs;

use anyhow::{Context, Result, bail};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// One processor for the server, another for its clients: neither disturbs the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpus {
    pub(crate) server: usize,
    pub(crate) client: usize,
}

impl Cpus {
    /// The first two processors that this process may use; this process then keeps to the clients'.
    pub(crate) fn choose() -> Result<Cpus> {
        let allowed = sched_getaffinity(None)?;
        let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        let (Some(server), Some(client)) = (cpus.next(), cpus.next()) else {
            bail!("the bench needs two processors: one for the server, one for its clients");
        };
        pin(client)?;
        Ok(Cpus { server, client })
    }

    /// Runs `spawn` while this thread is on the server's processor, for the child inherits the place.
    pub(crate) fn on_server<T>(self, spawn: impl FnOnce() -> T) -> Result<T> {
        pin(self.server)?;
        let child = spawn();
        pin(self.client)?;
        Ok(child)
    }
}

fn pin(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("pinning to processor {cpu}"))
}

/// A process and all its descendants.
pub(crate) fn tree(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut pids = vec![root.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(&pid) = pids.get(next) {
        pids.extend(children.remove(&pid).unwrap_or_default());
        next += 1;
    }
    pids.into_iter().filter_map(Pid::from_raw).collect()
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in parentheses and may hold anything, so count from the last one.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The processor time that every thread of these processes has used, in nanoseconds.
pub(crate) fn nanoseconds(pids: &[Pid]) -> Result<u64> {
    let mut sum = 0;
    for pid in pids {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else { continue };
        for thread in threads.flatten() {
            let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
            let spent = text.split_whitespace().next().and_then(|field| field.parse::<u64>().ok());
            sum += spent.context("this kernel keeps no schedstat")?;
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_tree_holds_the_children() {
        let mut child = Command::new("sleep").arg("5").spawn().expect("sleep exists");
        let pids = tree(rustix::process::getpid());
        assert!(pids.iter().any(|pid| pid.as_raw_nonzero().get() as u32 == child.id()));
        child.kill().and_then(|()| child.wait()).expect("our own child");
    }

    #[test]
    fn our_own_time_grows() {
        let us = [rustix::process::getpid()];
        let before = nanoseconds(&us).expect("schedstat");
        let mut x = 0_u64;
        while nanoseconds(&us).expect("schedstat") < before + 1_000_000 {
            x = std::hint::black_box(x + 1);
        }
    }
}
