//! A certificate that is wanted: what it needs next, and what is kept and told of an answer.

use crate::asker::Asker;
use crate::issued::Issued;
use crate::refusal::{Kind, Refusal};
use crate::staple::Kept;
use crate::state::{Advice, State};
use crate::store::Store;

pub(crate) struct Wanted {
    pub(crate) hosts: Vec<String>,
    issued: Option<Issued>,
    pub(crate) state: State,
}

/// What a thread asks the authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Question {
    Order,
    Staple,
    Advice,
}

impl Question {
    /// Orders come first. The other questions go by their time, so that none keeps the authority from being asked another.
    pub(crate) fn urgency(self, at: u64) -> impl Ord {
        (self != Question::Order, at)
    }
}

pub(crate) enum Answer {
    Order(Result<Issued, Refusal>),
    Staple(Result<Kept, Refusal>),
    Advice(Result<Option<Advice>, Refusal>),
}

impl Wanted {
    pub(crate) fn find(hosts: Vec<String>, store: &Store) -> Self {
        // Without what was known, it is asked for once more, unless what comes of it cannot be kept.
        let (issued, state) = (store.issued(&hosts[0]), store.state(&hosts[0]).unwrap_or_default());
        Self { hosts, issued, state }
    }

    /// The user wants it now.
    pub(crate) fn request(&mut self, store: &Store) {
        self.keep_if_changed(store, |wanted| wanted.state.request());
    }

    /// Brings what is known in line with the settings and the time.
    pub(crate) fn compare(&mut self, asker: &Asker<'_>, now: u64) {
        self.keep_if_changed(&asker.store, |Self { hosts, issued, state }| {
            state.compare(hosts, &asker.settings.directory, issued.as_ref(), now);
        });
    }

    fn keep_if_changed(&mut self, store: &Store, change: impl FnOnce(&mut Self)) {
        let before = self.state.clone();
        change(self);
        if self.state != before {
            let _ = store.keep(&self.hosts[0], &self.state);
        }
    }

    /// What is asked next, and when. An order that is due needs no advice.
    pub(crate) fn next(&self, now: u64) -> (u64, Question) {
        let (order, advice) = (self.state.due_at(), self.state.advice_due_at());
        let is_stapled = self.issued.as_ref().is_some_and(Issued::is_stapled);
        let staple = if is_stapled { self.state.staple.ask_at } else { u64::MAX };
        let later = (staple, Question::Staple).min((advice, Question::Advice));
        if order <= later.0.max(now) { (order, Question::Order) } else { later }
    }

    /// What a thread has to do for the answer. An order is counted and kept before it begins.
    pub(crate) fn ask<'s, 'a>(
        &mut self,
        question: Question,
        asker: &'s Asker<'a>,
    ) -> impl FnOnce() -> Answer + Send + use<'s, 'a> {
        let (hosts, id) = (self.hosts.clone(), self.issued.as_ref().and_then(|issued| issued.id.clone()));
        let mut kept = Ok(());
        if question == Question::Order {
            self.state.begin_try((asker.clock)());
            kept = asker.store.keep(&hosts[0], &self.state);
        }
        let failures = self.state.failures;
        move || match question {
            Question::Order => Answer::Order(
                kept.map_err(Refusal::from).and_then(|()| asker.obtain(&hosts, id.as_ref(), failures)),
            ),
            Question::Staple => Answer::Staple(asker.staple_kept(&hosts[0])),
            Question::Advice => Answer::Advice(id.map_or(Ok(None), |id| asker.advice(&id))),
        }
    }

    /// Keeps what has come of it. Returns a line for the error log, and what has kept it from success.
    pub(crate) fn take(&mut self, answer: Answer, asker: &Asker<'_>) -> (Option<String>, Option<Kind>) {
        let now = (asker.clock)();
        let failed = match &answer {
            Answer::Order(Err(refusal)) | Answer::Advice(Err(refusal)) => Some(refusal.kind),
            _ => None,
        };
        if matches!(failed, Some(Kind::ServerEnded | Kind::LeaseLost)) {
            return (None, failed);
        }
        let line = match (answer, &self.issued) {
            (Answer::Order(Ok(issued)), _) => Some(self.succeed(issued, &asker.settings.directory, now)),
            (Answer::Order(Err(refusal)), _) => self.fail(refusal, now),
            (Answer::Staple(Ok(kept)), _) => {
                self.state.staple.succeed(kept.life, now);
                None
            }
            (Answer::Staple(Err(refusal)), _) => self.fail_to_staple(refusal, now),
            (Answer::Advice(Ok(advice)), Some(issued)) => {
                let is_new = self.state.advise(advice, issued, now);
                is_new.then(|| self.explanation(now))
            }
            // The certificate is renewed in time without advice.
            (Answer::Advice(Err(refusal)), Some(_)) => {
                self.state.fail_to_advise(refusal.retry_after_s, now);
                None
            }
            (Answer::Advice(_), None) => None,
        };
        let _ = asker.store.keep(&self.hosts[0], &self.state);
        (line, failed)
    }

    fn succeed(&mut self, issued: Issued, authority: &str, now: u64) -> String {
        let days = issued.life.ends.saturating_sub(now) / (24 * 3600);
        self.state.succeed(&issued, now);
        self.issued = Some(issued);
        let hosts = self.hosts.join(", ");
        format!("{hosts}: {authority} has issued a certificate, which expires in {days} days")
    }

    fn explanation(&self, now: u64) -> String {
        let (hosts, why) = (self.hosts.join(", "), &self.state.explanation);
        let when = match self.state.renew_at.saturating_sub(now) / 3600 {
            0 => "now".to_owned(),
            hours => format!("in {hours} hours"),
        };
        format!("{hosts}: the authority advises a renewal {when}, and explains it at {why}")
    }

    fn fail_to_staple(&mut self, refusal: Refusal, now: u64) -> Option<String> {
        self.state.staple.fail(refusal, now).then(|| {
            let (hosts, why) = (self.hosts.join(", "), &self.state.staple.failure);
            let minutes = (self.state.staple.ask_at - now).div_ceil(60);
            format!("{hosts}: no answer of OCSP to staple: {why}; the next try is in {minutes} minutes")
        })
    }

    fn fail(&mut self, refusal: Refusal, now: u64) -> Option<String> {
        self.state.fail(refusal, now).then(|| {
            let (hosts, why) = (self.hosts.join(", "), &self.state.failure);
            let minutes = (self.state.retry_at - now).div_ceil(60);
            format!("{hosts}: no certificate was issued: {why}; the next try is in {minutes} minutes")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_come_first_and_advice_does_not_wait_for_all_staples() {
        let mut next = [
            (5, Question::Staple),
            (3, Question::Advice),
            (1, Question::Staple),
            (2, Question::Advice),
            (4, Question::Order),
        ];
        next.sort_by_key(|(at, question)| question.urgency(*at));
        assert_eq!(next.map(|(at, _)| at), [4, 1, 2, 3, 5]);
    }
}
