//! The event loop of the daemon: askers connect and ask, helpers do what would wait, and answers go out in any order.
//!
//! The loop never waits for a disk. A question is answered from the cache of paths, or by look-ups that do not wait, or by a
//! helper. [`find`] and [`load`] are the two kinds of questions.

mod find;
mod load;
mod roots;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use flash_arch::FileService;
use flash_core::cache::local::LocalCache;
use flash_core::job::Outcome;
use flash_observe::RateLimit;
use flash_os::poller::{Interest, Poller, Ready};
use flash_os::socket::peer;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use slab::Slab;

use crate::answer::Outgoing;
use crate::asker::{Asker, Gone};
use crate::closing::Closings;
use crate::listener::Listener;
use crate::protocol::{Answer, AnswerKind, Hello, Malformed, Question, QuestionKind};
use crate::questions::Questions;
use crate::receive::{BUFFER_BYTES, Received, receive};
use crate::root::Root;
use crate::settings::Settings;
use crate::stop::Signals;

/// The daemon of `flash helper`.
pub struct Daemon {
    closings: Closings,
    service: FileService,
    settings: Settings,
    roots: Vec<Root>,
    listener: Listener,
    poller: Poller,
    askers: Slab<Asker>,
    asker_number: u64,
    questions: Questions,
    /// Look-ups use the shared cache alone.
    local: LocalCache,
    buffer: Box<[u8; BUFFER_BYTES]>,
    now_ms: u64,
    /// No descriptor was free for an asker. Until then the listener is not watched, or it would wake the loop all the time.
    accepts_from_ms: Option<u64>,
}

/// Askers answer hot files themselves. Where the daemon shares their processor, they come first.
const NICE: i32 = 5;

const LISTENER: u64 = 0;
const RESULTS: u64 = 1;
const STOP: u64 = 2;
const COUNTERS: u64 = 3;
const ASKERS: u64 = 16;

/// Questions of one asker that are read before another's turn, and connections that are accepted before all others'.
const TURN_MAX: usize = 64;
/// How often roots and askers that take nothing are looked at, while there are askers.
const LOOK_MS: u64 = 500;
/// When to try again what the kernel refused for want of descriptors, or for the number of those on their way.
const RETRY_MS: u64 = 20;
const EVENTS_MAX: usize = 256;

impl Daemon {
    /// # Errors
    /// If there can be no more descriptors, or a root cannot be opened.
    pub fn new(
        service: FileService,
        settings: Settings,
        roots: Vec<Root>,
        listener: Listener,
    ) -> io::Result<Self> {
        Ok(Self {
            closings: Closings::start(&settings.users)?,
            service,
            settings,
            roots,
            listener,
            poller: Poller::new()?,
            askers: Slab::new(),
            asker_number: 0,
            questions: Questions::default(),
            local: LocalCache::new(0),
            buffer: Box::new([0; BUFFER_BYTES]),
            now_ms: 0,
            accepts_from_ms: None,
        })
    }

    /// Answers until a signal to stop comes.
    ///
    /// # Errors
    /// If the loop cannot wait for events, or the sandbox does not reach a root's new folder.
    pub fn run(mut self) -> io::Result<()> {
        let signals = Signals::new()?;
        // On Linux this sets the priority of this thread alone. If the kernel refuses, the daemon answers all the same.
        let _ = rustix::process::nice(NICE);
        self.poller.add(&self.listener, LISTENER, Interest::INPUT)?;
        self.poller.add_waker(self.service.waker(), RESULTS)?;
        self.poller.add(signals.stop(), STOP, Interest::INPUT)?;
        self.poller.add(signals.counters(), COUNTERS, Interest::INPUT)?;
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut looked_ms = 0;
        loop {
            self.read_clock();
            self.poller.wait(&mut events, self.timeout())?;
            self.read_clock();
            if self.now_ms >= looked_ms + LOOK_MS {
                looked_ms = self.now_ms;
                self.disconnect_stalled();
            }
            self.look_at_roots()?;
            for event in &events {
                match event.token {
                    LISTENER => self.accept(),
                    RESULTS => {}
                    STOP => {
                        self.service.error_log().log(format_args!("stopped"));
                        return Ok(());
                    }
                    COUNTERS => {
                        signals.counters_logged();
                        self.service.log_metrics("answering");
                    }
                    token => self.serve((token - ASKERS) as usize, event.ready),
                }
            }
            for (token, outcome) in self.service.finished() {
                self.finished(token, outcome);
            }
            self.expire();
            self.retry();
            self.listen_again()?;
        }
    }

    fn read_clock(&mut self) {
        let (_, now) = self.service.read_clock();
        self.now_ms = now.ms();
    }

    fn timeout(&self) -> Option<Duration> {
        if self.askers.is_empty() && self.accepts_from_ms.is_none() {
            return None;
        }
        let retries = self.accepts_from_ms.is_some() || self.askers.iter().any(|(_, asker)| asker.retries);
        let most = self.now_ms + if retries { RETRY_MS } else { LOOK_MS };
        let due = self.questions.next_due_ms().map_or(most, |due_ms| due_ms.min(most));
        // A millisecond more, because the clock counts whole ones.
        Some(Duration::from_millis(due.saturating_sub(self.now_ms) + 1))
    }

    fn accept(&mut self) {
        static REFUSED: RateLimit = RateLimit::every(Duration::from_secs(5));
        static FULL: RateLimit = RateLimit::every(Duration::from_secs(5));
        static NO_ROOM: RateLimit = RateLimit::every(Duration::from_secs(5));
        for _ in 0..TURN_MAX {
            let socket = match self.listener.accept() {
                Ok(socket) => socket,
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    let log = self.service.error_log();
                    log.log_limited(&NO_ROOM, format_args!("no asker can be accepted now: {error}"));
                    let is_unwatched = self.poller.modify(&self.listener, LISTENER, Interest::NONE);
                    self.accepts_from_ms = is_unwatched.is_ok().then_some(self.now_ms + RETRY_MS);
                    return;
                }
                Err(_) => return,
            };
            let Ok(peer) = peer(&socket) else { continue };
            let (user, process) = (peer.user, peer.process.unwrap_or_default());
            let log = self.service.error_log();
            let is_allowed = self.settings.users.contains(&user);
            let closing = Arc::clone(self.closings.of(user));
            let is_one_too_many = self.askers.len() >= self.settings.askers_max || closing.is_too_much();
            if !is_allowed {
                log.log_limited(&REFUSED, format_args!("process {process} of user {user} may not ask"));
            } else if is_one_too_many {
                let line = "too many askers are connected, or descriptors of theirs do not close: one more was refused";
                log.log_limited(&FULL, format_args!("{line}"));
            }
            self.asker_number += 1;
            let mut asker = Asker::new(socket, self.asker_number, process, Arc::clone(&closing));
            if !is_allowed || is_one_too_many {
                let kind = if is_allowed { AnswerKind::Busy } else { AnswerKind::Refused };
                // It is disconnected, whether it got this or not.
                let _ = asker.send(Answer::plain(kind, 0, 0).into(), self.now_ms);
                closing.close(asker.into());
                continue;
            }
            let entry = self.askers.vacant_entry();
            let token = ASKERS + entry.key() as u64;
            if self.poller.add(&asker, token, Interest::INPUT).is_err() {
                closing.close(asker.into());
                continue;
            }
            let key = entry.key();
            entry.insert(asker);
            self.greet(key);
        }
    }

    /// Watches the listener again, when descriptors may be free.
    fn listen_again(&mut self) -> io::Result<()> {
        if self.accepts_from_ms.take_if(|from_ms| *from_ms <= self.now_ms).is_some() {
            self.poller.modify(&self.listener, LISTENER, Interest::INPUT)?;
        }
        Ok(())
    }

    fn greet(&mut self, key: usize) {
        let questions_max = self.settings.quotas.questions_max as u32;
        let hello = Hello { roots: self.roots.len() as u32, questions_max };
        self.send(key, Outgoing::message(hello.encode()));
        for number in 0..self.roots.len() {
            self.tell_root(key, number);
        }
    }

    /// Something has happened on an asker's connection.
    fn serve(&mut self, key: usize, ready: Ready) {
        if ready.intersects(Ready::ROOM) {
            let now_ms = self.now_ms;
            let Some(asker) = self.askers.get_mut(key) else { return };
            let sent = asker.flush(now_ms);
            self.sent(key, &sent);
        }
        for _ in 0..TURN_MAX {
            let Some(asker) = self.askers.get(key).filter(|asker| asker.may_be_read()) else { break };
            match receive(asker, &mut self.buffer) {
                Received::Message { bytes, descriptor } => match Question::decode(&self.buffer[..bytes]) {
                    Ok(question) => self.ask(key, question, descriptor),
                    Err(malformed) => {
                        if self.close_refused(key, descriptor) {
                            self.refuse(key, bytes, malformed);
                        }
                    }
                },
                Received::NoRoom { bytes, descriptors } => {
                    let id = Question::id_of(&self.buffer[..bytes]);
                    if self.close_refused(key, descriptors) {
                        self.send(key, Answer::plain(AnswerKind::Busy, 0, id).into());
                    }
                }
                Received::TooMuch { descriptors } => {
                    if self.close_refused(key, descriptors) {
                        self.refuse(key, 0, Malformed::Length);
                    }
                }
                Received::Nothing => break,
                Received::Gone { descriptors } => {
                    self.close_refused(key, descriptors);
                    return self.disconnect(key);
                }
            }
        }
        if ready.intersects(Ready::HUNG_UP) && self.askers.get(key).is_some_and(|asker| !asker.may_be_read())
        {
            self.disconnect(key);
        }
    }

    /// What cannot be decoded gets an answer. If its length or version is wrong, the asker is disconnected.
    fn refuse(&mut self, key: usize, bytes: usize, malformed: Malformed) {
        static REFUSED: RateLimit = RateLimit::every(Duration::from_secs(5));
        let id = Question::id_of(&self.buffer[..bytes]);
        if let Some(asker) = self.askers.get_mut(key) {
            let process = asker.process;
            let line = format_args!("process {process} sends what is no question: {malformed:?}");
            self.service.error_log().log_limited(&REFUSED, line);
            asker.is_leaving |= matches!(malformed, Malformed::Length | Malformed::Version(_));
        }
        self.send(key, Answer::plain(AnswerKind::Refused, 0, id).into());
    }

    fn ask(&mut self, key: usize, question: Question, descriptor: Option<OwnedFd>) {
        let (id, root) = (question.id, question.root);
        let window_bytes = question.window.end - question.window.start;
        let bytes = if question.copy { window_bytes.min(crate::protocol::WINDOW_BYTES_MAX) } else { 0 };
        let asker = &mut self.askers[key];
        let refusal = match asker.may_ask(&self.settings.quotas, 1, bytes) {
            _ if root as usize >= self.roots.len() => Some(AnswerKind::Refused),
            true => None,
            false => Some(AnswerKind::Busy),
        };
        if let Some(refusal) = refusal {
            // A file that would be taken another time counts for nobody.
            let refused = descriptor.and_then(|file| self.service.disk().adopt(file).err());
            if self.close_refused(key, refused) {
                self.send(key, Answer::plain(refusal, root, id).into());
            }
            return;
        }
        // By its path. An asker that has no file sends none.
        let (file, refused) = match question.kind {
            QuestionKind::Load => (descriptor, None),
            QuestionKind::Find => (None, descriptor),
        };
        if !self.close_refused(key, refused) {
            return;
        }
        let asker = &mut self.askers[key];
        (asker.questions, asker.descriptors) = (asker.questions + 1, asker.descriptors + 1);
        asker.bytes += bytes;
        let own_ms = self.service.server().settings.disk_deadline_ms;
        let deadline_ms = match u64::from(question.deadline_ms) {
            0 => own_ms,
            asked => asked.min(own_ms),
        };
        let number = asker.number;
        let serial = self.questions.next_serial();
        self.questions.add(serial, (key, number), question, self.now_ms + deadline_ms);
        match file {
            Some(file) => self.load_of(key, serial, file),
            None => self.find(serial),
        }
    }

    /// Has descriptors closed that were sent for nothing. What they are is the asker's choice, and closing them may wait for it.
    /// Returns whether the asker is still there.
    fn close_refused(&mut self, key: usize, files: impl IntoIterator<Item = OwnedFd>) -> bool {
        static UNCLOSED: RateLimit = RateLimit::every(Duration::from_secs(5));
        let Some(asker) = self.askers.get(key) else { return false };
        let mut is_refused = false;
        for file in files {
            asker.closing.close(file);
            is_refused = true;
        }
        let is_one_too_many = is_refused && asker.closing.is_too_much();
        if is_one_too_many {
            let line =
                format_args!("process {} sends descriptors that do not close: disconnected", asker.process);
            self.service.error_log().log_limited(&UNCLOSED, line);
            self.disconnect(key);
        }
        !is_one_too_many
    }

    /// A result has come.
    fn finished(&mut self, token: u64, outcome: Outcome) {
        match self.questions.loaded(token) {
            Some((load, waiting)) => self.load_is_over(&load, waiting, &outcome.done),
            None => self.found(token, outcome.done, true),
        }
    }

    /// Answers a question, unless its asker is gone.
    fn answer(&mut self, serial: u64, outgoing: Outgoing) {
        let Some(pending) = self.questions.remove(serial) else { return };
        let (key, number) = pending.asker;
        let Some(asker) = self.askers.get_mut(key).filter(|asker| asker.number == number) else { return };
        (asker.questions, asker.descriptors) = (asker.questions - 1, asker.descriptors - 1);
        if pending.question.copy {
            let window = &pending.question.window;
            asker.bytes -= (window.end - window.start).min(crate::protocol::WINDOW_BYTES_MAX);
        }
        let fits = outgoing.memory_bytes == 0 || asker.may_hold(&self.settings.quotas, outgoing.memory_bytes);
        let busy = || Answer::plain(AnswerKind::Busy, pending.question.root, pending.question.id).into();
        self.send(key, if fits { outgoing } else { busy() });
    }

    /// Answers, if only with the reason why the answer cannot be made.
    fn answer_with(&mut self, serial: u64, outgoing: Result<Outgoing, AnswerKind>) {
        match outgoing {
            Ok(outgoing) => self.answer(serial, outgoing),
            Err(kind) => self.answer_plainly(serial, kind),
        }
    }

    /// Answers with no more than a kind.
    fn answer_plainly(&mut self, serial: u64, kind: AnswerKind) {
        let Some(pending) = self.questions.get_mut(serial) else { return };
        let answer = Answer::plain(kind, pending.question.root, pending.question.id);
        self.answer(serial, answer.into());
    }

    fn send(&mut self, key: usize, outgoing: Outgoing) {
        let now_ms = self.now_ms;
        let Some(asker) = self.askers.get_mut(key) else { return };
        let sent = asker.send(outgoing, now_ms);
        self.sent(key, &sent);
    }

    /// Waits for what the asker's connection needs next, or ends it.
    fn sent(&mut self, key: usize, sent: &Result<(), Gone>) {
        let Some(asker) = self.askers.get_mut(key) else { return };
        if sent.is_err() || (asker.is_leaving && !asker.has_waiting()) {
            return self.disconnect(key);
        }
        let wanted = Interest::new(asker.may_be_read(), asker.has_waiting() && !asker.retries);
        if std::mem::replace(&mut asker.watched, wanted) == wanted {
            return;
        }
        if self.poller.modify(&*asker, ASKERS + key as u64, wanted).is_err() {
            self.disconnect(key);
        }
    }

    fn disconnect(&mut self, key: usize) {
        let Some(asker) = self.askers.try_remove(key) else { return };
        let _ = self.poller.delete(asker.as_fd());
        for serial in self.questions.of_asker(asker.number) {
            self.questions.remove(serial);
        }
        // The other end sees it now. What was not read of it may have descriptors.
        let _ = shutdown(&asker, Shutdown::Both);
        let closing = Arc::clone(&asker.closing);
        closing.close(asker.into());
    }

    /// Disconnects askers that have taken no answer for as long as the disk may take.
    fn disconnect_stalled(&mut self) {
        static STALLED: RateLimit = RateLimit::every(Duration::from_secs(5));
        let before_ms = self.now_ms.saturating_sub(self.service.server().settings.disk_deadline_ms);
        let is_stalled =
            |(key, asker): (usize, &Asker)| asker.is_stalled_since(before_ms).then_some((key, asker.process));
        let stalled: Vec<(usize, i32)> = self.askers.iter().filter_map(is_stalled).collect();
        for (key, process) in stalled {
            let line = format_args!("process {process} does not take its answers: disconnected");
            self.service.error_log().log_limited(&STALLED, line);
            self.disconnect(key);
        }
    }

    fn expire(&mut self) {
        while let Some(serial) = self.questions.overdue(self.now_ms) {
            self.answer_plainly(serial, AnswerKind::TimedOut);
        }
    }

    fn retry(&mut self) {
        let now_ms = self.now_ms;
        let keys: Vec<usize> =
            self.askers.iter().filter(|(_, asker)| asker.retries).map(|(key, _)| key).collect();
        for key in keys {
            let sent = self.askers[key].flush(now_ms);
            self.sent(key, &sent);
        }
    }
}
