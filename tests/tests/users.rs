//! Whose files they are: a server that runs as an ordinary user, and users' own folders. Both take a superuser to
//! arrange, and say so where there is none.

#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use flash_tests::{ARCHITECTURES, Server, is_superuser, open_folder, set_mode, site};

/// An ordinary user, whom Debian calls nobody.
const NOBODY: u32 = 65_534;
const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// As under a service manager, which has made the server that user.
#[test]
fn a_server_that_is_its_user_already_serves() {
    if !is_superuser("becoming another user") {
        return;
    }
    let folder = site::make();
    for arch in ARCHITECTURES {
        let server =
            Server::start_under(&AS_NOBODY, arch, folder.path(), &["--user", "nobody", "--processes", "2"]);
        assert_eq!(server.get("/a.txt").status, 200, "{arch}");
        server.stop();
    }
}

/// To an ordinary user the kernel does not say what of others' files is in memory. The bytes are the same.
#[test]
fn files_of_others_are_served_if_they_may_be_read() {
    if !is_superuser("becoming another user") {
        return;
    }
    let folder = site::make();
    let root = folder.path();
    for (name, mode) in [("secret.txt", 0o600), ("3000000.bin", 0o644), ("20000000.bin", 0o644)] {
        if !root.join(name).exists() {
            site::write(&root.join(name), b"secret");
        }
        set_mode(root.join(name), mode);
    }
    fs::create_dir(root.join("closed")).unwrap();
    site::write(&root.join("closed/a.txt"), b"secret");
    set_mode(root.join("closed"), 0o700);
    for arch in ARCHITECTURES {
        for zero_copy in ["off", "on"] {
            let flags = ["--list", "--processes", "4", "--zero-copy", zero_copy];
            let server = Server::start_under(&AS_NOBODY, arch, root, &flags);
            for path in ["/secret.txt", "/closed/a.txt", "/closed/"] {
                assert_eq!(server.get(path).status, 403, "{arch}: {path}");
            }
            for size in [262_145, 3_000_000, 20_000_000] {
                let reply = server.get(&format!("/{size}.bin"));
                assert!(reply.status == 200 && reply.body == site::pattern(size), "{arch}: {size} bytes");
            }
            server.stop();
        }
    }
}

/// What has these users, whose homes are in that folder, be all that a server knows.
fn with_users(homes: &Path, names: &[&str]) -> String {
    let user = |name| format!("{name}:x:{NOBODY}:{NOBODY}::{}/{name}:/bin/sh\n", homes.display());
    let users = names.iter().map(user).collect::<String>();
    let list = homes.join("passwd");
    fs::write(&list, format!("root:x:0:0::/root:/bin/sh\n{users}")).unwrap();
    format!("mount --make-rprivate / && mount --bind {} /etc/passwd && exec \"$@\"", list.display())
}

#[test]
fn user_folders() {
    if !is_superuser("becoming another user") {
        return;
    }
    let site = site::make();
    let homes = open_folder();
    let public = homes.path().join("ann/public_html");
    fs::create_dir_all(public.join("sub")).unwrap();
    fs::write(homes.path().join("ann/private.txt"), "private").unwrap();
    site::write(&public.join("index.html"), b"ann's home page");
    site::write(&public.join("sub/a.txt"), b"ann's file");
    std::os::unix::fs::symlink("../private.txt", public.join("out.txt")).unwrap();
    for path in [homes.path().join("ann"), public] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let script = with_users(homes.path(), &["ann"]);
    let own_users = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    for arch in ARCHITECTURES {
        let server = Server::start_under(&own_users, arch, site.path(), &["--user-dirs", "--processes", "4"]);
        for (path, status, body) in [
            ("/~ann/", 200, "ann's home page"),
            ("/~ann/sub/a.txt", 200, "ann's file"),
            ("/a.txt", 200, "0123456789"),
        ] {
            let reply = server.get(path);
            assert_eq!((reply.status, reply.body.as_slice()), (status, body.as_bytes()), "{arch}: {path}");
        }
        assert_eq!(server.get("/~ann").status, 301, "{arch}");
        for (path, status) in [
            ("/~ann/out.txt", 403),
            ("/~ann/../private.txt", 404),
            ("/~ann/nothing.txt", 404),
            ("/~nobody-of-that-name/", 404),
            ("/~root/", 404),
        ] {
            assert_eq!(server.get(path).status, status, "{arch}: {path}");
        }
        server.stop();
        let server = Server::start_under(&own_users, arch, site.path(), &["--processes", "4"]);
        assert_eq!(server.get("/~ann/").status, 404, "{arch}: not unless asked for");
        server.stop();
    }
}

/// A server with more rights than a user serves nothing of which the user can only make a name.
#[test]
fn users_folders_lead_to_what_is_the_users() {
    if !is_superuser("becoming another user") {
        return;
    }
    let site = site::make();
    let homes = open_folder();
    let home = |name: &str| homes.path().join(name);
    let secret = home("secret");
    site::write(&secret, b"secret");
    set_mode(&secret, 0o600);
    for name in ["ann", "bob", "eve"] {
        fs::create_dir(home(name)).unwrap();
        chown(home(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let public = home("ann/public_html");
    for folder in [&public, &home("ann/pictures"), &home("ann/theirs")] {
        fs::create_dir(folder).unwrap();
        set_mode(folder, 0o700);
        site::write(&folder.join("a.txt"), b"a");
    }
    site::write(&public.join("index.html"), b"index");
    for mine in ["", "/a.txt", "/index.html"].map(|name| format!("ann/public_html{name}")) {
        chown(home(&mine), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    for mine in ["ann/pictures", "ann/pictures/a.txt"] {
        chown(home(mine), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    for (link, target) in [
        ("ann/public_html/link", secret.to_str().unwrap()),
        ("ann/public_html/shadow", "/etc/shadow"),
        ("ann/public_html/etc", "/etc"),
        ("ann/public_html/pictures", "../pictures"),
        ("bob/public_html", "/etc"),
        ("eve/public_html", "../ann/theirs"),
    ] {
        std::os::unix::fs::symlink(target, home(link)).unwrap();
    }
    fs::hard_link(&secret, public.join("hard")).unwrap();
    let script = with_users(homes.path(), &["ann", "bob", "eve"]);
    let own_users = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    for arch in ARCHITECTURES {
        for links in ["inside", "anywhere"] {
            let flags = ["--user-dirs", "--list", "--processes", "4", "--follow-links", links];
            let server = Server::start_under(&own_users, arch, site.path(), &flags);
            let pictures = if links == "anywhere" { 200 } else { 403 };
            for (path, status) in [
                ("/~ann/", 200),
                ("/~ann/a.txt", 200),
                ("/~ann/hard", 403),
                ("/~ann/link", 403),
                ("/~ann/shadow", 403),
                ("/~ann/etc/passwd", 403),
                ("/~ann/etc/", 403),
                ("/~ann/pictures/a.txt", pictures),
                ("/~bob/passwd", 403),
                ("/~bob/", 403),
                ("/~eve/a.txt", 403),
            ] {
                // Once more from the caches.
                for _ in 0..2 {
                    assert_eq!(server.get(path).status, status, "{arch} {links}: {path}");
                }
            }
            server.stop();
        }
    }
}

/// The numbers of users and groups that a process has, each kind once, as `Uid`, `Gid` and `Groups`.
fn ids(pid: u32) -> [Vec<u32>; 3] {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    ["Uid:", "Gid:", "Groups:"].map(|kind| {
        let line = status.lines().find_map(|line| line.strip_prefix(kind)).unwrap();
        let mut ids: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
        ids.dedup();
        ids
    })
}

#[test]
fn users_by_name_by_number_and_with_another_group() {
    if !is_superuser("becoming another user") {
        return;
    }
    let site = site::make();
    for arch in ARCHITECTURES {
        for (user, ids_then) in [
            ("nobody", [NOBODY, NOBODY, NOBODY]),
            ("nobody:daemon", [NOBODY, 1, 1]),
            ("65534", [NOBODY, NOBODY, NOBODY]),
            ("64817:64818", [64_817, 64_818, 64_818]),
        ] {
            let server = Server::start(arch, site.path(), &["--user", user, "--processes", "2"]);
            assert_eq!(server.get("/a.txt").body, b"0123456789", "{arch}: {user}");
            assert_eq!(ids(server.pid()), ids_then.map(|id| vec![id]), "{arch}: {user}");
            assert!(!server.stop().contains("runs as root"), "{arch}: {user}");
        }
        let server = Server::start(arch, site.path(), &["--processes", "2"]);
        assert_eq!(server.get("/a.txt").status, 200, "{arch}");
        assert_eq!(server.stop().matches("flash: the server runs as root: --user").count(), 1, "{arch}");
    }
}
