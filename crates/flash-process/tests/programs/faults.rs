//! Programs that do not end, helpers that do; and nothing is left behind.

use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flash_core::upstream::OpenError;
use flash_process::{ExitStatus, ForkHelper};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Test;
use crate::bench::{
    Bench, GRACE, PATIENCE, Program, children, descriptors, folder, helper, is_alive, kill, look, monitor,
    processes, setup, supervisor, wait_until,
};

pub(crate) const TESTS: &[Test] = &[
    ("broken_off_a_program_ends", || broken_off_a_program_ends(&Bench::new(|_| ()))),
    ("broken_off_a_program_ends_that_the_server_forked", || broken_off_a_program_ends(&Bench::inside())),
    ("broken_off_a_program_takes_no_half_for_a_whole", broken_off_a_program_takes_no_half_for_a_whole),
    ("a_program_ends_with_all_that_it_started", a_program_ends_with_all_that_it_started),
    ("orphans_are_waited_for", orphans_are_waited_for),
    ("programs_outlive_the_helper_that_began_them", programs_outlive_the_helper_that_began_them),
    ("what_the_last_helper_began_is_counted_and_ended", what_the_last_helper_began_is_counted_and_ended),
    ("killed_again_and_again_it_fails_no_more_than_one_each_time", killed_again_and_again),
    ("without_descriptors_the_next_helper_is_reached_later", without_descriptors_the_next_is_reached_later),
    ("without_a_supervisor_it_is_the_last", without_a_supervisor_it_is_the_last),
    ("programs_end_with_their_keeper", programs_end_with_their_keeper),
    ("programs_end_with_a_killed_server", programs_end_with_a_killed_server),
    ("nothing_is_left_behind", nothing_is_left_behind),
];

const STUBBORN: &str = "trap '' TERM; echo $$; while :; do sleep 0.05; done";

fn broken_off_a_program_ends(bench: &Bench) {
    bench.script("polite", "trap 'exit 5' TERM; echo $$; while :; do sleep 0.05; done");
    let mut program = bench.begin("/cgi/polite");
    program.read_line();
    let (handle, ended) = program.parts();
    drop(handle);
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(ExitStatus::Code(5)), "it had time for last words");

    bench.script("stubborn", STUBBORN);
    let mut program = bench.begin("/cgi/stubborn");
    program.read_line();
    let (handle, ended) = program.parts();
    let before = Instant::now();
    drop(handle);
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(ExitStatus::Signal(9)));
    assert!(before.elapsed() >= GRACE, "it had its grace");

    bench.script("stopped", "echo $$; kill -STOP $$");
    let mut program = bench.begin("/cgi/stopped");
    let pid = program.read_line().parse().unwrap();
    wait_until(|| look(pid).is_some_and(|(_, state, _)| state == 'T'), || "it does not stop".into());
    let (handle, ended) = program.parts();
    drop(handle);
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(ExitStatus::Signal(15)));
}

/// The end of its stream comes after its own.
fn broken_off_a_program_takes_no_half_for_a_whole() {
    let bench = Bench::new(|_| ());
    bench.script("store", "trap '' TERM; echo begun; cat > part; mv part whole");
    let mut program = bench.begin("/cgi/store");
    assert_eq!(program.read_line(), "begun");
    program.stream.write_all(b"half of it").unwrap();
    let Program { stream, handle, ended, .. } = program;
    handle.end_before(stream.into());
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(ExitStatus::Signal(9)));
    assert!(!bench.path("whole").exists());
}

fn a_program_ends_with_all_that_it_started() {
    let bench = Bench::new(|_| ());
    // Its children hold its output; one of them ignores SIGTERM.
    bench.script("parent", "sleep 100 & echo $!; (trap '' TERM; sleep 100) & echo $!; exit 0");
    let mut program = bench.begin("/cgi/parent");
    let pids: Vec<u32> = (0..2).map(|_| program.read_line().parse().unwrap()).collect();
    assert_eq!(program.ended(), ExitStatus::Code(0));
    assert_eq!(program.read(), "", "the end comes when nobody holds it any more");
    wait_until(|| !pids.iter().any(|&pid| is_alive(pid)), || "they run on".into());
    // What makes itself independent is let be.
    bench.script("daemon", "setsid sleep 100 <&- >&- 2>&- & echo $!");
    let mut program = bench.begin("/cgi/daemon");
    let pid: u32 = program.read_line().parse().unwrap();
    assert_eq!((program.read().as_str(), program.ended()), ("", ExitStatus::Code(0)));
    thread::sleep(3 * GRACE);
    assert!(is_alive(pid));
    kill(pid);
}

fn orphans_are_waited_for() {
    let bench = Bench::new(|_| ());
    bench.script("daemon", "setsid sleep 0.3 <&- >&- 2>&- & echo $!");
    let mut program = bench.begin("/cgi/daemon");
    let pid = program.read_line().parse().unwrap();
    assert_eq!(program.ended(), ExitStatus::Code(0));
    wait_until(|| look(pid).is_none(), || format!("{:?}", look(pid)));
}

fn programs_outlive_the_helper_that_began_them() {
    let bench = Bench::new(|_| ());
    bench.script("ask", "echo begun; read word; echo $word; echo a complaint >&2");
    let mut programs: Vec<_> = (0..3).map(|_| bench.begin("/cgi/ask")).collect();
    programs.iter_mut().for_each(|program| assert_eq!(program.read_line(), "begun"));
    let first = helper(0);
    kill(first);
    // Pending at once, before anybody knows.
    let mut another = bench.begin("/cgi/ask");
    assert_ne!(helper(first), first);
    another.write_all(b"another\n");
    assert_eq!((another.read().as_str(), another.ended()), ("begun\nanother\n", ExitStatus::Code(0)));
    for mut program in programs {
        program.write_all(b"still here\n");
        assert_eq!((program.read().as_str(), program.ended()), ("still here\n", ExitStatus::Unknown));
    }
    let heard = || bench.said().iter().filter(|line| *line == "/cgi/ask: a complaint").count();
    wait_until(|| heard() == 4, || format!("{:?}", bench.said()));
}

fn what_the_last_helper_began_is_counted_and_ended() {
    let bench = Bench::new(|setup| setup.running_max = 2);
    bench.script("stubborn", STUBBORN);
    let mut programs = [bench.begin("/cgi/stubborn"), bench.begin("/cgi/stubborn")];
    let pids: Vec<u32> = programs.iter_mut().map(|program| program.read_line().parse().unwrap()).collect();
    // Orders that wait when it is killed are given to the next.
    let waiting = bench.ask("/cgi/stubborn");
    thread::sleep(Duration::from_millis(100));
    let first = helper(0);
    kill(first);
    helper(first);
    assert!(!waiting.is_answered(Duration::from_millis(300)), "two run already");
    let [one, other] = programs;
    drop(one);
    wait_until(|| !is_alive(pids[0]), || "it runs on".into());
    // `waiting` was looked at and not answered: it is answered now.
    let mut third = waiting.begun().unwrap();
    let third_pid: u32 = third.read_line().parse().unwrap();
    assert!(is_alive(pids[1]));
    drop((other, third));
    wait_until(|| !is_alive(pids[1]) && !is_alive(third_pid), || "they run on".into());
}

fn killed_again_and_again() {
    const TIMES: usize = 6;
    let bench = Bench::new(|setup| (setup.running_max, setup.queue_max) = (8, 1000));
    bench.script("quick", "echo $PATH_INFO >> log; echo quick");
    let killer = thread::spawn(|| {
        let mut last = 0;
        for _ in 0..TIMES {
            last = helper(last);
            thread::sleep(Duration::from_millis(150));
            kill(last);
        }
        last
    });
    let (mut asked, mut answered, mut failed) = (0, 0, 0);
    while !killer.is_finished() || asked < 200 {
        let batch: Vec<_> = (0..20).map(|more| bench.ask(&format!("/cgi/quick/{}", asked + more))).collect();
        asked += batch.len();
        for order in batch {
            match order.begun() {
                Ok(mut program) => {
                    assert_eq!(program.read(), "quick\n");
                    program.ended();
                    answered += 1;
                }
                Err(refusal) => {
                    assert_eq!(refusal, OpenError::Broken);
                    failed += 1;
                }
            }
        }
    }
    let last = killer.join().unwrap();
    assert!(failed <= TIMES && answered + failed == asked, "{failed} of {asked} failed");
    let log = std::fs::read_to_string(bench.path("log")).unwrap();
    let mut ran: Vec<&str> = log.lines().collect();
    ran.sort_unstable();
    assert!(ran.windows(2).all(|two| two[0] != two[1]), "none was begun twice");
    assert!(ran.len() >= answered);
    // What it was about to begin may have run for nobody, and has ended all the same.
    let last = helper(last);
    wait_until(
        || children(last).is_empty() && children(supervisor()) == [last],
        || "somebody is left".into(),
    );
}

fn without_descriptors_the_next_is_reached_later() {
    let bench = Bench::new(|_| ());
    bench.script("ask", "echo begun; read word; echo $word");
    let mut program = bench.begin("/cgi/ask");
    assert_eq!(program.read_line(), "begun");
    let (first, before) = (helper(0), getrlimit(Resource::Nofile));
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..before }).unwrap();
    kill(first);
    bench.wait_for_word("until the next fork helper is reached");
    assert_eq!(bench.ask("/cgi/ask").refusal(), Some(OpenError::Busy));
    setrlimit(Resource::Nofile, before).unwrap();
    bench.wait_for_word("programs can be started again");
    program.write_all(b"looked after\n");
    assert_eq!((program.read().as_str(), program.ended()), ("looked after\n", ExitStatus::Unknown));
    let mut another = bench.begin("/cgi/ask");
    another.write_all(b"another\n");
    assert_eq!(another.read(), "begun\nanother\n");
}

fn without_a_supervisor_it_is_the_last() {
    let bench = Bench::new(|_| ());
    bench.script("ask", "echo begun; read word; echo $word");
    let last = helper(0);
    kill(supervisor());
    let mut program = bench.begin("/cgi/ask");
    assert_eq!(program.read_line(), "begun");
    kill(last);
    bench.wait_for_word("no program can be begun any more");
    assert_eq!(bench.ask("/cgi/ask").refusal(), Some(OpenError::Busy));
    program.write_all(b"on its own\n");
    assert_eq!(program.read(), "on its own\n");
}

fn programs_end_with_their_keeper() {
    let (folder, mut pids) = (folder(), Vec::new());
    let fork_helper = ForkHelper::start(setup(folder.path()), &|| Ok(())).unwrap();
    let (supervisor, helper) = (supervisor(), helper(0));
    let mut bench = Bench::with(folder, &fork_helper);
    bench.script("stubborn", STUBBORN);
    let mut programs = [bench.begin("/cgi/stubborn"), bench.begin("/cgi/stubborn")];
    pids.extend(programs.iter_mut().map(|program| program.read_line().parse::<u32>().unwrap()));
    // Another server process's are none of its business.
    let folder_name = bench.folder.path().to_owned();
    let other = Bench {
        folder: crate::bench::folder(),
        monitor: Some(Arc::new(monitor(&fork_helper, Default::default()))),
        said: Default::default(),
        helper: None,
    };
    let mut others = other.begin("/cgi/stubborn");
    let others_pid: u32 = others.read_line().parse().unwrap();
    drop(bench.monitor.take());
    wait_until(|| !pids.iter().any(|&pid| is_alive(pid)), || "they run on".into());
    assert!(is_alive(others_pid) && folder_name.exists());
    // And with the last server the helper has nothing left to do.
    drop((other, fork_helper));
    let all = [others_pid, helper, supervisor];
    wait_until(|| !all.iter().any(|&pid| is_alive(pid)), || format!("{all:?} run on"));
}

fn programs_end_with_a_killed_server() {
    if std::env::var_os("FLASH_APP_SERVER").is_some() {
        let bench = Bench::new(|_| ());
        bench.script("stubborn", STUBBORN);
        let mut program = bench.begin("/cgi/stubborn");
        program.read_line();
        loop {
            thread::park();
        }
    }
    let mut server =
        Command::new(std::env::current_exe().unwrap()).env("FLASH_APP_SERVER", "1").spawn().unwrap();
    let descendants = || {
        let supervisors = children(server.id());
        let helpers: Vec<u32> = supervisors.iter().flat_map(|&supervisor| children(supervisor)).collect();
        let programs: Vec<u32> = helpers.iter().flat_map(|&helper| children(helper)).collect();
        (supervisors, helpers, programs)
    };
    wait_until(|| !descendants().2.is_empty(), || "it begins nothing".into());
    // Time to ignore SIGTERM.
    thread::sleep(Duration::from_millis(300));
    let (supervisors, helpers, programs) = descendants();
    kill(server.id());
    server.wait().unwrap();
    let all = [supervisors, helpers, programs].concat();
    wait_until(|| !all.iter().any(|&pid| is_alive(pid)), || format!("{all:?} run on"));
}

fn nothing_is_left_behind() {
    let bench = Bench::new(|setup| setup.running_max = 4);
    bench.script("good", "echo good; echo complaint >&2");
    bench.script("stubborn", STUBBORN);
    bench.script("children", "sleep 100 & sleep 100 & echo begun");
    bench.write("odd", "#!/no/such/interpreter\n", 0o755);
    let (supervisor, helper) = (supervisor(), helper(0));
    let everything = || {
        let programs: Vec<_> = ["good", "stubborn", "children", "missing", "odd"]
            .iter()
            .cycle()
            .take(40)
            .map(|name| bench.ask(&format!("/cgi/{name}")))
            .collect();
        for order in programs {
            if let Ok(mut program) = order.begun() {
                program.read_line();
            }
        }
        wait_until(|| children(helper).is_empty(), || format!("{:?}", processes().collect::<Vec<_>>()));
    };
    everything();
    let count = || [descriptors(std::process::id()), descriptors(supervisor), descriptors(helper)];
    let before = count();
    everything();
    everything();
    wait_until(|| count() == before, || format!("{before:?}, then {:?}", count()));
    assert_eq!((children(supervisor), children(std::process::id())), (vec![helper], vec![supervisor]));
}
