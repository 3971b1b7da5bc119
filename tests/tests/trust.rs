//! What a server that root starts does with what another user has put into its way: nothing that this user may not do.

#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use flash_tests::{Server, is_superuser, open_folder, program, set_mode, site};
use tempfile::TempDir;

/// An ordinary user, whom Debian calls nobody.
const NOBODY: u32 = 65_534;
const SECRET: &str = "root's own";

/// A folder of root's with a secret in it, and in that folder one of the server's user.
struct Folders {
    roots: TempDir,
    theirs: PathBuf,
    site: TempDir,
}

impl Folders {
    /// `None`, and says so, if this process is not root's.
    fn make() -> Option<Self> {
        if !is_superuser("a server of root's") {
            return None;
        }
        let (roots, site) = (open_folder(), site::make());
        let theirs = roots.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        give(&theirs);
        let folders = Self { roots, theirs, site };
        fs::write(folders.secret(), SECRET).unwrap();
        set_mode(folders.secret(), 0o600);
        Some(folders)
    }

    fn secret(&self) -> PathBuf {
        self.roots.path().join("secret")
    }

    /// Nothing has become of root's files.
    fn check(&self) {
        assert_eq!(fs::read_to_string(self.secret()).unwrap(), SECRET);
        assert_eq!(fs::metadata(self.secret()).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!self.roots.path().join("new").exists());
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("serve").arg(self.site.path()).args(["--listen", "127.0.0.1:0", "--user", "nobody"]);
        command.args(flags).stdin(Stdio::null());
        command
    }

    fn serve(&self, flags: &[&str]) -> Server {
        Server::of(self.command(flags))
    }

    /// What a server says that does not start.
    fn refused(&self, flags: &[&str]) -> String {
        refused(self.command(flags).output().unwrap())
    }
}

fn refused(output: Output) -> String {
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !said.contains("serving"), "{said}");
    said
}

fn give(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

/// A link of the server's user.
fn link(target: &Path, at: &Path) -> String {
    symlink(target, at).unwrap();
    give(at);
    at.to_str().unwrap().to_owned()
}

#[test]
fn no_log_is_opened_through_what_the_servers_user_has_put_there() {
    let Some(folders) = Folders::make() else { return };
    let [new, other] = ["new", "other"].map(|name| folders.roots.path().join(name));
    fs::create_dir(&other).unwrap();
    let at = |name: &str| folders.theirs.join(name);
    fs::hard_link(folders.secret(), at("second")).unwrap();
    for path in [
        link(&folders.secret(), &at("to-secret")),
        link(&new, &at("to-nothing")),
        link(folders.roots.path(), &at("folder")) + "/new",
        link(&other, &at("to-other")) + "/log",
        at("second").to_str().unwrap().to_owned(),
    ] {
        for flag in ["--access-log", "--error-log"] {
            let said = folders.refused(&[flag, &path]);
            assert!(
                said.contains("root does not use it") && said.contains("theirs"),
                "{flag} {path}: {said}"
            );
        }
        folders.check();
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0, "{path}");
    }
}

#[test]
fn a_log_of_the_servers_user_goes_on_behind_a_link_of_roots_and_one_of_roots_is_not_theirs_to_write() {
    let Some(folders) = Folders::make() else { return };
    let log = folders.theirs.join("access.log");
    fs::write(&log, "first\n").unwrap();
    set_mode(&log, 0o640);
    // Root's own file, which its folder's owner has named so.
    let said = folders.refused(&["--access-log", log.to_str().unwrap()]);
    assert!(said.contains("access.log is not of the user who decides what is there"), "{said}");
    give(&log);
    let way = folders.roots.path().join("way");
    symlink(&folders.theirs, &way).unwrap();
    for path in [log.clone(), way.join("access.log"), way.join("new.log")] {
        let server = folders.serve(&["--access-log", path.to_str().unwrap()]);
        assert_eq!(server.get("/a.txt").status, 200);
        server.stop();
        assert!(fs::read_to_string(&path).unwrap().contains("GET /a.txt"), "{}", path.display());
        assert_eq!(fs::metadata(&path).unwrap().uid(), NOBODY);
    }
    assert!(fs::read_to_string(&log).unwrap().starts_with("first\n"));
}

#[test]
fn a_configuration_that_others_can_write_is_refused() {
    let Some(folders) = Folders::make() else { return };
    let root = format!("root = '{}'\nlisten = '127.0.0.1:0'\nadmin = 'off'\n", folders.site.path().display());
    let own = folders.roots.path().join("own");
    fs::create_dir(&own).unwrap();
    let write = |path: PathBuf, text: &str| {
        fs::write(&path, text).unwrap();
        path
    };
    let start = |path: &Path| {
        let mut command = Command::new(program());
        command.args(["serve", "--config"]).arg(path).stdin(Stdio::null());
        command
    };
    let said_by = |path: &Path| refused(start(path).output().unwrap());
    let good = write(own.join("flash.toml"), &format!("{root}user = 'nobody'\n"));
    Server::of(start(&good)).stop();
    for (path, mode) in [(&good, 0o664), (&good, 0o646), (&own, 0o775), (&own, 0o777)] {
        set_mode(path, mode);
        assert!(said_by(&good).contains("can be written by others"), "{mode:o}");
        set_mode(path, 0o755);
    }
    // Of one other user, as a file that was mounted into a container, but not of the server's or its programs' own.
    let theirs = write(folders.theirs.join("flash.toml"), &root);
    Server::of(start(&theirs)).stop();
    for key in ["user", "cgi-user"] {
        fs::write(&theirs, format!("{root}{key} = 'nobody'\n")).unwrap();
        let said = said_by(&theirs);
        assert!(said.contains("cannot become user nobody: that user can write"), "{said}");
    }
    fs::write(&theirs, &root).unwrap();
    chown(&theirs, Some(NOBODY - 1), None).unwrap();
    assert!(said_by(&theirs).contains("flash.toml is another user's"));
    // What it includes decides as much.
    chown(&theirs, Some(NOBODY), None).unwrap();
    fs::write(&theirs, format!("[site.'a.example']\nroot = '{}'\n", folders.site.path().display())).unwrap();
    fs::write(&good, format!("include = '{}'\nuser = 'nobody'\n", theirs.display())).unwrap();
    assert!(said_by(&good).contains("that user can write"), "{}", said_by(&good));
    set_mode(&theirs, 0o666);
    assert!(said_by(&good).contains("can be written by others"));
    let checked = Command::new(program()).args(["check", "--config"]).arg(&good).output().unwrap();
    assert!(
        String::from_utf8_lossy(&checked.stderr).contains("a server that root starts does not read"),
        "{checked:?}"
    );
}

#[test]
fn what_the_flags_name_is_not_another_users_choice() {
    let Some(folders) = Folders::make() else { return };
    let to_secret = link(&folders.secret(), &folders.theirs.join("to-secret"));
    let pages = folders.theirs.join("pages");
    fs::create_dir(&pages).unwrap();
    link(&folders.secret(), &pages.join("404.html"));
    for flags in [
        &["--auth", &to_secret][..],
        &["--tls-certificate", &to_secret, "--tls-key", &to_secret],
        &["--client-ca", &to_secret, "--tls"],
        &["--error-pages", pages.to_str().unwrap()],
    ] {
        let said = folders.refused(flags);
        assert!(said.contains("is another user's link to what is not that user's"), "{flags:?}: {said}");
        assert!(!said.contains(SECRET), "{said}");
    }
    let config = folders.roots.path().join("flash.toml");
    let root = folders.site.path().display();
    fs::write(&config, format!("root = '{root}'\nheader = {{ X-Key = {{ file = '{to_secret}' }} }}\n"))
        .unwrap();
    let output = Command::new(program()).args(["serve", "--config"]).arg(&config).output().unwrap();
    let said = refused(output);
    assert!(said.contains("is another user's link to what is not that user's"), "{said}");
}

/// A folder of the programs' user may be empty when the server starts.
#[test]
fn what_is_included_later_is_not_the_choice_of_the_servers_or_its_programs_user() {
    let Some(folders) = Folders::make() else { return };
    for key in ["user", "cgi-user"] {
        let (main, sites) = (folders.roots.path().join("flash.toml"), folders.theirs.join("sites"));
        let _ = fs::remove_dir_all(&sites);
        fs::create_dir(&sites).unwrap();
        give(&sites);
        let (site, sock) = (folders.site.path().display(), folders.roots.path().join("admin.sock"));
        let users = match key {
            "user" => "user = 'nobody'\n",
            _ => "user = 'daemon'\ncgi-user = 'nobody'\n",
        };
        let text = format!(
            "listen = '127.0.0.1:0'\nadmin = 'unix:{}'\n{users}include = '{}/*.toml'\n[site.'a.example']\nroot = '{site}'\n",
            sock.display(),
            sites.display()
        );
        fs::write(&main, text).unwrap();
        let server = Server::start_configured(&main, &[]);
        let theirs = sites.join("z.toml");
        fs::write(&theirs, "[site.'z.example']\nroot = '/etc'\nauth = '/etc/shadow'\n").unwrap();
        give(&theirs);
        let (status, said) = flash_tests::admin::ask(&sock, "POST", "/reload");
        assert!(status != 200 && said.contains("that user can write"), "{key}: {status} {said}");
        assert!(!said.contains("root:"), "{said}");
        let reply = server.raw(b"GET /hostname HTTP/1.1\r\nHost: z.example\r\nConnection: close\r\n\r\n");
        assert!(!reply.starts_with(b"HTTP/1.1 200"), "{key}");
        server.stop();
    }
}

#[test]
fn two_other_users_do_not_decide_what_a_server_does() {
    let Some(folders) = Folders::make() else { return };
    let site = folders.site.path().display();
    let (main, more) = (folders.roots.path().join("flash.toml"), folders.roots.path().join("more.toml"));
    fs::write(&main, format!("listen = '127.0.0.1:0'\nadmin = 'off'\ninclude = '{}'\n", more.display()))
        .unwrap();
    fs::write(&more, format!("[site.'a.example']\nroot = '{site}'\n")).unwrap();
    give(&main);
    Server::start_configured(&main, &[]).stop();
    chown(&more, Some(NOBODY - 1), None).unwrap();
    let output = Command::new(program()).args(["serve", "--config"]).arg(&main).output().unwrap();
    assert!(refused(output).contains("more than one user besides root"));
}
