//! Digests in place of times that say nothing.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flash_core::file::validators::ReprDigest;

use super::*;
use crate::blocking::Blocking;

const LARGE: usize = 3 * MEMORY_FILE_BYTES_MAX as usize;

/// Writes a file in place, with the time of a store of Nix.
fn put(folder: &Folder, name: &str, bytes: &[u8]) {
    let path = folder.path(name);
    fs::write(&path, bytes).unwrap();
    set_modified(&path, SystemTime::UNIX_EPOCH + Duration::from_secs(1));
    // A digest is kept of a state that lies back for longer than the clock ticks.
    std::thread::sleep(Duration::from_millis(30));
}

fn tag(file: &File) -> Option<String> {
    file.etag.map(|tag| String::from_utf8(tag.as_bytes().to_vec()).unwrap())
}

fn identity(entry: &Entry) -> Arc<File> {
    Arc::clone(&variants(entry).identity)
}

#[test]
fn what_is_copied_is_digested_then_and_by_no_loop() {
    let folder = Folder::new();
    put(&folder, "a.txt", b"text");
    let disk = folder.disk();
    let job = find_job("/a.txt", None);
    assert!(disk.try_now(&job).is_none(), "a loop would have to digest it");
    let helped = identity(&found(help(&disk, &job)));
    // printf text | sha256sum
    assert_eq!(tag(&helped).as_deref(), Some("\"982d9e3eb996f559e633f4d194def376\""));
    let found_now = identity(&found(disk.try_now(&job).expect("the digest is known")));
    assert_eq!(tag(&found_now), tag(&helped));
    put(&folder, "a.txt", b"TEXT");
    assert!(disk.try_now(&job).is_none(), "it is another state");
    assert_ne!(tag(&identity(&find(&disk, "/a.txt"))), tag(&helped));
}

#[test]
fn an_open_file_is_read_once_and_changes_unseen_by_nobody() {
    let folder = Folder::new();
    put(&folder, "a.bin", &text(LARGE));
    let disk = folder.disk();
    let digested =
        |file: &File| disk.digested(SiteId(0), file, &mut || true).and_then(|(file, _)| tag(&file));
    let first = identity(&find(&disk, "/a.bin"));
    assert_eq!(tag(&first), None);
    let known = digested(&first).expect("it can be read");
    assert_eq!(tag(&identity(&find(&disk, "/a.bin"))).as_ref(), Some(&known), "it is kept");
    put(&folder, "a.bin", &vec![b'x'; LARGE]);
    assert_eq!(first.load_window(0..10, true), Window::Changed);
    let second = identity(&find(&disk, "/a.bin"));
    assert!(tag(&second).is_none() && digested(&second).is_some_and(|other| other != known));
    fs::write(folder.path("new"), text(LARGE)).unwrap();
    fs::rename(folder.path("new"), folder.path("a.bin")).unwrap();
    assert!(matches!(second.load_window(0..10, true), Window::Copied(bytes) if *bytes == [b'x'; 10]));
}

#[test]
fn a_state_that_changes_while_it_is_read_has_no_digest() {
    let folder = Folder::new();
    put(&folder, "a.bin", &text(LARGE));
    let disk = folder.disk();
    let file = identity(&find(&disk, "/a.bin"));
    let before = file.stamp;
    put(&folder, "a.bin", &vec![b'x'; LARGE]);
    assert!(disk.digested(SiteId(0), &file, &mut || true).is_none());
    let after = identity(&find(&disk, "/a.bin")).stamp;
    assert!(before.same_content(&after));
    for stamp in [before, after] {
        assert!(disk.digests.get(&stamp, Blocking::Anywhere).is_none());
    }
}

#[test]
fn a_site_without_tags_has_no_digests() {
    let folder = Folder::new();
    put(&folder, "a.txt", b"text");
    let disk = folder.disk_with(|settings| settings.site.etag = TagSource::Off);
    let file = identity(&find(&disk, "/a.txt"));
    assert!(tag(&file).is_none() && !file.validators.lacks_digest() && !file.validators.sends_time());
    assert!(disk.digests.get(&file.stamp, Blocking::Anywhere).is_none());
}

/// The file has holes, so that nothing is read from a disk.
#[test]
fn a_file_that_has_changed_is_not_read_to_its_end() {
    let folder = Folder::new();
    let path = folder.put("a.bin", b"");
    fs::File::options().write(true).open(&path).unwrap().set_len(256 << 20).unwrap();
    rest(&path);
    std::thread::sleep(Duration::from_millis(30));
    let disk = folder.disk_with(|settings| settings.site.digests = true);
    for delete in [false, true] {
        let file = identity(&find(&disk, "/a.bin"));
        let mut pieces = 0;
        let mut change = || {
            pieces += 1;
            match (pieces, delete) {
                (1, false) => rest(&path),
                (1, true) => fs::remove_file(&path).unwrap(),
                _ => {}
            }
            true
        };
        assert!(disk.digested(SiteId(0), &file, &mut change).is_none());
        assert!(pieces <= 64 << 20 >> 18, "{pieces} pieces");
        std::thread::sleep(Duration::from_millis(30));
    }
}

#[test]
fn the_digest_of_what_was_being_written_is_told_and_not_kept() {
    let folder = Folder::new();
    let path = folder.put("a.log", b"text");
    let disk = folder.disk_with(|settings| settings.site.digests = true);
    let is_over = AtomicBool::new(false);
    let entry = std::thread::scope(|scope| {
        scope.spawn(|| {
            let log = fs::File::options().write(true).open(&path).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                log.write_all_at(b"text", 0).unwrap();
            }
        });
        // Until a write has come before each look.
        let give_up = Instant::now() + Duration::from_secs(60);
        let entry = std::iter::repeat_with(|| find(&disk, "/a.log"))
            .take_while(|_| Instant::now() < give_up)
            .find(|entry| identity(entry).repr_digest == ReprDigest::Unsettled);
        is_over.store(true, Ordering::Relaxed);
        entry.expect("it was seen being written")
    });
    let file = identity(&entry);
    assert!(file.lacks_digest());
    let (digested, _) = disk.digested(SiteId(0), &file, &mut || true).expect("it is in memory");
    assert_eq!(digested.repr_digest, ReprDigest::Known(crate::digest::of_bytes(b"text")));
    assert_eq!(disk.digests.get(&file.stamp, Blocking::Anywhere), None);
}

/// One whose class is not known yet is local.
#[test]
fn files_of_remote_devices_are_not_digested() {
    let local = DeviceClass::Local(Capabilities { names: NameRule::Ask, ..Capabilities::ALL });
    for (class, is_digested) in [(local, true), (DeviceClass::Unproven, true), (DeviceClass::Remote, false)] {
        assert_eq!(class.is_digested(), is_digested, "{class:?}");
    }
}
