//! Many sites: what each adds to a server's memory, and to its work while nobody asks.

#![forbid(unsafe_code)]

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use flash_tests::{Server, need, program, site, wait_for};
use tempfile::TempDir;

/// Serves so many sites, in a mount namespace with so many mounts beside them.
fn serve(folder: &TempDir, sites: usize, mounts: usize) -> Server {
    let root = folder.path();
    let mut text = "listen = [\"127.0.0.1:0\"]\nadmin = \"off\"\n".to_owned();
    for n in 0..sites {
        fs::create_dir(root.join(format!("site-{n}"))).unwrap();
        site::write(&root.join(format!("site-{n}/a.txt")), n.to_string().as_bytes());
        text += &format!("[site.\"{n}.example\"]\nroot = \"site-{n}\"\n");
    }
    fs::create_dir(root.join("mount")).unwrap();
    (0..mounts).for_each(|n| fs::create_dir(root.join(format!("mount/{n}"))).unwrap());
    fs::write(root.join("flash.toml"), text).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c"]);
    command.arg("for folder in mount/*; do mount --bind mount $folder || exit; done; exec \"$@\"");
    command.arg("sh").arg(program()).args(["serve", "--config", "flash.toml"]);
    command.current_dir(root).stdin(Stdio::null());
    Server::of(command)
}

fn visit(server: &Server, sites: usize) {
    for n in 0..sites {
        let head = format!("GET /a.txt HTTP/1.1\r\nHost: {n}.example\r\nConnection: close\r\n\r\n");
        assert!(server.raw(head.as_bytes()).ends_with(n.to_string().as_bytes()), "{n}.example");
    }
}

#[test]
fn sites_share_the_list_of_mounts() {
    const SITES: usize = 300;
    if !rustix::process::geteuid().is_root() {
        return eprintln!("NOT TESTED: only the superuser may mount");
    }
    need("unshare", "util-linux");
    let folder = TempDir::new().unwrap();
    let server = serve(&folder, SITES, 300);
    visit(&server, 1);
    let before = server.resident_kb();
    visit(&server, SITES);
    let grown = server.resident_kb() - before;
    assert!(grown < 40 * SITES as u64, "{grown} KB for {SITES} sites");
    // A mount that the sites do not see. Each one is read apart.
    let mount = || {
        let pid = server.pid().to_string();
        let enter = ["--target", &pid, "--mount", "mount", "--bind", "/proc", "/mnt"];
        assert!(Command::new("nsenter").args(enter).status().unwrap().success());
        thread::sleep(Duration::from_millis(200));
    };
    let before = server.cpu_seconds();
    (0..10).for_each(|_| mount());
    let used = server.cpu_seconds() - before;
    assert!(used < 0.5, "{used} s for ten mounts");
    server.stop();
}

/// Of the thread with this name, in seconds.
fn cpu_of_thread(server: &Server, name: &str) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let mut tasks = tasks.map(|task| task.unwrap().path());
    let task = tasks.find(|task| fs::read_to_string(task.join("comm")).unwrap().trim() == name).unwrap();
    let stat = fs::read_to_string(task.join("schedstat")).unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// A download may keep it for hours.
#[test]
fn an_earlier_configuration_costs_nothing_while_it_lives() {
    const FILES: usize = 10_000;
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("site")).unwrap();
    for n in 0..FILES {
        site::write(&folder.path().join(format!("site/{n}")), b"");
    }
    let large = fs::File::create(folder.path().join("site/large")).unwrap();
    large.set_len(1 << 30).unwrap();
    let file = folder.path().join("flash.toml");
    fs::write(&file, "listen = [\"127.0.0.1:0\"]\nadmin = \"off\"\nroot = \"site\"\n").unwrap();
    let server = Server::start_configured(&file, &[]);
    let mut slow = server.connect();
    std::io::Write::write_all(&mut slow, b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert!(std::io::Read::read(&mut slow, &mut [0; 9]).unwrap() > 0);
    for begin in (0..FILES).step_by(100) {
        let request = |n| format!("GET /{n} HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n\r\n");
        let requests: String = (begin..begin + 99).map(request).collect();
        let last = "GET /large HTTP/1.1\r\nHost: h\r\nRange: bytes=0-0\r\nConnection: close\r\n\r\n";
        server.raw((requests + last).as_bytes());
    }
    server.signal(rustix::process::Signal::HUP);
    wait_for("the reload", || server.said().contains("configuration 2 serves"));
    thread::sleep(Duration::from_millis(500));
    let before = cpu_of_thread(&server, "reload");
    thread::sleep(Duration::from_secs(4));
    let used = cpu_of_thread(&server, "reload") - before;
    assert!(used < 0.004, "{used} s in four seconds");
    drop(slow);
    server.stop();
}
