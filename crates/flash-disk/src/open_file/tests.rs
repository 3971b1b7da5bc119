//! Windows of a file whose pages are not lent: copies, checked afterwards.

use flash_core::file::OpenFile as _;
use flash_os::residency;
use rustix::fs::{Mode, OFlags};

use flash_os::shared_heap::HeapBuf;

use super::*;

const BYTES: usize = 600_000;
const WINDOW: Range<u64> = 1_000..532_000;
/// What comes of it at once.
const AT_ONCE: Range<usize> = 1_000..1_000 + READ_BYTES_MAX as usize;

fn file() -> (tempfile::NamedTempFile, OpenFile, Stamp) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text()).unwrap();
    let descriptor = rustix::fs::open(file.path(), OFlags::RDONLY, Mode::empty()).unwrap();
    let stamp = stat::examine(&descriptor).unwrap().stamp;
    (file, OpenFile::new(descriptor, SendMode::Copy, false, None, None, Arc::new(Readers::new(0))), stamp)
}

fn text() -> Vec<u8> {
    (0..BYTES).map(|at| (at * 31 + at / 251) as u8).collect()
}

fn copied(range: Range<usize>) -> Window {
    Window::Copied(text()[range].to_vec().into())
}

#[test]
fn what_is_cached_is_copied_now_and_the_rest_by_a_helper() {
    let (file, open, stamp) = self::file();
    assert_eq!(open.window_now(&stamp, WINDOW), copied(AT_ONCE));
    residency::evict(file.as_file()).unwrap();
    assert_eq!(open.window_now(&stamp, WINDOW), Window::Absent);
    assert_eq!(open.load_window(&stamp, WINDOW, false), copied(AT_ONCE), "it may leave at any time");
    assert_eq!(open.window_now(&stamp, WINDOW), copied(AT_ONCE));
    residency::evict(file.as_file()).unwrap();
    assert_eq!(open.wait_for_window(&stamp, WINDOW, WINDOW.end), copied(AT_ONCE));
}

#[test]
fn changes_are_noticed() {
    let (file, open, stamp) = self::file();
    file.as_file().set_len(5_000).unwrap();
    assert!(!open.is_unchanged(&stamp));
    // Where the kernel tells what it holds, nobody tries to read what is not there.
    assert!(matches!(open.window_now(&stamp, WINDOW), Window::Absent | Window::Changed));
    assert_eq!(open.load_window(&stamp, WINDOW, false), Window::Changed);
    assert_eq!(open.wait_for_window(&stamp, WINDOW, WINDOW.end), Window::Changed);
    assert_eq!(
        open.load_window(&stamp, 0..1_000, true),
        Window::Changed,
        "even where the bytes are still there"
    );
}

#[test]
fn a_whole_file_is_read_whole_or_not_at_all() {
    let (file, open, _) = self::file();
    // A read that must not block takes memory that is there.
    drop(HeapBuf::zeroed(2 << 20));
    let descriptor = open.as_fd().try_clone_to_owned().unwrap();
    let read = |size, blocking| read(descriptor.as_fd(), 0, size, blocking);
    assert!(matches!(read(BYTES, Blocking::Never), ReadResult::Whole(bytes) if *bytes == *text()));
    assert!(matches!(read(BYTES + 1, Blocking::Anywhere), ReadResult::Shrunk));
    residency::evict(file.as_file()).unwrap();
    assert!(matches!(read(BYTES, Blocking::Never), ReadResult::WouldBlock));
    assert!(matches!(read(BYTES, Blocking::Anywhere), ReadResult::Whole(bytes) if *bytes == *text()));
    assert!(matches!(read(0, Blocking::Never), ReadResult::Whole(bytes) if bytes.is_empty()));
}

#[test]
fn what_follows_is_read_before_it_is_due() {
    let file = tempfile::NamedTempFile::new_in(".").unwrap();
    let size = 3 << 20;
    std::fs::write(file.path(), vec![7; size]).unwrap();
    residency::evict(file.as_file()).unwrap();
    if !cachestat::holds(file.as_file(), 0..1).is_ok_and(|held| !held) {
        return eprintln!("NOT TESTED, the kernel does not tell what is cached, or keeps it");
    }
    let descriptor = rustix::fs::open(file.path(), OFlags::RDONLY, Mode::empty()).unwrap();
    let stamp = stat::examine(&descriptor).unwrap().stamp;
    file_hints::read_randomly(&descriptor);
    let open = OpenFile::new(descriptor, SendMode::Copy, false, None, None, Arc::new(Readers::new(0)));
    let mebibyte = 1 << 20;
    let lacks = |start, end| open.lacks_ahead(&stamp, start..end);
    let all = 3 * mebibyte;
    assert!(lacks(0, all));
    open.read_ahead(&stamp, 0..mebibyte / 4);
    assert!(!lacks(0, mebibyte / 4) && lacks(0, mebibyte / 2), "no more is read than is to be sent");
    open.read_ahead(&stamp, 0..all);
    assert!(!lacks(0, all) && !lacks(mebibyte / 4, all));
    assert!(lacks(mebibyte * 3 / 4, all), "less than half a mebibyte is left");
    open.read_ahead(&stamp, mebibyte * 3 / 4..all);
    assert!(!lacks(mebibyte, all));
    open.read_ahead(&stamp, 2 * mebibyte..u64::MAX);
    assert!(!lacks(all - 1, u64::MAX), "it ends there");
    assert!(!lacks(all, u64::MAX));
    open.read_ahead(&stamp, all..u64::MAX);
}
