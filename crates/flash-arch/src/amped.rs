//! *amped*: event-driven, with helpers. The loop does what needs no waiting, and hands over only the rest. *uring* is
//! the same on another port.

use std::io;
use std::sync::Arc;

use flash_core::job::{Done, Find, Job, Outcome};

use flash_observe::ledger::Account;

use crate::accept::Listener;
use crate::culprit;
use crate::event_loop::Dispatch;
use crate::helpers::{HelperLimits, Helpers, Offload, Refusal, Waiter};
use crate::inbox::Inbox;
use crate::port::Port;
use crate::shared::{Parts, Shared};
use crate::{Limits, loops};

pub(crate) struct Asymmetric {
    pub(crate) shared: Arc<Shared>,
    pub(crate) helpers: Arc<Helpers>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) offload: Offload,
}

impl Dispatch for Asymmetric {
    fn dispatch(&mut self, job: Job, token: u64, account: &Account) -> Option<Outcome> {
        let shared = &self.shared;
        let done = account.watch(|| self.without_helpers(&job), || culprit::of_job(&job));
        if let Some(outcome) = done {
            shared.site.learn(&job, &outcome.done);
            return Some(outcome);
        }
        let known = match &job {
            Job::Find(Find { known: Some(entry), .. }) => Some(Arc::clone(entry)),
            _ => None,
        };
        if let Some(known) = &known
            && shared.site.settings.revalidate_ms > 0
        {
            // A second look need not be waited for, unless it was to be at every request: the old answer serves meanwhile.
            let _ = self.helpers.submit(job, None);
            return Some(Done::Found(Arc::clone(known)).into());
        }
        let waiter = Waiter { inbox: Arc::clone(&self.inbox), token };
        let refusal = self.helpers.submit(job, Some(waiter)).err()?;
        Some(Outcome::from(match (refusal, known) {
            // What is known is better than nothing.
            (Refusal::Sick, Some(known)) => Done::Found(known),
            (refusal, _) => Done::Failed(refusal.failure()),
        }))
    }
}

impl Asymmetric {
    fn without_helpers(&self, job: &Job) -> Option<Outcome> {
        match self.offload {
            Offload::NotOpening if matches!(job, Job::Find(_)) => Some(self.shared.disk.run(job)),
            Offload::Needed | Offload::NotOpening => self.shared.disk.try_now(job),
            Offload::Always => None,
        }
    }
}

pub(crate) fn serve<P: Port>(
    loops: usize,
    helpers: HelperLimits,
    limits: Limits,
    listeners: Vec<Listener>,
    mut parts: Parts,
    ready: impl FnOnce(),
) -> io::Result<()> {
    parts.disk.close_elsewhere()?;
    parts.disk.watch_mounts()?;
    let shared = Shared::new(parts, limits);
    let offload = helpers.offload;
    let helpers = Helpers::start(helpers, Arc::clone(&shared))?;
    let dispatch =
        |inbox| Asymmetric { shared: Arc::clone(&shared), helpers: Arc::clone(&helpers), inbox, offload };
    loops::serve::<P, _>(loops, &shared, listeners, dispatch, ready)
}
