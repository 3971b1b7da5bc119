//! *sped*: a single process, event-driven. The loop does each job itself, and all its connections wait meanwhile.

use std::io;
use std::sync::Arc;

use flash_core::ExchangeId;
use flash_core::job::{Job, Outcome};

use flash_observe::metrics::LoopMetrics;

use crate::blocking_call;
use crate::dispatch::Dispatch;
use crate::fair_queue::ClientNetwork;
use crate::loops;
use crate::poller::readiness::ReadinessPoller;
use crate::server_state::ServerState;
use crate::service::Startup;

pub(crate) struct Inline(pub(crate) Arc<ServerState>);

impl Dispatch for Inline {
    fn dispatch(
        &mut self,
        job: Job,
        _: u64,
        _: ExchangeId,
        _: ClientNetwork,
        metrics: &LoopMetrics,
    ) -> Option<Outcome> {
        Some(metrics.watch_blocking(|| self.0.run(&job), || blocking_call::of_job(&job)))
    }
}

pub(crate) fn serve(loops: usize, startup: Startup<'_>) -> io::Result<()> {
    let mut service = startup.begin(|_| Ok(()))?;
    service.warm_up();
    let shared = Arc::clone(&service.shared);
    loops::serve::<ReadinessPoller, _>(loops, service, |_| Inline(Arc::clone(&shared)))
}
