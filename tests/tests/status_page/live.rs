//! The page in a browser: its figures move, a mount that hangs turns red, and a restart of the server is survived.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

use flash_slowdisk::SlowDisk;
use flash_tests::{Server, site};

use crate::browser::Browser;
use crate::configurations::begin_download;
use crate::setup::Setup;

/// Forwards connections to a socket, as ssh does. Returns the address for the browser. The thread ends with the test.
fn forward(socket: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let socket = socket.clone();
            thread::spawn(move || {
                // Without a server the connection closes.
                let Ok(server) = UnixStream::connect(socket) else { return };
                let (back, to) = (server.try_clone().expect("a clone"), client.try_clone().expect("a clone"));
                thread::spawn(move || {
                    copy(back, &to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                copy(client, &server);
                let _ = server.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

fn copy(mut from: impl Read, mut to: impl Write) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

#[test]
fn figures_move_and_a_restart_is_survived() {
    let setup = Setup::start("amped", &[]);
    let address = forward(setup.admin());
    let mut browser = Browser::open(&format!("http://{address}/status"));
    browser.wait_for("document.body.className == 'live'");
    assert_eq!(browser.value("performance.getEntriesByType('resource').every(one => new URL(one.name).host == location.host || one.name.startsWith('data:'))"), true);
    let requests = "document.querySelector('#traffic figcaption b').textContent";
    browser.wait_for(&format!("{requests} == '0/s'"));
    let url = setup.server.address;
    let load = thread::spawn(move || {
        for _ in 0..400 {
            let mut stream = TcpStream::connect(url).expect("it accepts");
            stream.write_all(b"GET /a.txt HTTP/1.0\r\n\r\n").expect("it reads");
            let mut reply = Vec::new();
            stream.read_to_end(&mut reply).expect("it answers");
            thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    browser.wait_for(&format!("parseInt({requests}) > 10"));
    load.join().expect("the load ends");
    assert_eq!(browser.width_on(360), 360, "nothing is wider than a telephone");
    let process = "[...document.querySelectorAll('#summary div')].find(one => one.textContent.startsWith('Process')).textContent";
    let before = browser.value(process);
    let setup = setup.restart();
    browser.wait_for(&format!("document.body.className == 'live' && {process} != {before}"));
    setup.server.stop();
    browser.wait_for("document.getElementById('live').textContent.includes('not connected since')");
}

#[test]
fn an_earlier_configuration_is_listed_while_a_download_holds_it() {
    let setup = Setup::configured("amped");
    let mut browser = Browser::open(&format!("http://{}/status", forward(setup.admin())));
    browser.wait_for("document.body.className == 'live'");
    let rows = "[...document.querySelectorAll('#configurations tbody tr')].map(row => row.innerText.split(/\\s+/)[0]).join()";
    browser.wait_for(&format!("{rows} == '1'"));
    let (mut download, _) = begin_download(&setup, "");
    setup.reload();
    browser.wait_for(&format!("{rows} == '1,2'"));
    let held =
        "document.querySelector('#configurations tbody tr [data-column=\"Requests now\"]').textContent";
    browser.wait_for(&format!("{held} == '1'"));
    flash_tests::read_all(&mut download);
    browser.wait_for(&format!("{rows} == '2'"));
    setup.server.stop();
}

/// With mp a process of its own answers, and workers tell it what they do.
#[test]
fn the_workers_of_mp_move() {
    let setup = Setup::start("mp", &[]);
    let mut browser = Browser::open(&format!("http://{}/status", forward(setup.admin())));
    browser.wait_for("document.body.className == 'live'");
    let rows = "[...document.querySelectorAll('#workers tbody tr')]";
    let cell = |column: &str| {
        format!("Number(row.querySelector('[data-column={column}]').textContent.replace('%', ''))")
    };
    browser.wait_for(&format!("{rows}.length == 2 && {rows}.every(row => {} == 0)", cell("Connections")));
    // A client that keeps its worker busy.
    let mut stream = setup.server.connect();
    stream.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\nX-").expect("it reads");
    browser.wait_for(&format!("{rows}.some(row => {} > 90)", cell("Busy")));
    browser.wait_for(&format!("{rows}.some(row => row.textContent.includes('serves'))"));
    for _ in 0..5 {
        assert_eq!(setup.server.get("/a.txt").status, 200);
    }
    // On a slow machine the first worker may have given up its client, and then serves some of the five.
    browser.wait_for(&format!("{rows}.reduce((sum, row) => sum + {}, 0) == 6", cell("Connections")));
    drop(stream);
    browser.wait_for(&format!("{rows}.every(row => row.textContent.includes('idle'))"));
    setup.server.stop();
}

#[test]
fn a_mount_that_hangs_turns_red() {
    if let Some(missing) = flash_slowdisk::missing() {
        eprintln!("NOT TESTED, a slow disk cannot be mounted: {missing}");
        return;
    }
    let folders = tempfile::tempdir().expect("a folder");
    let (root, behind) = (folders.path().join("root"), folders.path().join("behind"));
    for n in 0..50 {
        fs::create_dir_all(&behind).expect("a folder");
        site::write(&behind.join(format!("{n}.txt")), b"far");
    }
    fs::create_dir_all(root.join("far")).expect("a folder");
    let disk = SlowDisk::mount(&behind, &root.join("far"), "lookup delay fixed:1ms").expect("a slow disk");
    let admin = folders.path().join("admin.sock");
    let server = serve(&root, &admin);
    assert_eq!(server.get("/far/1.txt").status, 200);
    let mut browser = Browser::open(&format!("http://{}/status", forward(admin)));
    let row =
        "[...document.querySelectorAll('#devices tbody tr')].find(row => row.textContent.includes('/far'))";
    browser.wait_for(&format!("{row}?.textContent.includes('well')"));
    disk.rule("hang prefix /").expect("a rule");
    assert_eq!(server.get("/far/2.txt").status, 503);
    browser.wait_for(&format!("{row}.querySelector('.sick')?.textContent == '▲ down'"));
    let color = browser.value(&format!("getComputedStyle({row}.querySelector('.sick')).color"));
    assert_eq!(color, "rgb(179, 18, 29)");
    browser.wait_for("document.querySelector('#slowest')?.textContent.includes('/far/2.txt')");
    disk.clear();
    let give_up = std::time::Instant::now() + flash_tests::PATIENCE;
    while server.get("/far/3.txt").status != 200 {
        assert!(std::time::Instant::now() < give_up, "it does not recover");
        thread::sleep(std::time::Duration::from_millis(50));
    }
    browser.wait_for(&format!("{row}.querySelector('.well')?.textContent == '● well'"));
    server.stop();
}

fn serve(root: &Path, admin: &Path) -> Server {
    let admin = format!("unix:{}", admin.display());
    Server::start("amped", root, &["--admin", &admin, "--disk-deadline", "1s", "--helpers-max", "8"])
}
