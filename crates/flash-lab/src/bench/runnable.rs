//! How many of a server's threads want a processor at the same time. This is the burstiness that the scheduler sees in servers
//! with a process or a thread for each connection (Ruan and Pai 2006, Figure 14).

use std::collections::BTreeMap;
use std::fs;

use rustix::process::Pid;

/// Samples: how often so many threads were runnable.
#[derive(Debug, Default)]
pub(super) struct Runnable {
    samples: BTreeMap<u64, u64>,
}

impl Runnable {
    /// Counts those that run or wait for a processor now.
    pub(super) fn look(&mut self, pids: &[Pid]) {
        let runnable = pids.iter().flat_map(|pid| threads(*pid)).filter(|state| *state == 'R').count();
        *self.samples.entry(runnable as u64).or_default() += 1;
    }

    pub(super) fn samples(&self) -> Vec<(f64, u64)> {
        self.samples.iter().map(|(runnable, count)| (*runnable as f64, *count)).collect()
    }
}

/// The states of a process's threads; none of one that is gone.
fn threads(pid: Pid) -> Vec<char> {
    let folder = format!("/proc/{}/task", pid.as_raw_nonzero());
    let tasks = fs::read_dir(folder).into_iter().flatten().flatten();
    tasks.filter_map(|task| state(&fs::read_to_string(task.path().join("stat")).ok()?)).collect()
}

/// The third field; the second is a name in parentheses that may hold anything.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_computes_is_runnable() {
        let mut runnable = Runnable::default();
        // This thread reads its own state, so it runs.
        runnable.look(&[rustix::process::getpid()]);
        let samples = runnable.samples();
        assert!(samples.len() == 1 && samples[0].0 >= 1.0 && samples[0].1 == 1, "{samples:?}");
        assert_eq!(state("7 (a) R (b) S 3 7"), Some('S'));
    }
}
