//! The processor time of a thread or a process, as others can read it: it tells one that runs from one that waits.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::system;

/// The clock of a thread of this process, or of another process. It may outlive both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuClock(i32);

/// A clock that is one thing's now and another's later.
#[derive(Debug)]
pub struct CurrentClock(AtomicI32);

impl CurrentClock {
    pub fn new(clock: CpuClock) -> Self {
        Self(AtomicI32::new(clock.0))
    }

    pub fn set(&self, clock: CpuClock) {
        self.0.store(clock.0, Ordering::Relaxed);
    }

    pub fn get(&self) -> CpuClock {
        CpuClock(self.0.load(Ordering::Relaxed))
    }
}

impl CpuClock {
    pub fn of_this_thread() -> Self {
        Self(system::cpu_clock::of_this_thread() as i32)
    }

    /// The clock of all threads of a process together.
    pub fn of_process(pid: u32) -> Self {
        Self(system::cpu_clock::of_process(pid) as i32)
    }

    /// Nanoseconds of processor time since the start. `None` if the thread or the process has ended.
    pub fn ns(self) -> Option<u64> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid place to write to. The clock of an ended thread is an error.
        let result = unsafe { libc::clock_gettime(self.0 as libc::clockid_t, &mut time) };
        (result == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// Whether the thread, or a thread of the process, runs or waits for a processor. It is not in a call that sleeps
    /// then. False if /proc cannot be read, as in a sandbox.
    pub fn is_runnable(self) -> bool {
        system::cpu_clock::is_runnable(self.0 as libc::clockid_t)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_process_has_a_clock_until_it_ends() {
        let own = CpuClock::of_process(std::process::id());
        let clock = CurrentClock::new(CpuClock::of_this_thread());
        assert!(clock.get().ns().unwrap() <= own.ns().unwrap());
        clock.set(own);
        assert_eq!(clock.get(), own);
        thread::sleep(Duration::from_millis(20));
        assert!(own.is_runnable(), "this thread runs, and the first one waits for it");
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let clock = CpuClock::of_process(child.id());
        assert!(clock.ns().is_some() && own.ns().is_some());
        while clock.is_runnable() {
            // It has not come to its sleep.
            thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(clock.ns(), None);
    }

    #[test]
    fn a_thread_that_runs_moves_its_clock_and_one_that_waits_does_not() {
        let (tell, told) = channel();
        let (let_go, wait) = channel();
        let thread = thread::spawn(move || {
            tell.send(CpuClock::of_this_thread()).unwrap();
            wait.recv().unwrap();
            let busy_until = Instant::now() + Duration::from_millis(50);
            while Instant::now() < busy_until {}
            tell.send(CpuClock::of_this_thread()).unwrap();
            wait.recv().unwrap();
        });
        let clock = told.recv().unwrap();
        thread::sleep(Duration::from_millis(20));
        let asleep_ns = clock.ns().unwrap();
        thread::sleep(Duration::from_millis(20));
        assert_eq!(clock.ns(), Some(asleep_ns));
        assert!(!clock.is_runnable());
        assert!(CpuClock::of_this_thread().is_runnable());
        let_go.send(()).unwrap();
        assert_eq!(told.recv().unwrap(), clock);
        assert!(clock.ns().unwrap() > asleep_ns);
        let_go.send(()).unwrap();
        thread.join().unwrap();
    }
}
