//! Administrators of mp. A process of its own answers them, because the parent has no threads.
//!
//! It asks the parent over a socket. Each question goes with a socket for its answer, so that no question waits for another one.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use flash_observe::metrics::MetricsMemory;
use flash_os::fork;
use flash_os::shared_array::SharedBytes;
use flash_process::ipc::{self, Received};
use flash_process::{OnEnd, Role, Supervisor, UpgradeRequest};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getppid;

use crate::admin::history::Sample;
use crate::admin::snapshot::{CertificateSnapshot, SiteSnapshot, Workers};
use crate::admin::{self, AdminThread, Administered, Snapshot, gather};
use crate::admin_listeners::AdminListeners;
use crate::listener::Listener;
use crate::mp::board::Board;
use crate::mp::generations::{Generations, Status};
use crate::upgrade::{Reply, STOPPING};

/// The longest pause before the process is restarted.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// How long the parent may take for an answer, but to reload.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the process looks whether its parent is there.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const STATUS: &[u8] = b"status";
const RELOAD: &[u8] = b"reload";
const REOPEN: &[u8] = b"reopen";
const COUNTERS: &[u8] = b"counters";
/// Before the milliseconds and the path of an upgrade.
const UPGRADE: &[u8] = b"upgrade";
const STOPPED: u8 = 1;
/// The parent has a successor, which answers from now on.
const SUCCEEDED: u8 = 2;
/// So the process accepts no more.
const LEFT: u8 = 3;
const LEAVE_PAUSE: Duration = Duration::from_millis(1);

/// The parent's side.
pub(super) struct Questions {
    socket: OwnedFd,
    buffer: Box<[u8]>,
    /// Not 0 once the parent answers no more, and [`SUCCEEDED`] if another server does.
    stopping: Arc<SharedBytes>,
    /// The parent's own descriptors.
    listeners: Rc<AdminListeners>,
}

/// What the parent has to do for administrators.
pub(super) enum AdminRequest {
    Reload(OwnedFd),
    Reopen,
    LogCounters,
    Upgrade(UpgradeRequest, Reply),
}

/// The process's side.
struct Parent {
    socket: OwnedFd,
    stopping: Arc<SharedBytes>,
    /// Where the workers count.
    metrics_memory: Arc<MetricsMemory>,
    /// Where they tell what they do.
    board: Arc<Board>,
    /// What the parent has answered last.
    status: Mutex<Status>,
}

/// Starts the process that answers at the socket.
pub(super) fn start(
    listeners: AdminListeners,
    (metrics_memory, board): (&Arc<MetricsMemory>, &Arc<Board>),
    supervisor: &mut Supervisor<'_>,
) -> io::Result<Questions> {
    let (ours, theirs) = ipc::pair()?;
    let listeners = Rc::new(listeners);
    let in_parent = Rc::clone(&listeners);
    let stopping = Arc::new(SharedBytes::zeroed(1)?);
    let told = Arc::clone(&stopping);
    let (metrics_memory, board) = (Arc::clone(metrics_memory), Arc::clone(board));
    supervisor.start(Role {
        name: "the admin socket".into(),
        on_end: OnEnd::RestartUnlessDone { pause_max: RESTART_PAUSE },
        socket: None,
        main: Rc::new(move || {
            // A listener would stay open for as long as any process has it.
            let kept = listeners.all().map(AsFd::as_fd).chain(listeners.upgrader.as_ref().map(AsFd::as_fd));
            let kept: Vec<_> = kept.chain([theirs.as_fd()]).collect();
            fork::close_all_except(&kept);
            let parent = Parent {
                socket: theirs.try_clone()?,
                stopping: Arc::clone(&told),
                metrics_memory: Arc::clone(&metrics_memory),
                board: Arc::clone(&board),
                status: Mutex::default(),
            };
            let mut admin = admin::start(listeners.try_clone()?, &Arc::new(parent))?;
            // The parent ends this process after the workers. If it was killed, nobody else would.
            let server = getppid();
            let patience = Timespec::try_from(LOOK_EVERY).ok();
            while getppid() == server && told[0].load(Ordering::Acquire) != SUCCEEDED {
                // The parent writes nothing but that it has a successor.
                let _ = poll(&mut [PollFd::new(&theirs, PollFlags::IN)], patience.as_ref());
            }
            admin.iter_mut().for_each(AdminThread::stop);
            if told[0].load(Ordering::Acquire) == SUCCEEDED {
                told[0].store(LEFT, Ordering::Release);
            }
            // Whoever has asked for that gets the answer.
            admin.iter().for_each(AdminThread::wait_for_clients);
            Ok(())
        }),
    })?;
    Ok(Questions { socket: ours, buffer: ipc::buffer(), stopping, listeners: in_parent })
}

impl Questions {
    pub(super) fn events(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes the next question that the parent has to act on. Answers the others.
    pub(super) fn next(&mut self, generations: &Generations) -> Option<AdminRequest> {
        loop {
            let Ok(Received::Message(message)) = ipc::try_receive(&self.socket, &mut self.buffer) else {
                return None;
            };
            let Some(asker) = message.descriptors.into_iter().next() else { continue };
            match &*message.bytes {
                STATUS => {
                    let status = serde_json::to_vec(&generations.status()).expect("it is plain data");
                    // It may have left.
                    let _ = ipc::try_send(&asker, &status, &[]);
                }
                RELOAD => return Some(AdminRequest::Reload(asker)),
                REOPEN => return Some(AdminRequest::Reopen),
                COUNTERS => return Some(AdminRequest::LogCounters),
                bytes => {
                    let Some(request) = bytes.strip_prefix(UPGRADE).and_then(upgrade_request) else {
                        continue;
                    };
                    return Some(AdminRequest::Upgrade(request, reply_to(asker)));
                }
            }
        }
    }
}

impl Questions {
    /// Another server answers from now on. Waits for a moment until the process accepts no more.
    pub(super) fn leave(self) {
        self.stopping[0].store(SUCCEEDED, Ordering::Release);
        // Without room for it the process looks by itself.
        let _ = ipc::try_send(&self.socket, b"", &[]);
        // The last workers would keep them open after the successor's end.
        self.listeners.all().for_each(Listener::close);
        let give_up = Instant::now() + PATIENCE;
        while self.stopping[0].load(Ordering::Acquire) != LEFT && Instant::now() < give_up {
            thread::sleep(LEAVE_PAUSE);
        }
    }
}

impl Drop for Questions {
    fn drop(&mut self) {
        // It may have a successor.
        let _ = self.stopping[0].compare_exchange(0, STOPPED, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Has the asker get the outcome of an upgrade.
fn reply_to(asker: OwnedFd) -> Reply {
    Box::new(move |outcome| {
        let text = match outcome {
            Ok(pid) => format!("+{pid}"),
            Err(why) => format!("-{why}"),
        };
        // It may have left.
        let _ = ipc::try_send(&asker, text.as_bytes(), &[]);
    })
}

fn upgrade_request(bytes: &[u8]) -> Option<UpgradeRequest> {
    let (ms, path) = bytes.split_first_chunk()?;
    let binary = (!path.is_empty()).then(|| OsStr::from_bytes(path).into());
    Some(UpgradeRequest { binary, ready_within: Duration::from_millis(u64::from_ne_bytes(*ms)) })
}

impl Parent {
    /// Asks the parent. `None` if it does not answer in time, or has begun to stop.
    fn ask(&self, question: &[u8], patience: Option<Duration>) -> Option<String> {
        if self.stopping[0].load(Ordering::Acquire) != 0 {
            return None;
        }
        let (ours, theirs) = ipc::pair().ok()?;
        ipc::try_send(&self.socket, question, &[theirs.as_fd()]).ok()?;
        drop(theirs);
        let timeout = patience.and_then(|patience| Timespec::try_from(patience).ok());
        poll(&mut [PollFd::new(&ours, PollFlags::IN)], timeout.as_ref()).ok().filter(|ready| *ready > 0)?;
        let mut buffer = ipc::buffer();
        let answer = ipc::receive(&ours, &mut buffer).ok()??;
        Some(String::from_utf8_lossy(&answer.bytes).into_owned())
    }
}

impl Parent {
    /// Asks for what the parent does in its own time. Its answer is a number, or why it was not done.
    fn ask_for_number(&self, question: &[u8]) -> Result<u64, String> {
        let answer = self.ask(question, None).ok_or(STOPPING)?;
        match (answer.strip_prefix('+').and_then(|number| number.parse().ok()), answer.strip_prefix('-')) {
            (Some(number), _) => Ok(number),
            (None, Some(why)) => Err(why.into()),
            (None, None) => Err("the server's answer makes no sense".into()),
        }
    }
}

impl Administered for Parent {
    fn snapshot(&self) -> Snapshot {
        let answer = self.ask(STATUS, Some(PATIENCE));
        let answer: Option<Status> = answer.and_then(|text| serde_json::from_str(&text).ok());
        let mut known = self.status.lock();
        if let Some(answer) = &answer {
            known.clone_from(answer);
        }
        let Status { generation, mut configurations, workers } = known.clone();
        drop(known);
        let list = self.board.workers();
        for configuration in &mut configurations {
            let serve = list.iter().filter(|worker| worker.generation == configuration.number);
            configuration.workers = serve.map(|worker| worker.pid).collect();
        }
        let certificates = self.metrics_memory.certificates.all().into_iter();
        let counted = gather::of_memory(&self.metrics_memory);
        Snapshot {
            // The process that an operator signals.
            pid: getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32),
            generation,
            generations_in_use: configurations.iter().map(|of| of.number).collect(),
            configurations,
            draining: answer.is_none(),
            devices: self.board.devices(&list),
            slowest: self.board.slowest(counted.taken_unix_ms),
            certificates: certificates
                .map(|(names, not_after_unix_s)| CertificateSnapshot { names, not_after_unix_s })
                .collect(),
            workers: Some(Workers { list, ..workers }),
            ..counted
        }
    }

    fn sample(&self) -> Sample {
        let counted = gather::sample_of_memory(&self.metrics_memory);
        Sample { busy_us: self.board.busy_us().collect(), ..counted }
    }

    fn changed_sites(&self) -> Vec<SiteSnapshot> {
        gather::changed_sites(&self.metrics_memory)
    }

    fn is_draining(&self) -> bool {
        self.stopping[0].load(Ordering::Acquire) != 0
    }

    fn reload(&self) -> Result<u64, String> {
        self.ask_for_number(RELOAD)
    }

    fn reopen_logs(&self) {
        let _ = self.ask(REOPEN, Some(Duration::ZERO));
    }

    fn log_counters(&self) {
        let _ = self.ask(COUNTERS, Some(Duration::ZERO));
    }

    fn upgrade(&self, request: UpgradeRequest) -> Result<u32, String> {
        let ms = u64::try_from(request.ready_within.as_millis()).unwrap_or(u64::MAX).to_ne_bytes();
        let path = request.binary.as_ref().map_or(&b""[..], |path| path.as_os_str().as_bytes());
        let pid = self.ask_for_number(&[UPGRADE, &ms, path].concat())?;
        Ok(u32::try_from(pid).unwrap_or_default())
    }
}
