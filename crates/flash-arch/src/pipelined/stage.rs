//! A stage: the thread of a step. It sleeps until connections or events come, gives each connection its turn, and
//! hands them on in batches.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flash_core::{Context, Drain};
use flash_observe::metrics::{Gauge, LoopMetrics};
use flash_os::poller::{Event, Poller, Ready};

use crate::completion_queue::Completion;
use crate::connections::permit::{ConnectionPermit, WaitingConnection};
use crate::connections::socket;
use crate::connections::victims;
use crate::pipelined::parked::{NEW, ParkedConnections, Slot};
use crate::pipelined::queue::{Item, Queue, Queues, ThenSleep, With};
use crate::pipelined::steps::{At, Next, OF_STREAM, Step, Work};
use crate::server_state::ServerState;
use crate::worker::Worker;

pub(super) struct Stage<W> {
    work: W,
    worker: Worker,
    metrics: Arc<LoopMetrics>,
    queues: Arc<Queues>,
    /// The queue of this stage.
    queue: Arc<Queue<Item>>,
    /// Connections for each queue, until the end of this round.
    outgoing: [Vec<Item>; 4],
    poller: Poller,
    parked: ParkedConnections,
    /// Connections that have had their share of a round, and could go on at once.
    unfinished: Vec<Item>,
    /// Parked connections whose handshakes wait for their next step, in the order of arrival. One that closes leaves its token.
    handshakes: VecDeque<u64>,
    /// Connections of the pool whose handshakes wait for their clients.
    unfinished_handshakes: Arc<Gauge>,
    /// What connections here have seen.
    drain: Drain,
}

const EVENTS_MAX: usize = 256;
/// A kernel may count a wait in 32 bits, and --drain may be longer.
const TIMEOUT_MS_MAX: u64 = 3_600_000;
/// The token of the completion queue. No connection has it.
const COMPLETIONS_TOKEN: u64 = NEW;
/// Connections that other stages have aborted come here within this time.
const GRACE_MS: u64 = 1_000;
/// How often a stage that has aborted its connections looks whether it may end.
const LOOK_UP_MS: u64 = 20;

impl<W: Work + Send + 'static> Stage<W> {
    pub(super) fn spawn(
        name: String,
        work: W,
        shared: &Arc<ServerState>,
        queues: &Arc<Queues>,
        queue: &Arc<Queue<Item>>,
        unfinished_handshakes: &Arc<Gauge>,
    ) -> io::Result<JoinHandle<()>> {
        let poller = Poller::new()?;
        poller.add_waker(queue.completions().waker(), COMPLETIONS_TOKEN)?;
        let worker = Worker::new(Arc::clone(shared), None);
        let mut stage = Self {
            work,
            queues: Arc::clone(queues),
            queue: Arc::clone(queue),
            outgoing: Default::default(),
            poller,
            parked: ParkedConnections::new(worker.clock.now.ms()),
            metrics: Arc::clone(worker.metrics()),
            worker,
            unfinished: Vec::new(),
            handshakes: VecDeque::new(),
            unfinished_handshakes: Arc::clone(unfinished_handshakes),
            drain: Drain::No,
        };
        let shared = Arc::clone(&stage.worker.shared);
        thread::Builder::new().name(name.clone()).spawn(move || shared.run_vital(&name, || stage.run()))
    }

    fn run(&mut self) -> io::Result<()> {
        // If the kernel refuses, the stage runs all the same.
        let _ = flash_os::sched::set_slice(flash_os::sched::SLICE_NS_MIN);
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut batch = Vec::new();
        loop {
            let is_done = self.unfinished.is_empty() && self.handshakes.is_empty();
            let then_sleep = if is_done { ThenSleep::Yes } else { ThenSleep::No };
            let mut open = self.queue.take(&mut batch, then_sleep);
            let sleeps = batch.is_empty() && then_sleep == ThenSleep::Yes;
            events.clear();
            if sleeps || W::SOCKETS {
                let timeout = if sleeps { self.timeout() } else { Some(Duration::ZERO) };
                self.poller.wait(&mut events, timeout)?;
            }
            if sleeps {
                open = self.queue.take(&mut batch, ThenSleep::No);
            }
            let turn = self.metrics.begin(events.len() + batch.len(), self.worker.clock.read());
            self.worker.refresh();
            self.round(&events, &mut batch);
            self.hand_on();
            self.worker.report();
            self.metrics.end(turn);
            if !open && self.is_over() {
                return Ok(());
            }
        }
    }

    fn round(&mut self, events: &[Event], batch: &mut Vec<Item>) {
        // Events come before the batch, because sockets of the batch may be ready again already.
        for event in events {
            self.handle(event.token, event.ready);
        }
        for (token, completion) in self.queue.completions().drain() {
            let with = match completion {
                Completion::Done(id, outcome) => {
                    self.metrics.shard.spend(&outcome.spent);
                    With::Done(id, outcome)
                }
                Completion::Opened(id, opened) => With::Opened(id, opened),
                Completion::WaitingConnection(waiting_connection) => {
                    self.admit(waiting_connection);
                    continue;
                }
            };
            self.resume(token, with, |_, _| {});
        }
        for Item { slot, with } in std::mem::take(&mut self.unfinished).into_iter().chain(batch.drain(..)) {
            match slot.token {
                NEW => self.begin(slot),
                _ => self.turn(slot, with, |_, _| {}),
            }
        }
        self.run_handshake();
        for (token, is_deadline) in self.parked.due(self.worker.clock.now.ms()) {
            self.resume(token, With::Nothing, |slot, cx| {
                if is_deadline {
                    socket::expire(&mut slot.connection, &slot.socket, cx);
                }
            });
        }
        self.drain();
    }

    /// Takes one step of the handshake that has waited for longest.
    fn run_handshake(&mut self) {
        while let Some(token) = self.handshakes.pop_front() {
            if let Some(slot) = self.parked.take(token) {
                return self.turn(slot, With::Nothing, |slot, cx| {
                    slot.transport.step(&slot.socket, &mut slot.connection, cx);
                });
            }
        }
    }

    /// Admits a connection that found all permits taken, or passes it on.
    fn admit(&mut self, waiting_connection: WaitingConnection) {
        let shared = Arc::clone(&self.worker.shared);
        match shared.permit().or_else(|| self.take_permit()) {
            Some(permit) => {
                let connection = self.worker.connection(waiting_connection.transport);
                let now_ms = self.worker.clock.now.ms();
                let transport =
                    shared.transport(&waiting_connection.transport, &self.unfinished_handshakes, now_ms);
                let slot = Slot::new(connection, transport, waiting_connection.socket, permit);
                // The first step begins each connection.
                let item = Item { slot: Box::new(slot), with: With::Nothing };
                self.outgoing[Step::ReadRequest as usize].push(item);
            }
            None => shared.pass_on(waiting_connection, self.queue.completions()),
        }
    }

    /// The first turn of a connection. If too many have not finished their handshakes, the oldest of these is closed.
    fn begin(&mut self, mut slot: Box<Slot>) {
        if slot.transport.unfinished_in_loop() > self.worker.shared.handshakes_share()
            && self.take_oldest_handshake().is_none()
        {
            return slot.transport.shed();
        }
        self.turn(slot, With::Nothing, |_, _| {});
    }

    /// Closes the connection that goes first, and returns its permit. While too many have not finished their handshakes, it closes one
    /// of these: more may have been accepted than this step has seen.
    fn take_permit(&mut self) -> Option<ConnectionPermit> {
        if self.unfinished_handshakes.get() > self.worker.shared.handshakes_share()
            && let Some(mut oldest) = self.take_oldest_handshake()
        {
            return Some(self.worker.shared.reuse(oldest.permit.take()?));
        }
        let now_ms = self.worker.clock.now.ms();
        let settings = &self.worker.configuration().server.settings;
        let (evicted, mut slot) = self.parked.take_victim(settings, now_ms)?;
        let permit = slot.permit.take()?;
        // It ends where it has begun.
        self.turn(slot, With::Nothing, |slot, cx| {
            victims::evict(evicted, &mut slot.connection, &slot.socket, cx);
        });
        Some(self.worker.shared.reuse(permit))
    }

    /// Takes out a connection whose handshake has waited for its client for longest. It is counted as closed.
    fn take_oldest_handshake(&mut self) -> Option<Box<Slot>> {
        let mut oldest = self.parked.take_oldest_handshake(self.worker.clock.now.ms())?;
        self.work.forget(&oldest);
        oldest.disarm(&self.poller);
        oldest.transport.shed();
        Some(oldest)
    }

    fn handle(&mut self, token: u64, ready: Ready) {
        if token != COMPLETIONS_TOKEN && token & OF_STREAM != 0 {
            let token = token & !OF_STREAM;
            self.work.notice_streams(token);
            return self.resume(token, With::Nothing, |_, _| {});
        }
        self.work.notice(token, ready);
        self.resume(token, With::Nothing, |slot, cx| {
            if ready.is_gone() {
                // Both directions are shut, so no answer can be sent.
                slot.connection.abort(cx);
            }
            slot.connection.client_ready();
        });
    }

    fn drain(&mut self) {
        let drain = self.worker.shared.drain_state();
        if mem::replace(&mut self.drain, drain) != drain {
            // Connections that wait for a request see how the server drains.
            self.resume_all(|_, _| {});
        }
        if self.worker.clock.now.ms() >= self.worker.shared.give_up_ms() {
            self.resume_all(|slot, cx| slot.connection.abort(cx));
        }
    }

    fn resume_all(&mut self, mut what: impl FnMut(&mut Slot, &mut Context<'_>)) {
        for token in self.parked.tokens() {
            self.resume(token, With::Nothing, &mut what);
        }
    }

    /// Gives a connection its turn because of an event, if it is here.
    fn resume(&mut self, token: u64, with: With, what: impl FnOnce(&mut Slot, &mut Context<'_>)) {
        let slot = self.parked.take(token).or_else(|| {
            // It may be among those that had their share of the last round.
            let place = self.unfinished.iter().position(|item| item.slot.token == token)?;
            Some(self.unfinished.swap_remove(place).slot)
        });
        match slot {
            Some(slot) => self.turn(slot, with, what),
            None => self.work.keep(token, with),
        }
    }

    /// Tells a connection what has happened, and gives it its turn.
    fn turn(&mut self, mut slot: Box<Slot>, with: With, what: impl FnOnce(&mut Slot, &mut Context<'_>)) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let cx = &mut self.worker.cx();
            what(&mut slot, cx);
            let at =
                At { poller: &self.poller, metrics: &self.metrics, completions: self.queue.completions() };
            let next = self.work.turn(&mut slot, with, &at, cx);
            slot.release(&at, cx);
            next
        }));
        self.worker.released().for_each(drop);
        match outcome {
            Ok(Next::To(step, with)) => self.outgoing[step as usize].push(Item { slot, with }),
            Ok(Next::Waits) => {
                if slot.transport.queue_step() {
                    self.handshakes.push_back(slot.token);
                }
                self.parked.park(slot);
            }
            Ok(Next::Unfinished) => self.unfinished.push(Item { slot, with: With::Nothing }),
            Ok(Next::Ends) => slot.disarm(&self.poller),
            Err(panic) => {
                self.worker.shared.panicked(&*panic);
                self.outgoing[0].push(Item { slot, with: With::Poisoned });
            }
        }
    }

    fn hand_on(&mut self) {
        for (batch, queue) in self.outgoing.iter_mut().zip(self.queues.iter()) {
            if !batch.is_empty() {
                queue.push(batch);
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        let now_ms = self.worker.clock.now.ms();
        let give_up = match self.worker.shared.give_up_ms() {
            u64::MAX => None,
            ms if now_ms < ms => Some((ms - now_ms).min(TIMEOUT_MS_MAX)),
            _ => Some(LOOK_UP_MS),
        };
        let unreported = self.worker.has_unreported().then_some(0);
        let ms = [unreported, self.parked.wait_ms(now_ms), give_up].into_iter().flatten().min()?;
        // One millisecond more, so that rounding never wakes the stage too early.
        Some(Duration::from_millis(ms + 1))
    }

    /// Whether the stage may end, once its queue is closed.
    fn is_over(&self) -> bool {
        let late = self.worker.clock.now.ms() >= self.worker.shared.give_up_ms().saturating_add(GRACE_MS);
        late || self.work.is_over() && self.parked.is_empty() && self.unfinished.is_empty()
    }
}

impl<W> Drop for Stage<W> {
    fn drop(&mut self) {
        // Whatever ended it, no thread may wait for space in its queue.
        self.queue.close();
    }
}
