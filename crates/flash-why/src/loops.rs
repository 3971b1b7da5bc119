//! Which threads are loops: those whose sleep has several clients wait.
//!
//! A thread is one if it waits for events, or is seen to ask for them. It is none if it is a pool's worker, or if its epoll
//! instance has one client. It is none, too, if other threads are there for that instance. Where calls cannot be seen, an
//! instance that no thread waits in belongs to the threads that always have something to do.

use std::collections::{BTreeSet, HashMap};

use crate::block::{Block, Poller, ThreadTotals};
use crate::instance::{Accepting, has_several_clients, instances};
use crate::proc;
use crate::summary::Weight;

/// A loop that is in trouble blocks in idle ways too, but hardly ever more often than it waits.
const IDLE_PER_WAIT: u64 = 4;
const IDLE_MORE: u64 = 20;
/// A thread that has nothing to do for more than this part of the time is not saturated.
const IDLE_PART: u64 = 10;

/// What is known of threads and of what they wait in.
#[derive(Default)]
pub(crate) struct Loops {
    /// Sleeps for want of work, by thread.
    idle: HashMap<u32, Weight>,
    /// Whether an epoll instance, by process and descriptor, was ever seen with several clients.
    clients: HashMap<(u32, u32), bool>,
    /// Epoll descriptors and the number of rings, by process.
    instances: HashMap<u32, (Vec<u32>, usize)>,
}

/// How a thread was watched.
#[derive(Clone, Copy)]
pub(crate) struct Sight {
    pub(crate) watched_us: u64,
    /// Whether calls are seen, and not only sleeps in them.
    pub(crate) sees_calls: bool,
}

impl Loops {
    pub(crate) fn note(&mut self, block: &Block) {
        if block.cause.is_idle() {
            self.idle.entry(block.thread).or_default().add(block.us);
        }
    }

    /// Looks at what threads wait in, as long as their processes are there.
    pub(crate) fn learn(&mut self, threads: &[ThreadTotals], sight: Sight) {
        let mut accepting = Accepting::default();
        for thread in threads.iter().filter(|thread| thread.is_loop) {
            if let Some(Poller::Epoll(descriptor)) = thread.poller {
                self.look_at(thread, descriptor, &mut accepting);
            }
        }
        if sight.sees_calls {
            return;
        }
        let busy = threads.iter().filter(|thread| self.is_never_idle(thread, sight));
        let busy: HashMap<u32, &ThreadTotals> = busy.map(|thread| (thread.pid, thread)).collect();
        for (pid, thread) in busy {
            let Some((epolls, rings)) = instances(pid) else { continue };
            epolls.iter().for_each(|&descriptor| self.look_at(thread, descriptor, &mut accepting));
            self.instances.insert(pid, (epolls, rings));
        }
    }

    fn look_at(&mut self, thread: &ThreadTotals, descriptor: u32, accepting: &mut Accepting) {
        let several = self.clients.get(&(thread.pid, descriptor)).copied();
        if several == Some(true) {
            return;
        }
        let place = proc::place(thread.pid, thread.thread);
        if let Some(several) = has_several_clients(&place, descriptor, accepting) {
            self.clients.insert((thread.pid, descriptor), several);
        }
    }

    /// Threads that may be loops which have no time to sleep.
    pub(crate) fn undecided(&self, threads: &[ThreadTotals], sight: Sight) -> BTreeSet<u32> {
        let undecided = threads.iter().filter(|thread| self.is_never_idle(thread, sight));
        undecided.map(|thread| thread.thread).collect()
    }

    /// Decides. Threads come in with whether they waited or asked for events.
    pub(crate) fn settle(&mut self, threads: &mut [ThreadTotals], sight: Sight) {
        self.learn(threads, sight);
        let spare = self.with_spare_threads(threads, sight);
        let claimed: BTreeSet<(u32, Poller)> =
            threads.iter().filter_map(|thread| Some((thread.pid, thread.poller?))).collect();
        if !sight.sees_calls {
            self.find_by_what_is_left(threads, &claimed, sight);
        }
        for thread in threads {
            let few_clients = match thread.poller {
                Some(Poller::Epoll(descriptor)) => !self.may_have_several(thread.pid, descriptor),
                _ => false,
            };
            let is_spare = thread.poller.is_some_and(|poller| spare.contains(&(thread.pid, poller)));
            let idle = self.idle.get(&thread.thread).copied().unwrap_or_default();
            let is_worker = idle.count > IDLE_MORE + IDLE_PER_WAIT * thread.waits;
            thread.is_loop &= !few_clients && !is_spare && !is_worker;
        }
    }

    /// Epoll instances of pools that have a spare thread.
    fn with_spare_threads(&self, threads: &[ThreadTotals], sight: Sight) -> BTreeSet<(u32, Poller)> {
        let mut pools: HashMap<(u32, Poller), Pool> = HashMap::new();
        for thread in threads.iter().filter(|thread| thread.is_loop) {
            let Some(poller @ Poller::Epoll(_)) = thread.poller else { continue };
            let pool = pools.entry((thread.pid, poller)).or_default();
            pool.threads += 1;
            pool.wait_us += thread.wait_us;
            pool.asleep_us += thread.wait_us + thread.block_us;
            pool.idle_us += self.idle.get(&thread.thread).map_or(0, |idle| idle.us);
        }
        let spare = pools.into_iter().filter(|(_, pool)| pool.threads > 1 && pool.has_spare(sight));
        spare.map(|(instance, _)| instance).collect()
    }

    /// Of a process that may not be looked into nothing is known, and of one that ended at once, neither.
    fn may_have_several(&self, pid: u32, descriptor: u32) -> bool {
        self.clients.get(&(pid, descriptor)).copied().unwrap_or_else(|| proc::is_there(pid))
    }

    fn is_never_idle(&self, thread: &ThreadTotals, sight: Sight) -> bool {
        let idle = self.idle.get(&thread.thread).copied().unwrap_or_default();
        !thread.is_loop && thread.blocks > 0 && idle.count <= IDLE_MORE && !is_part(idle.us, sight.watched_us)
    }

    /// A saturated loop never sleeps in its instance. So if there are no more threads that always had something to do than
    /// instances in which none was seen, those are loops. If there are more, nobody can tell.
    fn find_by_what_is_left(
        &self,
        threads: &mut [ThreadTotals],
        claimed: &BTreeSet<(u32, Poller)>,
        sight: Sight,
    ) {
        for (&pid, (epolls, rings)) in &self.instances {
            let is_left = |&&epoll: &&u32| {
                self.may_have_several(pid, epoll) && !claimed.contains(&(pid, Poller::Epoll(epoll)))
            };
            // Beside an epoll instance, rings are for other things.
            let left = match epolls.is_empty() {
                true if !claimed.contains(&(pid, Poller::Ring)) => *rings,
                true => 0,
                false => epolls.iter().filter(is_left).count(),
            };
            let of_process =
                |thread: &&mut ThreadTotals| thread.pid == pid && self.is_never_idle(thread, sight);
            let found: Vec<&mut ThreadTotals> = threads.iter_mut().filter(of_process).collect();
            if found.len() <= left {
                found.into_iter().for_each(|thread| thread.is_loop = true);
            }
        }
    }
}

fn is_part(idle_us: u64, of_us: u64) -> bool {
    idle_us * IDLE_PART > of_us
}

/// What the threads of a pool did together.
#[derive(Default)]
struct Pool {
    threads: usize,
    wait_us: u64,
    asleep_us: u64,
    idle_us: u64,
}

impl Pool {
    /// Whether most of the time one of its threads waits, or some have nothing to do. When another one sleeps, those are there
    /// for the clients. So it is in Go's scheduler, and with workers of tokio that are not all busy.
    fn has_spare(&self, sight: Sight) -> bool {
        self.wait_us * 2 > sight.watched_us || is_part(self.idle_us, self.asleep_us)
    }
}

#[cfg(test)]
mod tests;
