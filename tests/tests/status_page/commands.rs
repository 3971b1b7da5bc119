//! `flash status` and `flash top`: what they print, and their exit codes.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use flash_tests::{ARCHITECTURES, PATIENCE, Server, arch_settings, program, terminal, wait_for};

use crate::configurations::begin_download;
use crate::setup::Setup;

#[test]
fn flash_status_says_how_a_server_does() {
    let setup = Setup::start("amped", &[]);
    let output = setup.run(&["status"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said.starts_with("State ") && said.contains("serving") && !said.contains("\n\n"), "{said}");
    let output = setup.run(&["status", "--json"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(&format!("\"pid\": {}", setup.server.pid())), "{said}");
    let admin = setup.admin();
    setup.server.stop();
    let gone = Command::new(program())
        .args(["status", "--admin", &format!("unix:{}", admin.display())])
        .output()
        .expect("flash runs");
    assert_eq!(gone.status.code(), Some(2), "{gone:?}");
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let setup = Setup::start("amped", &[]);
    let admin = format!("unix:{}", setup.admin().display());
    for words in [&["status"][..], &["status", "--json"], &["top", "--once"], &["reload"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(program());
        let output = command.args(words).args(["--admin", &admin]).stdout(writer).output();
        let output = output.expect("flash runs");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{words:?}: {output:?}");
        assert!(words[0] == "reload" || output.status.code() == Some(0), "{words:?}: {output:?}");
    }
    setup.server.stop();
}

#[test]
fn flash_status_of_a_server_that_drains() {
    let mut setup = Setup::start("amped", &["--drain", "20s"]);
    // A request under way keeps the server.
    let mut client = setup.server.connect();
    client.write_all(b"GET /a.txt HTTP/1.1\r\nHost: a\r\n").expect("it takes a part of a request");
    wait_for("the connection", || setup.ask("/status.json").1.contains("\"open_connections\": 1"));
    setup.server.signal(rustix::process::Signal::TERM);
    wait_for("the drain", || setup.run(&["status"]).status.code() == Some(1));
    let output = setup.run(&["status"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("the server is draining"), "{output:?}");
    client.write_all(b"\r\n").expect("it takes the rest");
    drop(client);
    assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)), "{}", setup.server.said());
}

/// What `flash status` finds fault with, once it does.
fn complaint(setup: &Setup) -> String {
    wait_for("a complaint", || setup.run(&["status"]).status.code() == Some(1));
    String::from_utf8(setup.run(&["status"]).stderr).expect("UTF-8")
}

#[test]
fn flash_status_names_each_thing_that_is_broken() {
    for arch in ["amped", "uring", "sped", "mt", "mp", "pipelined", "amped --helpers process --sandbox off"] {
        let arch: Vec<&str> = arch.split(' ').collect();
        let flags = [&arch[1..], &["--revalidate", "100ms", "--fastcgi", "/api=127.0.0.1:1"]].concat();
        let setup = Setup::start(arch[0], &flags);
        assert_eq!(setup.run(&["status"]).status.code(), Some(0), "{arch:?}: nobody has asked yet");
        assert_eq!(setup.server.get("/api/a").status, 502, "{arch:?}");
        let said = complaint(&setup);
        assert!(said.contains("/api: cannot be reached: "), "{arch:?}: {said}");
        assert!(!said.contains("is gone"), "{arch:?}: {said}");
        let (site, moved) = (setup.site(), setup.admin().with_file_name("moved"));
        std::fs::rename(&site, &moved).expect("a renamed folder");
        wait_for("503", || setup.server.get("/a.txt").status == 503);
        wait_for("both", || complaint(&setup).contains(&format!("{} is gone", site.display())));
        assert!(complaint(&setup).contains("/api: cannot"), "{arch:?}: each fault has its line");
        std::fs::rename(&moved, &site).expect("a renamed folder");
        wait_for("the folder", || setup.server.get("/a.txt").status == 200);
        wait_for("the end of it", || !complaint(&setup).contains("is gone"));
        setup.server.stop();
    }
}

#[test]
fn flash_status_tells_of_lines_that_no_log_has() {
    for arch in ["amped", "mp"] {
        let setup = Setup::start(arch, &["--access-log", "/dev/full"]);
        setup.server.get("/a.txt");
        let said = complaint(&setup);
        assert!(said.contains("lines of a log were dropped"), "{arch}: {said}");
        setup.server.stop();
    }
}

/// Sites beyond the first are opened by their first request. Then no other request has to come.
#[test]
fn flash_status_knows_that_a_folder_can_be_opened_again() {
    for arch in ARCHITECTURES {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let make = |name: &str| std::fs::create_dir(path(name)).expect("a folder");
        ["first", "lost", "round"].into_iter().for_each(make);
        let text = format!(
            "{}processes = 2\nlisten = ['127.0.0.1:0']\nadmin = 'unix:{}'\nrevalidate = '100ms'\n\
             [site.'a']\nroot = 'first'\n[site.'lost']\nroot = 'lost'\n[site.'round']\nroot = 'round'\n",
            arch_settings(arch),
            path("admin").display()
        );
        std::fs::write(path("flash.toml"), text).expect("a configuration");
        let server = Server::start_configured(&path("flash.toml"), &[]);
        ["lost", "round"].iter().for_each(|name| std::fs::remove_dir(path(name)).expect("no folder"));
        std::os::unix::fs::symlink("round", path("round")).expect("a link");
        let ask = |host: &str| server.raw(format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes());
        let status = || {
            let admin = format!("unix:{}", path("admin").display());
            let output =
                Command::new(program()).args(["status", "--admin", &admin]).output().expect("flash runs");
            String::from_utf8(output.stderr).expect("UTF-8")
        };
        assert_eq!(status(), "", "{arch}: nobody has asked yet");
        for host in ["lost", "round"] {
            let answer = ask(host);
            assert!(answer.starts_with(b"HTTP/1.1 503"), "{arch}: {}", String::from_utf8_lossy(&answer));
        }
        let faults = [("lost", "lost is gone"), ("round", "round cannot be opened")];
        wait_for("both faults", || faults.iter().all(|(_, fault)| status().contains(fault)));
        std::fs::remove_file(path("round")).expect("no link");
        ["lost", "round"].into_iter().for_each(make);
        wait_for("the end of both", || status().is_empty());
        let said = server.stop();
        // Of the processes of mp one logs, and perhaps it is another one that was asked.
        if arch == "mp" {
            continue;
        }
        for name in ["lost", "round"] {
            assert!(said.contains(&format!("{name} is back: serving")), "{arch}: {said}");
        }
        assert!(
            said.contains("round (Too many levels of symbolic links (os error 40)): requests get 503"),
            "{said}"
        );
    }
}

/// Not even while a request that began before keeps the configuration that had them.
#[test]
fn flash_status_says_nothing_of_sites_that_a_reload_took_away() {
    for arch in ["amped", "mp"] {
        let setup = Setup::configured(arch);
        let [file, lost] = ["flash.toml", "lost"].map(|name| setup.admin().with_file_name(name));
        let text = std::fs::read_to_string(&file).expect("a configuration");
        let root = format!("root = '{}'\n", setup.site().display());
        let one = format!("{}[site.'h']\n{root}", text.replace(&root, ""));
        std::fs::create_dir(&lost).expect("a folder");
        std::fs::write(&file, format!("{one}[site.'lost']\nroot = '{}'\n", lost.display()))
            .expect("two sites");
        setup.reload();
        std::fs::remove_dir(&lost).expect("no folder");
        // The process that is asked for it has a download after that.
        let (download, said) = begin_download(&setup, "GET / HTTP/1.1\r\nHost: lost\r\n\r\n");
        assert!(said.starts_with(b"HTTP/1.1 503"), "{arch}: {}", String::from_utf8_lossy(&said));
        assert!(complaint(&setup).contains("lost is gone"), "{arch}: {}", complaint(&setup));
        std::fs::write(&file, one).expect("one site");
        setup.reload();
        wait_for("the end of it", || setup.run(&["status"]).stderr.is_empty());
        let status = String::from_utf8(setup.run(&["status"]).stdout).expect("UTF-8");
        assert!(status.contains("3, and 2 (1 request, "), "{arch}: {status}");
        drop(download);
        setup.server.stop();
    }
}

#[test]
fn flash_top_prints_a_page_where_there_is_no_terminal() {
    let setup = Setup::start("amped", &[]);
    for words in [&["top"][..], &["top", "--once"]] {
        let output = setup.run(words);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(said.contains("TRAFFIC\nRequests ") && !said.contains('\x1b'), "{said}");
    }
    setup.server.stop();
}

/// Nothing has to be scrolled sideways.
#[test]
fn the_page_for_a_narrow_terminal_is_no_wider() {
    let setup = Setup::start("amped", &["--fastcgi", "/api=127.0.0.1:1"]);
    assert_eq!(setup.server.get("/api/a").status, 502);
    let long = format!("/{}", "long/".repeat(30));
    setup.server.get(&long);
    let page = |columns: &str| setup.ask(&format!("/status.txt{columns}")).1;
    let longest = |page: &str| page.lines().map(|line| line.chars().count()).max();
    assert!(longest(&page("")) > Some(100));
    for columns in [40, 60, 80, 120] {
        let page = page(&format!("?columns={columns}"));
        assert!(longest(&page) <= Some(columns), "{columns}: {page}");
        let shown = ["SUMMARY", "LOOPS", "  ! Health failing", "/api: cannot be"];
        assert!(shown.iter().all(|shown| page.contains(shown)), "{columns}: {page}");
    }
    setup.server.stop();
}

#[test]
fn flash_top_leaves_the_terminal_as_it_was() {
    let setup = Setup::start("amped", &[]);
    let (mut ours, theirs) = terminal::open();
    let modes = || rustix::termios::tcgetattr(&theirs).expect("its modes").local_modes;
    let before = modes();
    let admin = format!("unix:{}", setup.admin().display());
    let side = || Stdio::from(theirs.try_clone().expect("a clone"));
    let mut top = Command::new(program())
        .args(["top", "--admin", &admin])
        .stdin(side())
        .stdout(side())
        .spawn()
        .expect("flash runs");
    let mut screen = String::new();
    let mut read_to = |what: &str, ours: &mut File| {
        while !screen.contains(what) {
            let mut bytes = [0; 4096];
            let count = ours.read(&mut bytes).expect("the terminal shows something");
            screen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        std::mem::take(&mut screen)
    };
    read_to("q quits", &mut ours);
    assert_ne!(modes(), before, "no echo, and no lines");
    assert!(read_to("q quits", &mut ours).contains("SUMMARY"), "another frame");
    ours.write_all(b"q").expect("a key");
    assert!(top.wait().expect("it ends").success());
    read_to("\x1b[?1049l", &mut ours);
    assert_eq!(modes(), before);
    setup.server.stop();
}
