//! What must neither run nor be shown: scripts among uploads, backups of scripts, and what is denied by name.

use std::fs;

use flash_tests::{ARCHITECTURES, Server, need, reply};

#[test]
fn uploads_do_not_run_and_backups_are_not_shown() {
    let site = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = site.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("run.php", "<?php echo 'ran';");
    put("uploads/evil.php", "<?php echo 'ran';");
    put("uploads/folder/index.php", "<?php echo 'ran';");
    put("uploads/photo.txt", "a photo");
    for backup in ["config.php~", "config.php.bak", "config.php.swp", "config.php.orig", "notes.bak"] {
        put(backup, "<?php $password = 'secret';");
    }
    put("private/plan.txt", "secret");
    put("private.txt", "not below it");
    let app = format!(".php={}", need("php-cgi", "php-cgi").display());
    let flags =
        ["--app", &app, "--no-programs", "/uploads", "--deny", "/private", "--list", "--processes", "4"];
    for arch in ARCHITECTURES {
        let server = Server::start(arch, site.path(), &flags);
        assert_eq!(server.get("/run.php").body, b"ran", "{arch}");
        for (path, status) in [
            ("/uploads/evil.php", 403),
            ("/uploads//evil.php", 403),
            ("/uploads/%65vil.php", 403),
            ("/x/../uploads/evil.php", 403),
            ("/uploads/folder/", 403),
            ("/uploads/photo.txt", 200),
            ("/uploads/evil.php/more", 403),
            ("/config.php~", 404),
            ("/config.php.bak", 404),
            ("/config.php.swp", 404),
            ("/config.php.orig", 404),
            ("/notes.bak", 404),
            ("/private", 404),
            ("/private/", 404),
            ("/private/plan.txt", 404),
            ("/x/..//private/plan.txt", 404),
            ("/private.txt", 200),
        ] {
            let reply = server.get(path);
            assert_eq!(reply.status, status, "{arch} {path}: {reply:?}");
        }
        let post =
            b"POST /uploads/evil.php HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(reply::only(&server.raw(post)).status, 405, "{arch}");
        let listing = String::from_utf8(server.get("/").body).unwrap();
        assert!(listing.contains("private.txt") && listing.contains("run.php"), "{arch}: {listing}");
        for hidden in ["config.php", "notes.bak", "\"private/\""] {
            assert!(!listing.contains(hidden), "{arch}: {listing}");
        }
    }
    let server = Server::start("amped", site.path(), &["--app", &app, "--serve-backups"]);
    assert_eq!(server.get("/notes.bak").status, 200);
    let server = Server::start("amped", site.path(), &["--list"]);
    assert_eq!(server.get("/notes.bak").status, 200, "no program could have left it");
}
