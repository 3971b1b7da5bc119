//! When which certificate is asked for: the most urgent first, and a few beside each other, so that none waits for a slow one.

use std::collections::{BTreeMap, VecDeque};
use std::panic::resume_unwind;
use std::sync::atomic::Ordering;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Instant;

use crate::asker::Asker;
use crate::board::{Board, HEARD_WITHIN};
use crate::refusal::{Kind, Refusal};
use crate::staple::Kept;
use crate::wanted::{Answer, Question, Wanted};

pub(crate) struct Schedule<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    asker: &'env Asker<'env>,
    board: &'env Board,
    all: Vec<Wanted>,
    /// What is known of them, since others were told.
    is_changed: bool,
    running: Vec<Running<'scope>>,
    /// For the error log. Each keeps the place of the order that it is about, so there are few.
    lines: VecDeque<String>,
    /// From then on, nothing waits for the line before to be logged.
    heard_at: Instant,
    /// Nothing is due before, unless something changes.
    next_at: u64,
    /// When that was found. A clock may be set back.
    looked_at: u64,
    /// The authority could not be reached, and would not be for another certificate either.
    paused_until: u64,
}

struct Running<'scope> {
    hosts: Vec<String>,
    thread: ScopedJoinHandle<'scope, Answer>,
}

/// At the same time.
const ORDERS_MAX: usize = 4;
/// After an authority could not be reached.
const PAUSE_S: u64 = 60;

impl<'scope, 'env> Schedule<'scope, 'env> {
    pub(crate) fn new(
        scope: &'scope Scope<'scope, 'env>,
        asker: &'env Asker<'env>,
        board: &'env Board,
    ) -> Self {
        Self {
            scope,
            asker,
            board,
            all: Vec::new(),
            is_changed: false,
            running: Vec::new(),
            lines: VecDeque::new(),
            heard_at: Instant::now(),
            next_at: 0,
            looked_at: 0,
            paused_until: 0,
        }
    }

    /// All, in the order in which they were wanted, if anything may have changed.
    pub(crate) fn if_changed(&mut self) -> Option<&[Wanted]> {
        std::mem::take(&mut self.is_changed).then_some(&self.all)
    }

    /// These are wanted from now on. What is known of certificates is read again, unless this process alone changes it.
    pub(crate) fn want(&mut self, wanted: Vec<Vec<String>>, is_known: bool) {
        self.is_changed = true;
        if is_known && wanted.iter().eq(self.all.iter().map(|wanted| &wanted.hosts)) {
            return;
        }
        let all = std::mem::take(&mut self.all).into_iter().filter(|_| is_known);
        let mut known: BTreeMap<_, _> = all.map(|wanted| (wanted.hosts.clone(), wanted)).collect();
        let find = |hosts| known.remove(&hosts).unwrap_or_else(|| Wanted::find(hosts, &self.asker.store));
        self.all = wanted.into_iter().map(find).collect();
        self.next_at = 0;
    }

    /// Has those renewed that the user has asked for.
    pub(crate) fn take_requests(&mut self) {
        let is_requested = self.asker.store.take_requests();
        for wanted in self.all.iter_mut().filter(|wanted| is_requested(&wanted.hosts[0])) {
            wanted.request(&self.asker.store);
            self.next_at = 0;
        }
    }

    /// Whether any thread asks.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Takes the answers that are there. Returns what keeps this process from any certificate.
    pub(crate) fn take_answers(&mut self) -> Option<Refusal> {
        let mut ended = None;
        for Running { hosts, thread } in self.running.extract_if(.., |of| of.thread.is_finished()) {
            self.next_at = 0;
            let answer = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            if matches!(answer, Answer::Order(Ok(_)) | Answer::Staple(Ok(Kept { is_new: true, .. }))) {
                self.board.renewed().fetch_add(1, Ordering::Release);
            }
            // It may not be wanted any more.
            let Some(wanted) = self.all.iter_mut().find(|wanted| wanted.hosts == hosts) else { continue };
            let (line, failed) = wanted.take(answer, self.asker);
            self.is_changed = true;
            self.lines.extend(line);
            match failed {
                Some(Kind::NoAddress) => ended = Some(Refusal::no_address()),
                Some(Kind::HookEnded) => ended = Some(Refusal::hook_ended()),
                Some(Kind::Unreachable) => self.paused_until = (self.asker.clock)() + PAUSE_S,
                _ => {}
            }
        }
        ended
    }

    /// Has threads ask for what is due.
    pub(crate) fn start_due(&mut self) {
        let now = (self.asker.clock)();
        let is_sooner = now < self.looked_at;
        self.paused_until = self.paused_until.min(now + PAUSE_S);
        let room = ORDERS_MAX.saturating_sub(self.running.len() + self.lines.len());
        if room == 0 || now < self.paused_until || now < self.next_at && !is_sooner {
            return;
        }
        self.all.iter_mut().for_each(|wanted| wanted.compare(self.asker, now));
        self.is_changed = true;
        let is_asked = |wanted: &Wanted| self.running.iter().any(|of| of.hosts[0] == wanted.hosts[0]);
        let waiting = self.all.iter().enumerate().filter(|(_, wanted)| !is_asked(wanted));
        let mut next: Vec<_> = waiting.map(|(place, wanted)| (wanted.next(now), place)).collect();
        let first_later = next.iter().map(|((at, _), _)| *at).filter(|at| *at > now).min();
        next.retain(|((at, _), _)| *at <= now);
        next.sort_unstable_by_key(|((at, question), place)| (question.urgency(*at), *place));
        (self.next_at, self.looked_at) = (first_later.unwrap_or(u64::MAX), now);
        if next.len() > room {
            self.next_at = 0;
        }
        for ((_, question), place) in next.into_iter().take(room) {
            self.start(place, question);
        }
    }

    fn start(&mut self, place: usize, question: Question) {
        let wanted = &mut self.all[place];
        let hosts = wanted.hosts.clone();
        let ask = wanted.ask(question, self.asker);
        match thread::Builder::new().name("order".into()).spawn_scoped(self.scope, ask) {
            Ok(thread) => self.running.push(Running { hosts, thread }),
            Err(error) => self.lines.push_back(format!("an authority cannot be asked: {error}")),
        }
    }

    /// Has the server log all lines.
    pub(crate) fn tell_lines(&mut self) {
        self.lines.drain(..).for_each(|line| self.board.tell(&line));
    }

    /// Has the server log a line, if it has logged the one before.
    pub(crate) fn say_next_line(&mut self) {
        if (self.board.is_heard() || Instant::now() >= self.heard_at)
            && let Some(line) = self.lines.pop_front()
        {
            self.board.say(&line);
            self.heard_at = Instant::now() + HEARD_WITHIN;
        }
    }
}
