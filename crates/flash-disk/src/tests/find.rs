//! What names lead to.

use std::time::UNIX_EPOCH;

use flash_http::negotiate::Coding;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
}

#[test]
fn files_and_folders() {
    let folder = Folder::new();
    folder.put("a.txt", "a");
    folder.put("empty.txt", "");
    folder.put("sub/index.html", "index of sub");
    folder.put("bare/x", "x");
    folder.put("with space/\u{e9}.txt", "accent");
    let disk = folder.disk();
    for (name, expected) in [
        ("/a.txt", "a"),
        ("/empty.txt", ""),
        ("/", "folder"),
        ("/sub", "redirect"),
        ("/sub/", "index of sub"),
        ("/bare/", "folder"),
        ("/bare/x", "x"),
        ("/with%20space/%c3%a9.txt", "accent"),
        ("/missing", "404"),
        ("/missing/", "404"),
        ("/missing/deeper", "404"),
        // Only a folder's name ends in a slash, and no file holds another.
        ("/a.txt/", "404"),
        ("/a.txt/b", "404"),
    ] {
        assert_eq!(outcome(&find(&disk, name)), expected, "{name}");
    }
    let long = format!("/{}", "x".repeat(300));
    assert_eq!(outcome(&find(&disk, long)), "404", "a name that no disk can hold");
}

#[test]
fn names_are_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let odd = folder.root().join(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    fs::write(&odd, "odd").unwrap();
    assert_eq!(outcome(&find(&folder.disk(), "/%ff%fe")), "odd");
}

#[test]
fn the_first_index_that_is_a_file_serves() {
    let folder = Folder::new();
    folder.put("both/index.htm", "second");
    folder.put("both/index.html", "first");
    folder.put("second/index.htm", "second");
    folder.put("odd/index.html/x", "in a folder");
    folder.put("odd/index.htm", "second");
    let disk = folder.disk();
    for (name, expected) in [("/both/", "first"), ("/second/", "second"), ("/odd/", "second")] {
        assert_eq!(outcome(&find(&disk, name)), expected, "{name}");
    }
}

fn found_at(entry: &Entry) -> Option<String> {
    entry.found_at().map(|path| String::from_utf8_lossy(path.as_bytes()).into_owned())
}

#[test]
fn an_entry_knows_where_it_was_found() {
    let folder = Folder::new();
    folder.put("index.html", "root's");
    folder.put("d/index.htm", "index");
    folder.put("bare/x", "x");
    folder.put("e/index.php", "source");
    folder.put("a.php", "source");
    let settings = |prefix: &str| {
        let prefix = prefix.as_bytes().to_vec();
        folder.disk_with(move |settings| {
            settings.site.strip_prefix = prefix;
            settings.site.scripts = vec![b".php".to_vec()];
            settings.site.index.push(b"index.php".to_vec());
        })
    };
    for prefix in ["", "docs"] {
        let disk = settings(prefix);
        let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        for (name, expected) in [
            ("/", Some("/index.html")),
            ("/index.html", None),
            ("/d/", Some("/d/index.htm")),
            ("/d/index.htm", None),
            ("/d", None),
            ("/bare/", None),
            ("/e/", Some("/e/index.php")),
            ("/a.php", None),
            ("/a.php/", Some("/a.php")),
            ("/a.php/b/c.php", Some("/a.php")),
            ("/none", None),
        ] {
            let entry = find(&disk, format!("{prefix}{name}"));
            assert_eq!(found_at(&entry), expected.map(|path| format!("{prefix}{path}")), "{prefix}{name}");
        }
    }
}

/// The file may be the same.
#[test]
fn another_index_is_another_entry() {
    let folder = Folder::new();
    folder.put("text", "text");
    for name in ["index.html", "index.htm"] {
        std::os::unix::fs::symlink("text", folder.path(name)).unwrap();
    }
    let disk = folder.disk();
    let first = find(&disk, "/");
    assert!(Arc::ptr_eq(&first, &find_again(&disk, "/", &first)), "nothing has changed");
    fs::remove_file(folder.path("index.html")).unwrap();
    let second = find_again(&disk, "/", &first);
    assert_eq!(
        [first, second].map(|entry| found_at(&entry)),
        ["/index.html", "/index.htm"].map(|at| Some(at.into()))
    );
}

/// As if the index file were not there.
#[test]
fn a_denied_index_answers_for_no_folder() {
    let folder = Folder::new();
    for name in ["a/index.html", "a/index.htm", "b/index.html", "b/x"] {
        folder.put(name, name);
    }
    for (rule, expected) in [
        ("index.html", ["a/index.htm", "folder"]),
        ("*.html", ["a/index.htm", "folder"]),
        ("/a/index.html", ["a/index.htm", "b/index.html"]),
        ("/b/x", ["a/index.html", "b/index.html"]),
    ] {
        let deny = [PathRule::parse(rule).unwrap()].into_iter().collect();
        let disk = folder.disk_with(|settings| settings.site.deny = deny);
        assert_eq!(["/a/", "/b/"].map(|name| outcome(&find(&disk, name))), expected, "{rule}");
    }
}

#[test]
fn a_denied_copy_answers_for_no_file() {
    let folder = Folder::new();
    for name in ["a.css", "a.css.gz", "d/index.html", "d/index.html.gz"] {
        folder.put(name, name);
    }
    let copies = |rules: &[&str]| {
        let deny = rules.iter().map(|rule| PathRule::parse(rule).unwrap()).collect();
        let disk = folder.disk_with(|settings| settings.site.deny = deny);
        ["/a.css", "/d/"].map(|name| variants(&find(&disk, name)).coded.len())
    };
    assert_eq!(copies(&[]), [1, 1]);
    assert_eq!(copies(&["*.gz"]), [0, 0]);
    assert_eq!(copies(&["/d/index.html.gz"]), [1, 0]);
}

/// Opening a FIFO would wait for its other end for ever.
#[test]
fn what_is_neither_file_nor_folder_is_not_there() {
    let folder = Folder::new();
    fifo(&folder.path("fifo"));
    folder.put("index.css", "text");
    fifo(&folder.path("index.css.gz"));
    fs::create_dir(folder.path("sub")).unwrap();
    fifo(&folder.path("sub/index.html"));
    std::os::unix::fs::symlink("fifo", folder.path("to-fifo")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path("socket")).unwrap();
    let disk = folder.disk();
    assert_eq!(outcome(&find(&disk, "/sub/")), "folder");
    assert!(variants(&find(&disk, "/index.css")).coded.is_empty());
    for name in ["/fifo", "/socket", "/to-fifo", "/fifo/"] {
        assert_eq!(outcome(&find(&disk, name)), "404", "{name}");
    }
}

#[test]
fn what_may_not_be_read_is_forbidden() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    if is_superuser(&folder) {
        return;
    }
    folder.put("closed.txt", "secret");
    folder.put("closed/inside.txt", "secret");
    folder.put("style.css", "open");
    folder.put("style.css.gz", "closed");
    for name in ["closed.txt", "closed", "style.css.gz"] {
        fs::set_permissions(folder.path(name), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let disk = folder.disk();
    assert_eq!(outcome(&find(&disk, "/closed.txt")), "403");
    assert_eq!(outcome(&find(&disk, "/closed/inside.txt")), "403");
    let style = find(&disk, "/style.css");
    assert_eq!(outcome(&style), "open");
    assert!(variants(&style).coded.is_empty());
    assert!(Arc::ptr_eq(&find_again(&disk, "/style.css", &style), &style), "nothing has changed");
    fs::set_permissions(folder.path("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn precompressed_siblings() {
    let folder = Folder::new();
    folder.put("style.css", "plain");
    folder.put("style.css.gz", "gzipped");
    folder.put("style.css.br", "brotli");
    folder.put("alone.css", "plain");
    folder.put("odd.css", "plain");
    fs::create_dir(folder.path("odd.css.zst")).unwrap();
    folder.put("picture.png", "picture");
    folder.put("picture.png.gz", "of no use");
    let disk = folder.disk();

    let entry = find(&disk, "/style.css");
    let style = variants(&entry);
    assert_eq!(content(&style.identity), b"plain");
    let mut coded: Vec<_> =
        style.coded.iter().map(|file| (file.coding.unwrap().name(), content(file))).collect();
    coded.sort();
    assert_eq!(coded, [("br", b"brotli".to_vec()), ("gzip", b"gzipped".to_vec())]);
    for file in &style.coded {
        assert_eq!(file.media.content_type, style.identity.media.content_type, "it is the same thing, coded");
        assert_ne!(
            file.etag.unwrap().as_bytes(),
            style.identity.etag.unwrap().as_bytes(),
            "RFC 9110 §8.8.3.3"
        );
    }
    for name in ["/alone.css", "/odd.css", "/picture.png"] {
        let entry = find(&disk, name);
        assert!(variants(&entry).coded.is_empty(), "{name}");
        assert!(Arc::ptr_eq(&find_again(&disk, name, &entry), &entry), "{name}: nothing has changed");
    }
    // Asked for by its own name it is a file like any other.
    assert_eq!(variants(&find(&disk, "/style.css.gz")).identity.coding, None::<Coding>);
    let without = folder.disk_with(|settings| settings.site.precompressed = false);
    assert!(variants(&find(&without, "/style.css")).coded.is_empty());
}

#[test]
fn copies_are_looked_for_in_the_codings_that_clients_take() {
    let folder = Folder::new();
    folder.put("page.html", "plain");
    folder.put("page.html.gz", "gzipped");
    folder.put("page.html.br", "brotli");
    let disk = folder.disk();
    let find = |codings: CodingSet, known: Option<&Arc<Entry>>| {
        let Job::Find(find) = find_job("/page.html", known) else { unreachable!() };
        found(disk.run(&Job::Find(Find { codings, ..find })))
    };
    let [none, gzip, zstd] = [None, Some(Coding::Gzip), Some(Coding::Zstd)]
        .map(|coding| coding.into_iter().fold(CodingSet::EMPTY, CodingSet::with));
    let first = find(none, None);
    assert!(variants(&first).coded.is_empty() && !first.has_looked_for(|| gzip));
    let second = find(gzip, Some(&first));
    assert!(Arc::ptr_eq(&variants(&second).identity, &variants(&first).identity), "it is not read again");
    let gzipped = &variants(&second).coded[0];
    assert_eq!((variants(&second).coded.len(), content(gzipped)), (1, b"gzipped".to_vec()));
    assert!(second.has_looked_for(|| gzip) && !second.has_looked_for(|| zstd));
    assert!(Arc::ptr_eq(&find(none, Some(&second)), &second), "what was found once stays");
    let third = find(zstd, Some(&second));
    assert!(Arc::ptr_eq(&variants(&third).coded[0], gzipped) && third.has_looked_for(|| gzip.union(zstd)));
    fs::remove_file(folder.path("page.html.gz")).unwrap();
    assert!(variants(&find(none, Some(&third))).coded.is_empty());
    folder.put("picture.png", "x");
    assert!(super::find(&disk, "/picture.png").has_looked_for(|| CodingSet::ALL));
}

#[test]
fn a_compressed_copy_that_is_older_than_its_file_is_not_sent() {
    let folder = Folder::new();
    let date = |name: &str, seconds| {
        let file = fs::File::options().write(true).open(folder.path(name)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    };
    for name in ["app.js", "app.js.gz", "app.js.br"] {
        folder.put(name, name);
    }
    date("app.js", 1000);
    // gzip gives the copy the time of its file.
    date("app.js.gz", 1000);
    date("app.js.br", 997);
    let disk = folder.disk();
    let codings = |entry: &Entry| {
        variants(entry).coded.iter().map(|file| file.coding.unwrap().name()).collect::<Vec<_>>()
    };
    let entry = find(&disk, "/app.js");
    assert_eq!(codings(&entry), ["gzip"]);
    date("app.js.br", 998);
    let entry = find_again(&disk, "/app.js", &entry);
    assert_eq!(codings(&entry).len(), 2, "a copy of the folder may have taken so long");
    date("app.js", 1003);
    assert_eq!(codings(&find_again(&disk, "/app.js", &entry)), [""; 0]);
}

#[test]
fn small_files_are_in_memory_and_large_ones_open() {
    let folder = Folder::new();
    folder.put("most.txt", text(MEMORY_FILE_BYTES_MAX as usize));
    folder.put("more.txt", text(MEMORY_FILE_BYTES_MAX as usize + 1));
    let disk = folder.disk();
    assert!(matches!(variants(&find(&disk, "/most.txt")).identity.content, Content::Memory(_)));
    let more = find(&disk, "/more.txt");
    assert!(matches!(variants(&more).identity.content, Content::Open(_)));
    assert_eq!(variants(&more).identity.size(), MEMORY_FILE_BYTES_MAX + 1);
}

#[test]
fn what_is_busy_is_tried_again_for_a_while() {
    let tries = |busy: usize| {
        let mut tried = 0;
        let is_busy = |&tried: &usize| tried <= busy;
        let last = crate::again_if(is_busy, || {
            tried += 1;
            tried
        });
        (last, tried)
    };
    assert_eq!(tries(0), (1, 1));
    assert_eq!(tries(3), (4, 4));
    assert_eq!(tries(100), (6, 6), "and then no more");
}
