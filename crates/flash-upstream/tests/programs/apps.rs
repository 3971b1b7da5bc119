//! Applications that are started when somebody asks: this program itself, which then speaks FastCGI at its standard
//! input, and php-cgi.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{self, ExitCode};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use flash_cgi::Variables;
use flash_cgi::script::Split;
use flash_core::upstream::{OpenError, Opened, ReleaseMode};
use flash_process::{ForkHelper, ipc};
use flash_upstream::{
    Application, Connector, ProgramCounter, RouteUpstreams, Settings, UpstreamConfig, run_connector,
};

use crate::Test;
use crate::bench::{command, folder, look, setup};
use crate::exchange::{Asked, PATIENCE, Request, log_detached, reporter, settings, wait_until};

pub(crate) const TESTS: &[Test] = &[
    ("an_application_is_started_when_it_is_asked_for", an_application_is_started_when_it_is_asked_for),
    ("as_many_processes_as_are_needed_and_allowed", as_many_processes_as_are_needed_and_allowed),
    ("a_process_is_not_lost_to_those_who_have_left", a_process_is_not_lost_to_those_who_have_left),
    ("no_more_wait_for_a_process_than_may", no_more_wait_for_a_process_than_may),
    ("a_process_is_replaced_after_its_requests", a_process_is_replaced_after_its_requests),
    ("a_process_that_is_idle_is_ended", a_process_that_is_idle_is_ended),
    ("a_process_that_closes_its_connection_serves_on", a_process_that_closes_its_connection_serves_on),
    ("a_process_outlives_the_connector", a_process_outlives_the_connector),
    ("a_process_that_dies_takes_one_request_along", a_process_that_dies_takes_one_request_along),
    ("an_application_that_does_not_start_is_left_alone", an_application_that_does_not_start_is_left_alone),
    ("an_application_that_is_not_there", an_application_that_is_not_there),
    ("an_answer_that_nobody_wants_is_read_to_its_end", an_answer_that_nobody_wants_is_read_to_its_end),
    ("a_process_that_hangs_is_ended", a_process_that_hangs_is_ended),
    ("applications_end_with_their_server", applications_end_with_their_server),
    ("php_cgi", php_cgi),
];

/// What this program's first argument begins with when it is the application.
pub(crate) const AS_APP: &str = "serve-fastcgi:";

struct Stage {
    programs: RouteUpstreams,
    said: Arc<Mutex<Vec<String>>>,
    _helper: ForkHelper,
}

fn application(processes_max: usize) -> Application {
    Application {
        command: 0,
        name: "the application".into(),
        processes_max,
        requests_max: usize::MAX,
        idle: PATIENCE,
    }
}

impl Stage {
    fn new(how: &str, application: Application) -> Self {
        Self::new_with(how, application, || None)
    }

    fn new_with(
        how: &str,
        application: Application,
        connector: impl FnOnce() -> Option<Arc<Connector>>,
    ) -> Self {
        let program = std::env::current_exe().unwrap();
        let argument = format!("{AS_APP}{how}");
        let words = ["app", &argument];
        Self::of_with(program.to_str().unwrap(), &words, application, &settings(), connector)
    }

    fn of(program: &str, words: &[&str], application: Application, settings: &Settings) -> Self {
        Self::of_with(program, words, application, settings, || None)
    }

    /// The fork helper starts before the connector, while there is one thread.
    fn of_with(
        program: &str,
        words: &[&str],
        application: Application,
        settings: &Settings,
        connector: impl FnOnce() -> Option<Arc<Connector>>,
    ) -> Self {
        let mut setup = setup(folder().keep().as_path());
        std::fs::remove_dir(&setup.folders.remove(0).path).unwrap();
        setup.commands = vec![command(program, words)];
        let helper = ForkHelper::start(setup, &|| Ok(())).unwrap();
        let (reporter, said) = reporter();
        let services: Vec<(_, Vec<Arc<dyn ProgramCounter>>)> =
            vec![(UpstreamConfig::Application(application), vec![Arc::new(())])];
        let programs =
            RouteUpstreams::start(services, Some(&helper), connector(), settings, reporter, log_detached())
                .unwrap();
        Self { programs, said, _helper: helper }
    }

    /// One in a sandbox, whose connectors run in threads. Returns the ends of their sockets that end them.
    fn in_sandbox(how: &str, application: Application) -> (Self, Arc<Mutex<Vec<OwnedFd>>>) {
        let running = Arc::new(Mutex::new(Vec::new()));
        let started = Arc::clone(&running);
        let start = move || {
            let (ours, theirs) = ipc::pair()?;
            started.lock().unwrap().push(theirs.try_clone()?);
            thread::spawn(move || run_connector(&theirs, std::iter::empty(), &[], || Ok(())));
            Ok(ours)
        };
        let stage = Self::new_with(how, application, || Some(Arc::new(Connector::start(start).unwrap())));
        (stage, running)
    }

    fn ask(&self) -> Asked {
        Asked::of(&self.programs, Variables::default(), false)
    }

    #[track_caller]
    fn begin(&self) -> Request {
        self.ask().answer()
    }

    /// A whole exchange. Returns which process it was, and its how manieth request.
    #[track_caller]
    fn exchange(&self) -> (u32, u32) {
        let mut request = self.begin();
        let answer = tell(&mut request, "hello");
        request.finish(ReleaseMode::Reusable);
        answer
    }

    #[track_caller]
    fn wait_for_word(&self, word: &str) {
        wait_until(word, || self.said.lock().unwrap().iter().any(|line| line.contains(word)));
    }
}

#[track_caller]
fn tell(request: &mut Request, what: &str) -> (u32, u32) {
    request.send_with(&told(what));
    of_answer(&request.receive())
}

fn told(what: &str) -> Variables {
    let mut variables = Variables::default();
    variables.push(b"WHAT", what.as_bytes());
    variables
}

#[track_caller]
fn of_answer(answer: &str) -> (u32, u32) {
    let (pid, count) = answer.split_once(' ').unwrap();
    (pid.parse().unwrap(), count.parse().unwrap())
}

#[track_caller]
fn wait_for_end(pid: u32) {
    wait_until("the process ends", || look(pid).is_none());
}

fn an_application_is_started_when_it_is_asked_for() {
    let stage = Stage::new("keep", application(2));
    let (pid, count) = stage.exchange();
    assert_eq!(count, 1);
    for expected in 2..20 {
        // From now on it costs no thread's help, and no connection.
        let mut request = stage.ask().answer_at_once();
        assert!(request.used);
        assert_eq!(tell(&mut request, "hello"), (pid, expected));
        request.finish(ReleaseMode::Reusable);
    }
    let mut request = stage.begin();
    tell(&mut request, "complain");
    request.finish(ReleaseMode::Reusable);
    stage.wait_for_word("GET /x: a complaint");
}

fn as_many_processes_as_are_needed_and_allowed() {
    let stage = Stage::new("keep", application(3));
    let mut busy: Vec<Request> = (0..3).map(|_| stage.begin()).collect();
    let pids: BTreeSet<u32> = busy.iter_mut().map(|request| tell(request, "hello").0).collect();
    assert_eq!(pids.len(), 3, "each serves one request at a time");
    let waiting = [stage.ask(), stage.ask()];
    assert!(waiting.iter().all(|asked| !asked.is_answered(Duration::from_millis(50))));
    busy.drain(1..).for_each(|request| request.finish(ReleaseMode::Reusable));
    for asked in waiting {
        let mut request = asked.answer();
        assert!(pids.contains(&tell(&mut request, "hello").0));
        request.finish(ReleaseMode::Reusable);
    }
    // One at a time needs one process, always the same.
    let again: BTreeSet<u32> = (0..5).map(|_| stage.exchange().0).collect();
    assert_eq!(again.len(), 1);
}

/// Who waited for a process and left is served before those behind it; that costs no process.
fn a_process_is_not_lost_to_those_who_have_left() {
    let stage = Stage::new("keep", application(1));
    let mut busy = stage.begin();
    let (pid, _) = tell(&mut busy, "hello");
    let left: Vec<Asked> = (0..5).map(|_| stage.ask()).collect();
    let waits = stage.ask();
    drop(left);
    busy.finish(ReleaseMode::Reusable);
    assert_eq!(tell(&mut waits.answer(), "hello").0, pid);
}

fn no_more_wait_for_a_process_than_may() {
    let program = std::env::current_exe().unwrap();
    let words = ["app", &format!("{AS_APP}keep")];
    let settings = Settings { queue_max: 1, queue_wait: Duration::from_millis(100), ..settings() };
    let stage = Stage::of(program.to_str().unwrap(), &words, application(1), &settings);
    let _busy = stage.begin();
    let waiting = stage.ask();
    assert!(matches!(stage.ask().at_once(), Opened::Failed(OpenError::Busy)));
    assert_eq!(waiting.refusal(), OpenError::Busy, "it has waited in vain");
}

fn a_process_is_replaced_after_its_requests() {
    let stage = Stage::new("keep", Application { requests_max: 3, ..application(1) });
    let served: Vec<(u32, u32)> = (0..7).map(|_| stage.exchange()).collect();
    assert_eq!(served.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1, 2, 3, 1, 2, 3, 1]);
    let pids: BTreeSet<u32> = served.iter().map(|(pid, _)| *pid).collect();
    assert_eq!(pids.len(), 3);
    wait_for_end(served[0].0);
    wait_for_end(served[3].0);
    assert!(look(served[6].0).is_some());
}

fn a_process_that_is_idle_is_ended() {
    let stage = Stage::new("keep", Application { idle: Duration::from_millis(500), ..application(1) });
    let (pid, _) = stage.exchange();
    wait_for_end(pid);
    assert_eq!(stage.exchange().1, 1, "another one");
    assert_eq!(*stage.said.lock().unwrap(), [""; 0], "nobody has to know");
}

fn a_process_that_closes_its_connection_serves_on() {
    let stage = Stage::new("close", application(1));
    let mut pids = BTreeSet::new();
    for expected in 1..6 {
        let mut request = stage.begin();
        let (pid, count) = tell(&mut request, "hello");
        request.wait_for_end();
        assert!(!request.used && count == expected);
        pids.insert(pid);
        request.finish(if expected % 2 == 0 { ReleaseMode::Ended } else { ReleaseMode::Reusable });
    }
    assert_eq!(pids.len(), 1);
}

fn a_process_outlives_the_connector() {
    let (stage, connectors) = Stage::in_sandbox("close", application(1));
    let mut pids = BTreeSet::new();
    for _ in 0..3 {
        let mut request = stage.begin();
        pids.insert(tell(&mut request, "hello").0);
        request.wait_for_end();
        request.finish(ReleaseMode::Ended);
        let last = connectors.lock().unwrap().pop().expect("another one was started");
        rustix::net::shutdown(&last, rustix::net::Shutdown::Both).unwrap();
    }
    assert_eq!(pids.len(), 1);
}

fn a_process_that_dies_takes_one_request_along() {
    let stage = Stage::new("keep", application(2));
    let (first, _) = stage.exchange();
    let mut request = stage.begin();
    request.send_with(&told("die"));
    request.wait_for_end();
    drop(request);
    let (second, count) = stage.exchange();
    assert!(second != first && count == 1);
    stage.wait_for_word("the application: a process ended with code 3");
}

fn an_application_that_does_not_start_is_left_alone() {
    let stage = Stage::new("fail", application(4));
    // Whether its connection was there before it ended or not, there is no answer.
    if let Ok(mut request) = stage.ask().answered() {
        request.fail();
    }
    stage.wait_for_word("a process ended with code 4 before it had served a request");
    let begun = Instant::now();
    let mut refused = 0;
    while begun.elapsed() < Duration::from_secs(1) {
        match stage.ask().answered() {
            Ok(mut request) => request.fail(),
            Err(_) => refused += 1,
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert!(refused > 0);
    let starts = stage.said.lock().unwrap().iter().filter(|line| line.contains("ended with code 4")).count();
    assert!(
        (1..=5).contains(&starts),
        "{starts} starts in a second, of {refused} requests that were refused"
    );
}

fn an_application_that_is_not_there() {
    let stage = Stage::of("/no/such/program", &["app"], application(1), &settings());
    assert_eq!(stage.ask().refusal(), OpenError::Broken);
    stage.wait_for_word("/no/such/program");
    assert_eq!(stage.ask().refusal(), OpenError::Busy);
}

fn an_answer_that_nobody_wants_is_read_to_its_end() {
    let stage = Stage::new("keep", application(1));
    let (pid, _) = stage.exchange();
    let mut request = stage.begin();
    request.send_with(&told("flood"));
    request.finish(ReleaseMode::Aborted);
    assert_eq!(stage.exchange(), (pid, 3), "it is the same process");
}

fn a_process_that_hangs_is_ended() {
    let stage = Stage::new("keep", application(1));
    for finish in [Some(ReleaseMode::Aborted), None] {
        let (pid, _) = stage.exchange();
        let mut request = stage.begin();
        request.send_with(&told("hang"));
        match finish {
            Some(how) => request.finish(how),
            None => drop(request),
        }
        assert_ne!(stage.exchange().0, pid);
        wait_for_end(pid);
    }
}

fn applications_end_with_their_server() {
    let stage = Stage::new("keep", application(2));
    let (pid, _) = stage.exchange();
    let mut busy = stage.begin();
    let other = tell(&mut busy, "hello").0;
    let waiting = stage.ask();
    drop(stage.programs);
    wait_for_end(pid);
    wait_for_end(other);
    // It may just have got the second process.
    let _ = waiting.answered();
}

fn php_cgi() {
    if !std::path::Path::new("/usr/bin/php-cgi").exists() {
        return eprintln!("MISSING: /usr/bin/php-cgi, so that no PHP is run");
    }
    let place = folder();
    let file = place.path().join("hello.php");
    std::fs::write(&file, "<?php echo getmypid(), ' ', $_SERVER['PATH_INFO'];").unwrap();
    let stage = Stage::of("/usr/bin/php-cgi", &["php-cgi", "-n"], application(1), &settings());
    let mut variables = Variables::default();
    variables.push(b"REQUEST_METHOD", b"GET");
    variables.push(b"REDIRECT_STATUS", b"200");
    let split = Split { name: b"/hello.php", info: b"/more" };
    variables.add_script(&split, Some(file.as_os_str().as_encoded_bytes()));
    let mut answers = BTreeSet::new();
    // It would leave after 500 by itself.
    for number in 0..600 {
        let mut request = stage.begin();
        assert_eq!(request.used, number > 0);
        request.send_with(&variables);
        let answer = request.receive();
        assert!(answer.ends_with(" /more"), "{answer}");
        answers.insert(answer.split_once("\r\n\r\n").unwrap().1.to_owned());
        request.finish(ReleaseMode::Reusable);
    }
    assert_eq!(answers.len(), 1, "one process served all: {answers:?}");
}

/// Is the application.
pub(crate) fn serve(how: &str) -> ExitCode {
    if how == "fail" {
        return ExitCode::from(4);
    }
    let listener = UnixListener::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let mut count = 0;
    loop {
        let mut stream = listener.accept().unwrap().0;
        while let Some(what) = read_request(&mut stream) {
            count += 1;
            let complaint: &[u8] = if what == "complain" { b"a complaint\n" } else { b"" };
            match what.as_str() {
                "die" => process::exit(3),
                "hang" => thread::sleep(PATIENCE * 100),
                "flood" => (0..100).for_each(|_| drop(stream.write_all(&record(6, &[b'x'; 60_000])))),
                _ => {}
            }
            let answer = format!("{} {count}", process::id());
            let records = [
                if complaint.is_empty() { Vec::new() } else { record(7, complaint) },
                record(6, answer.as_bytes()),
                record(3, &[0; 8]),
            ];
            if stream.write_all(&records.concat()).is_err() || how == "close" {
                break;
            }
        }
    }
}

/// What it is told to do; `None` at the end of the connection.
fn read_request(stream: &mut UnixStream) -> Option<String> {
    let mut pairs = Vec::new();
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head).ok()?;
        let mut content = vec![0; usize::from(u16::from_be_bytes([head[4], head[5]]))];
        stream.read_exact(&mut content).ok()?;
        match (head[1], content.is_empty()) {
            (4, _) => pairs.append(&mut content),
            (5, true) => break,
            _ => {}
        }
    }
    let variables = Variables::from_pairs(pairs)?;
    Some(String::from_utf8_lossy(variables.get(b"WHAT").unwrap_or_default()).into_owned())
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
}
