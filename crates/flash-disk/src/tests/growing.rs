//! Files that change while they are sent from an open file: those that go on, and those that are cut off.

use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use flash_core::site::WINDOW_BYTES;

use super::remote::Pair;
use super::*;

const BYTES: usize = 1_300_000;
/// In the middle of a block.
const FIRST_BYTES: usize = 500_000;

static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| super::text(BYTES));

/// A response, of which windows are asked for as the request path does it.
struct Response {
    file: Arc<File>,
    range: Range<u64>,
    given: Range<u64>,
    bytes: Vec<u8>,
}

/// Why there is no more of a response.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Whole,
    Cut,
}

impl Response {
    fn new(file: &Arc<File>, range: Range<u64>) -> Self {
        Self { file: Arc::clone(file), given: range.start..range.start, range, bytes: Vec::new() }
    }

    /// Gets windows until there are so many bytes.
    fn receive(&mut self, bytes_max: usize, serve: &mut dyn FnMut(&Job) -> Outcome) -> Result<(), End> {
        while self.bytes.len() < bytes_max {
            let start = self.given.end;
            if start == self.range.end {
                return Err(End::Whole);
            }
            let window = start..((start / WINDOW_BYTES + 1) * WINDOW_BYTES).min(self.range.end);
            let completes = (window.end == self.range.end).then(|| Box::new(self.given.start..window.end));
            let (file, goes_to) = (Arc::clone(&self.file), window.end);
            let load = Load { site: None, file, window, goes_to, copy: false, completes };
            match serve(&Job::Load(load)).done {
                Done::Window(Window::Copied(bytes)) => {
                    self.given.end += bytes.len() as u64;
                    self.bytes.extend(bytes);
                }
                Done::Window(Window::Changed) => return Err(End::Cut),
                other => panic!("{other:?}"),
            }
        }
        Ok(())
    }

    fn end(&mut self, serve: &mut dyn FnMut(&Job) -> Outcome) -> End {
        self.receive(usize::MAX, serve).expect_err("a file ends")
    }
}

/// What becomes of a file, and of a response in whose middle that happens.
type Case = (&'static str, fn(&Path), End);

const CASES: [Case; 11] = [
    ("nothing", |_| (), End::Whole),
    ("grown", append, End::Whole),
    ("touched", |path| set_modified(path, SystemTime::now()), End::Whole),
    ("its time set back", rest, End::Whole),
    ("touched and grown", |path| (set_modified(path, SystemTime::now()), append(path)).1, End::Whole),
    ("rewritten as it was", |path| fs::write(path, &*CONTENT).unwrap(), End::Whole),
    ("rewritten, and longer", |path| fs::write(path, vec![b'x'; BYTES + 5_000]).unwrap(), End::Cut),
    ("rewritten", |path| fs::write(path, vec![b'x'; BYTES]).unwrap(), End::Cut),
    (
        "a byte that was sent is another, and it is longer",
        |path| (put(path, 100_000), append(path)).1,
        End::Cut,
    ),
    (
        "truncated",
        |path| fs::File::options().write(true).open(path).unwrap().set_len(1_200_000).unwrap(),
        End::Cut,
    ),
    ("a byte that was sent is another", |path| put(path, 100_000), End::Cut),
];

fn append(path: &Path) {
    fs::File::options().append(true).open(path).unwrap().write_all(b"another line\n").unwrap();
}

/// Changes a byte in place.
fn put(path: &Path, at: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[!CONTENT[at as usize]], at).unwrap();
}

fn identity(entry: &Entry) -> Arc<File> {
    Arc::clone(&variants(entry).identity)
}

/// Serves as a loop with helpers, as one that waits itself, and as one with helper processes.
fn with_every_server(folder: &Folder, mut check: impl FnMut(&str, &mut dyn FnMut(&Job) -> Outcome)) {
    let disk = folder.disk();
    check("helpers", &mut |job| disk.try_now(job).unwrap_or_else(|| help(&disk, job)));
    check("waiting", &mut |job| disk.run(job));
    let mut pair = Pair::of(folder);
    check("processes", &mut |job| {
        if let Some(outcome) = pair.here.try_now(job).filter(|_| matches!(job, Job::Load(_))) {
            return outcome;
        }
        ask(&mut pair, job)
    });
    // None of it is in memory when a loop asks.
    let mut pair = Pair::of(folder);
    check("processes alone", &mut |job| ask(&mut pair, job));
}

/// As a helper thread that asks a process.
fn ask(pair: &mut Pair, job: &Job) -> Outcome {
    let outcome = pair.done(job);
    match crate::remote::is_for_the_asker(job, &outcome) {
        true => help(&pair.here, job),
        false => outcome,
    }
}

#[test]
fn what_only_grew_or_was_touched_goes_on_and_what_was_rewritten_is_cut() {
    for (what, change, end) in CASES {
        let folder = Folder::new();
        with_every_server(&folder, |how, serve| {
            for range in [0..BYTES as u64, 70_001..BYTES as u64 - 5] {
                let path = folder.put("a.log", &*CONTENT);
                let file = identity(&found(serve(&find_job("/a.log", None))));
                let mut response = Response::new(&file, range.clone());
                response.receive(FIRST_BYTES, serve).unwrap();
                change(&path);
                assert_eq!(response.end(serve), end, "{what}, {how}, {range:?}");
                let expected = &CONTENT[range.start as usize..][..response.bytes.len()];
                assert!(response.bytes == expected, "{what}, {how}, {range:?}: a mixture");
            }
        });
    }
}

#[test]
fn a_log_that_is_written_all_the_time_is_sent() {
    let folder = Folder::new();
    with_every_server(&folder, |how, serve| {
        let path = folder.put("a.log", &*CONTENT);
        append(&path);
        let file = identity(&found(serve(&find_job("/a.log", None))));
        let mut expected = fs::read(&path).unwrap();
        let mut responses = [0, 100_000].map(|start| Response::new(&file, start..file.size()));
        for response in &mut responses {
            let end = response.end(&mut |job| {
                append(&path);
                serve(job)
            });
            assert_eq!(end, End::Whole, "{how}");
            expected.truncate(file.size() as usize);
            assert!(response.bytes == expected[response.range.start as usize..], "{how}");
        }
    });
}

/// What nobody got yet may be of any version, as long as it stays that.
#[test]
fn each_response_has_bytes_of_one_version() {
    let folder = Folder::new();
    with_every_server(&folder, |how, serve| {
        let path = folder.put("a.log", &*CONTENT);
        let file = identity(&found(serve(&find_job("/a.log", None))));
        let mut first = Response::new(&file, 0..BYTES as u64);
        first.receive(FIRST_BYTES, serve).unwrap();
        put(&path, 1_200_000);
        let mut second = Response::new(&file, 0..BYTES as u64);
        for response in [&mut first, &mut second] {
            assert_eq!(response.end(serve), End::Whole, "{how}");
            assert!(response.bytes == fs::read(&path).unwrap(), "{how}");
        }
        put(&path, 1_000);
        let mut third = Response::new(&file, 900_000..BYTES as u64);
        assert_eq!(third.end(serve), End::Cut, "{how}: others got what was there before");
    });
}

#[test]
fn a_file_that_is_touched_too_often_is_cut() {
    let folder = Folder::new();
    let path = folder.put("a.log", &*CONTENT);
    let disk = folder.disk();
    let file = identity(&find(&disk, "/a.log"));
    let touched = (0..100).take_while(|minutes| {
        set_modified(&path, SystemTime::now() - Duration::from_secs(60 * minutes));
        let mut response = Response::new(&file, 0..BYTES as u64);
        response.end(&mut |job| disk.run(job)) == End::Whole
    });
    assert_eq!(touched.count(), 8);
}

/// A second write in the same tick of the clock leaves the same time, so a young stamp proves nothing.
#[test]
fn a_write_that_leaves_the_same_stamp_is_noticed_before_the_response_ends() {
    let folder = Folder::new();
    with_every_server(&folder, |how, serve| {
        let path = folder.put("a.log", &*CONTENT);
        let file = identity(&found(serve(&find_job("/a.log", None))));
        let mut response = Response::new(&file, 0..file.size());
        append(&path);
        response.receive(FIRST_BYTES, serve).unwrap();
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        put(&path, 100_000);
        set_modified(&path, time);
        assert_eq!(response.end(serve), End::Cut, "{how}");
    });
}

/// The same for a file that never rested.
#[test]
fn a_file_that_was_young_when_it_was_found_is_compared_before_a_response_ends() {
    let folder = Folder::new();
    with_every_server(&folder, |how, serve| {
        let path = folder.put("a.log", &*CONTENT);
        // A busy machine may let the file rest.
        let file = std::iter::repeat_with(|| {
            let is_found = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_found.load(Ordering::Relaxed) {
                        set_modified(&path, SystemTime::now());
                        thread::sleep(Duration::from_millis(1));
                    }
                });
                let file = identity(&found(serve(&find_job("/a.log", None))));
                is_found.store(true, Ordering::Relaxed);
                file
            })
        })
        .find(|file| {
            !file.is_one_version_now() && fs::metadata(&path).unwrap().modified().unwrap() == modified(file)
        });
        let file = file.expect("there is no end of tries");
        let mut response = Response::new(&file, 0..file.size());
        response.receive(FIRST_BYTES, serve).unwrap();
        put(&path, 100_000);
        set_modified(&path, modified(&file));
        assert_eq!(response.end(serve), End::Cut, "{how}");
    });
}

fn modified(file: &File) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(file.stamp.modified_ns as u64)
}

/// Pages that are lent are not seen, so that they cannot be compared.
#[test]
fn pages_that_are_lent_are_those_of_the_head() {
    let folder = Folder::new();
    let path = folder.put("a.log", &*CONTENT);
    let disk = folder.disk_with(|settings| settings.zero_copy = true);
    let file = identity(&find(&disk, "/a.log"));
    append(&path);
    let load = Load { site: None, file, window: 0..1_000, goes_to: 1_000, copy: false, completes: None };
    assert!(matches!(disk.run(&Job::Load(load)).done, Done::Window(Window::Changed)));
}
