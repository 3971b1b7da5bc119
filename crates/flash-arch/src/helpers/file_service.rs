//! Helpers for a driver outside this crate: the daemon of `flash helper`. It finds files and loads windows as amped's loops do.
//!
//! The driver has one thread that must not wait. What is asked, and by whom, is not known here.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use flash_core::job::{Job, Outcome};
use flash_core::{ExchangeId, Now, Server};
use flash_disk::Disk;
use flash_observe::ErrorLog;
use flash_observe::metrics::LoopMetrics;
use flash_os::waker::Waker;

use crate::amped::Asymmetric;
use crate::clock::Clock;
use crate::completion_queue::{Completion, CompletionQueue};
use crate::dispatch::Dispatch;
use crate::fair_queue::ClientNetwork;
use crate::helpers::{HelperLimits, Helpers};
use crate::limits::Limits;
use crate::server_state::{ServerParts, ServerState};
use crate::service::configuration::Configuration;
use crate::service::root_watch;

/// Helpers, the disk that they work on, and the results that have come.
pub struct FileService {
    state: Arc<ServerState>,
    /// The daemon never reloads.
    configuration: Arc<Configuration>,
    dispatch: Asymmetric,
    metrics: Arc<LoopMetrics>,
    clock: Clock,
}

impl FileService {
    /// Starts the helpers. To be called by the thread that asks.
    ///
    /// # Errors
    /// If there can be no more threads or descriptors.
    pub fn start(mut parts: ServerParts, helpers: HelperLimits) -> io::Result<Self> {
        parts.leave_to_helpers()?;
        // It has no connections, and nothing to drain.
        let limits = Limits { connections_max: 1, handshakes_max: 100, ..Limits::default() };
        let state = ServerState::new(parts, limits);
        root_watch::start(&state, true, false)?;
        let dispatch = Asymmetric {
            shared: Arc::clone(&state),
            helpers: Helpers::start(helpers, Arc::clone(&state))?,
            completions: Arc::new(CompletionQueue::new()?),
        };
        let metrics = state.metrics.loop_metrics(state.error_log.clone());
        let configuration = Arc::clone(&state.configuration());
        Ok(Self { state, configuration, dispatch, metrics, clock: Clock::new() })
    }

    pub fn disk(&self) -> &Disk {
        &self.state.disk
    }

    pub fn server(&self) -> &Server {
        &self.configuration.server
    }

    pub fn error_log(&self) -> &ErrorLog {
        &self.state.error_log
    }

    /// Reads the time, and returns it.
    pub fn read_clock(&mut self) -> (Instant, Now) {
        (self.clock.read(), self.clock.now)
    }

    /// Does the job at once, or has its result come under `token`. The helpers' queue is fair to each `client`.
    pub fn ask(&mut self, job: Job, token: u64, client: u64) -> Option<Outcome> {
        self.dispatch.dispatch(
            job,
            token,
            ExchangeId::default(),
            ClientNetwork::numbered(client),
            &self.metrics,
        )
    }

    /// As [`FileService::ask`], for a job that is known to make a loop wait.
    ///
    /// # Errors
    /// If the job was refused.
    pub fn ask_helper(&self, job: Job, token: u64, client: u64) -> Result<(), flash_core::job::Failure> {
        let waiter = crate::helpers::Waiter {
            completions: Arc::clone(&self.dispatch.completions),
            token,
            exchange: ExchangeId::default(),
            client: ClientNetwork::numbered(client),
        };
        self.dispatch.helpers.submit(job, Some(waiter)).map_err(|refused| refused.failure())
    }

    /// Becomes readable, as an edge, each time a result has come.
    pub fn waker(&self) -> &Waker {
        self.dispatch.completions.waker()
    }

    /// The results that have come, with their tokens.
    pub fn finished(&self) -> impl Iterator<Item = (u64, Outcome)> + use<> {
        self.dispatch.completions.drain().filter_map(|(token, completion)| match completion {
            Completion::Done(_, outcome) => Some((token, outcome)),
            // This driver opens no upstreams and has no permits.
            Completion::Opened(..) | Completion::WaitingConnection(_) => None,
        })
    }

    /// Logs every counter.
    pub fn log_metrics(&self, state: &str) {
        self.state.log_metrics(state);
    }
}
