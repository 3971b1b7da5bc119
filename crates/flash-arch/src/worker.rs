//! The state that each loop and each blocking worker passes to the request path: a clock, buffers, metrics.

use std::sync::Arc;

use flash_core::buffer_pool::BufferPool;
use flash_core::local::LocalCache;
use flash_core::{Context, Release, Tally, UpstreamError};
use flash_observe::AccessLog;
use flash_observe::metrics::LoopMetrics;
use flash_os::allocator;

use crate::clock::Clock;
use crate::server_state::ServerState;

pub(crate) struct Worker {
    pub(crate) shared: Arc<ServerState>,
    pub(crate) clock: Clock,
    metrics: Arc<LoopMetrics>,
    local: LocalCache,
    buffers: BufferPool,
    tally: Tally,
    access_log: Option<AccessLog>,
    /// Log lines wait here, because another thread held the log's buffer.
    unreported: bool,
}

impl Worker {
    pub(crate) fn new(shared: Arc<ServerState>, local: LocalCache) -> Self {
        let access_log = shared.access_log.clone();
        let metrics = shared.metrics.loop_metrics(shared.error_log.clone());
        Self {
            shared,
            clock: Clock::new(),
            metrics,
            local,
            buffers: BufferPool::default(),
            tally: Tally::default(),
            access_log,
            unreported: false,
        }
    }

    pub(crate) fn cx(&mut self) -> Context<'_> {
        Context {
            server: &self.shared.server,
            now: &self.clock.now,
            local: &mut self.local,
            buffers: &mut self.buffers,
            tally: &mut self.tally,
            draining: self.shared.is_draining(),
        }
    }

    /// Frees the memory that is kept for the next connection.
    pub(crate) fn rest(&mut self) {
        self.buffers = BufferPool::default();
        allocator::collect();
    }

    /// Leaves its metrics to the next worker that starts. So their number does not grow with that of all workers ever.
    pub(crate) fn retire(self) {
        self.shared.metrics.reuse(self.metrics);
    }

    pub(crate) fn metrics(&self) -> &Arc<LoopMetrics> {
        &self.metrics
    }

    /// Adds the tally to the metrics, and passes log records on. Never waits.
    pub(crate) fn report(&mut self) {
        self.metrics.requests.add(std::mem::take(&mut self.tally.responses));
        self.metrics.sent_bytes.add(std::mem::take(&mut self.tally.sent_bytes));
        self.metrics.send_us.add(std::mem::take(&mut self.tally.send_us));
        for UpstreamError { request, reason } in self.tally.upstream_errors.drain(..) {
            self.shared.error_log.log(format_args!("{request}: its program: {reason}"));
        }
        if let Some(log) = &mut self.access_log {
            self.unreported = !log.push(&mut self.tally.records);
        }
    }

    /// Whether finished exchanges have streams to give back.
    pub(crate) fn has_released(&self) -> bool {
        !self.tally.released.is_empty()
    }

    pub(crate) fn released(&mut self) -> std::vec::Drain<'_, Release> {
        self.tally.released.drain(..)
    }

    /// Whether [`Worker::report`] has to be called again soon, even without an event.
    pub(crate) fn has_unreported(&self) -> bool {
        self.unreported
    }
}
