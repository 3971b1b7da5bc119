//! Looks up the paths that the predecessor was asked for most often, before this server says that it is ready.
//!
//! So its first requests find their files in the cache. Each architecture has the disk asked as it does later: helpers, or a thread
//! that waits. The server waits for the look-ups for a second at most. Those that hang end, or do not, without it.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use flash_core::ExchangeId;
use flash_core::job::Job;
use flash_process::HotPath;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::completion_queue::{CompletionQueue, Waiter};
use crate::fair_queue::ClientNetwork;
use crate::helpers::Helpers;
use crate::server_state::{HOT_PATHS_MAX, ServerState};

const PATIENCE: Duration = Duration::from_secs(1);
/// So many look-ups are under way. If they hang, most helpers are left for requests.
const AT_ONCE: usize = 8;

fn jobs(shared: &ServerState, hot: Vec<HotPath>) -> impl Iterator<Item = Job> + use<> {
    let configuration = shared.configuration();
    let look = |HotPath { host, path }: HotPath| configuration.server.first_look(&host, &path);
    let all: Vec<Job> = hot.into_iter().take(HOT_PATHS_MAX).filter_map(look).map(Job::Find).collect();
    all.into_iter()
}

/// Has helpers look the paths up.
pub(crate) fn with_helpers(shared: &ServerState, helpers: &Helpers, hot: Vec<HotPath>) {
    let Ok(completions) = CompletionQueue::new().map(Arc::new) else { return };
    let give_up = Instant::now() + PATIENCE;
    let mut jobs = jobs(shared, hot);
    let mut under_way = 0;
    loop {
        for job in jobs.by_ref().take(AT_ONCE - under_way) {
            let completions = Arc::clone(&completions);
            let (exchange, client) = (ExchangeId::default(), ClientNetwork::default());
            let waiter = Waiter { completions, token: 0, exchange, client };
            under_way += usize::from(helpers.submit(job, Some(waiter)).is_ok());
        }
        let left = give_up.saturating_duration_since(Instant::now());
        if under_way == 0 || left.is_zero() {
            return;
        }
        let mut polled = [PollFd::new(completions.waker(), PollFlags::IN)];
        let _ = poll(&mut polled, Timespec::try_from(left).ok().as_ref());
        // Before the queue is looked at, so that no result is missed.
        completions.waker().drain();
        under_way -= completions.drain().count();
    }
}

/// Has a thread of its own look the paths up.
pub(crate) fn with_a_thread(shared: &Arc<ServerState>, hot: Vec<HotPath>) {
    if hot.is_empty() {
        return;
    }
    let (give_up, jobs) = (Instant::now() + PATIENCE, jobs(shared, hot));
    let ((ended, end), shared) = (sync_channel::<()>(1), Arc::clone(shared));
    let look = move || {
        let _ended = ended;
        for job in jobs.take_while(|_| Instant::now() < give_up) {
            shared.run(&job);
        }
    };
    if thread::Builder::new().name("warm-up".into()).spawn(look).is_ok() {
        // It fails when the thread has ended.
        let _ = end.recv_timeout(PATIENCE);
    }
}
