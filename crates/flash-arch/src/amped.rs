//! *amped*: event-driven, with helpers. The loop does each job that need not wait, and hands over only the rest.
//! *uring* is the same with another poller.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use flash_core::ExchangeId;
use flash_core::experiments::Offload;
use flash_core::job::{Done, Job, Outcome};

use flash_observe::metrics::LoopMetrics;

use crate::blocking_call;
use crate::clock::server_us;
use crate::completion_queue::{CompletionQueue, Waiter};
use crate::dispatch::Dispatch;
use crate::fair_queue::ClientNetwork;
use crate::helpers::{HelperLimits, Helpers};
use crate::loops;
use crate::poller::Poller;
use crate::server_state::{ServerParts, ServerState};
use crate::service::Startup;
use crate::service::warm_up;

pub(crate) struct Asymmetric {
    pub(crate) shared: Arc<ServerState>,
    pub(crate) helpers: Arc<Helpers>,
    pub(crate) completions: Arc<CompletionQueue>,
}

impl Dispatch for Asymmetric {
    fn dispatch(
        &mut self,
        job: Job,
        token: u64,
        exchange: ExchangeId,
        client: ClientNetwork,
        metrics: &LoopMetrics,
    ) -> Option<Outcome> {
        let shared = &self.shared;
        let done = metrics.watch_blocking(|| self.without_helpers(&job), || blocking_call::of_job(&job));
        if let Some(outcome) = done {
            shared.configuration().server.cache_result(&job, &outcome.done);
            if let (Job::Load(load), Done::Window(window)) = (&job, &outcome.done)
                && let Some(ahead) = load.read_ahead(window)
            {
                self.helpers.submit_if_idle(Job::ReadAhead(ahead));
            }
            return Some(outcome);
        }
        let now_ms = server_us(Instant::now()) / 1000;
        let find = match &job {
            Job::Find(find) => Some(find.clone()),
            _ => None,
        };
        let revalidate_ms = shared.configuration().server.settings.revalidate_ms;
        if let Some(known) = find.as_ref().and_then(|find| find.serves_meanwhile(now_ms, revalidate_ms)) {
            if known.age_ms(now_ms) < revalidate_ms {
                self.helpers.submit_if_idle(job);
            } else {
                // If the look is refused, the entry is soon too old, and a request waits for the next look.
                let _ = self.helpers.submit(job, None);
            }
            return Some(Done::Found(Arc::clone(known)).into());
        }
        let waiter = Waiter { completions: Arc::clone(&self.completions), token, exchange, client };
        let failure = self.helpers.submit(job, Some(waiter)).err()?.failure();
        Some(find.map_or(Done::Failed(failure), |find| find.failed(failure)).into())
    }
}

impl Asymmetric {
    fn without_helpers(&self, job: &Job) -> Option<Outcome> {
        match self.shared.disk.experiments().offload {
            Offload::NotOpening if matches!(job, Job::Find(_)) => Some(self.shared.disk.run(job)),
            Offload::Needed | Offload::NotOpening => self.shared.disk.try_now(job),
            Offload::Always => None,
        }
    }
}

pub(crate) fn serve<P: Poller>(loops: usize, helpers: HelperLimits, startup: Startup<'_>) -> io::Result<()> {
    let mut service = startup.begin(ServerParts::leave_to_helpers)?;
    let shared = Arc::clone(&service.shared);
    let helpers = Helpers::start(helpers, Arc::clone(&shared))?;
    warm_up::with_helpers(&shared, &helpers, service.take_hot_paths());
    loops::serve::<P, _>(loops, service, |completions| Asymmetric {
        shared: Arc::clone(&shared),
        helpers: Arc::clone(&helpers),
        completions,
    })
}

#[cfg(test)]
mod tests;
