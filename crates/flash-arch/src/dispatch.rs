//! What a loop or a stage does with a job: wait for the disk itself, or leave the job to helpers.

use flash_core::ExchangeId;
use flash_core::job::{Job, Outcome};
use flash_observe::metrics::LoopMetrics;

use crate::fair_queue::ClientNetwork;

/// Decides what does a job. This is the whole difference between the architectures that have loops.
pub(crate) trait Dispatch {
    /// Does the job now, or has its result pushed to the completion queue under `token` and `exchange`. The helpers'
    /// queue is fair to each `client`. `metrics` counts a sleep of the loop.
    fn dispatch(
        &mut self,
        job: Job,
        token: u64,
        exchange: ExchangeId,
        client: ClientNetwork,
        metrics: &LoopMetrics,
    ) -> Option<Outcome>;
}
