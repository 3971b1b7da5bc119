//! The flags for programs: CGI, FastCGI, and applications that Flash keeps itself.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use flash_core::site::path_rules::PathRule;
use flash_core::site::routes::RouteMatch;

use super::proxy::Proxy;
use super::route::{self, RouteFlag, Upstream, Words};
use super::value::count;
use super::{duration, size};

const HEADING: &str = "Programs";

/// A variable that programs are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FastCgiParam {
    pub name: String,
    pub value: String,
}

fn parse_param(text: &str) -> Result<FastCgiParam, String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    match !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !value.contains('\0')
    {
        true => Ok(FastCgiParam { name: name.into(), value: value.into() }),
        false => Err(format!(
            "'{}' is no name of a variable: it has letters, digits and underscores",
            name.escape_debug()
        )),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub(crate) struct Programs {
    /// Run the programs in DIR for requests below PREFIX (CGI). May be given repeatedly
    #[arg(long, value_name = "PREFIX=DIR", value_parser = route::folder(), help_heading = HEADING)]
    pub cgi: Vec<RouteFlag<PathBuf>>,

    /// The same, but programs write straight to the client, not through the server. Their responses are always 200 and end with
    /// the connection
    #[arg(long, value_name = "PREFIX=DIR", value_parser = route::folder(), help_heading = HEADING)]
    pub cgi_direct: Vec<RouteFlag<PathBuf>>,

    /// Pass requests to the FastCGI server at ADDR: unix:PATH or HOST:PORT. They are all below PREFIX, or those for files with
    /// a suffix, as in .php=unix:/run/php/php-fpm.sock. May be given repeatedly
    #[arg(long, value_name = "PREFIX=ADDR", value_parser = route::upstream, help_heading = HEADING)]
    pub fastcgi: Vec<RouteFlag<Upstream>>,

    /// Tell FastCGI servers and applications this variable, in place of Flash's own if it has one of that name, such as
    /// APP_ENV=production. May be given repeatedly
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_param, help_heading = HEADING)]
    pub fastcgi_param: Vec<FastCgiParam>,

    /// Start as many FastCGI applications as needed with COMMAND. Pass them requests below PREFIX, or for files with a suffix
    /// as in .php=php-cgi. May be given repeatedly
    #[arg(long, value_name = "PREFIX=COMMAND", value_parser = route::command, help_heading = HEADING)]
    pub app: Vec<RouteFlag<Words>>,

    /// Let programs hand on files of DIR: by X-Accel-Redirect with a path below PREFIX, or by X-Sendfile with one below DIR. The
    /// response has the program's status and fields. Nobody can request what is below PREFIX. May be given repeatedly
    #[arg(long, value_name = "PREFIX=DIR", value_parser = route::private_folder(), help_heading = HEADING)]
    pub files: Vec<RouteFlag<PathBuf>>,

    /// Run no program for paths that RULE covers, such as /uploads, or *.inc.php. Requests for scripts there get 403. May be
    /// given repeatedly
    #[arg(long, value_name = "RULE", value_parser = PathRule::parse, help_heading = HEADING)]
    pub no_programs: Vec<PathRule>,

    /// Serve files that editors leave behind: names that end in ~, .bak, .swp or .orig. Without this flag, such a file is 404
    /// if programs answer for a suffix, because it may be the source of a program
    #[arg(long, help_heading = HEADING)]
    pub serve_backups: bool,

    /// Run programs and applications as this user, who cannot do anything to the server: a name or a number. A group after a colon
    /// replaces the user's own. Root has to start the server. Without this flag, they run as the server's user
    #[arg(long, value_name = "USER[:GROUP]", help_heading = HEADING)]
    pub cgi_user: Option<String>,

    /// CGI programs that run at once
    #[arg(long, value_name = "N", default_value = "64", value_parser = count(1, 65_536), help_heading = HEADING)]
    pub cgi_max: usize,

    /// Requests that wait for one of them to end. Beyond them, 503
    #[arg(long, value_name = "N", default_value = "256", value_parser = count(0, 1 << 20), help_heading = HEADING)]
    pub cgi_queue_max: usize,

    /// Memory for responses of programs that slow clients have not taken yet, and for request bodies until they are
    /// complete. One response or body may use a 64th of it. The rest goes to a file in TMPDIR or /var/tmp. If nothing is left,
    /// each has 4 KiB. Without this flag, an eighth of the machine's or cgroup's memory, 64M at most
    #[arg(long, value_name = "BYTES", value_parser = size::parse, help_heading = HEADING)]
    pub program_buffer_bytes: Option<u64>,

    /// Disk for responses of programs that slow clients have not taken yet, beyond the memory. One response may use a 16th of
    /// it. After that its program waits for the client. 0: no response goes to the disk
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = size::parse, help_heading = HEADING)]
    pub program_spool_bytes: u64,

    /// Size of the head of a program's response, with its fields. Beyond it, 502
    #[arg(long, value_name = "BYTES", default_value = "32K", value_parser = size::parse_positive, help_heading = HEADING)]
    pub program_head_bytes_max: u64,

    /// How long a program may be silent. Then 504, or the end of a response that has begun, and the program is ended
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse_positive, help_heading = HEADING)]
    pub program_deadline: Duration,

    /// How long a program may wait for a client that takes none of its response, or less than --send-rate-min on average. Then the
    /// client loses its connection or its stream, and the program is ended
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse_positive, help_heading = HEADING)]
    pub program_send_timeout: Duration,

    /// How long a program may be silent after its client has closed its side of the connection, because such a client may be
    /// gone. Then 504, and the program is ended
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse_positive, help_heading = HEADING)]
    pub program_fin_timeout: Duration,

    /// Memory that a program, or a process of an application, may map. Without this flag, no limit
    #[arg(long, value_name = "BYTES", value_parser = size::parse_positive, help_heading = HEADING)]
    pub cgi_memory: Option<u64>,

    /// Processor time of a program over its whole life, in whole seconds. Without this flag, no limit
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive, help_heading = HEADING)]
    pub cgi_cpu: Option<Duration>,

    /// The nice value of programs, relative to the server: from 0, the server's own priority, to 19, the lowest
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(..=19), help_heading = HEADING)]
    pub program_nice: u8,

    /// Processes of one application at most
    #[arg(long, value_name = "N", default_value = "8", value_parser = count(1, 4096), help_heading = HEADING)]
    pub app_max: usize,

    /// Requests after which an application's process is replaced. 0 never replaces it
    #[arg(long, value_name = "N", default_value = "10000", value_parser = count(0, 1 << 40), help_heading = HEADING)]
    pub app_requests_max: usize,

    /// How long an application's process may be idle before it is ended
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration::parse_positive, help_heading = HEADING)]
    pub app_idle: Duration,

    #[command(flatten)]
    pub http: Proxy,
}

impl Programs {
    /// Leaves out all that would answer.
    pub(super) fn run_nothing(&mut self) {
        self.cgi.clear();
        self.cgi_direct.clear();
        self.fastcgi.clear();
        self.app.clear();
        self.http.proxy.clear();
    }

    /// The names that answer for their folders when nothing else was asked for.
    pub(crate) fn indexes(&self) -> Vec<String> {
        let places =
            self.fastcgi.iter().map(|mount| &mount.place).chain(self.app.iter().map(|mount| &mount.place));
        let suffixes = places.filter_map(|place| match place {
            RouteMatch::Suffix(suffix) => Some(format!("index{}", String::from_utf8_lossy(suffix))),
            RouteMatch::Prefix(_) | RouteMatch::Rest => None,
        });
        suffixes.chain(["index.html".to_owned()]).collect()
    }
}
