//! `docs/migrations.md`: for each migration, both files of the page answer alike.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flash_tests::{Server, own_addresses, peer, set_mode, wait_for};
use tempfile::TempDir;

use crate::servers::{self, Foreign, Php, Process};

/// A migration of the page: its name, and both files.
struct Migration {
    name: String,
    nginx: String,
    flash: String,
}

fn migrations() -> Vec<Migration> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/migrations.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let block = |text: &str, language: &str| {
        let (_, rest) = text.split_once(&format!("```{language}\n")).expect("a block begins");
        rest.split_once("```\n").expect("a block ends").0.to_owned()
    };
    let migration = |part: &str| {
        let (name, text) = part.split_once(" -->").expect("a mark ends");
        Migration { name: name.into(), nginx: block(text, "nginx"), flash: block(text, "toml") }
    };
    page.split("<!-- ").skip(1).map(migration).collect()
}

/// nginx and Flash, each with its own file of a migration.
struct Pair {
    folder: TempDir,
    _nginx: Process,
    _flash: Server,
    /// Of each: the listener without TLS, and the one with.
    listeners: [[SocketAddr; 2]; 2],
}

impl Pair {
    fn start(name: &str, files: &[&str], php: &Php) -> Self {
        Self::start_with(name, files, php, |_| ())
    }

    /// `prepare` gets the folder of all files before the servers start.
    fn start_with(name: &str, files: &[&str], php: &Php, prepare: impl FnOnce(&Path)) -> Self {
        let all = migrations();
        let Migration { nginx, flash, .. } =
            all.into_iter().find(|of| of.name == name).expect("the page has this migration");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let work = folder.path();
        set_mode(work, 0o755);
        for file in files {
            let content =
                if file.ends_with(".php") { servers::SCRIPT.to_owned() } else { format!("of {file}\n") };
            servers::write(&work.join("srv").join(file), &content);
        }
        prepare(&work.join("srv"));
        fs::copy("/etc/nginx/fastcgi.conf", work.join("fastcgi.conf")).expect("the file is Debian's");
        servers::write_certificate(work);
        let ([plain_of_nginx, tls_of_nginx, plain, tls], application) = (own_addresses(), servers::echo());
        let listeners = [[plain_of_nginx, tls_of_nginx], [plain, tls]];
        let conf = servers::adapted(&nginx, work, &php.socket, listeners[0])
            .replace("127.0.0.1:9;", &format!("127.0.0.1:{application};"));
        let file = work.join("nginx.conf");
        fs::write(&file, Foreign::Nginx.whole(&conf, work)).expect("the configuration");
        let log = work.join("error.log");
        let mut command = Foreign::Nginx.command(&file, work, &log);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Process(command.spawn().expect("it starts"));
        wait_for("nginx", || {
            let ended = child.0.try_wait().expect("it is a child");
            assert!(ended.is_none(), "{name}: {}", fs::read_to_string(&log).unwrap_or_default());
            TcpStream::connect(plain_of_nginx).is_ok()
        });
        let listens = match flash.contains("\":443\"") {
            true => format!("listen = [\"{plain}\", \"https://{tls}\"]"),
            false => format!("listen = [\"{plain}\"]"),
        };
        let own = flash.lines().find(|line| line.starts_with("listen")).expect("it listens").to_owned();
        let text = flash
            .replace(&own, &listens)
            .replace("\"/srv/", &format!("\"{}/srv/", work.display()))
            .replace("\"/etc/ssl/", &format!("\"{}/", work.display()))
            .replace("\"/var/log/flash/", &format!("\"{}/", work.display()))
            .replace("127.0.0.1:9\"", &format!("127.0.0.1:{application}\""))
            .replace("unix:/run/php/php-fpm.sock", &format!("unix:{}", php.socket.display()));
        let file = work.join("flash.toml");
        fs::write(&file, text).expect("the file is written");
        let flash = Server::start_configured(&file, &["--admin", "off"]);
        Self { folder, _nginx: child, _flash: flash, listeners }
    }

    fn srv(&self, name: &str) -> PathBuf {
        self.folder.path().join("srv").join(name)
    }

    /// Both answer alike: status, where they lead, how long it may be kept, the type and the body.
    fn compare(&self, host: &str, paths: &[(&str, u16)]) {
        for (path, status) in paths {
            let [theirs, ours] = self.listeners.map(|[plain, _]| {
                let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
                let bytes = servers::exchange(plain, request.as_bytes());
                peer::whole(&bytes.expect("it accepts"), "GET").expect("a response")
            });
            let is_listing =
                path.ends_with('/') && theirs.field("Content-Type") == Some("text/html") && *status == 200;
            let told = |of: &flash_tests::reply::Reply| {
                let location =
                    of.field("Location").map(|to| to.split_once("//").map_or(to, |(_, rest)| rest));
                let location = location.map(|to| to.find('/').map_or(to, |at| &to[at..]).to_owned());
                let body = if of.status == 200 && !is_listing { of.body.clone() } else { Vec::new() };
                let kind =
                    of.field("Content-Type").filter(|_| of.status == 200 && !is_listing).map(str::to_owned);
                let cache = of.field("Cache-Control").filter(|_| of.status == 200).map(str::to_owned);
                (of.status, location, cache, kind, String::from_utf8_lossy(&body).into_owned())
            };
            assert_eq!(told(&theirs), told(&ours), "{host}{path}");
            assert_eq!(ours.status, *status, "{host}{path}");
        }
    }

    /// The same over TLS, by curl.
    fn compare_over_tls(&self, host: &str, paths: &[(&str, u16)]) {
        for (path, status) in paths {
            let [theirs, ours] = self.listeners.map(|[_, tls]| {
                let at = format!("{host}:{}:{}", tls.port(), tls.ip());
                let output = Command::new("curl")
                    .args(["--silent", "--insecure", "--http1.1", "--resolve", &at, "--write-out"])
                    .args(["\n%{http_code} %{content_type} %header{cache-control} %header{x-content-type-options}"])
                    .arg(format!("https://{host}:{}{path}", tls.port()))
                    .output()
                    .expect("curl runs");
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let (body, fields) = text.rsplit_once('\n').expect("curl writes a line");
                let is_found = fields.starts_with("200 ");
                let fields = if is_found { fields.to_owned() } else { fields[..3].to_owned() };
                (fields, if is_found { body.to_owned() } else { String::new() })
            });
            assert_eq!(theirs, ours, "https://{host}{path}");
            assert!(ours.0.starts_with(&status.to_string()), "https://{host}{path}: {}", ours.0);
        }
    }
}

/// What the tests need and this machine lacks.
fn php() -> Option<Php> {
    match Foreign::Nginx.missing() {
        Some(missing) => {
            println!("NOT TESTED: {missing} is missing");
            None
        }
        None => Some(Php::start()),
    }
}

#[test]
fn the_page_has_three_migrations() {
    let names: Vec<String> = migrations().into_iter().map(|of| of.name).collect();
    assert_eq!(names, ["mirror", "php", "spa"]);
}

#[test]
fn a_mirror_answers_alike() {
    let Some(php) = php() else { return };
    let files =
        ["mirror/a.iso", "mirror/pool/b.deb", "mirror/private/key", "mirror/robots.txt", "mirror/README.txt"];
    let pair = Pair::start("mirror", &files, &php);
    pair.compare(
        "mirror.example.org",
        &[
            ("/", 200),
            ("/a.iso", 200),
            ("/pool", 301),
            ("/pool/", 200),
            ("/pool/b.deb", 200),
            ("/robots.txt", 200),
            ("/README.txt", 200),
            ("/private/key", 404),
            ("/old/thing", 301),
            ("/nothing", 404),
        ],
    );
}

#[test]
fn a_site_in_php_with_tls_answers_alike() {
    let Some(php) = php() else { return };
    let files =
        ["shop/index.php", "shop/cart.php", "shop/assets/a.css", "shop/uploads/x.php", "shop/uploads/a.png"];
    let pair = Pair::start("php", &files, &php);
    pair.compare("shop.example.org", &[("/cart.php?a=b", 308), ("/", 308)]);
    pair.compare_over_tls(
        "shop.example.org",
        &[
            ("/", 200),
            ("/cart.php?a=b", 200),
            ("/made/up?a=b", 200),
            ("/assets/a.css", 200),
            ("/uploads/a.png", 200),
            ("/uploads/x.php", 403),
            ("/none.php", 404),
        ],
    );
}

#[test]
fn a_single_page_application_answers_alike_before_and_after_a_deploy() {
    let Some(php) = php() else { return };
    let files = [
        "releases/1/index.html",
        "releases/1/assets/app.1.js",
        "releases/2/index.html",
        "releases/2/assets/app.2.js",
        "app/empty",
    ];
    let links = |srv: &Path, current: &str, previous: &str| {
        for (name, release) in [("current", current), ("previous", previous)] {
            let (link, next) = (srv.join("app").join(name), srv.join("next"));
            symlink(srv.join("releases").join(release), &next).expect("a link");
            fs::rename(next, link).expect("it is moved");
        }
    };
    // The links are there before the servers start.
    let pair = Pair::start_with("spa", &files, &php, |srv| links(srv, "1", "1"));
    let of_api = ("/api/orders?a=b", 200);
    pair.compare(
        "app.example.org",
        &[
            ("/", 200),
            ("/index.html", 200),
            ("/some/page", 200),
            ("/assets/app.1.js", 200),
            ("/assets/app.2.js", 404),
            of_api,
        ],
    );
    links(&pair.srv(""), "2", "1");
    let flash = pair.listeners[1][0];
    wait_for("the new release", || {
        let request = b"GET / HTTP/1.1\r\nHost: app.example.org\r\nConnection: close\r\n\r\n";
        String::from_utf8_lossy(&servers::exchange(flash, request).expect("it accepts"))
            .contains("releases/2")
    });
    pair.compare(
        "app.example.org",
        &[("/", 200), ("/assets/app.2.js", 200), ("/assets/app.1.js", 200), ("/assets/none.js", 404), of_api],
    );
}
