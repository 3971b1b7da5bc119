//! Files too large for the heap: copies that nobody can change. The bound that they share with copies in the heap.

use std::os::fd::AsFd;

use super::*;

const BYTES: usize = 300_000;

fn disk(folder: &Folder, copies_bytes_max: u64) -> Disk {
    folder.disk_with(|settings| {
        settings.memory_file_bytes_max = 1 << 20;
        settings.copies_bytes_max = copies_bytes_max;
    })
}

fn identity(entry: &Entry) -> Arc<File> {
    Arc::clone(&variants(entry).identity)
}

/// What `sendfile` would send of a window, or what was copied of it.
fn bytes(disk: &Disk, file: &Arc<File>, range: std::ops::Range<u64>) -> Option<Vec<u8>> {
    let job = Job::Load(Load {
        site: None,
        file: Arc::clone(file),
        window: range.clone(),
        goes_to: range.end,
        copy: false,
        completes: None,
    });
    match disk.try_now(&job)?.done {
        Done::Window(Window::Resident(range)) => {
            let Content::Open(open) = &file.content else { panic!("its pages are not open") };
            let mut bytes = vec![0; (range.end - range.start) as usize];
            let copy = fs::File::from(open.as_fd().try_clone_to_owned().unwrap());
            std::os::unix::fs::FileExt::read_exact_at(&copy, &mut bytes, range.start).unwrap();
            Some(bytes)
        }
        Done::Window(Window::Copied(bytes)) => Some(bytes.into()),
        _ => None,
    }
}

#[test]
fn it_is_the_file_as_it_was() {
    let changes: [fn(&Path); 3] = [
        |path| fs::write(path, vec![b'x'; BYTES]).unwrap(),
        |path| fs::File::options().write(true).open(path).unwrap().set_len(7).unwrap(),
        |path| fs::remove_file(path).unwrap(),
    ];
    for change in changes {
        let folder = Folder::new();
        let path = folder.put("a.bin", text(BYTES));
        let disk = disk(&folder, 1 << 20);
        let file = identity(&find(&disk, "/a.bin"));
        assert!(file.weight_bytes() >= BYTES as u64, "the cache counts it");
        change(&path);
        assert_eq!(bytes(&disk, &file, 0..BYTES as u64).as_deref(), Some(text(BYTES).as_ref()));
        assert_eq!(bytes(&disk, &file, 9_999..10_001).as_deref(), Some(&text(BYTES)[9_999..10_001]));
    }
}

#[test]
fn nobody_can_write_to_it() {
    let folder = Folder::new();
    folder.put("a.bin", text(BYTES));
    let file = identity(&find(&disk(&folder, 1 << 20), "/a.bin"));
    let Content::Open(open) = &file.content else { panic!("it is not in the heap") };
    let copy = fs::File::from(open.as_fd().try_clone_to_owned().unwrap());
    std::io::Write::write_all(&mut &copy, b"x").unwrap_err();
    copy.set_len(1).unwrap_err();
}

#[test]
fn it_is_not_taken_where_nobody_may_wait() {
    let folder = Folder::new();
    folder.put("a.bin", text(BYTES));
    let disk = disk(&folder, 1 << 20);
    assert!(disk.try_now(&find_job("/a.bin", None)).is_none(), "copying so much takes too long");
    let entry = find(&disk, "/a.bin");
    let again = found(disk.try_now(&find_job("/a.bin", Some(&entry))).expect("a second look copies nothing"));
    assert!(Arc::ptr_eq(&entry, &again));
}

#[test]
fn memory_for_copies_is_bounded_and_comes_back() {
    let small = BYTES / 10;
    // In the heap, in a snapshot, and one of each.
    for lengths in [[small, small], [BYTES, BYTES], [BYTES, small], [small, BYTES]] {
        let folder = Folder::new();
        for (name, length) in ["a.bin", "b.bin"].into_iter().zip(lengths) {
            folder.put(name, text(length));
        }
        let [a_bytes, b_bytes] = lengths;
        let disk = disk(&folder, a_bytes.max(b_bytes) as u64);
        let first = identity(&find(&disk, "/a.bin"));
        let second = identity(&find(&disk, "/b.bin"));
        assert!(first.weight_bytes() >= a_bytes as u64 && second.weight_bytes() < b_bytes as u64);
        assert_eq!(
            bytes(&disk, &second, 0..1_000).as_deref(),
            Some(&text(b_bytes)[..1_000]),
            "it serves all the same"
        );
        drop(first);
        assert!(identity(&find(&disk, "/b.bin")).weight_bytes() >= b_bytes as u64);
    }
}
