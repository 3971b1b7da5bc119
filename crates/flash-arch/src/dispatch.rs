//! What a loop or a stage does with a job: wait for the disk itself, or leave the job to helpers.

use flash_core::ExchangeId;
use flash_core::job::{Job, Outcome};
use flash_observe::metrics::LoopMetrics;

use crate::helpers::Client;

/// What a loop does with a job: the whole difference between the architectures that have loops.
pub(crate) trait Dispatch {
    /// Does the job now, or sees to it that its result comes to the completion queue under `token` and `exchange`. A queue
    /// for helpers is fair to each `client`. A sleep on the way is counted in `metrics`.
    fn dispatch(
        &mut self,
        job: Job,
        token: u64,
        exchange: ExchangeId,
        client: Client,
        metrics: &LoopMetrics,
    ) -> Option<Outcome>;
}
