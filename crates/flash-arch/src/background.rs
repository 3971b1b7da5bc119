//! The threads that compress and digest files at the lowest priority, so that requests for other files go first.
//!
//! Which files these are, and where the results go, is not decided here.

pub(crate) mod queue;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Weak};
use std::thread;
use std::time::Duration;

use flash_core::file::background_work::BackgroundWork;
use flash_core::file::compressed::CompressionResult;
use flash_core::file::compression::Compression;
use flash_core::file::digest::Digest;
use flash_core::record::counters::Count;
use flash_os::{allocator, sched};

use crate::clock::Clock;
use crate::limits::HELPER_NICE;
use crate::server_state::ServerState;

/// A share of the processors is enough, because each file is done once.
static THREADS: LazyLock<usize> = LazyLock::new(|| {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    (processors / 4).clamp(1, 4)
});
/// Every thread but the first ends when it was idle for so long.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Encoders of Brotli have tables on the stack.
const STACK_BYTES: usize = 1 << 20;

/// Starts the first thread, if a site needs one and there is none yet. It ends with the state.
pub(crate) fn start(shared: &Arc<ServerState>) -> io::Result<()> {
    let is_needed = shared.disk.has_background_work() && !shared.background.has_thread();
    if is_needed { spawn(shared) } else { Ok(()) }
}

/// Starts a thread, if there may be one more.
fn spawn(shared: &Arc<ServerState>) -> io::Result<()> {
    if !shared.background.add_thread(*THREADS) {
        return Ok(());
    }
    let state = Arc::downgrade(shared);
    let builder = thread::Builder::new().name("background".into()).stack_size(STACK_BYTES);
    let spawned = builder.spawn(move || work(&state)).map(drop);
    if spawned.is_err() {
        shared.background.thread_failed();
    }
    spawned
}

/// The body of a thread.
fn work(state: &Weak<ServerState>) {
    // On Linux this sets the priority of this thread alone.
    let _ = rustix::process::nice(HELPER_NICE);
    sched::read_last();
    loop {
        let Some(shared) = state.upgrade() else { return };
        if shared.background.work.wait(IDLE_MAX) {
            if let Some(wanted) = shared.background.begin() {
                // If it fails, this thread does the rest.
                let _ = spawn(&shared);
                perform(&shared, &wanted);
            }
        } else {
            allocator::collect();
            if shared.background.remove_thread() {
                return;
            }
        }
    }
}

fn perform(shared: &Arc<ServerState>, wanted: &BackgroundWork) {
    match wanted {
        BackgroundWork::Compression(wanted) => compress(shared, wanted),
        BackgroundWork::Digest(wanted) => digest(shared, wanted),
    }
    shared.background.end(wanted);
}

fn compress(shared: &ServerState, wanted: &Compression) {
    let now = Clock::new().now;
    // For this call, which may last: a reload need not wait for it.
    let configuration = shared.configuration().clone();
    let Some(file) = configuration.server.to_compress(wanted, &now) else { return };
    let compress = AssertUnwindSafe(|| shared.disk.compress(wanted, &file));
    let result = catch_unwind(compress).unwrap_or_else(|panic| {
        shared.panicked(&*panic);
        CompressionResult::Failed
    });
    // Before clients can see the result: who has got it finds it counted.
    if !matches!(result, CompressionResult::Failed) {
        shared.metrics.add(Count::Compressed, 1);
    }
    configuration.server.cache_compressed(wanted, &file, &result, now.ms());
}

fn digest(shared: &Arc<ServerState>, wanted: &Digest) {
    let now = Clock::new().now;
    let is_long = !wanted.is_short();
    // A large file takes minutes, and other files do not wait for that.
    let mut goes_on = || {
        if is_long {
            if let Some(short) = shared.background.begin_short() {
                perform(shared, &short);
            }
            let _ = spawn(shared);
        }
        !shared.is_draining()
    };
    // Nor does a reload: each time it is the present configuration.
    let files = shared.configuration().server.to_digest(wanted, &now);
    for file in files {
        let digest = || shared.disk.digested(wanted.site, &file, &mut goes_on);
        match catch_unwind(AssertUnwindSafe(digest)) {
            Ok(None) => {}
            Ok(Some((file, is_read))) => {
                shared.metrics.add(Count::Digested, is_read.into());
                shared.configuration().server.cache_digested(wanted, Arc::new(file));
            }
            Err(panic) => shared.panicked(&*panic),
        }
    }
}
