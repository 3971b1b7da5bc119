//! Unix sockets behind a proxy: who may connect, and what becomes of their names.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;

use flash_tests::{ARCHITECTURES, Server, is_superuser, open_folder, program, site};

fn get(path: &Path) -> String {
    let mut stream = UnixStream::connect(path).expect("the server accepts");
    stream.write_all(b"GET /a.txt HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_socket_has_its_mode_its_group_and_its_user() {
    if !is_superuser("becoming another user") {
        return;
    }
    const NOBODY: u32 = 65_534;
    let site = site::make();
    for arch in ARCHITECTURES {
        for (options, user, expected) in [
            (",mode=660,group=daemon", true, (0o660, NOBODY, 1)),
            (",mode=600", true, (0o600, NOBODY, NOBODY)),
            (",group=1", false, (0o755, 0, 1)),
        ] {
            // A folder of root's, as /run is: the user may not remove the name.
            let folder = open_folder();
            let socket = folder.path().join("socket");
            let listen = format!("unix:{}{options}", socket.display());
            let user: &[&str] = if user { &["--user", "nobody"] } else { &[] };
            let flags = [&["--processes", "2", "--listen", &listen], user].concat();
            let server = Server::start(arch, site.path(), &flags);
            let found = fs::metadata(&socket).unwrap();
            assert_eq!((found.mode() & 0o777, found.uid(), found.gid()), expected, "{arch} {options}");
            assert!(get(&socket).ends_with("0123456789"), "{arch}");
            server.stop();
            assert!(!socket.exists(), "{arch} {options}: its name is left");
        }
    }
}

#[test]
fn a_name_that_another_server_has_taken_over_stays() {
    let site = site::make();
    for arch in ARCHITECTURES {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listen = format!("unix:{}", socket.display());
        let server = Server::start(arch, site.path(), &["--processes", "2", "--listen", &listen]);
        fs::remove_file(&socket).unwrap();
        let _successor = UnixListener::bind(&socket).unwrap();
        server.stop();
        assert!(UnixStream::connect(&socket).is_ok(), "{arch}");
    }
}

#[test]
fn a_file_in_the_place_of_a_socket_is_called_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    let listen = format!("unix:{}", file.display());
    let output = Command::new(program()).args(["serve", "/", "--listen", &listen]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("a file or folder is there, which is not a socket"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}
