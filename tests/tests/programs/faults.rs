//! Programs that go wrong: the client is told, the program ends with all that it has started, and nothing is left behind.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::{ARCHITECTURES, PATIENCE, Server, family, read_all, reply, scripts, site, wait_for};

const FLAGS: [&str; 4] = ["--processes", "4", "--cgi-max", "4"];

/// How long a program may be silent, in tests that wait for that. Other programs must write a byte in that time, on a busy
/// machine too.
const DEADLINE: [&str; 2] = ["--program-deadline", "4s"];

/// A check that mostly waits, of every architecture at the same time.
fn all_at_once(check: impl Fn(&str, &Path) + Sync) {
    let site = site::make();
    thread::scope(|scope| {
        for arch in ARCHITECTURES {
            let (check, site) = (&check, site.path());
            scope.spawn(move || check(arch, site));
        }
    });
}

fn everywhere(flags: &[&str], check: impl Fn(&str, &Server)) {
    let (site, scripts) = (site::make(), scripts::make());
    let cgi = format!("/cgi={}", scripts.path().display());
    for arch in ARCHITECTURES {
        let all: Vec<&str> = [&FLAGS[..], flags, &["--cgi", &cgi]].concat();
        let server = Server::start(arch, site.path(), &all);
        check(arch, &server);
        let said = server.stop();
        assert!(!said.contains("panick"), "{arch}: {said}");
    }
}

/// How many programs run at this moment, whoever their parent is by now: they begin in the folder of their script.
fn programs(scripts: &Path) -> usize {
    let scripts = scripts.canonicalize().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == scripts))
        .count()
}

#[test]
fn a_program_that_says_nothing_sensible_is_a_bad_gateway() {
    everywhere(&[], |arch, server| {
        for name in ["junk", "control", "split", "headless", "wordless", "endless-head"] {
            let reply = server.get(&format!("/cgi/{name}"));
            assert_eq!(reply.status, 502, "{arch}: {name}");
        }
        wait_for("each is complained of", || {
            server.said().lines().filter(|line| line.contains("its program: ")).count() == 6
        });
    });
}

/// RFC 9112 §8: a response that ends before its length must not look complete.
#[test]
fn a_program_that_dies_half_way_ends_the_connection() {
    everywhere(&[], |arch, server| {
        let bytes = server.raw(b"GET /cgi/short HTTP/1.1\r\nHost: h\r\n\r\n");
        let end = reply::find(&bytes, b"\r\n\r\n").unwrap();
        assert_eq!(&bytes[end + 4..], b"abc", "{arch}");
        assert_eq!(server.get("/a.txt").status, 200, "{arch}");
    });
}

#[test]
fn a_program_that_is_silent_is_ended_with_all_that_it_started() {
    all_at_once(|arch, site| {
        let scripts = scripts::make();
        let cgi = format!("/cgi={}", scripts.path().display());
        let server = Server::start(arch, site, &[&FLAGS[..], &DEADLINE, &["--cgi", &cgi]].concat());
        for name in ["silent", "stubborn"] {
            assert_eq!(server.get(&format!("/cgi/{name}")).status, 504, "{arch}: {name}");
        }
        // On a connection that goes on the next program is heard.
        let mut client = server.connect();
        write!(client, "GET /cgi/silent HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        write!(client, "GET /cgi/complain HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        let bytes = read_all(&mut client);
        let statuses: Vec<u16> = reply::all(&bytes, |_| false).iter().map(|reply| reply.status).collect();
        assert_eq!(statuses, [504, 200], "{arch}");
        wait_for("all of them are gone", || programs(scripts.path()) == 0);
        server.stop();
    });
}

/// What the program leaves behind has its grace, and then the response is complete.
#[test]
fn a_child_that_holds_the_pipe_does_not_hold_the_client() {
    everywhere(&["--program-deadline", "20s"], |arch, server| {
        let reply = server.get("/cgi/parent");
        assert_eq!((reply.status, &reply.body[..]), (200, &b"ok"[..]), "{arch}");
    });
}

/// Programs that wait delay no other client, and there are never more of them than allowed.
#[test]
fn programs_have_limits_and_others_do_not_wait() {
    all_at_once(|arch, site| {
        let scripts = scripts::make();
        let cgi = format!("/cgi={}", scripts.path().display());
        // A thread or a process that waits for its program is one of few.
        let flags = ["--processes", "32", "--cgi-max", "2", "--cgi-queue-max", "3", "--cgi", &cgi];
        let server = Server::start(arch, site, &[&flags[..], &DEADLINE].concat());
        let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.write_all(b"GET /cgi/silent HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        }
        wait_for("programs run", || programs(scripts.path()) == 2);
        assert_eq!(server.get("/a.txt").status, 200, "{arch}");
        assert_eq!(programs(scripts.path()), 2, "{arch}: the file did not wait for their end");
        let statuses: Vec<u16> =
            clients.iter_mut().map(|client| reply::only(&read_all(client)).status).collect();
        let count = |status| statuses.iter().filter(|&&other| other == status).count();
        assert!(count(503) >= 3 && count(504) >= 2 && count(503) + count(504) == 8, "{arch}: {statuses:?}");
        assert_eq!(server.get("/cgi/complain").status, 200, "{arch}: and then there is room again");
        server.stop();
    });
}

/// A slow reader holds its program up, and the server keeps little of what it has said.
#[test]
fn what_a_program_says_is_bounded_in_memory() {
    everywhere(&[], |arch, server| {
        let mut client = server.connect();
        client.write_all(b"GET /cgi/flood HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        client.read_exact(&mut [0; 1000]).unwrap();
        let before = server.resident_kb();
        // Until it has not grown for half a second.
        let (mut most, mut rest) = (before, 0);
        while rest < 10 {
            thread::sleep(Duration::from_millis(50));
            let now = server.resident_kb();
            // A program writes a gigabyte in the time. What is held, and what the allocator keeps of it, was 8 to 28 MB.
            assert!(now < before + 65_536, "{arch}: from {before} to {now} KB");
            rest = if now > most { 0 } else { rest + 1 };
            most = most.max(now);
        }
    });
}

/// The fork helper is killed: programs that run go on, and the next are begun by another.
#[test]
fn a_fork_helper_that_is_killed_is_replaced() {
    everywhere(&[], |arch, server| {
        assert_eq!(server.get("/cgi/python").status, 200, "{arch}");
        let helper = || family::of(server).into_iter().find(|process| process.name() == "flash-fork");
        let first = helper().unwrap_or_else(|| panic!("{arch}: there is a fork helper"));
        let mut client = server.connect();
        client.write_all(b"GET /cgi/flood HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        client.read_exact(&mut [0; 1000]).unwrap();
        first.kill();
        wait_for("there is another", || helper().is_some_and(|other| other != first));
        client.read_exact(&mut vec![0; 3_000_000]).expect("the program goes on");
        wait_for("programs are begun again", || server.get("/cgi/python").status == 200);
    });
}

/// The supervisor is killed, so no new fork helper could replace the present one. The server finishes its running requests, and
/// its exit code reports a failure.
#[test]
fn without_its_supervisor_the_server_ends_in_order() {
    let (site, scripts) = (site::make(), scripts::make());
    let late = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nsoon '; sleep 1; echo and late";
    scripts::script(scripts.path(), "late", late);
    let cgi = format!("/cgi={}", scripts.path().display());
    for arch in ARCHITECTURES {
        let mut server = Server::start(arch, site.path(), &[&FLAGS[..], &["--cgi", &cgi]].concat());
        let mut client = server.connect();
        client.write_all(b"GET /cgi/late HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        client.read_exact(&mut [0; 10]).unwrap();
        let family = family::of(&server);
        let supervisor = family.iter().find(|process| process.name() == "flash-supervise");
        supervisor.unwrap_or_else(|| panic!("{arch}: there is a supervisor")).kill();
        let rest = read_all(&mut client);
        assert!(String::from_utf8_lossy(&rest).contains("and late"), "{arch}: what is under way is finished");
        assert_eq!(server.wait(PATIENCE), Some(Some(1)), "{arch}: {}", server.said());
        wait_for("nothing is left", || family.iter().all(|process| !process.lives()));
        let why = "the supervisor ended (signal 9)";
        wait_for("it says why", || server.said().ends_with(&format!("flash: stopped because {why}\n")));
        let said = server.said();
        assert!(said.contains(&format!("flash: {why} and cannot be started again")), "{arch}: {said}");
    }
}

/// Nothing is left of many programs: no process, no descriptor, no memory.
#[test]
fn nothing_leaks() {
    everywhere(&[], |arch, server| {
        let some = |count| {
            for number in 0..count {
                let name = ["python", "junk", "short", "complain", "none"][number % 5];
                server.raw(
                    format!("GET /cgi/{name} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes(),
                );
            }
        };
        some(30);
        let descriptors = || {
            let count = |process: family::Process| {
                fs::read_dir(format!("/proc/{}/fd", process.pid)).map_or(0, Iterator::count)
            };
            family::of(server).into_iter().map(count).sum::<usize>()
        };
        let settled = || {
            wait_for("programs have ended", || family::of(server).iter().all(|process| process.lives()));
            thread::sleep(Duration::from_millis(200));
            (descriptors(), family::of(server).len())
        };
        let before = settled();
        some(60);
        let give_up = Instant::now() + PATIENCE;
        while settled() > before && Instant::now() < give_up {}
        assert!(settled() <= before, "{arch}: from {before:?} to {:?}", settled());
    });
}
