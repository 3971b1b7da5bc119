//! Another server takes a running one's place: no request is lost, one that fails changes nothing, and nobody gains rights by it.

#![forbid(unsafe_code)]

mod caches;
mod connections;
mod rights;
mod setup;
mod trusted;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use flash_tests::{PATIENCE, Stop, admin, is_superuser, set_mode, wait_for};
use rustix::process::Signal;

use self::setup::{Download, Setup, architectures, ask};

/// Asks until it is told to stop, with a connection for each request or with one that is kept. Counts the answers.
fn client(
    address: SocketAddr,
    keeps: bool,
    pause: Duration,
    stop: &AtomicBool,
    count: &AtomicUsize,
) -> Result<(), String> {
    let mut kept = None;
    while !stop.load(Ordering::Relaxed) {
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(address).map_err(|error| format!("connecting: {error}"))?;
                stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
                stream
            }
        };
        if ask(&mut stream)? && keeps {
            kept = Some(stream);
        }
        count.fetch_add(1, Ordering::Relaxed);
        thread::sleep(pause);
    }
    Ok(())
}

#[test]
fn ten_upgrades_lose_no_request() {
    for arch in architectures() {
        let mut setup = Setup::new(arch, &[]);
        let (address, stop, count) = (setup.server.address, AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let clients: Vec<_> = [(false, 0), (false, 1), (true, 0), (true, 1), (true, 40), (true, 300)]
                .into_iter()
                .map(|(keeps, ms)| {
                    let (stop, count) = (&stop, &count);
                    scope.spawn(move || client(address, keeps, Duration::from_millis(ms), stop, count))
                })
                .collect();
            let stop = Stop(&stop);
            for _ in 0..10 {
                let before = count.load(Ordering::Relaxed);
                setup.upgraded();
                wait_for("answers", || count.load(Ordering::Relaxed) > before + 20);
            }
            drop(stop);
            for client in clients {
                assert_eq!(client.join().unwrap(), Ok(()), "{arch}");
            }
        });
        setup.stop();
    }
}

#[test]
fn an_upgrade_lets_a_slow_download_end() {
    for arch in architectures() {
        let mut setup = Setup::new(arch, &[]);
        let download = Download::begin(&setup.server);
        setup.upgraded();
        assert_eq!(setup.server.wait(Duration::from_millis(300)), None, "{arch}: it waits");
        download.end().unwrap_or_else(|error| panic!("{arch}: {error}"));
        setup.stop();
    }
}

#[test]
fn a_new_server_that_fails_leaves_the_old_one_and_says_why() {
    for arch in ["amped", "mp", "amped --helpers process --sandbox required"] {
        let setup = Setup::new(arch, &[]);
        let said = setup.refused(&["--binary", &setup.script("bad", "echo bad luck >&2; exit 7")]);
        assert!(
            said.contains("bad luck\n") && said.contains("ended before it was ready (exit code 7)"),
            "{arch}: {said}"
        );
        let said =
            setup.refused(&["--binary", &setup.script("slow", "exec sleep 60"), "--ready-within", "200ms"]);
        assert!(said.contains("was not ready within 0.2 s"), "{arch}: {said}");
        let said = setup.refused(&["--binary", "/none/such"]);
        assert!(said.contains("/none/such"), "{arch}: {said}");
        // It is known only once the new server looks at its site.
        let away = setup.path("away");
        fs::rename(setup.site.path(), &away).unwrap();
        let output = setup.upgrade(&[]);
        fs::rename(&away, setup.site.path()).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arch}: {said}");
        assert!(said.contains("there is no such folder"), "{arch}: {said}");
        assert_eq!(setup.server.get("/a.txt").status, 200, "{arch}");
        assert!(setup.server.said().contains("bad luck"), "{arch}: {}", setup.server.said());
        let said = setup.server.said();
        assert!(said.contains("the upgrade failed, and this process goes on:"), "{arch}: {said}");
    }
}

#[test]
fn a_configuration_that_is_wrong_is_refused_with_its_line() {
    let setup = Setup::with("amped", &[], |command, folder| {
        fs::write(folder.join("flash.toml"), "revalidate = '1s'\n").unwrap();
        command.arg("--config").arg(folder.join("flash.toml"));
    });
    fs::write(setup.path("flash.toml"), "\nrevalidat = '1s'\n").unwrap();
    let said = setup.refused(&[]);
    assert!(said.contains("flash.toml:2") && said.contains("revalidat"), "{said}");
}

#[test]
fn sigusr2_upgrades_too_and_the_log_has_what_failed() {
    for arch in ["amped", "mp"] {
        let mut setup = Setup::new(arch, &[]);
        let away = setup.path("away");
        fs::rename(setup.site.path(), &away).unwrap();
        setup.server.signal(Signal::USR2);
        wait_for("the failure", || {
            setup.server.said().contains("the upgrade failed, and this process goes on:")
        });
        assert!(setup.server.said().contains("there is no such folder"), "{arch}");
        fs::rename(&away, setup.site.path()).unwrap();
        setup.server.signal(Signal::USR2);
        // Both servers answer until the old one has left the admin socket.
        wait_for("a successor", || setup.server.said().contains("serves from now on: this one finishes"));
        setup.successors.push(setup.pid());
        assert_eq!(setup.server.get("/a.txt").status, 200, "{arch}");
        setup.stop();
    }
}

#[test]
fn one_upgrade_at_a_time_and_none_of_a_server_that_stops() {
    for arch in ["amped", "mp"] {
        let mut setup = Setup::new(arch, &[]);
        let slow = setup.script("slow", "touch \"$(dirname \"$0\")/begun\"; exec sleep 60");
        thread::scope(|scope| {
            let first = scope.spawn(|| setup.upgrade(&["--binary", &slow, "--ready-within", "3s"]));
            wait_for("the first upgrade", || setup.program("begun").exists());
            let second = setup.upgrade(&[]);
            let said = String::from_utf8_lossy(&second.stderr);
            assert!(said.contains("another upgrade is under way"), "{arch}: {said}");
            assert_eq!(first.join().unwrap().status.code(), Some(1), "{arch}");
        });
        let download = Download::begin(&setup.server);
        setup.server.signal(Signal::TERM);
        wait_for("it to drain", || admin::ask(&setup.path("admin.sock"), "GET", "/healthz").0 == 503);
        let output = setup.upgrade(&[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("the server is stopping"), "{arch}: {said}");
        drop(download);
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}");
    }
}

#[test]
fn the_service_manager_hears_who_serves() {
    for arch in ["amped", "mp"] {
        let manager = std::cell::OnceCell::new();
        let mut setup = Setup::with(arch, &[], |command, folder| {
            let path = folder.join("notify");
            manager.set(UnixDatagram::bind(&path).unwrap()).unwrap();
            command.env("NOTIFY_SOCKET", &path);
        });
        let manager = manager.get().unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let hear = || {
            let mut buffer = [0; 4096];
            let count = manager.recv(&mut buffer).unwrap_or_else(|error| panic!("{arch}: {error}"));
            String::from_utf8_lossy(&buffer[..count]).into_owned()
        };
        assert!(hear().starts_with("READY=1\n"), "{arch}");
        let pid = setup.upgraded();
        assert_eq!(hear(), format!("MAINPID={pid}"), "{arch}");
        assert!(hear().starts_with("READY=1\n"), "{arch}");
        // The old one ends in silence, and the new one speaks.
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}");
        setup.stop();
        assert!(hear().starts_with("STOPPING=1\n"), "{arch}");
    }
}

#[test]
fn names_of_sockets_are_removed_by_the_last_server() {
    for arch in architectures() {
        let mut setup = Setup::with(arch, &[], |command, folder| {
            command.args(["--listen", &format!("unix:{}", folder.join("web.sock").display())]);
        });
        let path = setup.path("web.sock");
        setup.upgraded();
        assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{arch}");
        setup.upgraded();
        let mut stream = UnixStream::connect(&path).unwrap_or_else(|error| panic!("{arch}: {error}"));
        stream.write_all(b"GET /a.txt HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("0123456789"), "{arch}: {answer}");
        let admin = setup.path("admin.sock");
        setup.stop_and(|| {
            assert!(!path.exists(), "{arch}: the name of the web socket is left");
            assert!(!admin.exists(), "{arch}: the name of the admin socket is left");
        });
    }
}

/// A server with the listeners of its configuration, which is `listen` of the folder. `user` starts it.
fn with_listen(arch: &str, user: Option<u32>, listen: impl Fn(&Path) -> String) -> Setup {
    Setup::without_listen(arch, |command, folder| {
        fs::write(folder.join("flash.toml"), listen(folder)).unwrap();
        command.arg("--config").arg(folder.join("flash.toml"));
        if let Some(user) = user {
            set_mode(folder, 0o777);
            command.uid(user);
        }
    })
}

#[test]
fn the_mode_and_the_owner_of_unix_sockets_follow_the_configuration() {
    let listen = |access: &'static str| {
        move |folder: &Path| {
            format!("listen = ['127.0.0.1:0', 'unix:{}{access}']", folder.join("web.sock").display())
        }
    };
    for arch in ["amped", "mp"] {
        let mut setup = with_listen(arch, None, listen(",mode=600"));
        let path = setup.path("web.sock");
        let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode(), 0o600, "{arch}");
        fs::write(setup.path("flash.toml"), listen(",mode=666")(setup.folder.path())).unwrap();
        setup.upgraded();
        assert_eq!(mode(), 0o666, "{arch}");
        // What the configuration does not say is nothing to change.
        fs::write(setup.path("flash.toml"), listen("")(setup.folder.path())).unwrap();
        setup.upgraded();
        assert_eq!(mode(), 0o666, "{arch}");
        if rustix::process::geteuid().is_root() {
            fs::write(setup.path("flash.toml"), listen(",group=65534")(setup.folder.path())).unwrap();
            setup.upgraded();
            assert_eq!(fs::metadata(&path).unwrap().gid(), 65534, "{arch}");
        }
        setup.stop();
    }
}

#[test]
fn a_new_server_without_the_right_to_change_a_socket_says_so_and_serves() {
    if !is_superuser("sockets that another user owns") {
        return;
    }
    let listen = |access: &'static str| {
        move |folder: &Path| {
            format!("listen = ['127.0.0.1:0', 'unix:{}{access}']", folder.join("web.sock").display())
        }
    };
    let mut setup = with_listen("amped", Some(65534), listen(""));
    fs::write(setup.path("flash.toml"), listen(",group=1")(setup.folder.path())).unwrap();
    setup.upgraded();
    let line = format!(
        "flash: cannot change the mode and the owner of unix:{}: Operation not permitted (os error 1): they stay what they were until a \
         restart\n",
        setup.path("web.sock").display()
    );
    wait_for("the line", || setup.server.said().contains(&line));
    assert_eq!(setup.server.get("/a.txt").status, 200);
    setup.stop();
}
