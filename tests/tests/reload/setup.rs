//! A server with a configuration file and an admin socket.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use flash_tests::{ARCHITECTURES, PROCESSES, Server, admin, arch_settings, program, site};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Setup {
    pub(crate) folder: TempDir,
    pub(crate) server: Server,
    arch: &'static str,
}

/// All architectures, each with helpers as they are.
pub(crate) fn architectures() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.into_iter()
}

/// Those whose server may open listeners, logs and pages anew: in its sandbox it may not.
pub(crate) fn without_sandbox() -> impl Iterator<Item = &'static str> {
    ARCHITECTURES.into_iter().filter(|arch| *arch != PROCESSES)
}

/// Calls `test` with all of them at once.
pub(crate) fn each(all: impl Iterator<Item = &'static str>, test: impl Fn(&'static str) + Sync) {
    thread::scope(|scope| {
        for arch in all {
            let test = &test;
            scope.spawn(move || test(arch));
        }
    });
}

impl Setup {
    /// A server of two folders, `old` and `new`, that serves the first.
    pub(crate) fn start(arch: &'static str, settings: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["old", "new"] {
            fs::create_dir_all(folder.path().join(name).join("empty")).expect("a folder");
            site::write(&folder.path().join(name).join("a.txt"), name.as_bytes());
        }
        let path = folder.path().join("flash.toml");
        fs::write(&path, text(arch, folder.path(), settings)).expect("the file is written");
        let server = Server::start_configured(&path, &[]);
        Self { folder, server, arch }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes other settings.
    pub(crate) fn write(&self, settings: &str) {
        let text = text(self.arch, self.folder.path(), settings);
        fs::write(self.path("flash.toml"), text).expect("the file is written");
    }

    /// `flash reload`: its exit code, and what it says.
    pub(crate) fn reload(&self) -> (Option<i32>, String) {
        self.flash("reload")
    }

    /// The same of another command.
    pub(crate) fn flash(&self, command: &str) -> (Option<i32>, String) {
        let file = self.path("flash.toml");
        let output = Command::new(program()).args([command, "--config"]).arg(file).output();
        let Output { status, stdout, stderr } = output.expect("flash runs");
        (status.code(), String::from_utf8([stdout, stderr].concat()).expect("it is text"))
    }

    /// Reloads these settings, which are right.
    pub(crate) fn change(&self, settings: &str) {
        self.write(settings);
        let (status, said) = self.ask("POST", "/reload");
        assert_eq!(status, 200, "{}: {said}", self.arch);
    }

    /// A request to the admin socket.
    pub(crate) fn ask(&self, method: &str, path: &str) -> (u16, String) {
        admin::ask(&self.path("admin.sock"), method, path)
    }

    pub(crate) fn status(&self) -> Value {
        let (status, text) = self.ask("GET", "/status.json");
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("it is JSON")
    }

    /// The numbers of the configurations in use.
    pub(crate) fn in_use(&self) -> Vec<u64> {
        let status = self.status();
        let numbers = status["generations_in_use"].as_array().expect("a list");
        numbers.iter().map(|number| number.as_u64().expect("a number")).collect()
    }

    pub(crate) fn body(&self, path: &str) -> String {
        String::from_utf8(self.server.get(path).body).expect("it is text")
    }
}

fn text(arch: &str, folder: &Path, settings: &str) -> String {
    let arch = arch_settings(arch);
    let folder = folder.display();
    let root = if settings.contains("root = ") { "" } else { "root = 'old'\n" };
    let listen = if settings.contains("listen = ") { "" } else { "listen = '127.0.0.1:0'\n" };
    format!(
        "{root}{listen}admin = 'unix:{folder}/admin.sock'\n{arch}processes = 2\n\
         verbose = true\n{settings}"
    )
}
