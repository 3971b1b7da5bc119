//! Second looks: what has not changed keeps its entry, what has gets a new one.

use std::os::unix::fs::FileExt;
use std::thread;

use super::*;

/// A disk that serves `a.txt`, and the entry of it.
fn known(content: &str) -> (Folder, Disk, Arc<Entry>) {
    let folder = Folder::new();
    folder.put("a.txt", content);
    let disk = folder.disk();
    let entry = find(&disk, "/a.txt");
    (folder, disk, entry)
}

#[test]
fn an_unchanged_file_keeps_its_entry() {
    let (folder, disk, entry) = known("same");
    folder.put("a.txt.unrelated", "x");
    let known = Some(Arc::clone(&entry));
    let job = Job::Find(Find { known, asked_ms: 5_000, ..Find::first(SiteId(0), path("/a.txt")) });
    assert!(Arc::ptr_eq(&found(disk.run(&job)), &entry));
    assert_eq!(entry.age_ms(5_999), 999, "it has been looked at");
    assert!(Arc::ptr_eq(&found(disk.try_now(&job).expect("all of it is cached")), &entry));
}

#[test]
fn every_change_is_noticed() {
    type Change = fn(&Folder, &Path);
    let changes: [(&str, Change, &str); 8] = [
        ("longer", |folder, _| drop(folder.put("a.txt", "longer than before")), "longer than before"),
        ("in place, of the same size", |_, path| fs::write(path, "other").unwrap(), "other"),
        (
            "truncated",
            |_, path| fs::File::options().write(true).open(path).unwrap().set_len(2).unwrap(),
            "fi",
        ),
        ("deleted", |_, path| fs::remove_file(path).unwrap(), "404"),
        (
            "now a folder",
            |_, path| fs::remove_file(path).and_then(|()| fs::create_dir(path)).unwrap(),
            "redirect",
        ),
        (
            "replaced, with the same size and time",
            |folder, path| {
                let time = fs::metadata(path).unwrap().modified().unwrap();
                let new = folder.put("new", "other");
                set_modified(&new, time);
                fs::rename(new, path).unwrap();
            },
            "other",
        ),
        (
            "written to, and its time set back",
            |_, path| {
                let time = fs::metadata(path).unwrap().modified().unwrap();
                fs::write(path, "other").unwrap();
                set_modified(path, time);
            },
            "other",
        ),
        (
            "a link now",
            |_, path| {
                fs::remove_file(path).unwrap();
                std::os::unix::fs::symlink("nowhere", path).unwrap();
            },
            "404",
        ),
    ];
    for (what, change, expected) in changes {
        let (folder, disk, entry) = known("first");
        change(&folder, &folder.path("a.txt"));
        let again = find_again(&disk, "/a.txt", &entry);
        assert!(!Arc::ptr_eq(&again, &entry), "{what}");
        assert_eq!(outcome(&again), expected, "{what}");
        assert_eq!(outcome(&entry), "first", "{what}: an entry never changes");
    }
}

#[test]
fn what_was_missing_is_found_once_it_is_there() {
    let folder = Folder::new();
    let disk = folder.disk();
    let missing = find(&disk, "/a.txt");
    assert_eq!(outcome(&missing), "404");
    folder.put("a.txt", "here");
    assert_eq!(outcome(&find_again(&disk, "/a.txt", &missing)), "here");
}

#[test]
fn an_index_comes_and_goes() {
    let folder = Folder::new();
    let disk = folder.disk();
    let bare = find(&disk, "/");
    let index = folder.put("index.html", "index");
    let indexed = find_again(&disk, "/", &bare);
    assert_eq!(outcome(&indexed), "index");
    fs::remove_file(index).unwrap();
    assert_eq!(outcome(&find_again(&disk, "/", &indexed)), "folder");
}

#[test]
fn siblings_come_change_and_go() {
    let folder = Folder::new();
    folder.put("a.css", "plain");
    let disk = folder.disk();
    let mut entry = find(&disk, "/a.css");
    for content in ["first", "second, longer"] {
        folder.put("a.css.gz", content);
        let again = find_again(&disk, "/a.css", &entry);
        assert!(!Arc::ptr_eq(&again, &entry));
        assert_eq!(super::content(&variants(&again).coded[0]), content.as_bytes());
        entry = again;
    }
    assert!(Arc::ptr_eq(&find_again(&disk, "/a.css", &entry), &entry));
    fs::remove_file(folder.path("a.css.gz")).unwrap();
    assert!(variants(&find_again(&disk, "/a.css", &entry)).coded.is_empty());
}

#[test]
fn a_large_file_is_noticed_too() {
    let folder = Folder::new();
    let path = folder.put("large.txt", text(200_000));
    let disk = folder.disk();
    let entry = find(&disk, "/large.txt");
    assert!(Arc::ptr_eq(&find_again(&disk, "/large.txt", &entry), &entry));
    fs::File::options().write(true).open(&path).unwrap().set_len(100_000).unwrap();
    rest(&path);
    let again = find_again(&disk, "/large.txt", &entry);
    assert_eq!(variants(&again).identity.size(), 100_000);
}

/// As `cp -p` and `rsync --inplace --times` write it.
#[test]
fn a_file_that_is_rewritten_with_its_time_while_it_is_read_is_read_again() {
    const BYTES: usize = 200_000;
    let folder = Folder::new();
    let path = folder.put("a.bin", [b'a'; BYTES]);
    let disk = folder.disk_with(|settings| settings.memory_file_bytes_max = 1 << 20);
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    for round in 0..300u16 {
        let bytes = vec![b'a' + (round % 2) as u8; BYTES];
        let entry = thread::scope(|scope| {
            scope.spawn(|| {
                file.write_all_at(&bytes, 0).unwrap();
                file.set_modified(written).unwrap();
            });
            find(&disk, "/a.bin")
        });
        // Until the clock of times of change has gone on.
        thread::sleep(Duration::from_millis(12));
        let content = content(&variants(&entry).identity);
        assert!(content.iter().all(|byte| *byte == content[0]), "two versions in round {round}");
    }
}

/// The time of change is set when a write begins: its bytes may still follow.
#[test]
fn a_file_that_has_just_been_written_is_waited_for() {
    let (folder, disk, _) = known("first");
    let path = folder.path("a.txt");
    let job = find_job("/a.txt", None);
    let waits = |_| {
        set_modified(&path, SystemTime::now());
        disk.try_now(&job).is_none()
    };
    // A busy machine may let the file come to rest between the two.
    assert!((0..100).any(waits));
    assert_eq!(outcome(&find(&disk, "/a.txt")), "first");
    let ahead = SystemTime::now() + Duration::from_secs(3600);
    set_modified(&path, ahead);
    assert_eq!(outcome(&find(&disk, "/a.txt")), "first", "a time in the future is not waited for");
}
