//! The kernel stacks of one loop's sleeps, once it has slept outside its wait.
//!
//! A recorder that is attached to a thread makes each of its waits for events a microsecond longer, even while it is
//! disabled. So a loop that never blocks has none. The first block attaches it; [`IDLE_MAX`] without a block detaches it.

use std::io;
use std::time::{Duration, Instant};

use flash_os::perf_event::{Begin, Sleep, SleepRecorder, THIS_THREAD};
use parking_lot::Mutex;

/// Only the loop's own thread uses it, so its lock is always free.
#[derive(Debug, Default)]
pub(super) struct LoopRecorder(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// The loop has not slept.
    #[default]
    Detached,
    Attached {
        recorder: Box<SleepRecorder>,
        /// Within a section that is watched; sections may lie within each other.
        sections: u32,
        slept_at: Instant,
    },
    /// The kernel does not allow it, which does not change.
    Refused,
}

/// For the stacks of one turn.
const RING_PAGES: usize = 8;
const IDLE_MAX: Duration = Duration::from_secs(600);

impl LoopRecorder {
    /// A section begins in which the loop shall not sleep.
    pub(super) fn enter(&self) {
        if let State::Attached { recorder, sections, .. } = &mut *self.0.lock() {
            *sections += 1;
            if *sections == 1 {
                recorder.enable();
            }
        }
    }

    /// The section ends.
    pub(super) fn leave(&self) {
        if let State::Attached { recorder, sections, .. } = &mut *self.0.lock() {
            // It may have been attached within the section.
            if *sections == 1 {
                recorder.disable();
            }
            *sections = sections.saturating_sub(1);
        }
    }

    /// The sleeps since the last time.
    pub(super) fn take(&self, now: Instant) -> Vec<Sleep> {
        let mut sleeps = Vec::new();
        if let State::Attached { recorder, slept_at, .. } = &mut *self.0.lock() {
            recorder.read(&mut |sleep| sleeps.push(sleep));
            *slept_at = now;
        }
        sleeps.retain(|sleep| !sleep.preempted);
        sleeps
    }

    /// Attaches to the thread that calls, if that was not tried before.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn attach(&self, now: Instant) -> io::Result<()> {
        let mut state = self.0.lock();
        if !matches!(*state, State::Detached) {
            return Ok(());
        }
        match SleepRecorder::open(THIS_THREAD, RING_PAGES, Begin::Disabled) {
            Ok(recorder) => {
                *state = State::Attached { recorder: Box::new(recorder), sections: 0, slept_at: now };
                Ok(())
            }
            Err(error) => {
                *state = State::Refused;
                Err(error)
            }
        }
    }

    /// Detaches, if the loop has not slept for long.
    pub(super) fn detach_idle(&self, now: Instant) {
        let mut state = self.0.lock();
        if matches!(&*state, State::Attached { slept_at, .. } if now.duration_since(*slept_at) > IDLE_MAX) {
            *state = State::Detached;
        }
    }
}
