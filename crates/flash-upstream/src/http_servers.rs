//! HTTP servers that answer the same: which of them gets a request, which is next if that one cannot be reached, and the requests that
//! wait until one of them has room. How one is chosen of those that may be, [`balance`] knows.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use flash_core::record::counters::ProgramCount;
use flash_core::upstream::{OnOpened, Open, OpenError, Opened};
use flash_process::Reporter;

use crate::background::{Command, CommandChannel, Maintained};
use crate::balance::{self, Candidate};
use crate::checking::Checking;
use crate::counts::Counted;
use crate::log_limit::LogLimit;
use crate::retry_budget::RetryBudget;
use crate::server::{Group, InFlight, Server};
use crate::settings::{self, Check};

#[derive(Debug)]
pub(crate) struct HttpServers {
    servers: Vec<Arc<Server>>,
    config: settings::HttpServers,
    /// Counts the requests, to take turns.
    turn: AtomicUsize,
    retries: RetryBudget,
    /// Requests that wait until a server has room. Only the background thread takes the lock for long.
    waiting: Mutex<VecDeque<Waiting>>,
    waiting_count: AtomicUsize,
    /// When servers are checked next.
    check_at: Mutex<Instant>,
    /// Of lines about requests that are refused.
    refusals: LogLimit,
    background: Arc<CommandChannel>,
    reporter: Arc<Reporter>,
}

/// More than these are not tried for one request.
pub(crate) const TRIED_MAX: usize = 3;
/// How long a check may take.
const CHECK_MAX: Duration = Duration::from_secs(5);

/// A request that has reached no server yet.
struct Search {
    servers: Arc<HttpServers>,
    request: Open,
    tried: Vec<usize>,
    queued: Duration,
    /// Taken by the attempt that answers.
    reply: Arc<Mutex<Option<OnOpened>>>,
}

/// One for which no server has room.
struct Waiting {
    search: Search,
    since: Instant,
    _counted: Counted,
}

/// The server for a request.
enum Choice {
    Server(usize, InFlight),
    /// All that may be asked have as many requests as they may.
    Full,
    None,
}

impl HttpServers {
    pub(crate) fn new(
        servers: Vec<Arc<Server>>,
        config: settings::HttpServers,
        (background, reporter): (&Arc<CommandChannel>, &Arc<Reporter>),
    ) -> Arc<Self> {
        let now = Instant::now();
        let all = Arc::new(Self {
            servers,
            config,
            turn: AtomicUsize::new(0),
            retries: RetryBudget::new(),
            waiting: Mutex::default(),
            waiting_count: AtomicUsize::new(0),
            check_at: Mutex::new(now),
            refusals: LogLimit::new(now),
            background: Arc::clone(background),
            reporter: Arc::clone(reporter),
        });
        for server in &all.servers {
            let all: Weak<Self> = Arc::downgrade(&all);
            server.belongs_to(all);
        }
        if all.config.check.is_some() {
            background.tick();
        }
        all
    }

    pub(crate) fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    pub(crate) fn begin(self: &Arc<Self>, request: Open, reply: OnOpened) -> Option<Opened> {
        if !request.again {
            self.retries.earn();
        }
        if let [server] = &self.servers[..]
            && !server.is_limited()
        {
            return server.begin(InFlight::new(server, 0), request, Duration::ZERO, reply);
        }
        let tried = request.failed.into_iter().collect();
        let (servers, reply) = (Arc::clone(self), Arc::new(Mutex::new(Some(reply))));
        Search { servers, request, tried, queued: Duration::ZERO, reply }.go_on(OpenError::Broken)
    }

    /// The server for a request that has reached none of those that were `tried`: that of its session, if it is well and has room. Backups are asked if no other is well, and one that
    /// is not well is the last choice.
    fn choose(&self, tried: &[usize], request: &Open, now: Instant) -> Choice {
        // A request that is tried again takes no other's turn.
        let turn = match tried {
            [] => self.turn.fetch_add(1, Ordering::Relaxed),
            _ => self.turn.load(Ordering::Relaxed),
        };
        let is_left = |number: usize| !tried.contains(&number);
        if let Some(number) = request.sticky.filter(|number| is_left(*number))
            && let Some(server) = self.servers.get(number).filter(|server| server.is_well(now))
            && let Some(in_flight) = InFlight::within_limit(server, number)
        {
            return Choice::Server(number, in_flight);
        }
        let of = |wanted: fn(&Server, bool) -> bool| -> Vec<Candidate> {
            let servers = self.servers.iter().enumerate().filter(|(number, _)| is_left(*number));
            let wanted = servers.filter(|(_, server)| wanted(server, server.is_well(now)));
            wanted.map(|(number, server)| server.candidate(number, now)).collect()
        };
        let tiers: [fn(&Server, bool) -> bool; 3] = [
            |server, is_well| is_well && !server.is_backup(),
            |server, is_well| is_well && server.is_backup(),
            |_, is_well| !is_well,
        ];
        for tier in tiers {
            let mut candidates = of(tier);
            let are_there = !candidates.is_empty();
            candidates.retain(|candidate| self.servers[candidate.number].has_room());
            while let Some(number) = balance::choose(self.config.balance, &candidates, turn, request.hash) {
                match InFlight::within_limit(&self.servers[number], number) {
                    Some(in_flight) => return Choice::Server(number, in_flight),
                    // Another request was faster.
                    None => candidates.retain(|candidate| candidate.number != number),
                }
            }
            if are_there {
                return Choice::Full;
            }
        }
        Choice::None
    }

    /// Serves those that wait, as long as there is room. On the background thread.
    fn serve_waiting(self: &Arc<Self>) {
        loop {
            let mut queue = self.waiting();
            let Some(first) = queue.front() else { return };
            let choice = self.choose(&first.search.tried, &first.search.request, Instant::now());
            if matches!(choice, Choice::Full) {
                return;
            }
            let Some(Waiting { mut search, since, _counted }) = queue.pop_front() else { return };
            drop((queue, _counted));
            self.waiting_count.fetch_sub(1, Ordering::Relaxed);
            search.queued = since.elapsed();
            search.answer(|search| search.ask(choice, OpenError::Broken));
        }
    }

    /// The requests that wait, in their order.
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        // Every change leaves it whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a request for which no server has room, and says so now and then.
    fn refuse(&self, why: &str) -> Opened {
        if let Some(server) = self.servers.first() {
            server.count(ProgramCount::Refused);
        }
        if self.refusals.is_due(Instant::now()) {
            let name = self.shown();
            self.reporter.log(format_args!("{name}: {why}: requests get 503"));
        }
        Opened::Failed(OpenError::Busy)
    }

    fn shown(&self) -> String {
        match (&self.config.name, self.servers.first()) {
            (Some(name), _) => format!("upstream {name}"),
            (None, first) => first.map(|server| server.name().to_owned()).unwrap_or_default(),
        }
    }

    /// Checks all servers, if it is time.
    fn check(self: &Arc<Self>, check: &Check, now: Instant) {
        let mut check_at = self.check_at.lock().unwrap_or_else(PoisonError::into_inner);
        if now < *check_at {
            return;
        }
        *check_at = now + check.every;
        drop(check_at);
        let until = now + check.every.min(CHECK_MAX);
        self.servers.iter().for_each(|server| Checking::begin(server, check, until, &self.background));
    }
}

impl Group for HttpServers {
    fn has_room(self: Arc<Self>) {
        if self.waiting_count.load(Ordering::Relaxed) > 0 {
            let servers = Arc::clone(&self);
            self.background.send(Command::Run(Box::new(move || servers.serve_waiting())));
        }
    }

    fn may_retry(&self) -> bool {
        self.servers.len() > 1 && self.retries.spend()
    }
}

impl Maintained for HttpServers {
    /// Refuses requests that have waited for long, and checks servers. Returns whether anything is left to do.
    fn expire_idle(self: Arc<Self>, now: Instant) -> bool {
        // A server may be well again.
        self.serve_waiting();
        let mut late = Vec::new();
        let mut queue = self.waiting();
        while queue.front().is_some_and(|first| now >= first.since + self.config.queue_wait) {
            late.extend(queue.pop_front());
        }
        let is_waited_for = !queue.is_empty();
        drop(queue);
        self.waiting_count.fetch_sub(late.len(), Ordering::Relaxed);
        for Waiting { search, .. } in late {
            let why = format!("no server had room for {:?}", self.config.queue_wait);
            search.answer(|search| Some(search.servers.refuse(&why)));
        }
        if let Some(check) = &self.config.check {
            self.check(check, now);
        }
        is_waited_for || self.config.check.is_some()
    }

    /// No request can be served any more.
    fn close(&self) {
        for Waiting { search, .. } in std::mem::take(&mut *self.waiting()) {
            search.answer(|_| Some(Opened::Failed(OpenError::Busy)));
        }
    }
}

impl Search {
    /// Tries the next servers, until one is there at once or has to be waited for.
    fn go_on(self, last: OpenError) -> Option<Opened> {
        if self.tried.len() >= TRIED_MAX {
            return Some(Opened::Failed(last));
        }
        let choice = self.servers.choose(&self.tried, &self.request, Instant::now());
        self.ask(choice, last)
    }

    fn ask(mut self, choice: Choice, last: OpenError) -> Option<Opened> {
        let (number, in_flight) = match choice {
            Choice::Server(number, in_flight) => (number, in_flight),
            Choice::Full => return self.wait(),
            Choice::None => return Some(Opened::Failed(last)),
        };
        self.tried.push(number);
        let server = Arc::clone(&self.servers.servers[number]);
        let (request, on_opened) = (self.request.again(), self.next().on_opened());
        match server.begin(in_flight, request, self.queued, on_opened) {
            Some(Opened::Failed(error)) => self.go_on(error),
            opened => opened,
        }
    }

    /// Waits until a server has room.
    fn wait(self) -> Option<Opened> {
        let servers = Arc::clone(&self.servers);
        if servers.waiting_count.fetch_add(1, Ordering::Relaxed) >= servers.config.queue_max {
            servers.waiting_count.fetch_sub(1, Ordering::Relaxed);
            return Some(servers.refuse("as many requests wait as may"));
        }
        let background = Arc::clone(&servers.background);
        background.tick();
        let _counted = servers.servers[0].counted(ProgramCount::Waiting);
        let waiting = Waiting { search: self, since: Instant::now(), _counted };
        background.send(Command::Run(Box::new(move || {
            servers.waiting().push_back(waiting);
            // One may have room by now, and was over before this one waited.
            servers.serve_waiting();
        })));
        None
    }

    fn next(&self) -> Self {
        Self {
            servers: Arc::clone(&self.servers),
            request: self.request.again(),
            tried: self.tried.clone(),
            queued: self.queued,
            reply: Arc::clone(&self.reply),
        }
    }

    /// Takes the result of an attempt that had to be waited for.
    fn on_opened(self) -> OnOpened {
        Box::new(move |opened| {
            self.answer(|search| match opened {
                Opened::Failed(error) => search.go_on(error),
                opened => Some(opened),
            });
        })
    }

    /// Answers the request with what comes of this, unless it has to be waited for.
    fn answer(self, with: impl FnOnce(Self) -> Option<Opened>) {
        let reply = Arc::clone(&self.reply);
        if let Some(opened) = with(self)
            && let Some(reply) = reply.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            reply(opened);
        }
    }
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("since", &self.since).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
