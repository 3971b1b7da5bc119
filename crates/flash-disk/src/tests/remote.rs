//! Jobs that another process does: the same results as here, and nothing believed that makes no sense.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use flash_core::cache::memory_budget::Budget;
use flash_core::job::{Failure, List};
use flash_core::listing::Part::{Details, Names};
use flash_core::listing::{Batch, Column, Folder as Part, FolderRead, Kind, OpenFolder, Order};
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::copies;
use super::list::{list_job, list_pages};
use super::*;
use crate::remote::Malformed;

/// A server without a folder, and the helper that has it.
pub(super) struct Pair {
    pub(super) here: Disk,
    pub(super) there: Disk,
}

/// More than the heap takes, so that it becomes a snapshot.
const SNAPSHOT_BYTES: usize = 300_000;
const LARGE_BYTES: usize = 2 << 20;

impl Pair {
    pub(super) fn of(folder: &Folder) -> Self {
        let there = folder.disk_with(|settings| settings.memory_file_bytes_max = 1 << 20);
        let mut here = Disk::open(&folder.root(), there.settings.clone()).unwrap();
        here.leave_to_others();
        Self { here, there }
    }

    /// The answer to a job, and the descriptors that come with it.
    pub(super) fn answer(&mut self, job: &Job) -> (Vec<u8>, Vec<OwnedFd>) {
        let request = self.here.ask(job, Device::ELSEWHERE);
        let answer = self.there.answer(&request.bytes, owned(request.descriptor.as_slice()));
        let answer = answer.expect("a question that was asked has a meaning");
        (answer.bytes.clone(), owned(&answer.descriptors()))
    }

    /// A step of a listing, made here of what is read there.
    fn list(&mut self, list: &List) -> Outcome {
        let Self { here, there } = self;
        let ask = |job: &Job| {
            let request = here.ask(job, Device::ELSEWHERE);
            let answer = there.answer(&request.bytes, owned(request.descriptor.as_slice())).unwrap();
            here.understand(&here.root(), job, &answer.bytes, owned(&answer.descriptors())).unwrap()
        };
        here.list_with(list, Device::ELSEWHERE, ask).expect("nothing is elsewhere")
    }

    pub(super) fn done(&mut self, job: &Job) -> Outcome {
        let (bytes, descriptors) = self.answer(job);
        self.here
            .understand(&self.here.root(), job, &bytes, descriptors)
            .expect("an honest answer is understood")
            .expect("nothing is elsewhere")
    }
}

fn owned(descriptors: &[BorrowedFd<'_>]) -> Vec<OwnedFd> {
    descriptors.iter().map(|descriptor| descriptor.try_clone_to_owned().unwrap()).collect()
}

/// A site with one of everything that an answer can hold.
fn site() -> Folder {
    let folder = Folder::new();
    folder.put("small.txt", text(100));
    folder.put("empty", "");
    folder.put("middle.bin", text(SNAPSHOT_BYTES));
    folder.put("large.bin", text(LARGE_BYTES));
    folder.put("page.html", "<p>");
    folder.put("page.html.gz", text(SNAPSHOT_BYTES));
    folder.put("page.html.br", "br");
    folder.put("index/index.html", "index");
    folder.put("listed/a&b.txt", "a");
    folder
}

const FILES: [&str; 6] = ["/small.txt", "/empty", "/middle.bin", "/large.bin", "/page.html", "/index/"];

fn load(file: &Arc<File>, window: std::ops::Range<u64>) -> Job {
    let goes_to = window.end;
    Job::Load(Load { site: None, file: Arc::clone(file), window, goes_to, copy: false, completes: None })
}

/// The job that reads the names of a folder.
fn names(path: &str, open: Option<&Arc<dyn OpenFolder>>, from: u64) -> Job {
    Job::Folder(Box::new(Part {
        site: SiteId(0),
        path: super::path(path),
        part: Names { open: open.cloned(), from },
        root: None,
    }))
}

fn details(path: &str, names: &[&str]) -> Job {
    let mut batch = Batch::default();
    names.iter().for_each(|name| batch.push(name.as_bytes(), Kind::File));
    Job::Folder(Box::new(Part { site: SiteId(0), path: super::path(path), part: Details(batch), root: None }))
}

fn bytes_of(disk: &Disk, file: &Arc<File>) -> Vec<u8> {
    match &file.content {
        Content::Memory(bytes) => bytes.to_vec(),
        Content::Open(_) => {
            let mut bytes = Vec::new();
            while (bytes.len() as u64) < file.size() {
                let end = file.size().min(bytes.len() as u64 + (1 << 20));
                match disk.run(&load(file, bytes.len() as u64..end)).done {
                    Done::Window(Window::Copied(copied)) => bytes.extend(copied),
                    Done::Window(Window::Resident(range)) => {
                        let Content::Open(open) = &file.content else { unreachable!() };
                        let copy = fs::File::from(open.as_fd().try_clone_to_owned().unwrap());
                        let mut read = vec![0; (range.end - range.start) as usize];
                        std::os::unix::fs::FileExt::read_exact_at(&copy, &mut read, range.start).unwrap();
                        bytes.extend(read);
                    }
                    other => panic!("{other:?}"),
                }
            }
            bytes
        }
    }
}

#[test]
fn files_come_whole_with_their_stamps_types_and_codings() {
    let folder = site();
    let mut pair = Pair::of(&folder);
    for name in FILES {
        let job = find_job(name, None);
        assert!(pair.here.try_now(&job).is_none(), "{name}: nothing can be found here");
        let (here, there) = (found(pair.done(&job)), found(help(&pair.there, &job)));
        assert_eq!(here.files().count(), there.files().count(), "{name}");
        assert_eq!(here.found_at(), there.found_at(), "{name}");
        for (here, there) in here.files().zip(there.files()) {
            assert_eq!((here.stamp, here.coding), (there.stamp, there.coding), "{name}");
            assert_eq!(here.media.content_type, there.media.content_type, "{name}");
            assert_eq!(format!("{:?}", here.etag), format!("{:?}", there.etag), "{name}");
            assert_eq!(here.weight_bytes(), there.weight_bytes(), "{name}: the cache counts the same");
            assert_eq!(bytes_of(&pair.here, here), bytes_of(&pair.there, there), "{name}");
        }
    }
    let page = found(pair.done(&find_job("/page.html", None)));
    assert_eq!(page.files().count(), 3, "both compressed copies came along");
}

#[test]
fn what_is_no_file_says_so() {
    let folder = site();
    let mut pair = Pair::of(&folder);
    let mut target = |name: &str| outcome(&found(pair.done(&find_job(name, None))));
    assert_eq!(target("/none"), "404");
    assert_eq!(target("/listed/"), "folder");
    assert_eq!(target("/listed"), "redirect");
    std::os::unix::fs::symlink("/etc/passwd", folder.path("out")).unwrap();
    assert_eq!(target("/out"), "403");
}

#[test]
fn a_second_look_sees_what_changed_and_what_did_not() {
    let folder = site();
    let mut pair = Pair::of(&folder);
    for name in FILES {
        let first = found(pair.done(&find_job(name, None)));
        let again = found(pair.done(&find_job(name, Some(&first))));
        assert!(Arc::ptr_eq(&first, &again), "{name} has not changed");
    }
    let first = found(pair.done(&find_job("/small.txt", None)));
    folder.put("small.txt", "changed");
    let again = found(pair.done(&find_job("/small.txt", Some(&first))));
    assert_eq!(outcome(&again), "changed");
    fs::remove_file(folder.path("small.txt")).unwrap();
    assert_eq!(outcome(&found(pair.done(&find_job("/small.txt", Some(&again))))), "404");
}

/// A link may lead to another device than its name says, for which only others wait.
#[test]
fn what_is_elsewhere_is_said_to_be() {
    let folder = site();
    let mut pair = Pair::of(&folder);
    let local = pair.here.device_for(&find_job("/link", None));
    assert!(local.class.is_local(), "this test needs a folder for temporary files on a local disk");
    std::os::unix::fs::symlink("/proc/version", folder.path("link")).unwrap();
    for (name, answer) in [("/link", None), ("/small.txt", Some(()))] {
        let job = find_job(name, None);
        let request = pair.here.ask(&job, local);
        let answered = pair.there.answer(&request.bytes, Vec::new()).unwrap();
        let understood =
            pair.here.understand(&pair.here.root(), &job, &answered.bytes, owned(&answered.descriptors()));
        assert_eq!(understood.unwrap().map(|_| ()), answer, "{name}");
    }
}

#[test]
fn what_a_helper_says_it_took_can_be_added_up() {
    let folder = site();
    let mut pair = Pair::of(&folder);
    let job = find_job("/large.bin", None);
    let spent = pair.done(&job).spent;
    assert!(spent.walk_ns > 0 && spent.open_ns > 0 && spent.read_ns > 0, "{spent:?}");
    let (mut bytes, descriptors) = pair.answer(&job);
    bytes[1..25].fill(0xff);
    let mut spent =
        pair.here.understand(&pair.here.root(), &job, &bytes, descriptors).unwrap().unwrap().spent;
    assert_eq!(spent.walk_ns, 3_600_000_000_000, "an hour at most");
    spent += spent;
}

#[test]
fn windows_are_loaded_from_the_file_that_was_passed_on() {
    let folder = site();
    let mut pair = Pair::of(&folder);
    let entry = found(pair.done(&find_job("/large.bin", None)));
    let file = Arc::clone(&variants(&entry).identity);
    // Whoever has that name now does not matter.
    fs::rename(folder.path("large.bin"), folder.path("moved.bin")).unwrap();
    match pair.done(&load(&file, 1 << 20..2 << 20)).done {
        Done::Window(Window::Copied(bytes)) => assert!(text(LARGE_BYTES)[1 << 20..].starts_with(&bytes)),
        other => panic!("{other:?}"),
    }
    folder.put("moved.bin", "short");
    let changed = pair.done(&load(&file, 1 << 20..2 << 20)).done;
    assert!(matches!(changed, Done::Window(Window::Changed)), "{changed:?}");
}

/// What was read ahead would be marked, and a loop that meets the mark would read on.
#[test]
fn a_helper_reads_no_further_than_it_was_asked() {
    let folder = site();
    let path = folder.path("large.bin");
    let open = fs::File::open(&path).unwrap();
    let is_held = |at: u64| flash_os::cachestat::holds(&open, at..at + 1);
    if let Err(error) = is_held(0) {
        return eprintln!("NOT TESTED: this kernel does not tell what is cached: {error}");
    }
    // Pages that are being written stay for a while.
    let give_up = Instant::now() + Duration::from_secs(20);
    while is_held(0).unwrap() || is_held(262_144).unwrap() {
        if Instant::now() > give_up {
            return eprintln!("NOT TESTED: nothing leaves the cache of this filesystem");
        }
        evict(&path);
    }
    found(Pair::of(&folder).done(&find_job("/large.bin", None)));
    std::thread::sleep(Duration::from_millis(20));
    assert!(is_held(0).unwrap() && !is_held(262_144).unwrap());
}

#[test]
fn listings_are_the_same_in_all_their_pages() {
    let folder = Folder::new();
    for number in 0..3000 {
        fs::write(folder.path(&format!("{number}-{}.txt", "x".repeat(number % 200))), "").unwrap();
    }
    fs::create_dir(folder.path("folder")).unwrap();
    std::os::unix::fs::symlink("folder", folder.path("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path("dangling")).unwrap();
    let mut pair = Pair::of(&folder);
    pair.here.list_step = Duration::ZERO;
    for by in [Column::Name, Column::Size] {
        let job = list_job("/", Order::new(by, true), 0);
        let far = list_pages(&job, |list| pair.list(list));
        let near = list_pages(&job, |list| help(&pair.there, &Job::List(list.clone())));
        assert!(far == near && far.len() > 11, "{} pages", far.len());
    }
}

/// The process that read the first names may be gone: another one goes on where its answer ended.
#[test]
fn names_are_read_on_from_where_the_last_answer_ended() {
    let folder = Folder::new();
    for number in 0..3000 {
        fs::write(folder.path(&format!("{number:04}-a-name-of-some-length")), "").unwrap();
    }
    let mut pair = Pair::of(&folder);
    let (mut found, mut open, mut from) = (Vec::new(), None, 0);
    loop {
        let job = names("/", open.as_ref(), from);
        // The first answer is lost.
        pair.answer(&job);
        let Done::Folder(FolderRead::Names { names, open: opened, next }) = pair.done(&job).done else {
            panic!("no names")
        };
        found.extend(names.iter().map(|(name, _)| name.to_vec()));
        match next {
            Some(next) => (open, from) = (Some(opened), next),
            None => break,
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 3000);
}

#[test]
fn a_server_without_room_for_a_snapshot_gets_an_open_file() {
    let folder = site();
    let mut pair = Pair::of(&folder);
    let first = found(pair.done(&find_job("/middle.bin", None)));
    assert!(first.weight_bytes() > SNAPSHOT_BYTES as u64);
    pair.here.copies = Budget::new(SNAPSHOT_BYTES as u64 - 1);
    let second = found(pair.done(&find_job("/middle.bin", None)));
    assert!(second.weight_bytes() < SNAPSHOT_BYTES as u64);
    assert_eq!(bytes_of(&pair.here, &variants(&second).identity), text(SNAPSHOT_BYTES));
}

/// Every job that there is, with its answer.
fn answers(pair: &mut Pair) -> Vec<(Job, Vec<u8>, Vec<OwnedFd>)> {
    let large = found(pair.done(&find_job("/large.bin", None)));
    let Done::Folder(FolderRead::Names { open, .. }) = pair.done(&names("/listed/", None, 0)).done else {
        panic!("no names")
    };
    let mut jobs: Vec<Job> = FILES.iter().map(|name| find_job(name, None)).collect();
    jobs.extend([
        find_job("/large.bin", Some(&large)),
        find_job("/none", None),
        find_job("/listed/none", None),
        copies::job("/small.txt", None, copies::OPEN),
        load(&variants(&large).identity, 0..1 << 20),
        names("/listed/", None, 0),
        names("/listed/", Some(&open), 0),
        details("/listed/", &["a&b.txt", "gone"]),
    ]);
    let answered = jobs.into_iter().map(|job| {
        let (bytes, descriptors) = pair.answer(&job);
        (job, bytes, descriptors)
    });
    answered.collect()
}

fn again(descriptors: &[OwnedFd]) -> Vec<OwnedFd> {
    owned(&descriptors.iter().map(AsFd::as_fd).collect::<Vec<_>>())
}

#[test]
fn answers_cut_short_or_too_long_mean_nothing() {
    let folder = site();
    let mut pair = Pair::of(&folder);
    for (job, bytes, descriptors) in answers(&mut pair) {
        let step = (bytes.len() / 500).max(1);
        for end in (0..bytes.len()).step_by(step) {
            let cut = pair.here.understand(&pair.here.root(), &job, &bytes[..end], again(&descriptors));
            assert!(cut.is_err(), "{job:?} cut to {end} bytes: {cut:?}");
        }
        let longer = [bytes.as_slice(), b"x"].concat();
        assert!(
            pair.here.understand(&pair.here.root(), &job, &longer, again(&descriptors)).is_err(),
            "{job:?}"
        );
    }
}

#[test]
fn answers_with_other_descriptors_than_they_speak_of_mean_nothing() {
    let folder = site();
    let mut pair = Pair::of(&folder);
    for (job, bytes, descriptors) in answers(&mut pair) {
        let mut more = again(&descriptors);
        more.push(fs::File::open("/dev/null").unwrap().into());
        assert!(
            pair.here.understand(&pair.here.root(), &job, &bytes, more).is_err(),
            "{job:?} with one more"
        );
        if !descriptors.is_empty() {
            let fewer = again(&descriptors[1..]);
            assert!(
                pair.here.understand(&pair.here.root(), &job, &bytes, fewer).is_err(),
                "{job:?} with one less"
            );
            let (pipe, _end) = rustix::pipe::pipe().unwrap();
            for other in
                [pipe, fs::File::open("/").unwrap().into(), fs::File::open("/dev/zero").unwrap().into()]
            {
                // Of two folders nobody here can say which one was meant.
                if matches!(job, Job::Folder(_))
                    && fs::File::from(other.try_clone().unwrap()).metadata().unwrap().is_dir()
                {
                    continue;
                }
                let mut others = again(&descriptors);
                others[0] = other;
                assert!(
                    pair.here.understand(&pair.here.root(), &job, &bytes, others).is_err(),
                    "{job:?} with no file"
                );
            }
        }
    }
}

#[test]
fn a_snapshot_that_can_change_is_none() {
    let folder = site();
    let mut pair = Pair::of(&folder);
    let job = find_job("/middle.bin", None);
    let (bytes, descriptors) = pair.answer(&job);
    let memory = |bytes: usize, seals: SealFlags| -> Vec<OwnedFd> {
        let memory = memfd_create("test", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        fs::File::from(memory.try_clone().unwrap()).write_all(&text(bytes)).unwrap();
        fcntl_add_seals(&memory, seals).unwrap();
        vec![memory]
    };
    let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    assert!(pair.here.understand(&pair.here.root(), &job, &bytes, memory(SNAPSHOT_BYTES, all)).is_ok());
    for missing in [SealFlags::SHRINK, SealFlags::WRITE] {
        let refused =
            pair.here.understand(&pair.here.root(), &job, &bytes, memory(SNAPSHOT_BYTES, all - missing));
        assert!(refused.is_err(), "without {missing:?}");
    }
    for size in [SNAPSHOT_BYTES - 1, SNAPSHOT_BYTES + 1] {
        assert!(
            pair.here.understand(&pair.here.root(), &job, &bytes, memory(size, all)).is_err(),
            "{size} bytes"
        );
    }
    let file = fs::File::open(folder.path("middle.bin")).unwrap();
    assert!(
        pair.here.understand(&pair.here.root(), &job, &bytes, vec![file.into()]).is_err(),
        "a file on a disk"
    );
    assert_eq!(descriptors.len(), 1);
}

#[test]
fn one_job_s_answer_is_not_another_s() {
    let folder = site();
    let mut pair = Pair::of(&folder);
    let answers = answers(&mut pair);
    for (job, ..) in &answers {
        for (other, bytes, descriptors) in &answers {
            if job.name() != other.name() {
                let wrong = pair.here.understand(&pair.here.root(), job, bytes, again(descriptors));
                assert!(matches!(wrong, Err(Malformed)), "{job:?} answered as {other:?}: {wrong:?}");
            }
        }
    }
    let unchanged = [&[0; 29][..], &[1]].concat();
    let unasked =
        pair.here.understand(&pair.here.root(), &find_job("/small.txt", None), &unchanged, Vec::new());
    assert!(unasked.is_err(), "what is not known cannot be unchanged");
}

#[test]
fn a_helper_s_failure_keeps_what_is_known() {
    let folder = site();
    let mut pair = Pair::of(&folder);
    let known = found(pair.done(&find_job("/small.txt", None)));
    // It took no time and had no error; FAILED, Busy.
    let failed = [&[0; 29][..], &[0, 0]].concat();
    let again =
        pair.here.understand(&pair.here.root(), &find_job("/small.txt", Some(&known)), &failed, Vec::new());
    let Ok(Some(Outcome { done: Done::Unchecked { known: kept, failure: Failure::Overloaded }, .. })) = again
    else {
        panic!("{again:?}");
    };
    assert!(Arc::ptr_eq(&kept, &known));
    let first = pair.here.understand(&pair.here.root(), &find_job("/small.txt", None), &failed, Vec::new());
    assert!(matches!(first, Ok(Some(Outcome { done: Done::Failed(Failure::Overloaded), .. }))));
}

proptest! {
    // Each case is a site and a dozen answers.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nonsense_is_an_error_and_nothing_worse(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..14u8) {
        let folder = Folder::new();
        folder.put("a.txt", "a");
        let mut pair = Pair::of(&folder);
        let entry = found(pair.done(&find_job("/a.txt", None)));
        let request = [&[0; 13][..], &[kind], &bytes].concat();
        let bytes = [&[0; 29][..], &[kind], &bytes].concat();
        let file = Arc::clone(&variants(&entry).identity);
        for job in [find_job("/a.txt", None), find_job("/a.txt", Some(&entry)), load(&file, 0..1), names("/", None, 0), details("/", &["a.txt"])] {
            let descriptors = vec![fs::File::open(folder.path("a.txt")).unwrap().into()];
            let _ = pair.here.understand(&pair.here.root(), &job, &bytes, descriptors);
            let _ = pair.here.understand(&pair.here.root(), &job, &bytes, Vec::new());
        }
        let _ = pair.there.answer(&bytes, Vec::new());
        let _ = pair.there.answer(&request, Vec::new());
    }

    #[test]
    fn one_byte_changed_does_no_harm(at in any::<proptest::sample::Index>(), to in any::<u8>()) {
        let folder = site();
        let mut pair = Pair::of(&folder);
        for (job, mut bytes, descriptors) in answers(&mut pair) {
            // Most bytes of an answer are content: those before it are the interesting ones.
            let place = at.index(bytes.len().min(300));
            bytes[place] = to;
            if let Ok(Some(Outcome { done: Done::Found(entry), .. })) = pair.here.understand(&pair.here.root(), &job, &bytes, again(&descriptors)) {
                for file in entry.files() {
                    prop_assert!(file.size() <= LARGE_BYTES as u64, "no larger than what was passed on");
                }
            }
        }
    }
}
