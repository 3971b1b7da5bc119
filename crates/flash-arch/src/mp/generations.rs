//! The generations of mp's workers. A reload starts another generation, and the one before ends as its connections do.
//!
//! A process of its own reads and checks the configuration, because that may wait for the disk. Then the parent forks new workers.
//! Once they serve, the earlier workers end, each after its present request, and leave their connections to the new ones.

use std::cell::{Ref, RefCell};
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flash_observe::metrics::MetricsMemory;
use flash_os::waker::Waker;
use flash_process::ipc::{self, Received};
use flash_process::{OnEnd, Role, Supervisor, child};

use crate::clock;
use crate::connections::gates::{ProcessGates, steps_at_once};
use crate::connections::listener::Listener;
use crate::limits::Limits;
use crate::login_pool::checks_at_once;
use crate::mp::parking::{Parking, WorkerEnds};
use crate::mp::reports::Reports;
use crate::mp::scoreboard::Scoreboard;
use crate::mp::worker::{Workers, work};
use crate::service::reload::Configurator;
use crate::service::reply::Reply;

/// Generations whose workers count programs and certificates.
pub(super) const GENERATIONS_COUNTED: usize = 4;
/// The longest pause before a worker is restarted that ended soon.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// How long the first workers may take to start before they count as ready.
const FIRST_PATIENCE: Duration = Duration::from_secs(2);
/// How long workers of an earlier generation may wait for another request, before the reload counts as done all the same.
const RETIRE_PATIENCE: Duration = Duration::from_millis(500);

/// The removal of a name is tried in each turn of the parent.
const REMOVALS_MAX: u16 = 1000;

/// Who asked for a reload, and gets its result. A signal asks without a reply.
pub(super) type Asker = Option<Reply>;

pub(super) struct Generations {
    processes: usize,
    processes_max: usize,
    ends: Rc<WorkerEnds>,
    configurator: Rc<RefCell<Box<dyn Configurator>>>,
    parking: Rc<RefCell<Option<Parking>>>,
    pub(super) present: Rc<Workers>,
    earlier: Vec<Earlier>,
    /// Names of sockets that are to be removed, and how often that is tried.
    left: Vec<(PathBuf, u16)>,
    rehearsal: Option<Rehearsal>,
    /// A signal has asked for another reload since the rehearsal began.
    is_asked_again: bool,
    /// The names of the sockets that a successor has now. It may end before the last worker here.
    handed_over: Vec<PathBuf>,
}

/// A generation whose last workers have not ended.
struct Earlier {
    workers: Rc<Workers>,
    /// The names of sockets that the next generation does not have.
    names: Vec<PathBuf>,
}

/// A process that reads the configuration and checks it.
struct Rehearsal {
    result: OwnedFd,
    asker: Asker,
}

impl Generations {
    pub(super) fn new(
        (processes, processes_max): (usize, usize),
        (listeners, limits): (Vec<Arc<Listener>>, Limits),
        configurator: Box<dyn Configurator>,
        parking: Parking,
        metrics_memory: Arc<MetricsMemory>,
    ) -> io::Result<Self> {
        let ends = parking.ends();
        let (scoreboard, reports, waker) = shared(processes_max)?;
        let workers = Workers {
            generation: 1,
            since_unix_ms: clock::unix_ms(),
            metrics_memory,
            rows: Some(0),
            min: processes,
            limits,
            listeners: RefCell::new(listeners),
            scoreboard,
            reports,
            login_gates: ProcessGates::new(checks_at_once())?,
            handshake_gates: ProcessGates::new(steps_at_once())?,
            ends: Rc::clone(&ends),
            waker,
            has_successor: false,
        };
        Ok(Self {
            processes,
            processes_max,
            ends,
            configurator: Rc::new(RefCell::new(configurator)),
            parking: Rc::new(RefCell::new(Some(parking))),
            present: Rc::new(workers),
            earlier: Vec::new(),
            left: Vec::new(),
            rehearsal: None,
            is_asked_again: false,
            handed_over: Vec::new(),
        })
    }

    /// Starts the workers that are kept.
    pub(super) fn start(&self, supervisor: &mut Supervisor<'_>) -> io::Result<()> {
        for _ in 0..self.present.min {
            let number = self.present.scoreboard.starting().expect("there may be so many");
            supervisor.start(self.role(number))?;
        }
        Ok(())
    }

    /// Removes the names of sockets that no process has any more, after the last worker.
    pub(super) fn remove_names(&self) {
        self.present.listeners.borrow().iter().for_each(|listener| listener.remove_name());
        // One that stays is the successor's.
        self.handed_over.iter().for_each(|name| _ = flash_trust::remove_abandoned(name));
    }

    /// The role of a worker of the present generation.
    pub(super) fn role(&self, number: usize) -> Role<'static> {
        let (parking, workers) = (Rc::clone(&self.parking), Rc::clone(&self.present));
        let configurator = Rc::clone(&self.configurator);
        Role {
            name: format!("worker {number}").into(),
            on_end: OnEnd::RestartUnlessDone { pause_max: RESTART_PAUSE },
            socket: None,
            main: Rc::new(move || {
                // An idle connection would stay open for as long as any process has its socket.
                drop(parking.take());
                match workers.scoreboard.are_retired() {
                    // A worker of an earlier generation has crashed. The configurator's parts are no longer its own.
                    true => {
                        // What the one before has left is forgotten.
                        workers.metrics_memory.enter(workers.row(number));
                        workers.metrics_memory.leave();
                        workers.reports.clear(number);
                        workers.scoreboard.absent(number);
                        Ok(())
                    }
                    false => work(number, &workers, &**configurator.borrow()),
                }
            }),
        }
    }

    /// The idle connections.
    pub(super) fn parking(&self) -> Ref<'_, Option<Parking>> {
        self.parking.borrow()
    }

    /// Does something with the idle connections.
    pub(super) fn with_parking<R>(&self, work: impl FnOnce(&mut Parking) -> R) -> Option<R> {
        self.parking.borrow_mut().as_mut().map(work)
    }

    /// Closes the idle connections, and reloads no more.
    pub(super) fn close_idle(&mut self) {
        drop(self.parking.take());
        self.rehearsal = None;
    }

    /// How many workers serve a connection.
    pub(super) fn busy(&self) -> usize {
        self.all().map(|workers| workers.scoreboard.busy()).sum()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Rc<Workers>> {
        self.earlier.iter().map(|earlier| &earlier.workers).chain([&self.present])
    }

    /// Forgets generations whose workers have ended, and removes the names of sockets that only they had.
    pub(super) fn forget_ended(&mut self) {
        let is_over = |earlier: &mut Earlier| earlier.workers.scoreboard.workers() == 0;
        let ended = self.earlier.extract_if(.., is_over);
        self.left.extend(ended.flat_map(|earlier| earlier.names).map(|name| (name, REMOVALS_MAX)));
        // A worker that is about to end still has its sockets. One that stays is taken over by the next server.
        self.left.retain_mut(|(name, tries_left)| {
            let _ = flash_trust::remove_abandoned(name);
            *tries_left -= 1;
            *tries_left > 0 && name.exists()
        });
    }

    /// `generation=3 in_use=2,3 workers=9`.
    pub(super) fn shown(&self) -> String {
        let numbers: Vec<String> = self.all().map(|workers| workers.generation.to_string()).collect();
        let workers: usize = self.all().map(|workers| workers.scoreboard.workers()).sum();
        let (generation, numbers, busy) = (self.present.generation, numbers.join(","), self.busy());
        format!("generation={generation} in_use={numbers} workers={workers} busy={busy}")
    }

    /// Starts to reload. Tells the asker what came of it, now or later.
    pub(super) fn begin_reload(&mut self, asker: Asker, supervisor: &mut Supervisor<'_>) {
        if self.rehearsal.is_some() {
            // The file may have changed since it was read. A signal has nobody who could ask again.
            self.is_asked_again |= asker.is_none();
            return answer(asker, Err("another reload is under way"));
        }
        match self.start_rehearsal(asker.is_none(), supervisor) {
            Ok(result) => self.rehearsal = Some(Rehearsal { result, asker }),
            Err(error) => answer(asker, Err(&format!("cannot start a process that checks it: {error}"))),
        }
    }

    fn start_rehearsal(&self, logs: bool, supervisor: &mut Supervisor<'_>) -> io::Result<OwnedFd> {
        let (result, theirs) = ipc::pair()?;
        let (parking, configurator) = (Rc::clone(&self.parking), Rc::clone(&self.configurator));
        supervisor.start(Role {
            name: "the check of the configuration".into(),
            on_end: OnEnd::Forget,
            socket: None,
            main: Rc::new(move || {
                drop(parking.take());
                let why = configurator.borrow().rehearse().err();
                if let Some(why) = why.as_ref().filter(|_| logs) {
                    configurator.borrow().log(&format!("the configuration stays what it was:\n{why}"));
                }
                Ok(ipc::send(&theirs, why.unwrap_or_default().as_bytes(), &[])?)
            }),
        })?;
        Ok(result)
    }

    pub(super) fn is_reloading(&self) -> bool {
        self.rehearsal.is_some()
    }

    /// Readable when a rehearsal has ended.
    pub(super) fn events(&self) -> Option<BorrowedFd<'_>> {
        self.rehearsal.as_ref().map(|rehearsal| rehearsal.result.as_fd())
    }

    /// Looks whether a rehearsal has ended. Starts another generation if all is right.
    pub(super) fn turn(&mut self, supervisor: &mut Supervisor<'_>) {
        let Some(rehearsal) = &self.rehearsal else { return };
        let mut buffer = ipc::buffer();
        let result = match ipc::try_receive(&rehearsal.result, &mut buffer) {
            Ok(Received::Nothing) => return,
            Ok(Received::Message(message)) if message.bytes.is_empty() => Ok(()),
            Ok(Received::Message(message)) => Err(String::from_utf8_lossy(&message.bytes).into_owned()),
            Ok(Received::Gone) | Err(_) => Err("the process that checks the configuration has ended".into()),
        };
        let asker = self.rehearsal.take().and_then(|rehearsal| rehearsal.asker);
        let replaced = result.and_then(|()| self.replace(supervisor));
        if let Err(why) = replaced.as_ref()
            && asker.is_none()
        {
            child::log(format_args!("the configuration stays what it was: {why}"));
        }
        answer(asker, replaced.as_ref().map(|()| self.present.generation).map_err(String::as_str));
        if mem::take(&mut self.is_asked_again) {
            self.begin_reload(None, supervisor);
        }
    }

    fn replace(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), String> {
        let text = |error: io::Error| error.to_string();
        let shared = shared(self.processes_max).map_err(text)?;
        let (listeners, limits) = self.configurator.borrow_mut().replace()?;
        for listener in &listeners {
            listener.set_nonblocking().map_err(text)?;
        }
        self.begin(shared, (listeners, limits), false, supervisor);
        Ok(())
    }

    /// Another server accepts from now on. A last generation without listeners ends the connections that there are.
    pub(super) fn succeeded(&mut self, supervisor: &mut Supervisor<'_>) -> io::Result<()> {
        let shared = shared(self.processes_max)?;
        let limits = self.present.limits;
        // Whoever else has them here, and the last workers, would keep them open after the successor's end.
        for listener in &*self.present.listeners.borrow() {
            listener.close();
            self.handed_over.extend(listener.own_name().map(Path::to_owned));
        }
        self.rehearsal = None;
        self.begin(shared, (Vec::new(), limits), true, supervisor);
        Ok(())
    }

    /// The first of the rows that no generation with workers has.
    fn free_rows(&self) -> Option<usize> {
        let mut all = (0..GENERATIONS_COUNTED).map(|place| place * self.processes_max);
        all.find(|first| !self.all().any(|workers| workers.rows == Some(*first)))
    }

    /// Begins another generation, and retires the present one.
    fn begin(
        &mut self,
        (scoreboard, reports, waker): (Scoreboard, Reports, Waker),
        (listeners, limits): (Vec<Arc<Listener>>, Limits),
        has_successor: bool,
        supervisor: &mut Supervisor<'_>,
    ) {
        let workers = Workers {
            generation: self.present.generation + 1,
            since_unix_ms: clock::unix_ms(),
            metrics_memory: Arc::clone(&self.present.metrics_memory),
            rows: self.free_rows(),
            // More start when they are needed.
            min: if has_successor { 1 } else { self.processes },
            limits,
            listeners: RefCell::new(listeners),
            scoreboard,
            reports,
            login_gates: self.present.login_gates.clone(),
            handshake_gates: self.present.handshake_gates.clone(),
            ends: Rc::clone(&self.ends),
            waker,
            has_successor,
        };
        let before = mem::replace(&mut self.present, Rc::new(workers));
        // Listeners that the new workers do not have are to be closed with the last earlier worker.
        let dropped = before.listeners.take();
        let is_left =
            |name: &Path| !self.present.listeners.borrow().iter().any(|other| other.own_name() == Some(name));
        let names = dropped.iter().filter_map(|listener| listener.own_name());
        // With a successor, they are its own.
        let names = names.filter(|name| is_left(name) && !has_successor).map(Path::to_owned).collect();
        drop(dropped);
        if let Err(error) = self.start(supervisor) {
            // Those that were started serve. More follow when they are needed.
            child::log(format_args!("cannot start all processes: {error}"));
        }
        self.wait_for_first();
        before.retire();
        // Idle workers end at once, and those that wait for their client's next request soon. The others end after their request.
        wait_while(RETIRE_PATIENCE, || before.scoreboard.may_take_requests());
        self.earlier.push(Earlier { workers: before, names });
    }

    /// Waits until the first workers handle signals, or have had time enough. One that has ended by then is replaced later.
    pub(super) fn wait_for_first(&self) {
        wait_while(FIRST_PATIENCE, || self.present.scoreboard.has_starting());
    }
}

/// What the workers of a generation share with the parent.
fn shared(workers_max: usize) -> io::Result<(Scoreboard, Reports, Waker)> {
    Ok((Scoreboard::new(workers_max)?, Reports::new(workers_max)?, Waker::new()?))
}

fn wait_while(patience: Duration, condition: impl Fn() -> bool) {
    let give_up = Instant::now() + patience;
    while condition() && Instant::now() < give_up {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Tells the asker the number of the configuration, or why there is no other one.
fn answer(asker: Asker, result: Result<u64, &str>) {
    if let Some(reply) = asker {
        reply.send(result.map_err(str::to_owned));
    }
}
