//! nginx and Apache with Flash's modules: built once, configured for a test, and ended with it.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::{PATIENCE, connect, own_addresses, read_all, reply};

/// A server that a module is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With workers of this user. If files are not its own, the kernel does not tell which of their pages are in memory.
    Nginx(&'static str),
    /// With this multi-processing module.
    Apache(&'static str),
}

/// A running server with two listeners: one with the module, one without.
pub struct Peer {
    kind: Kind,
    child: Child,
    pub with: SocketAddr,
    pub without: SocketAddr,
    _folder: tempfile::TempDir,
}

/// The folder of the modules' sources.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../modules").canonicalize().expect("the modules are there")
}

impl Kind {
    /// What is missing here, if anything: the server, or what its modules are built with.
    pub fn missing(self) -> Option<&'static str> {
        let (needed, what) = match self {
            Self::Nginx(_) => (["/usr/sbin/nginx", "/usr/share/nginx/src/configure"], "nginx and nginx-dev"),
            Self::Apache(_) => (["/usr/sbin/apache2", "/usr/bin/apxs"], "apache2-bin and apache2-dev"),
        };
        needed.iter().any(|path| !Path::new(path).exists()).then_some(what)
    }

    /// Builds its module, once for all tests.
    pub fn module(self) -> PathBuf {
        static BUILT: [OnceLock<()>; 2] = [OnceLock::new(), OnceLock::new()];
        let (folder, name, once) = match self {
            Self::Nginx(_) => ("nginx", "ngx_http_flash_module.so", &BUILT[0]),
            Self::Apache(_) => ("apache", "mod_flash.so", &BUILT[1]),
        };
        let folder = sources().join(folder);
        once.get_or_init(|| {
            let output = Command::new("make").arg("-C").arg(&folder).output().expect("make starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        });
        folder.join(name)
    }

    /// Serves a folder, with more directives.
    pub fn start(self, root: &Path, helper: &Path, words: &str) -> Peer {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [with, without] = own_addresses();
        let text = self.configuration(folder.path(), root, helper, words, [with, without]);
        let file = folder.path().join("server.conf");
        fs::write(&file, text).expect("a configuration");
        let mut command = match self {
            Self::Nginx(_) => Command::new("nginx"),
            Self::Apache(_) => Command::new("apache2"),
        };
        match self {
            Self::Nginx(_) => command.arg("-c").arg(&file).args(["-g", "daemon off;"]),
            Self::Apache(_) => command.arg("-f").arg(&file).arg("-DFOREGROUND"),
        };
        let log = fs::File::create(folder.path().join("output")).expect("a log");
        // What is freed is overwritten at once, so a use of it is a crash.
        command.env("MALLOC_PERTURB_", "165");
        // Apache ends its whole process group.
        let child =
            command.process_group(0).stdin(Stdio::null()).stderr(log).spawn().expect("the server starts");
        let mut peer = Peer { kind: self, child, with, without, _folder: folder };
        let give_up = Instant::now() + PATIENCE;
        while TcpStream::connect(peer.without).is_err() {
            let ended = peer.child.try_wait().expect("it is a child");
            assert!(ended.is_none() && Instant::now() < give_up, "{ended:?}: {}", peer.said());
            thread::sleep(Duration::from_millis(10));
        }
        peer
    }

    /// The text of a configuration file.
    pub fn configuration(
        self,
        work: &Path,
        root: &Path,
        helper: &Path,
        words: &str,
        [with, without]: [SocketAddr; 2],
    ) -> String {
        let (work, root, helper) = (work.display(), root.display(), helper.display());
        let module = self.module();
        let module = module.display();
        match self {
            Self::Nginx(user) => format!(
                "load_module {module};\nworker_processes 1;\nuser {user};\npid {work}/pid;\nerror_log {work}/error.log info;\n\
                 events {{ worker_connections 1024; }}\nhttp {{\n  access_log {work}/access.log;\n  sendfile on;\n\
                 types {{ text/html html; text/plain txt; }}\n  default_type application/octet-stream;\n\
                 client_body_temp_path {work}/b;\n  proxy_temp_path {work}/p;\n  fastcgi_temp_path {work}/f;\n\
                 uwsgi_temp_path {work}/u;\n  scgi_temp_path {work}/s;\n  root {root};\n  error_page 404 /404.html;\n\
                 server {{ listen {with}; flash_static unix:{helper}; {words} }}\n\
                 server {{ listen {without}; gzip_static on; }}\n}}\n"
            ),
            Self::Apache(mpm) => {
                let load =
                    |name: &str| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n");
                // Prefork starts one process a second while all others wait.
                let spare = match mpm {
                    "prefork" => "StartServers 32\nMinSpareServers 8\nMaxSpareServers 64\n",
                    _ => "",
                };
                let modules: String =
                    [&*format!("mpm_{mpm}"), "authz_core", "mime", "dir", "alias", "autoindex", "deflate"]
                        .map(load)
                        .concat();
                format!(
                    "ServerRoot {work}\nPidFile {work}/pid\nServerName localhost\nErrorLog {work}/error.log\n\
                     Listen {with}\nListen {without}\n{modules}\
                     LoadModule flash_module {module}\nTypesConfig /dev/null\nAddType text/html html\n\
                     AddType text/plain txt\nUser www-data\nGroup www-data\nDocumentRoot {root}\n\
                     ErrorDocument 404 /404.html\n{spare}<Directory {root}>\n  AllowOverride None\n  Require all granted\n\
                     </Directory>\n<Directory {root}/denied>\n  Require all denied\n</Directory>\n\
                     <VirtualHost {with}>\n  FlashHelper unix:{helper}\n  {words}\n</VirtualHost>\n\
                     <VirtualHost {without}>\n</VirtualHost>\n"
                )
            }
        }
    }
}

impl Peer {
    /// What it has printed and logged.
    pub fn said(&self) -> String {
        let read = |name| fs::read(self._folder.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&[read("output"), read("error.log")].concat()).into_owned()
    }

    pub fn access_log(&self) -> String {
        fs::read_to_string(self._folder.path().join("access.log")).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its processes that serve.
    pub fn workers(&self) -> Vec<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        let children = fs::read_to_string(path).unwrap_or_default();
        children.split_whitespace().map(|pid| pid.parse().expect("a number")).collect()
    }

    /// Whether a worker has crashed.
    pub fn has_crashed(&self) -> bool {
        let said = self.said();
        said.contains("exited on signal") || said.contains("exit signal")
    }

    /// The response to GET.
    pub fn get(&self, path: &str) -> reply::Reply {
        ask(self.with, "GET", path, "").expect("a whole response")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let has_crashed = self.has_crashed();
        // Its workers end with it.
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).expect("a child has a pid");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let give_up = Instant::now() + Duration::from_secs(5);
        while Instant::now() < give_up && self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Event MPM 2.4.71 uses a socket that it has freed, without the module too: in one of a hundred stops.
        let crashes_at_its_end = self.kind == Kind::Apache("event");
        let has_crashed = has_crashed || (!crashes_at_its_end && self.has_crashed());
        assert!(thread::panicking() || !has_crashed, "a worker has crashed: {}", self.said());
    }
}

/// A response, on a connection of its own. `None` if it was cut.
pub fn ask(server: SocketAddr, method: &str, path: &str, fields: &str) -> Option<reply::Reply> {
    use std::io::Write;
    let request = format!("{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    let mut stream = connect(server);
    stream.write_all(request.as_bytes()).ok()?;
    whole(&read_all(&mut stream), method)
}

/// The response in these bytes. `None` if it was cut.
pub fn whole(bytes: &[u8], method: &str) -> Option<reply::Reply> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    let is_whole = method == "HEAD" || head.contains("chunked") || bytes.len() - end >= length;
    is_whole.then(|| reply::all(bytes, |_| method == "HEAD").remove(0))
}
