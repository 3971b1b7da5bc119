//! Takes runners through the model's program.
//!
//! Processor time is a debt first: a runner goes on until it would do something that others can notice, and pays before it
//! does. So a hit in a cache of its own costs a single event, from accepting to the last byte.

use rand::RngExt;

use super::entities::{NONE, Runner};
use super::{Happening, World};
use crate::model::{Cache, Op, Read, ServiceMode, Work};
use crate::outcome::Event;
use crate::parameters::{Content, LockWait};
use crate::policy::Found;

/// Why a runner stopped.
enum Stop {
    /// The processor is busy with it until something happens.
    Busy,
    /// It left the processor.
    Left,
}

impl World<'_> {
    /// A processor has nothing to give before its runner, or the next, has gone on.
    pub(super) fn run(&mut self, processor: u32) {
        if let Some(since) = self.processors[processor as usize].spinning.take() {
            self.tally.spun += self.now() - since;
        }
        while let Some(runner) = self.dispatch(processor) {
            match self.advance(processor, runner) {
                Stop::Busy => return,
                Stop::Left => self.vacate(processor),
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "a table of the instructions")]
    fn advance(&mut self, processor: u32, runner: u32) -> Stop {
        loop {
            let number = match self.runners[runner as usize].request {
                NONE => match self.take(runner) {
                    Some(request) => request,
                    None => return Stop::Left,
                },
                request => request,
            };
            let step = self.requests[number as usize].step;
            let op = self.model.program[step as usize];
            if self.runners[runner as usize].debt > 0 && self.others_notice(op, runner) {
                self.pay(processor, runner);
                return Stop::Busy;
            }
            let wakes_nobody = op == Op::Spend(Work::HandOff) && !self.wakes(step, number);
            let request = &mut self.requests[number as usize];
            request.step = step + 1;
            match op {
                Op::On(role) if role == self.runners[runner as usize].role => {}
                Op::On(role) => {
                    self.let_go(runner);
                    let desk = self.desk_of(role, number);
                    self.queue(number, desk);
                }
                Op::Spend(Work::Connection) if request.on_connection > 0 => {}
                Op::Spend(_) if wakes_nobody => {}
                Op::Spend(work) => self.runners[runner as usize].debt += self.prices.of(work),
                Op::Lock(lock) => {
                    if !self.lock(lock, runner) {
                        // It comes back to this step.
                        self.requests[number as usize].step = step;
                        return self.wait_for_lock(processor);
                    }
                }
                Op::Unlock(lock) => self.unlock(lock, number),
                Op::Look(cache) => self.look(cache, runner, number),
                Op::IfFound(there) if request.found => request.step = there as u32,
                Op::IfFound(_) => {}
                Op::Wait(read) => {
                    if self.is_needed(read, runner) {
                        self.pay_for_read(read, runner, number);
                        self.requests[number as usize].waiter = runner;
                        self.wait_for_disk(number);
                        return Stop::Left;
                    }
                }
                Op::Submit(read) => {
                    if self.is_needed(read, runner) {
                        self.pay_for_read(read, runner, number);
                        self.leave(runner, number);
                        self.wait_for_disk(number);
                    }
                }
                Op::Keep(cache) => self.keep(cache, runner, number),
                Op::Send => {
                    request.window_bytes = request.bytes_left.min(self.parameters.server.window_bytes.into());
                    request.bytes_left -= request.window_bytes;
                    let (bytes, from_pages) = (request.window_bytes, request.is_in_pages);
                    self.runners[runner as usize].debt += self.prices.send(bytes);
                    if from_pages {
                        self.runners[runner as usize].debt += self.prices.page_window(bytes);
                    }
                }
                Op::Travel => {
                    if self.travel(number) {
                        match self.runners[runner as usize].mode {
                            ServiceMode::OneAtATime => {
                                self.requests[number as usize].waiter = runner;
                                return Stop::Left;
                            }
                            ServiceMode::Multiplexed | ServiceMode::Helper => self.leave(runner, number),
                        }
                    }
                }
                Op::Again(first) if request.bytes_left > 0 => {
                    request.step = first as u32;
                    if self.runners[runner as usize].mode != ServiceMode::OneAtATime {
                        self.let_go(runner);
                        self.queue(number, self.runners[runner as usize].desk);
                    } else if self.must_yield(runner) {
                        self.ready(runner);
                        return Stop::Left;
                    }
                }
                Op::Again(_) => {}
                Op::Done => {
                    self.let_go(runner);
                    self.answer(number);
                }
            }
        }
    }

    /// Whether this step has to wait until the runner's time is paid.
    fn others_notice(&self, op: Op, runner: u32) -> bool {
        match op {
            Op::Spend(_) | Op::Look(_) | Op::IfFound(_) | Op::Keep(_) | Op::Send => false,
            Op::On(role) => role != self.runners[runner as usize].role,
            Op::Lock(_) | Op::Unlock(_) | Op::Wait(_) | Op::Submit(_) => true,
            Op::Travel | Op::Again(_) | Op::Done => true,
        }
    }

    /// The processor works for its runner until all is paid.
    fn pay(&mut self, number: u32, runner: u32) {
        let Runner { debt, request, .. } = self.runners[runner as usize];
        self.tell(request, |_| Event::Uses { processor: number, us: debt as f64 / 1e3 });
        let runner = &mut self.runners[runner as usize];
        runner.debt = 0;
        runner.slice += debt;
        self.processors[number as usize].until = self.events.now() + debt;
        self.tally.given += debt;
        self.events.after(debt, Happening::Given(number));
    }

    /// A runner that is done with a request turns to the next one at its desk, unless others should run.
    fn take(&mut self, number: u32) -> Option<u32> {
        let now = self.now();
        let desk = self.runners[number as usize].desk as usize;
        if self.desks[desk].line.is_empty() {
            self.desks[desk].asleep.push(number);
            return None;
        }
        if self.must_yield(number) {
            self.ready(number);
            return None;
        }
        let request = self.desks[desk].line.pop(&mut self.request_links, now)?;
        self.runners[number as usize].request = request;
        if self.requests[request as usize].is_parked {
            self.runners[number as usize].debt += self.prices.take_over;
        }
        self.in_hands.add(1, now);
        let role = self.runners[number as usize].role;
        self.tell(request, |model| Event::Taken { role: model.roles[role].name.into() });
        Some(request)
    }

    /// A runner has no request any more.
    fn let_go(&mut self, runner: u32) {
        self.runners[runner as usize].request = NONE;
        self.in_hands.remove(1, self.events.now());
    }

    /// A runner turns to others while a request waits elsewhere, to come back to its desk.
    fn leave(&mut self, runner: u32, request: u32) {
        self.requests[request as usize].desk = self.runners[runner as usize].desk;
        self.let_go(runner);
        self.travelling.add(1, self.events.now());
    }

    fn look(&mut self, cache: Cache, runner: u32, number: u32) {
        let (process, now) = (self.runners[runner as usize].process, self.now());
        let request = &mut self.requests[number as usize];
        let file = request.file;
        match cache {
            Cache::Path => {
                // Flash has names and contents in one cache, which is looked at next.
                let is_flash = self.parameters.server.content == Content::Flash;
                request.found = is_flash || self.caches.knows_name(process, file);
                self.tally.path.count(request.found);
            }
            Cache::Data => {
                let found = self.caches.look(process, file, now);
                request.found = !found.is_left_to_helpers();
                request.is_in_pages = request.found && found.is_in_pages();
                self.tally.data.count(found != Found::Nowhere);
                if found == Found::Named {
                    self.runners[runner as usize].debt += self.prices.of(Work::Translate);
                }
            }
        }
        let found = self.requests[number as usize].found;
        self.tell(number, |_| match found {
            true => Event::Hit { cache },
            false => Event::Miss { cache },
        });
    }

    /// Somebody has found the name, or has the content. If it gets a copy, that is made of its pages in the page cache.
    fn keep(&mut self, cache: Cache, runner: u32, number: u32) {
        let (process, now) = (self.runners[runner as usize].process, self.now());
        let file = self.requests[number as usize].file;
        if cache == Cache::Data {
            let copying = self.prices.page_window(self.caches.bytes(file));
            self.runners[runner as usize].debt += match self.parameters.server.content {
                Content::Lru => 0,
                Content::PageCache => copying,
                // Its names are in the same cache.
                Content::Flash => self.prices.of(Work::Translate) + copying,
            };
        }
        self.caches.keep(cache, process, file, now);
    }

    /// The processor works for a disk's reads as well.
    fn pay_for_read(&mut self, read: Read, runner: u32, number: u32) {
        let request = &self.requests[number as usize];
        let bytes = match read {
            Read::Directory => 0,
            Read::Content => self.caches.bytes(request.file),
        };
        let disk = &self.parameters.machine.disks[request.file as usize % self.disks.len()];
        self.runners[runner as usize].debt += self.prices.read_work(disk, bytes);
    }

    /// Whether handing a request to the role of the next step wakes a runner. One that is awake finds it without help. A ring in the
    /// kernel is always told.
    fn wakes(&self, step: u32, request: u32) -> bool {
        match self.model.program[step as usize + 1] {
            Op::On(role) => !self.desks[self.desk_of(role, request) as usize].asleep.is_empty(),
            _ => true,
        }
    }

    /// Whether a runner's request has to ask a disk. Directories are mostly in memory.
    fn is_needed(&mut self, read: Read, runner: u32) -> bool {
        let Runner { request, process, .. } = self.runners[runner as usize];
        let request = &mut self.requests[request as usize];
        (request.read, request.process) = (read, process);
        match read {
            Read::Content => !self.caches.has_content(process, request.file),
            Read::Directory => {
                let fraction = self.parameters.costs.translate_disk_fraction;
                fraction > 0.0 && self.random.random_bool(fraction)
            }
        }
    }

    fn lock(&mut self, lock: usize, runner: u32) -> bool {
        let now = self.now();
        let request = self.runners[runner as usize].request;
        let taken =
            self.locks[lock].take(&mut self.runner_links, runner, &mut self.runners[runner as usize], now);
        self.tell(request, |_| match taken {
            true => Event::Locks { lock },
            false => Event::WaitsForLock { lock },
        });
        taken
    }

    fn wait_for_lock(&mut self, processor: u32) -> Stop {
        match self.parameters.server.lock_wait {
            LockWait::Sleep | LockWait::Handed => Stop::Left,
            LockWait::Spin => {
                self.processors[processor as usize].spinning = Some(self.now());
                Stop::Busy
            }
        }
    }

    fn unlock(&mut self, lock: usize, request: u32) {
        let now = self.now();
        let wait = self.parameters.server.lock_wait;
        self.tell(request, |_| Event::Unlocks { lock });
        let Some(next) = self.locks[lock].release(&mut self.runner_links, wait, now) else { return };
        match wait {
            LockWait::Sleep | LockWait::Handed => self.ready(next),
            LockWait::Spin => self.kicked.push(self.runners[next as usize].processor),
        }
    }
}
