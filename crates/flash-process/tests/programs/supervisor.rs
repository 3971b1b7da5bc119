//! The supervisor with roles that fail, end in order, or do not want to end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use flash_os::signals;
use flash_process::{OnEnd, Role, Supervisor, SupervisorProcess, SupervisorSetup, ipc};

use crate::Test;
use crate::bench::{PATIENCE, children, is_alive, wait_until};

pub(crate) const TESTS: &[Test] = &[
    ("a_role_that_fails_is_restarted_after_its_pause", a_role_that_fails_is_restarted_after_its_pause),
    ("a_role_that_is_done_is_not_restarted", a_role_that_is_done_is_not_restarted),
    ("all_roles_end_with_their_supervisor", all_roles_end_with_their_supervisor),
    ("a_role_that_always_fails_ends_with_its_server", a_role_that_always_fails_ends_with_its_server),
];

/// As in the supervisor process: the descriptor tells of children that have ended.
struct Bench<'a> {
    supervisor: Supervisor<'a>,
    child_ends: OwnedFd,
    ours: OwnedFd,
    theirs: Rc<OwnedFd>,
}

impl<'a> Bench<'a> {
    fn new() -> Self {
        signals::block_all();
        let (ours, theirs) = ipc::pair().unwrap();
        let child_ends = signals::child_ends().unwrap();
        Self { supervisor: Supervisor::new(&[]), child_ends, ours, theirs: Rc::new(theirs) }
    }

    /// Starts a role that says so first.
    fn start(&mut self, on_end: OnEnd, main: impl Fn() -> io::Result<()> + 'a) {
        let theirs = Rc::clone(&self.theirs);
        let main = move || {
            ipc::send(&theirs, b"started", &[])?;
            main()
        };
        let socket = Some(Rc::clone(&self.theirs));
        let role = Role { name: "the role".into(), on_end, socket, main: Rc::new(main) };
        self.supervisor.start(role).unwrap();
    }

    /// Waits until a child has ended or a process is to be started.
    fn turn(&mut self) {
        self.supervisor.wait(&[self.child_ends.as_fd()]).unwrap();
        let _ = rustix::io::read(&self.child_ends, &mut [0; 1024][..]);
        assert!(self.supervisor.reap().is_none(), "none is needed");
    }

    fn wait_for_start(&self) {
        assert!(ipc::receive(&self.ours, &mut ipc::buffer()).unwrap().is_some());
    }
}

fn a_role_that_fails_is_restarted_after_its_pause() {
    const PAUSE: Duration = Duration::from_millis(150);
    let mut bench = Bench::new();
    bench.start(OnEnd::Restart { pause_max: PAUSE }, || Err(io::Error::other("a fault at its start")));
    bench.wait_for_start();
    for _ in 0..3 {
        // Its end is noticed, and nothing waits for the pause.
        bench.turn();
        let ended = Instant::now();
        assert!(!bench.supervisor.is_done());
        bench.turn();
        bench.wait_for_start();
        assert!(ended.elapsed() >= PAUSE - Duration::from_millis(10), "{:?}", ended.elapsed());
    }
}

fn a_role_that_is_done_is_not_restarted() {
    let mut bench = Bench::new();
    let pause_max = Duration::ZERO;
    bench.start(OnEnd::RestartUnlessDone { pause_max }, || Ok(()));
    bench.wait_for_start();
    bench.turn();
    assert!(bench.supervisor.is_done());
    // The same end of a role that is always needed.
    bench.start(OnEnd::Restart { pause_max }, || Ok(()));
    for _ in 0..3 {
        bench.wait_for_start();
        bench.turn();
        assert!(!bench.supervisor.is_done());
    }
}

fn all_roles_end_with_their_supervisor() {
    let mut bench = Bench::new();
    // Longer than the test, and not forever: one that fails leaves them to themselves.
    let forever = || {
        std::thread::sleep(2 * PATIENCE);
        Ok(())
    };
    // Their signals are blocked, as in the supervisor process.
    bench.start(OnEnd::Forget, forever);
    bench.start(OnEnd::Restart { pause_max: Duration::ZERO }, forever);
    bench.wait_for_start();
    bench.wait_for_start();
    let running = || children(std::process::id()).into_iter().filter(|pid| is_alive(*pid)).count();
    assert_eq!(running(), 2);
    bench.supervisor.kill_requested();
    wait_until(|| running() == 1, || "the one that was requested runs on".into());
    assert!(bench.supervisor.reap().is_none() && !bench.supervisor.is_done() && running() == 1);
    let Bench { supervisor, .. } = bench;
    supervisor.end(Duration::from_millis(50), || ());
    wait_until(|| running() == 0, || "one runs on".into());
}

fn a_role_that_always_fails_ends_with_its_server() {
    let role = Role {
        name: "the role".into(),
        on_end: OnEnd::RestartUnlessDone { pause_max: Duration::from_millis(1) },
        socket: None,
        main: Rc::new(|| Err(io::Error::other("a fault at its start"))),
    };
    let setup = SupervisorSetup { permanent: vec![role], ..SupervisorSetup::default() };
    let server = SupervisorProcess::start(setup).unwrap();
    let pid = server.child().pid.as_raw_nonzero().get().unsigned_abs();
    assert!(is_alive(pid));
    drop(server);
    wait_until(|| !is_alive(pid), || "it starts the role again and again".into());
}
