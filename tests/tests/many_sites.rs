//! Many sites: what each adds to a server's memory, and to its work while nobody asks.

#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use flash_tests::{ARCHITECTURES, Server, arch_settings, is_superuser, need, program, site, wait_for};
use tempfile::TempDir;

/// A configuration with so many sites.
fn configure(root: &Path, sites: usize) -> PathBuf {
    let mut text = "listen = [\"127.0.0.1:0\"]\nadmin = \"off\"\n".to_owned();
    for n in 0..sites {
        fs::create_dir(root.join(format!("site-{n}"))).unwrap();
        site::write(&root.join(format!("site-{n}/a.txt")), n.to_string().as_bytes());
        text += &format!("[site.\"{n}.example\"]\nroot = \"site-{n}\"\n");
    }
    let file = root.join("flash.toml");
    fs::write(&file, text).unwrap();
    file
}

/// Serves so many sites, in a mount namespace with so many mounts beside them.
fn serve(folder: &TempDir, sites: usize, mounts: usize) -> Server {
    let root = folder.path();
    configure(root, sites);
    fs::create_dir(root.join("mount")).unwrap();
    (0..mounts).for_each(|n| fs::create_dir(root.join(format!("mount/{n}"))).unwrap());
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
    if !is_superuser("mounting") {
        return;
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

/// Of a site's root, and of where it leads after a deploy.
fn release(folder: &Path, number: usize) {
    let release = folder.join(format!("release-{number}"));
    fs::create_dir_all(release.join("list")).unwrap();
    site::write(&release.join("a.txt"), number.to_string().as_bytes());
    site::write(&release.join(format!("list/{number}.txt")), b"");
    let next = folder.join("next");
    symlink(release, &next).unwrap();
    fs::rename(next, folder.join("current")).unwrap();
}

/// After this time without a request no thread looks at a site.
const IDLE_AFTER: Duration = Duration::from_secs(12);

#[test]
fn sites_that_nobody_asks_for_are_not_looked_at() {
    const SITES: usize = 1000;
    let folder = TempDir::new().unwrap();
    let server = Server::start_configured(&configure(folder.path(), SITES), &[]);
    visit(&server, SITES);
    thread::sleep(IDLE_AFTER);
    let before = server.cpu_seconds();
    thread::sleep(Duration::from_secs(5));
    let used = server.cpu_seconds() - before;
    assert!(used < 0.03, "{used} s in five seconds");
    visit(&server, SITES);
    server.stop();
}

/// Nothing of it was looked at meanwhile.
#[test]
fn the_first_request_for_an_idle_site_sees_a_new_root() {
    let check = |arch: &str| {
        let folder = TempDir::new().unwrap();
        let root = folder.path();
        let sites = ["one", "two", "three"];
        let mut text = arch_settings(arch) + "listen = [\"127.0.0.1:0\"]\nadmin = \"off\"\nlist = true\n";
        for name in sites {
            fs::create_dir(root.join(name)).unwrap();
            release(&root.join(name), 1);
            text += &format!("[site.\"{name}\"]\nroot = \"{name}/current\"\n");
        }
        let file = root.join("flash.toml");
        fs::write(&file, text).unwrap();
        let server = Server::start_configured(&file, &[]);
        let get = |host: &str, path: &str| {
            let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            String::from_utf8(server.raw(head.as_bytes())).unwrap()
        };
        for name in sites {
            // With mp, several processes have it then.
            (0..20).for_each(|_| assert!(get(name, "/a.txt").ends_with("\r\n\r\n1"), "{arch}"));
            assert!(get(name, "/list/").contains("1.txt"), "{arch}");
        }
        thread::sleep(IDLE_AFTER);
        sites.iter().for_each(|name| release(&root.join(name), 2));
        assert!(get("one", "/a.txt").ends_with("\r\n\r\n2"), "{arch}: an old file");
        assert!(get("two", "/list/").contains("2.txt"), "{arch}: an old listing");
        fs::rename(root.join("three/current"), root.join("three/gone")).unwrap();
        assert!(get("three", "/a.txt").starts_with("HTTP/1.1 503"), "{arch}: a folder that is gone");
        // It is looked at again.
        release(&root.join("one"), 3);
        wait_for("the next release", || get("one", "/a.txt").ends_with("\r\n\r\n3"));
        server.stop();
    };
    thread::scope(|scope| {
        ARCHITECTURES.iter().for_each(|arch| _ = scope.spawn(|| check(arch)));
    });
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
