//! Signed links in every architecture: what they open, how keys change, and links that were made for nginx.

#![forbid(unsafe_code)]

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use flash_tests::reply::{self, Reply};
use flash_tests::{
    ARCHITECTURES, PROCESSES, Server, arch_settings, connect, need, program, read_all, set_mode, site,
    wait_for,
};
use tempfile::TempDir;

const KEY: &str = "0123456789abcdef0123456789abcdef";
const OTHER_KEY: &str = "fedcba9876543210fedcba9876543210";

/// A folder with members' files, with `flash.toml` and the keys beside it.
struct Made {
    folder: TempDir,
    config: PathBuf,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in
            ["root/open.txt", "root/members/a b.iso", "root/members/c/d.txt", "root/members/free/e.txt"]
        {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            site::write(&file, format!("of {name}").as_bytes());
        }
        for path in [folder.path().to_owned(), folder.path().join("root")] {
            set_mode(path, 0o755);
        }
        let config = folder.path().join("flash.toml");
        let made = Self { folder, config };
        made.key("links.key", KEY);
        made.key("other.key", OTHER_KEY);
        made
    }

    fn key(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("the key is written");
        set_mode(&path, 0o600);
    }

    fn configure(&self, before: &str, rules: &str) {
        let text = format!(
            "listen = '127.0.0.1:0'\n{before}[site.'*']\nroot = 'root'\ncache-control = 'public, max-age=9'\n{rules}\n"
        );
        fs::write(&self.config, text).expect("the file is written");
    }

    fn flash(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let output = Command::new(program())
            .args(words)
            .arg("--config")
            .arg(&self.config)
            .output()
            .expect("flash runs");
        let [out, error] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code(), out, error)
    }

    /// The target that `flash sign` makes.
    fn sign(&self, target: &str, more: &[&str]) -> String {
        let url = format!("http://h{target}");
        let (code, out, error) = self.flash(&[&["sign", &url], more].concat());
        assert_eq!((code, &*error), (Some(0), ""), "{target}");
        out.trim_end().strip_prefix("http://h").expect("a URL").to_owned()
    }
}

fn ask(server: &Server, method: &str, target: &str, fields: &str) -> Reply {
    let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    reply::all(&server.raw(head.as_bytes()), |_| method == "HEAD").remove(0)
}

fn status(server: &Server, target: &str) -> u16 {
    ask(server, "GET", target, "").status
}

const SIGNED: &str =
    "'/members' = { signed = { key = { file = 'links.key' } } }\n'/members/free' = { signed = 'off' }";

#[test]
fn a_link_opens_what_it_is_for_and_nothing_else() {
    let made = Made::new();
    for arch in ARCHITECTURES {
        made.configure(&format!("admin = 'off'\n{}", arch_settings(arch)), SIGNED);
        let server = Server::start_configured(&made.config, &[]);
        let link = made.sign("/members/a%20b.iso", &["--expires", "1h"]);
        for target in [
            "/open.txt",
            "/members/free/e.txt",
            &link,
            &link.replace("/members/a", "//%6dembers/c/../a"),
            &format!("{link}&x=y"),
        ] {
            assert_eq!(status(&server, target), 200, "{arch}: {target}");
        }
        let whole = ask(&server, "GET", &link, "");
        assert_eq!(&*whole.body, b"of root/members/a b.iso", "{arch}");
        assert_eq!(whole.field("Cache-Control"), Some("private, max-age=9"), "{arch}");
        assert_eq!(ask(&server, "HEAD", &link, "").status, 200, "{arch}");
        let part = ask(&server, "GET", &link, "Range: bytes=3-6\r\n");
        assert_eq!((part.status, &*part.body), (206, &b"root"[..]), "{arch}");
        assert_eq!(part.field("Cache-Control"), Some("private, max-age=9"), "{arch}");
        let (start, end) = link.split_at(link.len() - 1);
        let forged = format!("{start}{}", if end == "A" { "Q" } else { "A" });
        for target in [
            "/members/a%20b.iso",
            "/members/none",
            "/members/",
            &forged,
            start,
            &link.replace("a%20b.iso", "c/d.txt"),
            &link.replace("a%20b.iso", "free/../c/d.txt"),
            &format!("{link}&{}", link.split_once('?').expect("a query").1),
            &link.replace("expires=", "expires=9"),
            &link.replace("expires=", "expires=0&x="),
            &link.replace("expires=", "expires=-"),
            &link.replace("?", "?prefix=/&"),
        ] {
            let refused = ask(&server, "GET", target, "");
            assert_eq!(
                (refused.status, refused.field("Cache-Control")),
                (403, Some("no-store")),
                "{arch}: {target}"
            );
        }
        let below = made.sign("/members/c/", &["--expires", "1h", "--prefix"]);
        assert_eq!(status(&server, &below.replace("/?", "/d.txt?")), 200, "{arch}: {below}");
        for target in [
            below.replace("/c/?", "/a%20b.iso?"),
            below.replace("/c/?", "/c/../a%20b.iso?"),
            below.replace("/c/?", "/cd?"),
        ] {
            assert_eq!(status(&server, &target), 403, "{arch}: {target}");
        }
        let for_me = made.sign("/members/c/d.txt?x", &["--expires", "1h", "--client", "127.0.0.0/8"]);
        let for_others = made.sign("/members/c/d.txt", &["--expires", "1h", "--client", "192.0.2.1"]);
        assert_eq!((status(&server, &for_me), status(&server, &for_others)), (200, 403), "{arch}");
        let short = made.sign("/members/c/d.txt", &["--expires", "1ms"]);
        // The clocks of two loops may be a moment apart.
        let mut reply = ask(&server, "GET", &short, "");
        wait_for("the link expires", || {
            reply = ask(&server, "GET", &short, "");
            reply.status == 410
        });
        assert_eq!(reply.field("Cache-Control"), Some("no-store"), "{arch}");
        server.stop();
    }
}

/// Also keys that are root's alone, where the server is another user's.
#[test]
fn a_reload_reads_the_keys_again() {
    let made = Made::new();
    let user = if rustix::process::geteuid().is_root() { "user = 'nobody'\n" } else { "" };
    for arch in ARCHITECTURES {
        let before = format!("admin = 'unix:admin.sock'\n{user}{}", arch_settings(arch));
        let configure =
            |keys: &str| made.configure(&before, &format!("'/members' = {{ signed = {{ key = {keys} }} }}"));
        made.key("links.key", KEY);
        configure("{ file = 'links.key' }");
        let server = Server::start_configured(&made.config, &[]);
        let old = made.sign("/members/c/d.txt", &["--expires", "1h"]);
        let reload = || made.flash(&["reload"]);
        configure("[{ file = 'other.key' }, { file = 'links.key' }]");
        let new = made.sign("/members/c/d.txt", &["--expires", "1h"]);
        let statuses = || [&old, &new].map(|link| status(&server, link));
        assert_eq!(statuses(), [200, 403], "{arch}: not before the reload");
        assert_eq!(reload().0, Some(0), "{arch}");
        assert_eq!(statuses(), [200, 200], "{arch}");
        configure("{ file = 'other.key' }");
        assert_eq!(reload().0, Some(0), "{arch}");
        assert_eq!(statuses(), [403, 200], "{arch}");
        // The same file with another key.
        configure("{ file = 'links.key' }");
        made.key("links.key", OTHER_KEY);
        assert_eq!(reload().0, Some(0), "{arch}");
        assert_eq!(statuses(), [403, 200], "{arch}");
        made.key("links.key", "");
        let (code, _, error) = reload();
        assert!(code == Some(1) && error.contains("links.key has no key"), "{arch}: {error}");
        let is_marked = error.contains("flash.toml:") || (arch == PROCESSES && !user.is_empty());
        assert!(is_marked, "{arch}: {error}");
        assert_eq!(statuses(), [403, 200], "{arch}: the configuration stays what it was");
        server.stop();
    }
}

#[test]
fn what_is_wrong_with_keys_is_said_with_its_line() {
    let made = Made::new();
    made.key("empty.key", "\n");
    made.key("short.key", "0123456789");
    made.key("public.key", KEY);
    set_mode(made.folder.path().join("public.key"), 0o644);
    let key = "key = { file = 'links.key' }";
    for (signed, code, why) in [
        (format!("{{ {key} }}"), 0, "no errors"),
        ("{ key = { file = 'empty.key' } }".into(), 2, "empty.key has no key: make one with openssl rand"),
        ("{ key = { file = 'short.key' } }".into(), 2, "has less than 16 bytes"),
        ("{ key = { file = 'none.key' } }".into(), 2, "cannot read"),
        ("{ key = { file = 'public.key' } }".into(), 0, "every user of this machine can read the key in"),
        ("{ key = { credential = 'links' } }".into(), 2, "{ file = \"/path\" } or { credential = \"NAME\" }"),
        ("{ key = 'links.key' }".into(), 2, "{ file = \"/path\" } or { credential = \"NAME\" }"),
        ("{ key = [] }".into(), 2, "it says nothing"),
        ("{}".into(), 2, "it says nothing"),
        ("{ form = 'nginx', md5 = '$secure_link_expires$uri $secret' }".into(), 2, "signed links need a key"),
        (format!("{{ {key}, form = 'apache' }}"), 2, "\"flash\", \"nginx\""),
        (format!("{{ {key}, form = 'nginx' }}"), 2, "needs md5"),
        (format!("{{ {key}, md5 = '$secure_link_expires$uri $secret' }}"), 2, "are for form = \"nginx\""),
        (
            format!("{{ {key}, form = 'nginx', md5 = '$secure_link_expires$uri word' }}"),
            2,
            "write $secret where nginx has the secret",
        ),
        (
            format!("{{ {key}, form = 'nginx', md5 = '$uri $secret' }}"),
            2,
            "could write another time into a link",
        ),
        (format!("{{ {key}, form = 'nginx', md5 = '$secret$cookie_a' }}"), 2, "$cookie_a is not one of"),
        (format!("{{ {key}, hash = 'md5' }}"), 2, "unknown key `hash` in `signed`"),
        ("true".into(), 2, "a table with key, form, md5, link, or \"off\""),
        ("['off']".into(), 2, "a table with key, form, md5, link, or \"off\""),
    ] {
        made.configure("", &format!("'/members' = {{ signed = {signed} }}"));
        let (found, out, error) = made.flash(&["check"]);
        assert_eq!(found, Some(code), "{signed}: {error}");
        let said = out + &error;
        assert!(said.contains(why), "{signed}: {said}");
        assert!(why.is_empty() || why == "no errors" || said.contains("flash.toml:5:"), "{signed}: {said}");
        assert!(!said.contains(KEY), "{signed}: {said}");
    }
    made.configure("", SIGNED);
    for (words, why) in [
        (&["sign", "http://h/open.txt", "--expires", "1h"][..], "no links are signed there"),
        (&["sign", "http://h/members/free/e.txt", "--expires", "1h"], "no links are signed there"),
        (&["sign", "http://h/members/../..", "--expires", "1h"], "leads nowhere"),
        (&["sign", "http://h/members/a?expires=1", "--expires", "1h"], "has expires already"),
        (&["sign", "http://h/members/a", "--expires", "0"], "longer than 0"),
        (&["sign", "http://h/members/a", "--expires", "1h", "--client", "me"], "no address"),
        (&["sign", "http://h/members/a"], "--expires"),
    ] {
        let (code, out, error) = made.flash(words);
        assert!(code == Some(2) && out.is_empty() && error.contains(why), "{words:?}: {out}{error}");
    }
    let said = made.flash(&["explain", "http://h/members/a"]).1;
    assert!(said.contains("link      signed  (") && said.contains("status    403"), "{said}");
    let link = made.sign("/members/c/d.txt", &["--expires", "1h"]);
    let said = made.flash(&["explain", &format!("http://h{link}")]).1;
    assert!(said.contains("status    200") && !said.contains(KEY), "{said}");
    let said = made.flash(&["explain", "http://h/members/free/e.txt"]).1;
    assert!(!said.contains("link  ") && said.contains("status    200"), "{said}");
}

/// A running nginx, which ends with this value.
struct Nginx(Child, std::net::SocketAddr);

impl Nginx {
    fn start(folder: &Path) -> Self {
        let free =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
        let config = folder.join("nginx.conf");
        let text = format!(
            "daemon off; master_process off; pid {0}/nginx.pid; error_log stderr crit; events {{ }}\n\
             http {{ access_log off; server {{ listen {free}; root {0}/root; location /members {{\n\
             secure_link $arg_md5,$arg_expires; secure_link_md5 \"$secure_link_expires$uri$remote_addr word\";\n\
             if ($secure_link = '') {{ return 403; }} if ($secure_link = '0') {{ return 410; }} }} }} }}\n",
            folder.display()
        );
        fs::write(&config, text).expect("the file is written");
        let mut nginx = Command::new("/usr/sbin/nginx");
        let child = nginx.arg("-c").arg(&config).stdout(Stdio::null()).spawn().expect("nginx starts");
        wait_for("nginx listens", || std::net::TcpStream::connect(free).is_ok());
        Self(child, free)
    }

    fn status(&self, target: &str) -> u16 {
        let mut stream = connect(self.1);
        let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        std::io::Write::write_all(&mut stream, head.as_bytes()).expect("nginx reads it");
        reply::only(&read_all(&mut stream)).status
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it is this test's");
    }
}

/// What an application has signed for nginx, nginx and Flash answer alike.
#[test]
fn links_for_nginx_are_taken_as_they_are() {
    if !Path::new("/usr/sbin/nginx").exists() {
        need("nginx", "nginx");
    }
    let made = Made::new();
    made.key("links.key", "word");
    let nginx = Nginx::start(made.folder.path());
    // As nginx's documentation shows.
    let sign = |path: &str, expires: &str| {
        let text = format!(
            "printf %s '{expires}{path}127.0.0.1 word' | openssl md5 -binary | openssl base64 | tr +/ -_ | tr -d ="
        );
        let output = Command::new("sh").args(["-c", &text]).output().expect("openssl runs");
        format!("md5={}&expires={expires}", String::from_utf8_lossy(&output.stdout).trim_end())
    };
    let right = sign("/members/c/d.txt", "2147483647");
    for arch in ARCHITECTURES {
        made.configure(
            &format!("admin = 'off'\n{}", arch_settings(arch)),
            "'/members' = { signed = { form = 'nginx', key = { file = 'links.key' }, \
             md5 = '$secure_link_expires$uri$remote_addr $secret' } }",
        );
        let server = Server::start_configured(&made.config, &[]);
        for (target, expected) in [
            (format!("/members/c/d.txt?{right}"), 200),
            (format!("/members//c/%64.txt?x=1&{right}"), 200),
            (format!("/members/c/d.txt?{}", right.replace("&expires", "==&expires")), 200),
            (format!("/members/a%20b.iso?{}", sign("/members/a b.iso", "2147483647")), 200),
            (format!("/members/a%20b.iso?{right}"), 403),
            (format!("/members/c/d.txt?{}", sign("/members/c/d.txt", "1700000000")), 410),
            (format!("/members/c/d.txt?{}", sign("/members/c/d.txt", "0")), 403),
            (format!("/members/c/d.txt?{}", sign("/members/c/d.txt", "")), 403),
            (format!("/members/c/d.txt?{}", sign("/members/c/d.txt", "99999999999999999999")), 403),
            (format!("/members/c/d.txt?{}", sign("/members/c/d.txt", "soon")), 403),
            (format!("/members/c/d.txt?{}", right.replace("214748364", "214748363")), 403),
            (format!("/members/c/d.txt?{}", &right[..right.find('&').expect("two arguments")]), 403),
            ("/members/c/d.txt".into(), 403),
        ] {
            assert_eq!(nginx.status(&target), expected, "nginx: {target}");
            assert_eq!(status(&server, &target), expected, "{arch}: {target}");
        }
        let own = made.sign("/members/c/d.txt", &["--expires", "1h", "--client", "127.0.0.1"]);
        assert_eq!((nginx.status(&own), status(&server, &own)), (200, 200), "{arch}: {own}");
        server.stop();
    }
}
