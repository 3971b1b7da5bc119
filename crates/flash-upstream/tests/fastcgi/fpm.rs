//! php-fpm, as Debian has it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use flash_cgi::Variables;
use flash_cgi::script::Split;
use flash_core::upstream::{Opened, ReleaseMode};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::bench::Bench;
use crate::exchange::{settings, wait_until};

struct Fpm(Child);

impl Fpm {
    /// With one process, so that a kept connection holds all of it.
    fn start(folder: &Path) -> Option<Self> {
        let names = ["php-fpm8.2", "php-fpm8.3", "php-fpm8.4", "php-fpm"];
        let places = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];
        let mut programs = names.iter().flat_map(|name| places.map(|place| Path::new(place).join(name)));
        let Some(program) = programs.find(|program| program.exists()) else {
            eprintln!("MISSING: php-fpm, so that no request is made to it");
            return None;
        };
        let at = folder.display();
        let config = format!(
            "[global]\nerror_log = {at}/fpm.log\ndaemonize = no\n[www]\nlisten = {at}/socket\npm = static\n\
            pm.max_children = 1\ncatch_workers_output = no\nphp_admin_value[display_errors] = 0\n\
            php_admin_value[log_errors] = 1\nphp_admin_value[error_log] = \n"
        );
        // As root it wants to become somebody; it stays root where nobody else is needed.
        let config = if is_root() { format!("{config}user = root\ngroup = root\n") } else { config };
        fs::write(folder.join("fpm.conf"), config).unwrap();
        let mut command = Command::new(program);
        command.arg("-R").arg("-n").arg("-F").arg("-y").arg(folder.join("fpm.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own, so that none of its processes is left behind.
        Some(Self(command.process_group(0).spawn().unwrap()))
    }

    fn end(&mut self) {
        let group = Pid::from_child(&self.0);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.0.wait();
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        self.end();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn variables(folder: &Path, script: &str) -> Variables {
    let mut variables = Variables::default();
    variables.push(b"REQUEST_METHOD", b"GET");
    let file = folder.join(script);
    let split = Split { name: b"/hello.php", info: b"/more" };
    variables.add_script(&split, Some(file.as_os_str().as_encoded_bytes()));
    variables
}

#[test]
fn php_fpm_serves_and_is_restarted() {
    let bench = Bench::unix(settings());
    let folder = bench.folder.path().to_owned();
    let Some(mut fpm) = Fpm::start(&folder) else { return };
    let php = "<?php error_log('a complaint'); echo $_SERVER['SCRIPT_NAME'], '|', $_SERVER['PATH_INFO'];";
    fs::write(folder.join("hello.php"), php).unwrap();
    let hello = || {
        let mut request = match bench.ask_with(false, variables(&folder, "hello.php")).answered() {
            Ok(request) => request,
            Err(_) => return None,
        };
        request.send_with(&variables(&folder, "hello.php"));
        let answer = request.receive();
        let used = request.used;
        request.finish(ReleaseMode::Reusable);
        Some((answer, used))
    };
    let mut first = None;
    wait_until("php-fpm listens", || {
        first = hello();
        first.is_some()
    });
    let (answer, _) = first.unwrap();
    assert!(answer.ends_with("\r\n\r\n/hello.php|/more"), "{answer}");
    for _ in 0..10 {
        assert!(hello().unwrap().1, "its connection is kept");
    }
    assert!(bench.said().iter().any(|line| line.contains("a complaint")), "{:?}", bench.said());

    fpm.end();
    wait_until("it is gone", || matches!(bench.ask(false).answered(), Err(Opened::Failed(_))));
    let _fpm = Fpm::start(&folder).unwrap();
    wait_until("it is back", || hello().is_some());
}
