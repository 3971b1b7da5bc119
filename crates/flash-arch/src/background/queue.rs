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
    compressions: AtomicUsize,
    digests: AtomicUsize,
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

/// One more of a kind is dropped. It bounds what a client can have done by requests for many files.
const QUEUE_MAX: usize = 256;

impl BackgroundQueue {
    /// Has it done, unless too many wait. Never waits.
    pub(crate) fn submit(&self, wanted: BackgroundWork) {
        let waiting = self.waiting(&wanted);
        if waiting.load(Ordering::Relaxed) < QUEUE_MAX {
            waiting.fetch_add(1, Ordering::Relaxed);
            self.submissions.push(wanted);
            self.work.post();
        }
    }

    /// How many of its kind wait.
    fn waiting(&self, work: &BackgroundWork) -> &AtomicUsize {
        match work {
            BackgroundWork::Compression(_) => &self.compressions,
            BackgroundWork::Digest(_) => &self.digests,
        }
    }

    /// What is to be done next. What waits already, or is being done, is not done again.
    pub(crate) fn begin(&self) -> Option<BackgroundWork> {
        self.take(|_| Some(0))
    }

    /// What is short, for a thread that is doing something long.
    pub(crate) fn begin_short(&self) -> Option<BackgroundWork> {
        self.take(|queue| queue.iter().position(BackgroundWork::is_short))
    }

    fn take(&self, next: impl Fn(&VecDeque<BackgroundWork>) -> Option<usize>) -> Option<BackgroundWork> {
        let mut state = self.state.lock();
        let QueueState { queue, under_way, .. } = &mut *state;
        let count_out = |work: &BackgroundWork| self.waiting(work).fetch_sub(1, Ordering::Relaxed);
        for wanted in self.submissions.drain() {
            if queue.contains(&wanted) || under_way.contains(&wanted) {
                count_out(&wanted);
            } else {
                queue.push_back(wanted);
            }
        }
        let wanted = queue.remove(next(queue)?)?;
        count_out(&wanted);
        under_way.push(wanted.clone());
        Some(wanted)
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
    use std::sync::Arc;

    use flash_core::cache::memory_budget::BudgetedBytes;
    use flash_core::file::compressed::Compressed;
    use flash_core::file::compression::Compression;
    use flash_core::file::digest::Digest;
    use flash_core::file::entry::{Entry, Resource, Variants};
    use flash_core::file::header::HeaderTemplate;
    use flash_core::file::validators::ReprDigest;
    use flash_core::file::{Content, File, Stamp};
    use flash_core::path::SitePath;
    use flash_core::site::id::SiteId;
    use flash_http::media;
    use flash_http::negotiate::{Coding, CodingSet};

    use super::*;

    fn path(number: usize) -> SitePath<'static> {
        SitePath::parse(format!("/{number}").as_bytes()).unwrap().into_owned()
    }

    fn wanted(number: usize) -> BackgroundWork {
        BackgroundWork::Compression(Compression { site: SiteId(0), path: path(number), coding: Coding::Br })
    }

    /// Of a file of this size.
    fn digest(number: usize, bytes: u64) -> BackgroundWork {
        let stamp = Stamp { size: bytes, ..Stamp::default() };
        let content = Content::Memory(BudgetedBytes::from(Vec::new()).into());
        let template = (&HeaderTemplate::default(), None);
        let file = File::new(stamp, media::of(b"a.iso"), None, false, template, content);
        let identity = Arc::new(File { repr_digest: ReprDigest::Unknown, ..file });
        let (coded, compressed) = (Vec::new(), Compressed::default());
        let variants = Variants { identity, coded, looked_for: CodingSet::ALL, compressed };
        let entry = Arc::new(Entry::new(Resource::File(variants), 0));
        BackgroundWork::Digest(Digest { site: SiteId(0), path: path(number), entry })
    }

    fn begin_all(queue: &BackgroundQueue) -> Vec<BackgroundWork> {
        std::iter::from_fn(|| queue.begin()).collect()
    }

    #[test]
    fn a_flood_of_files_is_bounded_and_what_follows_is_taken_again() {
        let queue = BackgroundQueue::default();
        (0..10_000).for_each(|number| queue.submit(wanted(number)));
        assert_eq!(begin_all(&queue).len(), QUEUE_MAX);
        queue.submit(wanted(20_000));
        assert_eq!(queue.begin(), Some(wanted(20_000)));
    }

    #[test]
    fn a_flood_of_digests_drops_no_compression() {
        let queue = BackgroundQueue::default();
        (0..10_000).for_each(|number| queue.submit(digest(number, 1)));
        queue.submit(wanted(1));
        let begun = begin_all(&queue);
        assert!(begun.len() == QUEUE_MAX + 1 && begun.contains(&wanted(1)));
    }

    #[test]
    fn what_waits_or_is_under_way_is_not_begun_again() {
        let queue = BackgroundQueue::default();
        for number in [1, 1, 2] {
            queue.submit(wanted(number));
        }
        assert_eq!(begin_all(&queue), [wanted(1), wanted(2)]);
        queue.end(&wanted(1));
        queue.submit(wanted(1));
        assert_eq!(queue.begin(), Some(wanted(1)), "the file may have changed");
    }

    #[test]
    fn what_is_asked_for_again_and_again_takes_one_place() {
        let queue = BackgroundQueue::default();
        let long = digest(0, 1 << 40);
        queue.submit(long.clone());
        assert_eq!(queue.begin(), Some(long.clone()));
        for _ in 0..3 * QUEUE_MAX {
            queue.submit(long.clone());
            assert_eq!(queue.begin_short(), None);
        }
        queue.submit(digest(1, 1));
        assert_eq!(queue.begin_short(), Some(digest(1, 1)));
    }

    #[test]
    fn what_is_short_does_not_wait_for_what_is_long() {
        let queue = BackgroundQueue::default();
        let (long, short) = (digest(0, 1 << 40), digest(1, 1 << 20));
        [&long, &wanted(2), &short].into_iter().for_each(|work| queue.submit(work.clone()));
        assert_eq!([(); 3].map(|()| queue.begin_short()), [Some(wanted(2)), Some(short.clone()), None]);
        queue.submit(wanted(3));
        assert_eq!(begin_all(&queue), [long, wanted(3)], "nor the other way round");
    }

    #[test]
    fn another_thread_comes_with_work_for_it_and_the_first_one_stays() {
        let queue = BackgroundQueue::default();
        assert!(queue.add_thread(2), "the first");
        assert!(!queue.add_thread(2), "there is no work");
        (0..3).for_each(|number| queue.submit(wanted(number)));
        assert!(queue.begin().is_some() && queue.add_thread(2) && !queue.add_thread(2));
        assert!(queue.remove_thread() && !queue.remove_thread());
    }
}
