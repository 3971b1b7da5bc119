//! What the caches keep of a file: its content, or the open file.

use std::os::fd::AsFd;

use super::remote::Pair;
use super::*;
use flash_core::job::Worth;

/// It takes nothing but an open file, and that only if the name is requested again.
pub(super) const OPEN: Worth = Worth { content_bytes_max: 0, free_bytes: 0, open: true };
const NOTHING: Worth = Worth { content_bytes_max: 0, free_bytes: 0, open: false };

pub(super) fn job(name: &str, known: Option<&Arc<Entry>>, worth: Worth) -> Job {
    let (known, codings) = (known.cloned(), CodingSet::ALL);
    Job::Find(Find { site: SiteId(0), path: path(name), known, asked_ms: 0, worth, codings })
}

fn identity(entry: &Entry) -> &File {
    &variants(entry).identity
}

fn is_in_the_page_cache(path: &Path) -> bool {
    let file = fs::File::open(path).unwrap();
    flash_os::cachestat::holds(file.as_fd(), 0..file.metadata().unwrap().len()).expect("the file is ours")
}

#[test]
fn a_content_that_is_not_worth_its_memory_answers_those_who_wait() {
    let folder = Folder::new();
    let on_disk = folder.put("a.txt", text(3_000));
    let disk = folder.disk();
    let entry = found(disk.run(&job("/a.txt", None, OPEN)));
    assert_eq!(content(identity(&entry)), text(3_000));
    assert!(identity(&entry).kept_as.is_some(), "the caches keep it open");
    assert!(is_in_the_page_cache(&on_disk), "the next request is answered from there");
    assert!(identity(&found(disk.run(&job("/a.txt", None, NOTHING)))).kept_as.is_none());
    assert!(identity(&find(&disk, "/a.txt")).kept_as.is_none());
}

/// The asker's read would be the second.
#[test]
fn a_file_that_others_read_themselves_is_only_brought_into_the_page_cache() {
    let folder = Folder::new();
    let on_disk = folder.put("a.txt", text(3_000));
    let disk = folder.disk_with(|settings| settings.others_open = true);
    let file = fs::File::open(&on_disk).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let entry = found(disk.run(&job("/a.txt", None, OPEN)));
    assert!(matches!(identity(&entry).content, Content::Open(_)));
    assert!(is_in_the_page_cache(&on_disk), "it is there when the asker reads it");
}

#[test]
fn a_loop_sends_such_a_content_from_the_page_cache() {
    let folder = Folder::new();
    folder.put("a.txt", text(3_000));
    let disk = folder.disk();
    help(&disk, &find_job("/a.txt", None));
    let outcome = disk.try_now(&job("/a.txt", None, OPEN)).expect("all of it is in the kernel's caches");
    assert!(matches!(identity(&found(outcome)).content, Content::Open(_)));
}

#[test]
fn a_file_that_became_worth_it_is_copied_at_the_next_look() {
    let folder = Folder::new();
    folder.put("a.txt", text(3_000));
    let disk = folder.disk_with(|settings| settings.copies_bytes_max = 5_000);
    let open = found(disk.run(&job("/a.txt", None, OPEN))).kept();
    assert!(Arc::ptr_eq(&found(disk.run(&job("/a.txt", Some(&open), OPEN))), &open), "nothing has changed");
    let copied = found(disk.run(&job("/a.txt", Some(&open), Worth::ANYTHING)));
    assert_eq!(content(identity(&copied)), text(3_000));
    assert!(Arc::ptr_eq(&found(disk.run(&job("/a.txt", Some(&copied), Worth::ANYTHING))), &copied));
    let without_room = found(disk.run(&job("/a.txt", Some(&open), Worth::ANYTHING)));
    assert!(matches!(identity(&without_room).content, Content::Open(_)));
}

/// The caches have no descriptor for its snapshot.
#[test]
fn a_large_file_that_is_not_worth_a_descriptor_stays_as_it_is_known() {
    let folder = Folder::new();
    folder.put("a.bin", text(300_000));
    let disk = folder.disk_with(|settings| settings.memory_file_bytes_max = 1 << 20);
    let open = found(disk.run(&job("/a.bin", None, OPEN)));
    assert!(matches!(identity(&open).content, Content::Open(_)));
    let without_descriptor = Worth { open: false, ..Worth::ANYTHING };
    let again = found(disk.run(&job("/a.bin", Some(&open), without_descriptor)));
    assert!(Arc::ptr_eq(&again, &open), "it would only be opened once more");
    assert!(!Arc::ptr_eq(&found(disk.run(&job("/a.bin", Some(&open), Worth::ANYTHING))), &open));
}

#[test]
fn where_memory_is_short_there_is_one_copy() {
    let folder = Folder::new();
    let on_disk = folder.put("a.txt", text(3_000));
    let disk = folder.disk_with(|settings| settings.single_copy = true);
    fs::File::open(&on_disk).unwrap().sync_all().unwrap();
    let entry = find(&disk, "/a.txt");
    assert!(!is_in_the_page_cache(&on_disk), "the page cache gave its copy up");
    assert_eq!(content(identity(&entry)), text(3_000));
    found(disk.run(&job("/a.txt", None, OPEN)));
    assert!(is_in_the_page_cache(&on_disk), "of a file that the caches do not copy it is the only one");
    assert!(disk.try_now(&find_job("/a.txt", None)).is_some(), "a few pages leave by themselves");
    folder.put("b.txt", text(20_000));
    assert!(disk.try_now(&find_job("/b.txt", None)).is_none(), "a loop leaves more to a helper");
}

/// A read of the server would be the second, and the kernel would take the file for a frequent one.
#[test]
fn a_content_that_a_helper_process_has_read_answers_those_who_wait() {
    let folder = Folder::new();
    folder.put("a.txt", text(3_000));
    folder.put("long.txt", text(100_000));
    let mut pair = Pair::of(&folder);
    let entry = found(pair.done(&job("/a.txt", None, OPEN)));
    assert_eq!(content(identity(&entry)), text(3_000));
    let kept = identity(&entry).kept_as.as_ref().expect("the caches keep it open");
    assert_eq!(kept.memory_bytes(), 0);
    assert!(identity(&found(pair.done(&job("/a.txt", None, NOTHING)))).kept_as.is_none());
    let long = found(pair.done(&job("/long.txt", None, OPEN)));
    assert!(matches!(identity(&long).content, Content::Open(_)), "it does not fit into a packet");
    pair.here.copies = flash_core::cache::memory_budget::Budget::new(2_999);
    let without_room = found(pair.done(&job("/a.txt", None, OPEN)));
    assert!(matches!(identity(&without_room).content, Content::Open(_)));
}

#[test]
fn a_content_that_is_not_that_of_its_open_file_is_not_sent() {
    let folder = Folder::new();
    let path = folder.put("a.txt", text(3_000));
    let mut pair = Pair::of(&folder);
    let job = job("/a.txt", None, OPEN);
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    let (answer, descriptors) = pair.answer(&job);
    fs::write(&path, [b'x'; 3_000]).unwrap();
    // As `cp -p` does.
    set_modified(&path, written);
    let understood = pair.here.understand(&pair.here.root(), &job, &answer, descriptors);
    let entry = found(understood.unwrap().unwrap());
    assert!(matches!(identity(&entry).content, Content::Open(_)) && identity(&entry).kept_as.is_none());
    assert_eq!(identity(&entry).stamp, identity(&found(pair.done(&job))).stamp);
}

#[test]
fn a_copy_is_added_to_what_is_known() {
    let folder = Folder::new();
    folder.put("page.html", "plain");
    folder.put("page.html.gz", "gzipped");
    let mut pair = Pair::of(&folder);
    let job = |known: Option<&Arc<Entry>>, codings| {
        let Job::Find(find) = find_job("/page.html", known) else { unreachable!() };
        Job::Find(Find { codings, ..find })
    };
    let first = found(pair.done(&job(None, CodingSet::EMPTY)));
    let second = found(pair.done(&job(Some(&first), CodingSet::ALL)));
    let (old, new) = (variants(&first), variants(&second));
    assert!(Arc::ptr_eq(&old.identity, &new.identity) && second.has_looked_for(|| CodingSet::ALL));
    let [copy] = &new.coded[..] else { panic!("{new:?}") };
    assert_eq!((content(copy), copy.media.content_type), (b"gzipped".to_vec(), "text/html; charset=utf-8"));
    assert!(old.identity.varies && copy.varies);
    let again = found(pair.done(&job(Some(&second), CodingSet::EMPTY)));
    assert!(Arc::ptr_eq(&again, &second));
    // A helper that says it of a file that the server does not know.
    let (answer, _) = pair.answer(&job(Some(&first), CodingSet::ALL));
    let understood = pair.here.understand(&pair.here.root(), &job(None, CodingSet::ALL), &answer, Vec::new());
    assert!(understood.is_err());
}
