//! A certificate that is wanted: it is asked for when it is time, and what comes of it is kept and logged.

use std::sync::atomic::Ordering;

use crate::asker::Asker;
use crate::board::Board;
use crate::clock::unix_seconds;
use crate::issued::Issued;
use crate::refusal::{Kind, Refusal};
use crate::state::State;
use crate::store::Store;

pub(crate) struct Wanted {
    pub(crate) hosts: Vec<String>,
    issued: Option<Issued>,
    pub(crate) state: State,
}

/// Does the most urgent of what is due: one order, so that everything else is looked at before the next one, or else some advice.
/// Returns what has kept it from success and would keep all others, too.
pub(crate) fn take_turn(all: &mut [Wanted], asker: &Asker<'_>, board: &Board) -> Option<Kind> {
    let now = unix_seconds();
    for wanted in &mut *all {
        wanted.keep_if_changed(asker, |wanted| {
            let Wanted { hosts, issued, state } = wanted;
            state.compare(hosts, &asker.settings.directory, issued.as_ref(), now);
        });
    }
    let due = all.iter_mut().filter(|wanted| wanted.state.is_due(now));
    let failed = match due.min_by_key(|wanted| wanted.state.due_at()) {
        Some(wanted) => wanted.renew(asker, board),
        None => all
            .iter_mut()
            .filter(|wanted| wanted.state.is_advice_due(now))
            .try_for_each(|wanted| wanted.take_advice(asker))
            .err(),
    };
    failed.filter(|kind| matches!(kind, Kind::NoAddress | Kind::Unreachable | Kind::HookEnded))
}

impl Wanted {
    pub(crate) fn find(hosts: Vec<String>, store: &Store) -> Self {
        // Without what was known, it is asked for once more, unless what comes of it cannot be kept.
        let (issued, state) = (store.issued(&hosts[0]), store.state(&hosts[0]).unwrap_or_default());
        Self { hosts, issued, state }
    }

    /// The user wants it now.
    pub(crate) fn request(&mut self, asker: &Asker<'_>) {
        self.keep_if_changed(asker, |wanted| wanted.state.request());
    }

    fn keep_if_changed(&mut self, asker: &Asker<'_>, change: impl FnOnce(&mut Self)) {
        let before = self.state.clone();
        change(self);
        if self.state != before {
            let _ = asker.store.keep(&self.hosts[0], &self.state);
        }
    }

    fn take_advice(&mut self, asker: &Asker<'_>) -> Result<(), Kind> {
        let Some(issued) = self.issued.clone() else { return Ok(()) };
        // The certificate is renewed in time without it.
        let (advice, failed) = match issued.id.as_ref().map(|id| asker.advice(id)) {
            Some(Ok(advice)) => (advice, Ok(())),
            Some(Err(refusal)) => (None, Err(refusal.kind)),
            None => (None, Ok(())),
        };
        self.keep_if_changed(asker, |wanted| wanted.state.advise(advice, &issued, unix_seconds()));
        failed
    }

    /// Returns why there is none.
    fn renew(&mut self, asker: &Asker<'_>, board: &Board) -> Option<Kind> {
        let hosts = self.hosts.join(", ");
        self.state.begin_try(unix_seconds());
        let replaces = self.issued.as_ref().and_then(|issued| issued.id.as_ref());
        let kept = asker.store.keep(&self.hosts[0], &self.state).map_err(Refusal::from);
        let result = kept.and_then(|()| asker.obtain(&self.hosts, replaces, self.state.failures));
        let now = unix_seconds();
        let (line, failed) = match result {
            Ok(issued) => {
                board.renewed().fetch_add(1, Ordering::Release);
                let days = issued.life.ends.saturating_sub(now) / (24 * 3600);
                let by = &asker.settings.directory;
                self.state.succeed(&issued, now);
                self.issued = Some(issued);
                let line = format!("{hosts}: {by} has issued a certificate, which expires in {days} days");
                (Some(line), None)
            }
            Err(Refusal { kind: kind @ (Kind::ServerEnded | Kind::LeaseLost), .. }) => return Some(kind),
            Err(refusal) => {
                let kind = refusal.kind;
                let line = self.state.fail(refusal, now).then(|| {
                    let (why, pause) = (&self.state.failure, self.state.retry_at - now);
                    let minutes = pause.div_ceil(60);
                    format!("{hosts}: no certificate was issued: {why}; the next try is in {minutes} minutes")
                });
                (line, Some(kind))
            }
        };
        let _ = asker.store.keep(&self.hosts[0], &self.state);
        if let Some(line) = line {
            board.tell(&line);
        }
        failed
    }
}
