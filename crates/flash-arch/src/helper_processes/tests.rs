//! HelperKind against helpers that behave as badly as a process can. They are threads here: a test cannot fork, and what is
//! on the other end of a socket makes no difference.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use flash_core::cache::{CacheLimits, PathCache};
use flash_core::entry::{Entry, Resource};
use flash_core::file::Content;
use flash_core::header::HeaderTemplate;
use flash_core::hosts::Hosts;
use flash_core::job::{Done, Find};
use flash_core::path::SitePath;
use flash_core::path_rules::PathRules;
use flash_core::refusal::RefusalLog;
use flash_core::server::{Server, Settings};
use flash_core::site::Site;
use flash_core::site_id::SiteId;
use flash_disk::{Device, Disk, FollowLinks, SendMode};
use flash_http::negotiate::CodingSet;
use flash_observe::{Destination, ErrorLog};
use flash_process::{Child, SupervisorProcess, ipc};
use tempfile::TempDir;

use super::fork_request::ForkRequest;
use super::process::Process;
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
}

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
                thread::spawn(move || behave(manner, &socket, disk));
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
            access_log: None,
            error_log: ErrorLog::open(to, Default::default()).unwrap(),
            helper_kind: HelperKind::Threads,
            programs: None,
            sleep_recorder: flash_observe::recorder_thread(),
            metrics_memory: flash_observe::metrics::MetricsMemory::for_loops(1).unwrap().into(),
            verbose: false,
        };
        let shared = ServerState::new(
            parts,
            Limits { connections_max: 1, handshakes_max: 100, drain: Duration::ZERO },
        );
        let processes = Arc::new(HelperProcesses::new(supervisor));
        Self { folder, shared, processes }
    }

    fn executor(&self) -> JobExecutor {
        HelperKind::Processes(Arc::clone(&self.processes)).executor()
    }

    fn find(&self, executor: &JobExecutor, known: Option<&Arc<Entry>>) -> Done {
        let path = SitePath::parse(b"/a.txt").unwrap().into_owned();
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
            precompressed: false,
            compress: CodingSet::EMPTY,
            scripts: Vec::new(),
            program_folders: Arc::default(),
            no_programs: PathRules::default(),
            deny: PathRules::default(),
            user_dirs: None,
            dotfiles: false,
            template: HeaderTemplate::default(),
            strip_prefix: Vec::new(),
        },
        memory_file_bytes_max: 1 << 10,
        single_copy: false,
        copies_bytes_max: 1 << 20,
        listings_bytes_max: 1 << 20,
        revalidate_ms: 0,
        send_mode: SendMode::Copy,
        names_briefly: Duration::from_secs(1),
        residency_assumed: false,
    }
}

fn disk(folder: &Path) -> Disk {
    Disk::open(folder, settings()).unwrap()
}

fn behave(manner: Manner, socket: &OwnedFd, mut disk: Disk) {
    let mut buffer = ipc::buffer();
    let root = ipc::receive(socket, &mut buffer).ok().flatten().expect("the root comes first");
    assert_eq!(root.descriptors.len(), 1);
    let _ = ipc::send(socket, &std::process::id().to_ne_bytes(), &[]);
    while let Ok(Some(message)) = ipc::receive(socket, &mut buffer) {
        let answer = match manner {
            Manner::Dies => return,
            Manner::TalksNonsense => b"nonsense, and a lot of it".to_vec(),
            Manner::Helps | Manner::HelpsOnce | Manner::SaysMore => {
                disk.answer(&message.bytes, message.descriptors).unwrap().bytes
            }
        };
        ipc::send(socket, &answer, &[]).unwrap();
        match manner {
            Manner::HelpsOnce => return,
            Manner::SaysMore => ipc::send(socket, &answer, &[]).unwrap(),
            _ => {}
        }
    }
}

#[track_caller]
fn assert_found(done: &Done) {
    let Done::Found(entry) = done else { panic!("{done:?}") };
    let Resource::File(variants) = &entry.resource else { panic!("{entry:?}") };
    assert!(matches!(&variants.identity.content, Content::Memory(bytes) if bytes[..] == *b"content"));
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
fn what_is_known_is_served_when_a_second_look_fails() {
    let bench = Bench::new(&[Manner::Helps, Manner::Dies, Manner::Dies]);
    let executor = bench.executor();
    let Done::Found(known) = bench.find(&executor, None) else { panic!("nothing was found") };
    let other = bench.executor();
    assert!(matches!(bench.find(&other, Some(&known)), Done::Found(entry) if Arc::ptr_eq(&entry, &known)));
}

#[test]
fn a_process_that_ended_between_jobs_costs_none() {
    let bench = Bench::new(&[Manner::HelpsOnce, Manner::Dies, Manner::Helps]);
    let executor = bench.executor();
    assert_found(&bench.find(&executor, None));
    while bench.processes.idle.lock()[0].is_waiting() {}
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
fn helpers_retire_with_the_hands_that_they_serve() {
    let bench = Bench::new(&[Manner::Helps, Manner::Helps]);
    let (first, second) = (bench.executor(), bench.executor());
    let mut processes: Vec<Process> =
        (0..2).map(|_| bench.processes.process(&bench.shared.disk.root(), |_| ()).unwrap()).collect();
    // One whose first word nobody has heard does not wait to be asked.
    assert!(processes.iter_mut().all(|process| process.clock().is_some()));
    processes.into_iter().for_each(|process| bench.processes.keep(process));
    assert_eq!(bench.processes.idle.lock().len(), 2);
    drop(first);
    assert_eq!(bench.processes.idle.lock().len(), 1);
    assert_found(&bench.find(&second, None));
    drop(second);
    assert_eq!(bench.processes.idle.lock().len(), 0);
}

#[test]
fn without_a_supervisor_helpers_go_on_and_none_are_added() {
    let bench = Bench::new(&[Manner::Helps]);
    let (first, second) = (bench.executor(), bench.executor());
    assert_found(&bench.find(&first, None));
    let only = bench.processes.process(&bench.shared.disk.root(), |_| ()).unwrap();
    let done = bench.find(&second, None);
    assert!(matches!(done, Done::Failed(Failure::Overloaded)), "{done:?}");
    bench.processes.keep(only);
    assert_found(&bench.find(&second, None));
    drop((first, second));
    assert_eq!(bench.processes.idle.lock().len(), 1, "it is kept, because there will be no other");
    assert!(bench.said().contains("cannot start a helper: the supervisor has ended"));
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
