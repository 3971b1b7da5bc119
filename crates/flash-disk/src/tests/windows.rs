//! What needs no waiting, and windows of open files.

use std::ops::Range;

use super::*;

const LARGE_BYTES: usize = 300_000;
const WINDOW: Range<u64> = 131_072..262_144;

/// A large file, at the path and as found, on a site that lends its pages.
fn large() -> (Folder, Disk, PathBuf, Arc<File>) {
    let folder = Folder::new();
    let path = folder.put("large.bin", text(LARGE_BYTES));
    let disk = lending(&folder);
    let file = Arc::clone(&variants(&find(&disk, "/large.bin")).identity);
    (folder, disk, path, file)
}

/// The same on a site that copies what it sends.
fn large_copied() -> (Folder, Disk, PathBuf, Arc<File>) {
    let folder = Folder::new();
    let path = folder.put("large.bin", text(LARGE_BYTES));
    let disk = folder.disk_with(|settings| settings.copies_bytes_max = 0);
    let file = Arc::clone(&variants(&find(&disk, "/large.bin")).identity);
    (folder, disk, path, file)
}

fn lending(folder: &Folder) -> Disk {
    folder.disk_with(|settings| settings.zero_copy = true)
}

fn load(file: &Arc<File>, window: Range<u64>, copy: bool) -> Job {
    let (file, goes_to) = (Arc::clone(file), window.end);
    Job::Load(Load { site: None, file, window, goes_to, copy, completes: None })
}

#[track_caller]
fn window(outcome: Option<Outcome>) -> Window {
    match outcome.map(|outcome| outcome.done) {
        Some(Done::Window(window)) => window,
        other => panic!("no window: {other:?}"),
    }
}

#[test]
fn what_is_cached_is_found_now() {
    let folder = Folder::new();
    folder.put("a.txt", "a");
    folder.put("sub/index.html", "index");
    folder.put("large.bin", text(LARGE_BYTES));
    let disk = folder.disk();
    for name in ["/a.txt", "/sub/", "/sub", "/large.bin"] {
        find(&disk, name);
        assert!(disk.try_now(&find_job(name, None)).is_some(), "{name}");
    }
}

/// That a name was never looked at is all that can be arranged here: emptying the dentry cache would empty it for the
/// whole machine.
#[test]
fn a_name_that_nobody_has_looked_at_is_not_found_now() {
    let folder = Folder::new();
    let disk = folder.disk();
    assert!(disk.try_now(&find_job("/never-looked-at", None)).is_none());
    assert_eq!(outcome(&find(&disk, "/never-looked-at")), "404");
}

#[test]
fn a_small_file_whose_bytes_are_not_cached_is_not_found_now() {
    let folder = Folder::new();
    let path = folder.put("a.txt", text(3_000));
    let disk = folder.disk();
    evict(&path);
    assert!(disk.try_now(&find_job("/a.txt", None)).is_none());
    let entry = found(help(&disk, &find_job("/a.txt", None)));
    assert_eq!(content(&variants(&entry).identity), text(3_000));
    assert!(disk.try_now(&find_job("/a.txt", None)).is_some(), "a helper has brought it in");
}

/// A read that promises not to wait would begin to bring it in, and that waits when the disk has much to do.
#[test]
fn what_is_not_cached_is_not_begun_either() {
    let (_folder, disk, path, file) = large_copied();
    evict(&path);
    let open = fs::File::open(&path).unwrap();
    if flash_os::cachestat::holds(&open, WINDOW).is_err() {
        return eprintln!("NOT TESTED: this kernel does not tell what is cached");
    }
    for _ in 0..3 {
        assert!(disk.try_now(&load(&file, WINDOW, false)).is_none());
        std::thread::sleep(Duration::from_millis(20));
        assert!(!flash_os::cachestat::holds(&open, WINDOW.start..WINDOW.start + 1).unwrap());
    }
    assert!(matches!(window(Some(help(&disk, &load(&file, WINDOW, false)))), Window::Copied(_)));
    assert!(matches!(window(disk.try_now(&load(&file, WINDOW, false))), Window::Copied(_)));
}

/// Noting it is writing, and may wait for a journal.
#[test]
fn the_time_of_access_is_left_alone() {
    let folder = Folder::new();
    let path = folder.put("a.txt", text(3_000));
    // Made first: it reads a byte of some file, to learn what the mount can do.
    let disk = folder.disk();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    let times = fs::FileTimes::new().set_accessed(long_ago);
    fs::File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    find(&disk, "/a.txt");
    assert!(disk.try_now(&find_job("/a.txt", None)).is_some());
    assert_eq!(fs::metadata(&path).unwrap().accessed().unwrap(), long_ago);
}

#[test]
fn a_second_look_needs_no_bytes() {
    let folder = Folder::new();
    let path = folder.put("a.txt", text(3_000));
    let disk = folder.disk();
    let entry = find(&disk, "/a.txt");
    evict(&path);
    let again = found(disk.try_now(&find_job("/a.txt", Some(&entry))).expect("its attributes are cached"));
    assert!(Arc::ptr_eq(&again, &entry));
}

#[test]
fn finding_a_large_file_warms_its_first_window() {
    let folder = Folder::new();
    let path = folder.put("large.bin", text(LARGE_BYTES));
    let disk = lending(&folder);
    evict(&path);
    let file = Arc::clone(&variants(&find(&disk, "/large.bin")).identity);
    assert_eq!(window(disk.try_now(&load(&file, 0..WINDOW.start, false))), Window::Resident(0..WINDOW.start));
}

#[test]
fn resident_absent_warmed_and_resident_again() {
    let (_folder, disk, path, file) = large();
    let tail = 262_144..LARGE_BYTES as u64;
    let whole = 0..LARGE_BYTES as u64;
    assert_eq!(window(disk.try_now(&load(&file, whole.clone(), false))), Window::Resident(whole));
    for range in [0..1, 5..4_097, WINDOW, tail] {
        let job = load(&file, range.clone(), false);
        evict(&path);
        assert!(disk.try_now(&job).is_none(), "{range:?}");
        assert_eq!(window(Some(help(&disk, &job))), Window::Warmed);
        assert_eq!(window(disk.try_now(&job)), Window::Resident(range));
    }
}

/// The request path asks once more after a window was warmed, and for a copy should it have left by then. If it has
/// not, nothing is to be copied, and no helper is needed.
#[test]
fn a_warmed_window_is_not_copied_while_it_stays() {
    let (_folder, disk, path, file) = large();
    evict(&path);
    assert_eq!(window(Some(help(&disk, &load(&file, WINDOW, false)))), Window::Warmed);
    assert_eq!(window(disk.try_now(&load(&file, WINDOW, true))), Window::Resident(WINDOW));
}

#[test]
fn a_copy_is_the_bytes() {
    let (_folder, disk, path, file) = large();
    evict(&path);
    let job = load(&file, WINDOW, true);
    assert!(disk.try_now(&job).is_none());
    let expected = text(LARGE_BYTES)[WINDOW.start as usize..WINDOW.end as usize].to_vec();
    assert_eq!(window(Some(help(&disk, &job))), Window::Copied(expected.into()));
}

/// A large window is read by its beginnings, so that no helper holds all of it.
#[test]
fn a_large_window_comes_piece_by_piece() {
    let folder = Folder::new();
    let content = text(700_000);
    let path = folder.put("large.bin", &content);
    let disk = lending(&folder);
    let file = Arc::clone(&variants(&find(&disk, "/large.bin")).identity);
    for copy in [false, true] {
        evict(&path);
        let mut sent = 0;
        while sent < content.len() as u64 {
            let rest = sent..content.len() as u64;
            match window(Some(help(&disk, &load(&file, rest.clone(), copy)))) {
                Window::Warmed => match window(disk.try_now(&load(&file, rest, false))) {
                    Window::Resident(range) => {
                        assert!(range.start == sent && range.end > sent);
                        sent = range.end;
                    }
                    other => panic!("what was just warmed is {other:?}"),
                },
                Window::Copied(bytes) => {
                    assert!(copy && !bytes.is_empty() && content[sent as usize..].starts_with(&bytes));
                    sent += bytes.len() as u64;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(sent, content.len() as u64);
    }
}

#[test]
fn who_waits_anyway_lets_sendfile_wait() {
    let (_folder, disk, path, file) = large();
    evict(&path);
    assert_eq!(window(Some(disk.run(&load(&file, WINDOW, false)))), Window::Resident(WINDOW));
}

#[test]
fn a_file_that_changes_under_its_windows_is_noticed() {
    let changes: [fn(&Path); 3] = [
        |path| fs::File::options().write(true).open(path).unwrap().set_len(1_000).unwrap(),
        |path| fs::File::options().write(true).open(path).unwrap().set_len(0).unwrap(),
        |path| fs::write(path, vec![b'x'; LARGE_BYTES]).unwrap(),
    ];
    for change in changes {
        let (_folder, disk, path, file) = large();
        change(&path);
        for copy in [false, true] {
            let job = load(&file, WINDOW, copy);
            assert_eq!(window(Some(disk.run(&job))), Window::Changed);
            assert_eq!(window(Some(help(&disk, &job))), Window::Changed);
        }
        assert_eq!(window(disk.try_now(&load(&file, WINDOW, false))), Window::Changed);
    }
}

/// Who has begun to send a file may send it to its end: an open file stays what it was.
#[test]
fn a_file_that_is_replaced_or_deleted_serves_to_its_end() {
    let changes: [fn(&Folder, &Path); 2] = [
        |folder, path| fs::rename(folder.put("new", "new"), path).unwrap(),
        |_, path| fs::remove_file(path).unwrap(),
    ];
    for change in changes {
        let (folder, disk, path, file) = large();
        change(&folder, &path);
        assert_eq!(window(disk.try_now(&load(&file, WINDOW, false))), Window::Resident(WINDOW));
        assert_eq!(window(Some(disk.run(&load(&file, WINDOW, false)))), Window::Resident(WINDOW));
    }
}

#[test]
fn files_are_closed_by_a_thread_of_their_own() {
    let folder = Folder::new();
    let path = folder.put("large.bin", text(LARGE_BYTES)).canonicalize().unwrap();
    let mut disk = folder.disk();
    disk.close_elsewhere().unwrap();
    let is_open = || {
        let descriptors = fs::read_dir("/proc/self/fd").unwrap();
        descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == path))
    };
    let entry = find(&disk, "/large.bin");
    assert!(is_open());
    drop(entry);
    let closed = (0..1_000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        !is_open()
    });
    assert!(closed, "it is still open");
}

#[test]
fn the_cache_counts_what_a_large_file_takes_beside_its_pages() {
    let folder = Folder::new();
    let path = folder.put("a.iso", b"");
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
    rest(&path);
    let found = find(&folder.disk(), "/a.iso");
    let file = &variants(&found).identity;
    assert_eq!(file.content_bytes(), 0);
    assert!((128 << 10..130 << 10).contains(&file.weight_bytes()), "{}", file.weight_bytes());
}
