//! Processors: which are the server's, which the clients'. Neither disturbs the other.

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
