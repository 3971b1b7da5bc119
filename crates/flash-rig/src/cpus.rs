//! Processors: which are the server's, which the clients'. Neither disturbs the other.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors of a server, and of its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    pub server: Vec<usize>,
    pub client: Vec<usize>,
}

impl Cpus {
    /// The first `server_count` processors that this thread may use are the server's, the rest the clients', who must
    /// be left at least one. To be asked before this thread keeps to some of them.
    ///
    /// # Errors
    /// When the machine has too few.
    pub fn choose(server_count: usize) -> Result<Cpus> {
        let mut server = allowed()?;
        if server_count == 0 || server.len() <= server_count {
            bail!(
                "{server_count} processors for the server and one for its clients are needed; there are {}",
                server.len()
            );
        }
        let client = server.split_off(server_count);
        Ok(Cpus { server, client })
    }

    /// All processors for everybody: where a server is to have all of them, clients take from it.
    ///
    /// # Errors
    /// When the kernel does not say which there are.
    pub fn shared() -> Result<Cpus> {
        let all = allowed()?;
        Ok(Cpus { server: all.clone(), client: all })
    }

    /// What the hypervisor takes from these processors from now on.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn steal(&self) -> Result<Steal> {
        let cpus: BTreeSet<usize> = self.server.iter().chain(&self.client).copied().collect();
        Ok(Steal { since: Instant::now(), before: stolen(&cpus)?, cpus })
    }

    /// Keeps this thread, and the threads and processes that it starts, to the clients' processors.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn keep_to_clients(&self) -> Result<()> {
        pin(&self.client)
    }

    /// Runs `spawn` while this thread is on the server's processors, for a child inherits the place.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn on_server<T>(&self, spawn: impl FnOnce() -> T) -> Result<T> {
        on(&self.server, spawn)
    }

    /// The same on the clients' processors.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn on_clients<T>(&self, spawn: impl FnOnce() -> T) -> Result<T> {
        on(&self.client, spawn)
    }
}

/// Processor time that others on the same host have got, as the hypervisor tells it.
#[derive(Clone, Debug)]
pub struct Steal {
    cpus: BTreeSet<usize>,
    since: Instant,
    before: Duration,
}

impl Steal {
    /// The part of all processor time since the beginning, in percent.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn percent(&self) -> Result<f64> {
        let time = self.since.elapsed().as_secs_f64() * self.cpus.len() as f64;
        Ok(100.0 * (stolen(&self.cpus)?.saturating_sub(self.before)).as_secs_f64() / time)
    }
}

/// What has been taken from these processors since the machine started.
fn stolen(cpus: &BTreeSet<usize>) -> Result<Duration> {
    let stat = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    let ticks: u64 =
        stat.lines().filter_map(stolen_ticks).filter_map(|(cpu, n)| cpus.contains(&cpu).then_some(n)).sum();
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// The number of a processor, and its eighth time: `cpu1 user nice system idle iowait irq softirq steal`.
fn stolen_ticks(line: &str) -> Option<(usize, u64)> {
    let mut fields = line.strip_prefix("cpu")?.split(' ');
    Some((fields.next()?.parse().ok()?, fields.nth(7)?.parse().ok()?))
}

fn on<T>(cpus: &[usize], spawn: impl FnOnce() -> T) -> Result<T> {
    let before = sched_getaffinity(None)?;
    pin(cpus)?;
    let child = spawn();
    sched_setaffinity(None, &before).context("going back to our own processors")?;
    Ok(child)
}

fn allowed() -> Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("asking for the processors")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect())
}

fn pin(cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu);
    }
    sched_setaffinity(None, &set).with_context(|| format!("pinning to processors {cpus:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_get_is_told_for_each_processor() {
        assert_eq!(stolen_ticks("cpu1 10 20 30 40 50 60 70 80 90 100"), Some((1, 80)));
        assert_eq!(stolen_ticks("cpu  10 20 30 40 50 60 70 80 90 100"), None, "all processors together");
        assert_eq!(stolen_ticks("ctxt 10"), None);
        let steal = Cpus::shared().expect("a list").steal().expect("a count");
        std::thread::sleep(Duration::from_millis(20));
        assert!((0.0..=100.0).contains(&steal.percent().expect("a count")));
    }

    #[test]
    fn processors_are_parted_and_a_child_gets_the_servers() {
        let all = allowed().expect("a list");
        assert!(Cpus::choose(all.len()).is_err(), "no processor is left for clients");
        let cpus = match Cpus::choose(1) {
            Ok(cpus) => cpus,
            Err(error) => return eprintln!("NOT TESTED: {error}"),
        };
        assert_eq!(cpus.server.len() + cpus.client.len(), all.len());
        let inside = cpus.on_server(allowed).expect("pinning").expect("a list");
        assert_eq!(inside, cpus.server);
        assert_eq!(cpus.on_clients(allowed).expect("pinning").expect("a list"), cpus.client);
        assert_eq!(allowed().expect("a list"), all);
    }
}
