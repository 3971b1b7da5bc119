//! `flash reload --watch`, on a file that changes as a Kubernetes ConfigMap does.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use flash_tests::{Server, program, site, wait_for};
use rustix::process::{Pid, Signal, kill_process};

/// The kubelet's way: the files of each version lie in a folder, and a link leads to the present one.
fn publish(folder: &Path, version: &str, settings: &str) {
    let map = folder.join(format!("..{version}"));
    fs::create_dir(&map).unwrap();
    let socket = folder.join("admin.sock");
    let text = format!("listen = \"127.0.0.1:0\"\nadmin = \"unix:{}\"\n{settings}\n", socket.display());
    fs::write(map.join("flash.toml"), text).unwrap();
    symlink(format!("..{version}"), folder.join("..next")).unwrap();
    fs::rename(folder.join("..next"), folder.join("..data")).unwrap();
}

#[test]
fn a_config_map_that_changes_is_reloaded_and_a_wrong_one_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = |name: &str| format!("root = \"{}\"", folder.path().join(name).display());
    for name in ["old", "new"] {
        fs::create_dir(folder.path().join(name)).unwrap();
        site::write(&folder.path().join(name).join("a.txt"), name.as_bytes());
    }
    publish(folder.path(), "1", &root("old"));
    let file = folder.path().join("flash.toml");
    symlink("..data/flash.toml", &file).unwrap();
    let server = Server::start_configured(&file, &[]);
    let mut watch = Command::new(program())
        .args(["reload", "--watch", "--config"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(
        lines.next().as_deref(),
        Some("configuration 2 serves from now on"),
        "the first comes at once"
    );
    assert_eq!(server.get("/a.txt").body, b"old");

    publish(folder.path(), "2", &root("new"));
    assert_eq!(lines.next().as_deref(), Some("configuration 3 serves from now on"));
    wait_for("the new folder", || server.get("/a.txt").body == b"new");

    publish(folder.path(), "3", "root = \"/nowhere\"");
    let mut errors = BufReader::new(watch.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(errors.any(|line| line.contains("/nowhere")), "the error is told");
    assert_eq!(server.get("/a.txt").body, b"new");
    publish(folder.path(), "4", &root("old"));
    assert_eq!(
        lines.next().as_deref(),
        Some("configuration 4 serves from now on"),
        "it goes on after an error"
    );

    kill_process(Pid::from_child(&watch), Signal::TERM).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    let told = errors.filter(|line| line.contains("has an error")).count();
    assert!(told <= 1, "a refused file was asked for {told} times");
    server.stop();
}
