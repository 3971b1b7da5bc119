//! HelperKind against helpers that behave as badly as a process can. They are threads here: a test cannot fork, and what is
//! on the other end of a socket makes no difference. A process that ends closes all its sockets.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use flash_core::cache::{CacheLimits, PathCache};
use flash_core::experiments::Experiments;
use flash_core::file::Content;
use flash_core::file::entry::{Entry, Resource};
use flash_core::file::header::HeaderTemplate;
use flash_core::file::validators::TagSource;
use flash_core::job::{Done, Find};
use flash_core::listing::Texts;
use flash_core::path::SitePath;
use flash_core::record::refusal_log::RefusalLog;
use flash_core::server::{Server, Settings};
use flash_core::site::Site;
use flash_core::site::hosts::Hosts;
use flash_core::site::id::SiteId;
use flash_core::site::media_types::MediaTypes;
use flash_core::site::path_rules::PathRules;
use flash_disk::{Device, Disk, FollowLinks};
use flash_http::negotiate::CodingSet;
use flash_observe::{AccessLogs, Destination, ErrorLog};
use flash_process::{Child, SupervisorProcess, ipc};
use parking_lot::{Condvar, Mutex};
use rustix::net::Shutdown;
use tempfile::TempDir;

use super::fork_request::ForkRequest;
use super::process::{ProcessThread, THREADS_MAX};
use super::*;
use crate::Limits;
use crate::server_state::{ServerParts, ServerState};

/// What a helper does with its jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Helps,
    /// Ends when it has heard the question.
    Dies,
    TalksNonsense,
    /// Ends after its first answer.
    HelpsOnce,
    /// Answers twice.
    SaysMore,
    /// Ends when its threads have heard so many questions.
    DiesWith(usize),
    /// Waits for so many questions, and answers the last one first.
    LastFirst(usize),
}

/// What the threads of a process share.
#[derive(Default)]
struct Helper {
    sockets: Mutex<Vec<OwnedFd>>,
    heard: Mutex<usize>,
    changed: Condvar,
}

impl Helper {
    fn end(&self) {
        for socket in &*self.sockets.lock() {
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
        }
    }

    /// Counts a question. Returns which one it is.
    fn hears(&self) -> usize {
        *self.heard.lock() += 1;
        self.changed.notify_all();
        *self.heard.lock()
    }

    fn wait_until(&self, is_so: impl Fn(usize) -> bool) {
        let mut heard = self.heard.lock();
        let waited = self.changed.wait_while_for(&mut heard, |heard| !is_so(*heard), PATIENCE);
        if waited.timed_out() {
            self.end();
            panic!("{heard} were heard");
        }
    }
}

/// The longest that a helper waits for questions.
const PATIENCE: Duration = Duration::from_secs(120);
/// Files beside `a.txt`, each with its number as content.
const FILES: usize = 4;

struct Bench {
    folder: TempDir,
    shared: Arc<ServerState>,
    processes: Arc<HelperProcesses>,
}

impl Bench {
    /// Helpers start in the order of `manners`; after the last there are no more, and the supervisor process is gone.
    fn new(manners: &[Manner]) -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("site")).unwrap();
        fs::write(folder.path().join("site/a.txt"), "content").unwrap();
        for number in 0..FILES {
            fs::write(folder.path().join(format!("site/{number}.txt")), number.to_string()).unwrap();
        }
        let (control, theirs) = ipc::pair().unwrap();
        let (site, manners) = (folder.path().join("site"), manners.to_vec());
        thread::spawn(move || {
            for (number, manner) in (1..).zip(manners) {
                let mut buffer = ipc::buffer();
                let Ok(Some(message)) = ipc::receive(&theirs, &mut buffer) else { break };
                let request = ForkRequest::of_bytes(&message.bytes);
                assert_eq!(request, Some(ForkRequest::Helper { number, site: 0 }));
                let socket = message.descriptors.into_iter().next().unwrap();
                let disk = disk(&site);
                thread::spawn(move || behave(manner, socket, &disk));
            }
        });
        let child = Child { pid: rustix::process::getpid(), name: "the supervisor" };
        let supervisor = Arc::new(SupervisorProcess::at(control, child));
        let to = Destination::Path(folder.path().join("errors"));
        let parts = ServerParts {
            tls: Arc::default(),
            server: Server {
                number: Arc::default(),
                settings: Settings::default(),
                hosts: Hosts::one(Site::default()),
                paths: Arc::new(PathCache::new(CacheLimits {
                    entries_max: 100,
                    bytes_max: 1 << 20,
                    descriptors_max: 100,
                    threads: 1,
                    local_caches: 1,
                })),
                refusals: RefusalLog::default().into(),
            },
            disk: {
                let site: Arc<Path> = folder.path().join("site").into();
                let mut disk = disk(&site);
                disk.leave_to_others();
                let openers = SiteOpeners::Supervisor(Arc::clone(&supervisor));
                let sites = vec![(site, Arc::new(settings().site))];
                let next = disk.prepare_sites(sites, |number| openers.of_site(number)).unwrap();
                disk.replace_sites(next);
                disk
            },
            access_logs: AccessLogs::default(),
            error_log: ErrorLog::open(to, Default::default()).unwrap(),
            helper_kind: HelperKind::Threads,
            programs: None,
            sleep_recorder: flash_observe::recorder_thread(),
            metrics_memory: flash_observe::metrics::MetricsMemory::for_loops(1).unwrap().into(),
            verbose: false,
        };
        let shared =
            ServerState::new(parts, Limits { connections_max: 1, handshakes_max: 100, ..Limits::default() });
        let processes = Arc::new(HelperProcesses::new(supervisor));
        Self { folder, shared, processes }
    }

    fn executor(&self) -> JobExecutor {
        HelperKind::Processes(Arc::clone(&self.processes)).executor()
    }

    /// A thread of a process, as an executor takes one.
    fn thread(&self, device: Device) -> io::Result<ProcessThread> {
        self.processes.thread(&self.shared.disk.root(), device, false, |_| ())
    }

    /// Finds so many files at the same time.
    fn find_all(&self, count: usize) -> Vec<Done> {
        let find = |number: usize| self.find_path(&self.executor(), &format!("/{number}.txt"), None);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || find(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn find(&self, executor: &JobExecutor, known: Option<&Arc<Entry>>) -> Done {
        self.find_path(executor, "/a.txt", known)
    }

    fn find_path(&self, executor: &JobExecutor, path: &str, known: Option<&Arc<Entry>>) -> Done {
        let path = SitePath::parse(path.as_bytes()).unwrap().into_owned();
        let job = Job::Find(Find { known: known.cloned(), ..Find::first(SiteId(0), path) });
        executor.help(&self.shared.disk, &self.shared.error_log, &job, Device::ELSEWHERE).unwrap().done
    }

    fn said(self) -> String {
        self.shared.close(false);
        fs::read_to_string(self.folder.path().join("errors")).unwrap()
    }
}

fn settings() -> flash_disk::Settings {
    flash_disk::Settings {
        site: flash_disk::SiteSettings {
            index: Vec::new(),
            follow_links: FollowLinks::Inside,
            digests: false,
            texts: Texts::default(),
            precompressed: false,
            compress: CodingSet::EMPTY,
            scripts: Vec::new(),
            program_folders: Arc::default(),
            extensions: Vec::new(),
            types: MediaTypes::default(),
            no_programs: PathRules::default(),
            deny: PathRules::default(),
            user_dirs: None,
            dotfiles: false,
            template: HeaderTemplate::default(),
            etag: TagSource::Time,
            strip_prefix: Vec::new(),
        },
        memory_file_bytes_max: 1 << 10,
        single_copy: false,
        copies_bytes_max: 1 << 20,
        listings_bytes_max: 1 << 20,
        revalidate_ms: 0,
        zero_copy: false,
        names_briefly: Duration::from_secs(1),
        ahead_bytes_max: 64 << 20,
        others_open: false,
        experiments: Experiments::default(),
    }
}

fn disk(folder: &Path) -> Disk {
    Disk::open(folder, settings()).unwrap()
}

fn behave(manner: Manner, control: OwnedFd, disk: &Disk) {
    let mut buffer = ipc::buffer();
    let root = ipc::receive(&control, &mut buffer).ok().flatten().expect("the root comes first");
    assert_eq!(root.descriptors.len(), 1);
    let helper = Arc::new(Helper::default());
    helper.sockets.lock().push(control.try_clone().unwrap());
    while let Ok(Some(message)) = ipc::receive(&control, &mut buffer) {
        let socket = message.descriptors.into_iter().next().expect("a socket for a thread");
        helper.sockets.lock().push(socket.try_clone().unwrap());
        let (helper, mut disk) = (Arc::clone(&helper), disk.for_another_thread());
        thread::spawn(move || answer(manner, &helper, &socket, &mut disk));
    }
    helper.end();
}

fn answer(manner: Manner, helper: &Helper, socket: &OwnedFd, disk: &mut Disk) {
    let mut buffer = ipc::buffer();
    let _ = ipc::send(socket, &std::process::id().to_ne_bytes(), &[]);
    while let Ok(Some(message)) = ipc::receive(socket, &mut buffer) {
        let number = helper.hears();
        match manner {
            Manner::Dies => return helper.end(),
            Manner::DiesWith(count) if number == count => return helper.end(),
            Manner::DiesWith(_) => continue,
            Manner::LastFirst(count) => helper.wait_until(|heard| heard >= count + (count - number)),
            _ => {}
        }
        let answer = match manner {
            Manner::TalksNonsense => b"nonsense, and a lot of it".to_vec(),
            _ => disk.answer(&message.bytes, message.descriptors).unwrap().bytes,
        };
        ipc::send(socket, &answer, &[]).unwrap();
        match manner {
            Manner::HelpsOnce => return helper.end(),
            Manner::SaysMore => ipc::send(socket, &answer, &[]).unwrap(),
            Manner::LastFirst(_) => {
                helper.hears();
            }
            _ => {}
        }
    }
}

#[track_caller]
fn assert_found(done: &Done) {
    assert_eq!(content(done), Some("content".into()));
}

/// What was found. `None` if the job was lost.
#[track_caller]
fn content(done: &Done) -> Option<String> {
    let entry = match done {
        Done::Found(entry) => entry,
        Done::Failed(Failure::Broken) => return None,
        other => panic!("{other:?}"),
    };
    let Resource::File(variants) = &entry.resource else { panic!("{entry:?}") };
    let Content::Memory(bytes) = &variants.identity.content else { panic!("{entry:?}") };
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

#[test]
fn one_process_does_all_jobs_of_a_hand() {
    let bench = Bench::new(&[Manner::Helps]);
    let executor = bench.executor();
    for _ in 0..3 {
        assert_found(&bench.find(&executor, None));
    }
}

#[test]
fn a_job_whose_process_ends_is_done_by_another() {
    for bad in [Manner::Dies, Manner::TalksNonsense] {
        let bench = Bench::new(&[bad, Manner::Helps]);
        let executor = bench.executor();
        assert_found(&bench.find(&executor, None));
        assert_found(&bench.find(&executor, None));
        drop(executor);
        let said = bench.said();
        let why = if bad == Manner::Dies { "ended" } else { "answered nonsense" };
        assert!(said.contains(&format!("helper-1 {why} during a find: replaced")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_job_that_ends_two_processes_is_given_up_and_the_next_is_not() {
    let bench = Bench::new(&[Manner::Dies, Manner::TalksNonsense, Manner::Helps]);
    let executor = bench.executor();
    let done = bench.find(&executor, None);
    assert!(matches!(done, Done::Failed(Failure::Broken)), "{done:?}");
    assert_found(&bench.find(&executor, None));
}

#[test]
fn what_is_known_is_kept_when_a_second_look_fails() {
    let bench = Bench::new(&[Manner::HelpsOnce, Manner::Dies, Manner::Dies]);
    let executor = bench.executor();
    let Done::Found(first) = bench.find(&executor, None) else { panic!("nothing was found") };
    while bench.processes.helpers.lock().idle[0].is_waiting() {}
    let done = bench.find(&executor, Some(&first));
    let Done::Unchecked { known, failure: Failure::Broken } = done else { panic!("{done:?}") };
    assert!(Arc::ptr_eq(&first, &known));
}

#[test]
fn a_process_that_ended_between_jobs_costs_none() {
    let bench = Bench::new(&[Manner::HelpsOnce, Manner::Dies, Manner::Helps]);
    let executor = bench.executor();
    assert_found(&bench.find(&executor, None));
    while bench.processes.helpers.lock().idle[0].is_waiting() {}
    assert_found(&bench.find(&executor, None));
}

#[test]
fn a_process_that_speaks_unasked_is_asked_no_more() {
    let bench = Bench::new(&[Manner::SaysMore, Manner::Helps]);
    let executor = bench.executor();
    assert_found(&bench.find(&executor, None));
    assert_found(&bench.find(&executor, None));
    assert_found(&bench.find(&executor, None));
}

#[test]
fn a_process_that_speaks_unasked_is_asked_no_more_by_any_thread() {
    let bench = Bench::new(&[Manner::SaysMore, Manner::Helps]);
    let executors = [(); 2].map(|()| bench.executor());
    let mut threads = [(); 2].map(|()| bench.thread(Device::ELSEWHERE).unwrap());
    assert!(threads.iter_mut().all(|thread| thread.clock().is_some()));
    let process = Arc::clone(threads[0].process());
    threads.into_iter().for_each(|thread| bench.processes.keep(thread));
    assert_found(&bench.find(&executors[0], None));
    while bench.processes.helpers.lock().idle[1].is_waiting() {}
    let next = bench.thread(Device::ELSEWHERE).unwrap();
    assert!(!Arc::ptr_eq(next.process(), &process), "its other thread is idle, and said nothing");
}

#[test]
fn helpers_retire_with_the_hands_that_they_serve() {
    let bench = Bench::new(&[Manner::Helps]);
    let (first, second) = (bench.executor(), bench.executor());
    let mut threads = [(); 2].map(|()| bench.thread(Device::ELSEWHERE).unwrap());
    // One whose first word nobody has heard does not wait to be asked.
    assert!(threads.iter_mut().all(|thread| thread.clock().is_some()));
    threads.into_iter().for_each(|thread| bench.processes.keep(thread));
    let idle = || bench.processes.helpers.lock().idle.len();
    assert_eq!(idle(), 2);
    drop(first);
    assert_eq!(idle(), 1);
    assert_found(&bench.find(&second, None));
    drop(second);
    assert_eq!(idle(), 0);
}

#[test]
fn without_a_supervisor_helpers_go_on_and_none_are_added() {
    let bench = Bench::new(&[Manner::Helps]);
    let (first, second) = (bench.executor(), bench.executor());
    assert_found(&bench.find(&first, None));
    let mut all: Vec<_> = (1..THREADS_MAX).map(|_| bench.thread(Device::ELSEWHERE).unwrap()).collect();
    assert_found(&bench.find(&second, None));
    all.push(bench.thread(Device::ELSEWHERE).unwrap());
    let done = bench.find(&second, None);
    assert!(matches!(done, Done::Failed(Failure::Overloaded)), "{done:?}");
    bench.processes.keep(all.pop().unwrap());
    assert_found(&bench.find(&second, None));
    drop((first, second));
    let idle = bench.processes.helpers.lock().idle.len();
    assert_eq!(idle, 1, "it is kept, because there will be no other");
    assert!(bench.said().contains("cannot start a helper: the supervisor has ended"));
}

#[test]
fn a_process_has_so_many_threads_and_one_device() {
    let bench = Bench::new(&[Manner::Helps; 3]);
    let processes = || bench.processes.helpers.lock().processes.len();
    let mut threads: Vec<_> = (0..THREADS_MAX).map(|_| bench.thread(Device::ELSEWHERE).unwrap()).collect();
    assert_eq!(processes(), 1);
    let other = Device { number: Device::ELSEWHERE.number + 1, ..Device::ELSEWHERE };
    let of_other = bench.thread(other).unwrap();
    assert_eq!(processes(), 2, "its processor time says nothing of another device");
    threads.push(bench.thread(Device::ELSEWHERE).unwrap());
    assert_eq!(processes(), 3, "it has as many threads as it may have");
    threads.swap_remove(0);
    threads.push(bench.thread(Device::ELSEWHERE).unwrap());
    assert_eq!(processes(), 3);
    assert!(!Arc::ptr_eq(of_other.process(), threads[0].process()));
}

#[test]
fn each_job_gets_its_own_reply_in_any_order() {
    let bench = Bench::new(&[Manner::LastFirst(FILES)]);
    for (number, done) in bench.find_all(FILES).iter().enumerate() {
        assert_eq!(content(done), Some(number.to_string()));
    }
}

#[test]
fn a_process_that_ends_with_several_jobs_loses_none() {
    let bench = Bench::new(&[&[Manner::DiesWith(FILES)][..], &[Manner::Helps; FILES]].concat());
    // Idle threads are kept for these.
    let executors = [(); FILES].map(|()| bench.executor());
    for (number, done) in bench.find_all(FILES).iter().enumerate() {
        assert_eq!(content(done), Some(number.to_string()));
    }
    drop(executors);
    let said = bench.said();
    assert!(said.contains("helper-1 ended during a find: replaced"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Else a job that ends each process would fail all others that come with it.
#[test]
fn a_job_that_ends_two_processes_takes_no_other_along_twice() {
    let bench = Bench::new(&[&[Manner::DiesWith(FILES), Manner::Dies][..], &[Manner::Helps; FILES]].concat());
    let lost = bench.find_all(FILES).iter().filter(|done| content(done).is_none()).count();
    assert_eq!(lost, 1);
}

#[test]
fn one_process_stays_of_those_that_repeated_a_job_alone() {
    let bench = Bench::new(&[&[Manner::DiesWith(2)][..], &[Manner::Helps; 3]].concat());
    let executors = [(); 4].map(|()| bench.executor());
    assert!(bench.find_all(2).iter().all(|done| content(done).is_some()));
    let mut idle = bench.processes.helpers.lock();
    let process = Arc::clone(idle.idle.pop().unwrap().process());
    assert!(idle.idle.is_empty() && process.has_room());
    drop((idle, executors));
}

#[test]
fn wishes_are_understood_as_they_were_meant() {
    for fork_request in [
        ForkRequest::Helper { number: 7, site: 3 },
        ForkRequest::Root { site: 3 },
        ForkRequest::Log { path: "/var/log/x".into() },
        ForkRequest::Configuration,
        ForkRequest::TidyUp,
    ] {
        assert_eq!(ForkRequest::of_bytes(&fork_request.to_bytes()), Some(fork_request));
    }
    for nonsense in [&b""[..], b"x", b"h", b"h12345678", b"h1234567812345678x", b"tx", b"rx", b"l\x09\0\0\0/"]
    {
        assert_eq!(ForkRequest::of_bytes(nonsense), None, "{nonsense:?}");
    }
}
