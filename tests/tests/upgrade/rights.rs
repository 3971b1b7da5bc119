//! What a server that was taken over gains by an upgrade, or a program of the server's user: nothing.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;

use flash_tests::{
    ARCHITECTURES, PATIENCE, admin, family, is_superuser, program, scripts, set_mode, wait_for,
};
use rustix::process::{Signal, Uid};

use crate::setup::Setup;

const NOBODY: u32 = 65_534;

/// A request to the admin socket by the server's user: a thread of this process can be another user's.
fn ask_as_nobody(socket: &Path, path: &str) -> String {
    let ask = || {
        rustix::thread::set_thread_res_uid(None, Uid::from_raw(NOBODY), None).unwrap();
        let mut stream = UnixStream::connect(socket).unwrap();
        write!(stream, "POST {path} HTTP/1.1\r\nHost: flash\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    thread::scope(|scope| scope.spawn(ask).join().unwrap())
}

#[test]
fn only_root_names_another_program_and_not_by_way_of_the_server() {
    if !is_superuser("upgrades of another user's server") {
        return;
    }
    for arch in ARCHITECTURES {
        // A shell takes its first argument, which is `serve`, for a script in its folder.
        let setup = Setup::with(arch, &["--user", "nobody"], |command, folder| {
            let taken = folder.join("taken");
            scripts::script(folder, "serve", &format!("#!/bin/sh\n: > {}\n", taken.display()));
            command.current_dir(folder);
        });
        let before = setup.pid();
        let socket = setup.path("admin.sock");
        for program in ["/bin/sh", "/usr/bin/dash", "/usr/bin/python3", "/proc/self/exe"] {
            let answer = ask_as_nobody(&socket, &format!("/upgrade?binary={program}"));
            assert!(
                answer.contains(&format!("only root may have {program} executed in place of ")),
                "{arch}: {answer}"
            );
            // The server's word that root has asked does not count.
            let (status, answer) = admin::ask(&socket, "POST", &format!("/upgrade?binary={program}"));
            assert!(status == 422 && answer.contains("only root may have"), "{arch}: {answer}");
        }
        assert!(!setup.path("taken").exists(), "{arch}");
        assert_eq!(setup.pid(), before, "{arch}");
        let dash = fs::canonicalize("/bin/sh").unwrap();
        let said = setup.refused(&["--binary", dash.to_str().unwrap()]);
        assert!(!setup.path("taken").exists(), "{arch}: it works in another folder, too: {said}");
    }
}

#[test]
fn an_upgrade_without_a_name_executes_only_a_program_of_roots() {
    if !is_superuser("upgrades of another user's server") {
        return;
    }
    for arch in ["amped", "mp"] {
        let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let inner = folder.path().join("bin");
        fs::create_dir(&inner).unwrap();
        for path in [folder.path(), &inner] {
            set_mode(path, 0o755);
        }
        let copy = inner.join("flash");
        fs::copy(program(), &copy).unwrap();
        let mut setup = Setup::of_program(&copy, arch, |command, _| {
            command.args(["--listen", "127.0.0.1:0", "--user", "nobody"]);
        });
        for (path, mode, owner, why) in [
            (&copy, 0o775, 0, "others may write it"),
            (&copy, 0o755, NOBODY, "it is another user's"),
            (&inner, 0o1777, 0, "others may write it"),
            (&inner, 0o755, NOBODY, "it is another user's"),
        ] {
            set_mode(path, mode);
            chown(path, Some(owner), None).unwrap();
            let said = setup.refused(&[]);
            assert!(said.contains(&format!("{why} ({})", path.display())), "{arch}: {said}");
            setup.server.signal(Signal::USR2);
            let line = format!("with the rights of the start: {why} ({})", path.display());
            wait_for("the line", || setup.server.said().matches(&line).count() == 2);
            set_mode(path, 0o755);
            chown(path, Some(0), None).unwrap();
        }
        fs::remove_file(&copy).unwrap();
        std::os::unix::fs::symlink("/bin/sh", &copy).unwrap();
        let said = setup.refused(&[]);
        assert!(said.contains("it is a symbolic link"), "{arch}: {said}");
        fs::remove_file(&copy).unwrap();
        fs::copy(program(), &copy).unwrap();
        setup.upgraded();
        setup.stop();
    }
}

#[test]
fn a_server_without_its_rights_gets_them_back_only_for_trusted_programs() {
    if !is_superuser("upgrades of another user's server") {
        return;
    }
    let mut setup = Setup::new("amped", &["--user", "nobody"]);
    let copy = setup.program("flash");
    fs::copy(program(), &copy).unwrap();
    set_mode(&copy, 0o777);
    let said = setup.refused(&["--binary", copy.to_str().unwrap()]);
    assert!(said.contains("others may write it"), "{said}");
    set_mode(&copy, 0o755);
    let output = setup.upgrade(&["--binary", copy.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let pid = setup.pid();
    setup.successors.push(pid);
    assert_eq!(fs::read_link(format!("/proc/{pid}/exe")).unwrap(), copy.canonicalize().unwrap());
    // Once more: its successor has the same rights as the first one had.
    assert_eq!(setup.server.wait(PATIENCE), Some(Some(0)));
    setup.upgraded();
    assert_eq!(setup.server.get("/a.txt").status, 200);
    setup.stop();
}

/// The environment of a process.
fn environment(pid: u32) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.split('\0').filter_map(pair).collect()
}

#[test]
fn the_next_server_gets_what_flash_reads_and_nothing_that_changes_how_programs_are_loaded() {
    const KEPT: [(&str, &str); 6] = [
        ("HOME", "/nowhere/home"),
        ("LC_MESSAGES", "C"),
        ("PATH", "/usr/bin:/bin"),
        ("TMPDIR", "/var/tmp"),
        ("TOKEN", "a secret of the configuration"),
        ("TZ", "UTC"),
    ];
    const LEFT_OUT: [&str; 6] =
        ["LD_LIBRARY_PATH", "GCONV_PATH", "GLIBC_TUNABLES", "RUST_BACKTRACE", "OTHER_TOKEN", "PYTHONPATH"];
    for arch in ["amped", "mp"] {
        let mut setup = Setup::with(arch, &[], |command, folder| {
            let config = folder.join("flash.toml");
            fs::write(&config, "header = { X-Token = { env = 'TOKEN' } }\n").unwrap();
            command.arg("--config").arg(config).env_clear().envs(KEPT);
            command.envs(LEFT_OUT.map(|name| (name, "0"))).current_dir(folder);
        });
        for _ in 0..2 {
            let pid = setup.upgraded();
            let mut found = environment(pid);
            assert_eq!(found.remove("LISTEN_PID"), Some(pid.to_string()), "{arch}");
            assert!(
                found.remove("LISTEN_FDS").is_some() && found.remove("LISTEN_FDNAMES").is_some(),
                "{arch}"
            );
            let folder = fs::canonicalize(setup.folder.path()).unwrap();
            assert_eq!(found.remove("FLASH_START_FOLDER").as_deref(), folder.to_str(), "{arch}");
            let kept = KEPT.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(found, BTreeMap::from(kept), "{arch}");
            let answer = setup.server.get("/a.txt");
            assert_eq!(answer.field("X-Token"), Some("a secret of the configuration"), "{arch}");
        }
        setup.stop();
    }
}

/// The folder that a process works in.
fn folder_of(pid: u32) -> String {
    fs::read_link(format!("/proc/{pid}/cwd")).map(|folder| folder.display().to_string()).unwrap_or_default()
}

#[test]
fn relative_paths_mean_the_folder_of_the_start_and_all_processes_work_elsewhere() {
    for arch in ARCHITECTURES {
        let mut setup = Setup::with(arch, &[], |command, folder| {
            let site = command.get_args().nth(1).unwrap().to_owned();
            std::os::unix::fs::symlink(&site, folder.join("site")).unwrap();
            fs::create_dir(folder.join("bin")).unwrap();
            let script = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'; pwd";
            scripts::script(&folder.join("bin"), "where", script);
            fs::write(folder.join("flash.toml"), "cgi-direct = { \"/config\" = \"bin\" }\n").unwrap();
            let mut again = std::process::Command::new(program());
            again.args(["serve", "site", "--processes", "2", "--listen", "127.0.0.1:0", "--verbose"]);
            again.args(["--admin", "unix:admin.sock", "--listen", "unix:web.sock", "--config", "flash.toml"]);
            again.args([
                "--access-log",
                "access.log",
                "--error-log",
                "./error.log",
                "--cgi",
                "/bin=bin",
                "--arch",
            ]);
            again.args(arch.split(' ')).current_dir(folder).stdin(std::process::Stdio::null());
            *command = again;
        });
        let ask =
            |setup: &Setup, path: &str| String::from_utf8_lossy(&setup.server.get(path).body).into_owned();
        let processes = family::of(&setup.server);
        for process in processes.iter().filter(|process| process.lives()) {
            assert_eq!(folder_of(process.pid), "/", "{arch}: {}", process.name());
        }
        for _ in 0..2 {
            assert_eq!(ask(&setup, "/a.txt"), "0123456789", "{arch}");
            let bin = fs::canonicalize(setup.path("bin")).unwrap();
            assert_eq!(ask(&setup, "/bin/where").trim(), bin.to_str().unwrap(), "{arch}");
            let (status, answer) = admin::ask(&setup.path("admin.sock"), "POST", "/reload");
            assert_eq!(status, 200, "{arch}: {answer}");
            assert_eq!(ask(&setup, "/config/where").trim(), bin.to_str().unwrap(), "{arch}");
            UnixStream::connect(setup.path("web.sock")).unwrap();
            let lines = fs::read_to_string(setup.path("access.log")).unwrap_or_default().lines().count();
            let pid = setup.upgraded();
            assert_eq!(folder_of(pid), "/", "{arch}");
            ask(&setup, "/a.txt");
            wait_for("a line of the log", || {
                fs::read_to_string(setup.path("access.log")).unwrap_or_default().lines().count() > lines
            });
        }
        fs::write(setup.path("flash.toml"), "revalidat = '1s'\n").unwrap();
        let said = setup.refused(&[]);
        assert!(said.contains("--> flash.toml:1:1"), "{arch}: as it was named: {said}");
        setup.stop();
    }
}
