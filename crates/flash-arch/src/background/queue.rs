//! The queue of work that no client waits for.
//!
//! Workers submit files that are to be compressed or digested, without a lock and without a system call that could sleep. What finds too
//! many others waiting is dropped: the next request for the file asks again. What does the work is not known here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use flash_core::file::background_work::BackgroundWork;
use flash_os::mpsc;
use flash_os::semaphore::Semaphore;
use parking_lot::Mutex;

#[derive(Default)]
pub(crate) struct BackgroundQueue {
    submissions: mpsc::Queue<BackgroundWork>,
    /// Submissions that no thread has begun yet.
    waiting: AtomicUsize,
    /// Posted once for each submission.
    pub(crate) work: Semaphore,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    queue: VecDeque<BackgroundWork>,
    /// What the threads are doing.
    under_way: Vec<BackgroundWork>,
    threads: usize,
}

/// One more is dropped. It bounds what a client can have done by requests for many files.
const QUEUE_MAX: usize = 256;

impl BackgroundQueue {
    /// Has it done, unless too many wait. Never waits.
    pub(crate) fn submit(&self, wanted: BackgroundWork) {
        if self.waiting.load(Ordering::Relaxed) < QUEUE_MAX {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            self.submissions.push(wanted);
            self.work.post();
        }
    }

    /// What of this kind is to be done next. What another thread is doing is not done again.
    pub(crate) fn begin(&self, is_of_kind: impl Fn(&BackgroundWork) -> bool) -> Option<BackgroundWork> {
        let mut state = self.state.lock();
        let QueueState { queue, under_way, .. } = &mut *state;
        queue.extend(self.submissions.drain());
        while let Some(at) = queue.iter().position(&is_of_kind) {
            let wanted = queue.remove(at)?;
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            if !under_way.contains(&wanted) {
                under_way.push(wanted.clone());
                return Some(wanted);
            }
        }
        None
    }

    pub(crate) fn end(&self, wanted: &BackgroundWork) {
        self.state.lock().under_way.retain(|other| other != wanted);
    }

    /// Counts one more thread, if there may be one and there is work for it.
    pub(crate) fn add_thread(&self, threads_max: usize) -> bool {
        let mut state = self.state.lock();
        let is_added = state.threads == 0 || (state.threads < threads_max && !state.queue.is_empty());
        state.threads += usize::from(is_added);
        is_added
    }

    /// Whether a thread that was idle may end. The first one stays.
    pub(crate) fn remove_thread(&self) -> bool {
        let mut state = self.state.lock();
        let is_removed = state.threads > 1;
        state.threads -= usize::from(is_removed);
        is_removed
    }

    pub(crate) fn has_thread(&self) -> bool {
        self.state.lock().threads > 0
    }

    /// A thread that was counted could not be started.
    pub(crate) fn thread_failed(&self) {
        self.state.lock().threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use flash_core::file::compression::Compression;
    use flash_core::file::digest::Digest;
    use flash_core::path::SitePath;
    use flash_core::site::id::SiteId;
    use flash_http::negotiate::Coding;

    use super::*;

    fn wanted(number: usize) -> BackgroundWork {
        let path = SitePath::parse(format!("/{number}").as_bytes()).unwrap().into_owned();
        BackgroundWork::Compression(Compression { site: SiteId(0), path, coding: Coding::Br })
    }

    #[test]
    fn a_flood_of_files_is_bounded_and_what_follows_is_taken_again() {
        let queue = BackgroundQueue::default();
        (0..10_000).for_each(|number| queue.submit(wanted(number)));
        let begun = std::iter::from_fn(|| queue.begin(|_| true)).count();
        assert_eq!(begun, QUEUE_MAX);
        queue.submit(wanted(20_000));
        assert_eq!(queue.begin(|_| true), Some(wanted(20_000)));
    }

    #[test]
    fn what_is_under_way_is_not_begun_again() {
        let queue = BackgroundQueue::default();
        for number in [1, 1, 2] {
            queue.submit(wanted(number));
        }
        assert_eq!(queue.begin(|_| true), Some(wanted(1)));
        assert_eq!(queue.begin(|_| true), Some(wanted(2)));
        assert_eq!(queue.begin(|_| true), None);
        queue.end(&wanted(1));
        queue.submit(wanted(1));
        assert_eq!(queue.begin(|_| true), Some(wanted(1)), "the file may have changed");
    }

    #[test]
    fn what_is_short_does_not_wait_for_what_is_long() {
        let queue = BackgroundQueue::default();
        let path = SitePath::parse(b"/a.iso").unwrap().into_owned();
        let long = BackgroundWork::Digest(Digest { site: SiteId(0), path });
        [long.clone(), wanted(1), wanted(2)].into_iter().for_each(|work| queue.submit(work));
        let is_short = |work: &BackgroundWork| matches!(work, BackgroundWork::Compression(_));
        assert_eq!([(); 3].map(|()| queue.begin(is_short)), [Some(wanted(1)), Some(wanted(2)), None]);
        assert_eq!(queue.begin(|_| true), Some(long));
    }

    #[test]
    fn another_thread_comes_with_work_for_it_and_the_first_one_stays() {
        let queue = BackgroundQueue::default();
        assert!(queue.add_thread(2), "the first");
        assert!(!queue.add_thread(2), "there is no work");
        (0..3).for_each(|number| queue.submit(wanted(number)));
        assert!(queue.begin(|_| true).is_some() && queue.add_thread(2) && !queue.add_thread(2));
        assert!(queue.remove_thread() && !queue.remove_thread());
    }
}
