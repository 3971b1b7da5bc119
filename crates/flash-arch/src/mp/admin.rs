//! The admin socket of mp. A process of its own answers there, because the parent has no threads.
//!
//! It asks the parent over a socket. Each question goes with a socket for its answer, so that no question waits for another one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use flash_os::fork;
use flash_os::shared_array::SharedBytes;
use flash_process::ipc::{self, Received};
use flash_process::{OnEnd, Role, Supervisor};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getppid;

use crate::admin::{self, Administered, Status};
use crate::listener::Listener;
use crate::mp::generations::Generations;

/// The longest pause before the process is restarted.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// How long the parent may take for an answer, but to reload.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the process looks whether its parent is there.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const STATUS: &[u8] = b"status";
const RELOAD: &[u8] = b"reload";
const REOPEN: &[u8] = b"reopen";

/// The parent's side.
pub(super) struct Questions {
    socket: OwnedFd,
    buffer: Box<[u8]>,
    /// Not 0 once the parent answers no more.
    stopping: Arc<SharedBytes>,
}

/// What the parent has to do for administrators.
pub(super) enum AdminRequest {
    Reload(OwnedFd),
    Reopen,
}

/// The process's side.
struct Parent {
    socket: OwnedFd,
    stopping: Arc<SharedBytes>,
    /// What the parent has answered last.
    shown: Mutex<String>,
}

/// Starts the process that answers at the socket.
pub(super) fn start(socket: Listener, supervisor: &mut Supervisor<'_>) -> io::Result<Questions> {
    let (ours, theirs) = ipc::pair()?;
    let stopping = Arc::new(SharedBytes::zeroed(1)?);
    let told = Arc::clone(&stopping);
    supervisor.start(Role {
        name: "the admin socket".into(),
        on_end: OnEnd::Restart { pause_max: RESTART_PAUSE },
        socket: None,
        main: Rc::new(move || {
            // A listener would stay open for as long as any process has it.
            fork::close_all_except(&[socket.as_fd(), theirs.as_fd()]);
            let parent =
                Parent { socket: theirs.try_clone()?, stopping: Arc::clone(&told), shown: Mutex::default() };
            admin::start(socket.try_clone()?, Arc::new(parent))?;
            // The parent ends this process after the workers. If it was killed, nobody else would.
            let server = getppid();
            while getppid() == server {
                thread::sleep(LOOK_EVERY);
            }
            Ok(())
        }),
    })?;
    Ok(Questions { socket: ours, buffer: ipc::buffer(), stopping })
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
                STATUS => _ = ipc::try_send(&asker, generations.shown().as_bytes(), &[]),
                RELOAD => return Some(AdminRequest::Reload(asker)),
                REOPEN => return Some(AdminRequest::Reopen),
                _ => {}
            }
        }
    }
}

impl Drop for Questions {
    fn drop(&mut self) {
        self.stopping[0].store(1, Ordering::Release);
    }
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

impl Administered for Parent {
    fn status(&self) -> Status {
        let answer = self.ask(STATUS, Some(PATIENCE));
        let mut shown = self.shown.lock();
        if let Some(answer) = &answer {
            shown.clone_from(answer);
        }
        let value = |key: &str| {
            let words = shown.split(' ');
            words
                .filter_map(|word| word.split_once('='))
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value)
        };
        let numbers = value("in_use").unwrap_or_default().split(',');
        Status {
            // The process that an operator signals.
            pid: getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32),
            generation: value("generation").and_then(|number| number.parse().ok()).unwrap_or_default(),
            generations_in_use: numbers.filter_map(|number| number.parse().ok()).collect(),
            is_draining: answer.is_none(),
            connections: None,
            counters: format!(
                "workers={} busy={}",
                value("workers").unwrap_or_default(),
                value("busy").unwrap_or_default()
            ),
            loops: Vec::new(),
        }
    }

    fn is_draining(&self) -> bool {
        self.stopping[0].load(Ordering::Acquire) != 0
    }

    fn reload(&self) -> Result<u64, String> {
        let answer = self.ask(RELOAD, None).ok_or("the server is stopping")?;
        match (answer.strip_prefix('+').and_then(|number| number.parse().ok()), answer.strip_prefix('-')) {
            (Some(number), _) => Ok(number),
            (None, Some(why)) => Err(why.into()),
            (None, None) => Err("the server's answer makes no sense".into()),
        }
    }

    fn reopen_logs(&self) {
        let _ = self.ask(REOPEN, Some(Duration::ZERO));
    }
}
