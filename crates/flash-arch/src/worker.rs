//! The state that each loop and each blocking worker passes to the request path: a clock, buffers, metrics.

use std::sync::Arc;

use flash_core::cache::local::LocalCache;
use flash_core::connection::buffer_pool::BufferPool;
use flash_core::record::request_id::RequestIds;
use flash_core::{Connection, Context, Drain, Release, Tally, TransportInfo, UpstreamError};
use flash_observe::AccessLogs;
use flash_observe::metrics::LoopMetrics;
use flash_os::{allocator, random};

use crate::clock::Clock;
use crate::server_state::ServerState;
use crate::service::configuration::{Configuration, ConfigurationHandle};

pub(crate) struct Worker {
    pub(crate) shared: Arc<ServerState>,
    configuration: ConfigurationHandle,
    pub(crate) clock: Clock,
    metrics: Arc<LoopMetrics>,
    local: Option<LocalCache>,
    buffers: BufferPool,
    tally: Tally,
    ids: RequestIds,
    access_logs: AccessLogs,
    /// Its part of what the status page tells of the last minute.
    part: usize,
    /// The records before this one are there. Those that wait for their log stay.
    listed: usize,
    /// How the present connection comes to its end while the server goes on.
    pub(crate) drain: Drain,
    /// Log lines wait here, because another thread held the log's buffer.
    unreported: bool,
}

impl Worker {
    /// Without a cache of its own, each look-up is a job.
    pub(crate) fn new(shared: Arc<ServerState>, local: Option<LocalCache>) -> Self {
        let part = shared.slowest.list();
        let metrics = shared.metrics.loop_metrics(shared.error_log.clone());
        Self {
            shared,
            configuration: ConfigurationHandle::empty(),
            clock: Clock::new(),
            metrics,
            local,
            buffers: BufferPool::default(),
            tally: Tally::default(),
            ids: RequestIds::new(random_words()),
            access_logs: AccessLogs::default(),
            part,
            listed: 0,
            drain: Drain::No,
            unreported: false,
        }
    }

    /// Takes the present configuration, if there is another one since the last call. Exchanges that are under way keep their
    /// sites. Returns whether there was.
    #[inline]
    pub(crate) fn refresh(&mut self) -> bool {
        let is_new = self.configuration.refresh(self.shared.present());
        if is_new {
            self.refresh_logs();
        }
        is_new
    }

    fn refresh_logs(&mut self) {
        let logs = &self.configuration.get(self.shared.present()).access_logs;
        if !logs.are_same(&self.access_logs) {
            self.access_logs.clone_from(logs);
        }
    }

    /// A connection that has just been accepted.
    pub(crate) fn connection(&mut self, transport: TransportInfo) -> Connection {
        self.refresh();
        let settings = &self.configuration.get(self.shared.present()).server.settings;
        Connection::new(transport, settings, &self.clock.now)
    }

    /// The configuration that the worker holds.
    pub(crate) fn configuration(&mut self) -> &Configuration {
        self.refresh();
        self.configuration.get(self.shared.present())
    }

    pub(crate) fn cx(&mut self) -> Context<'_> {
        Context {
            server: &self.configuration.get(self.shared.present()).server,
            now: &self.clock.now,
            local: self.local.as_mut(),
            buffers: &mut self.buffers,
            tally: &mut self.tally,
            ids: &mut self.ids,
            drain: match self.shared.drain_state() {
                Drain::No => self.drain,
                drain => drain,
            },
        }
    }

    /// Holds no configuration until the next connection. An idle worker would keep it in memory.
    pub(crate) fn release_configuration(&mut self) {
        self.configuration.release();
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
        let (shard, tally) = (&self.metrics.shard, &mut self.tally);
        tally.counts.drain().for_each(|(what, count)| shard.add(what, count));
        let listed = self.listed.min(tally.records.len());
        let (ended, records) = (&tally.ended[..], &tally.records[listed..]);
        self.shared.top_clients.add(self.part, self.clock.now.unix_ms, ended, records);
        for record in records {
            self.shared.slowest.add(self.part, record);
        }
        for end in tally.ended.drain(..) {
            shard.response(&end);
        }
        for work in self.tally.background.drain(..) {
            self.shared.background.submit(work);
        }
        for UpstreamError { request, reason } in self.tally.upstream_errors.drain(..) {
            self.shared.error_log.log(format_args!("{request}: its program: {reason}"));
        }
        self.unreported = !self.access_logs.push(&mut self.tally.records);
        self.listed = self.tally.records.len();
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

/// For the ids of the worker's requests.
fn random_words() -> [u64; 2] {
    let mut words = [[0; 8]; 2];
    random::fill(words.as_flattened_mut()).expect("the kernel has random bytes");
    words.map(u64::from_ne_bytes)
}
