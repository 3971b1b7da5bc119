//! The flags of `flash serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueHint};
use flash_core::clients::{ByteRate, Rate};
use flash_core::path::SitePath;
use flash_core::site::hosts::HostName;
use flash_core::site::network::Network;
use flash_core::site::places::PlaceNames;
use flash_http::Scheme;
use flash_http::negotiate::CodingSet;

use super::admin::{Administration, LISTENING};
use super::choices::{Arch, Etag, FollowLinks, ForwardedField, Helpers, Sandbox};
use super::codings;
use super::denial::Denial;
use super::field::{CacheControl, FileType};
use super::value::{Switch, count};
use super::{
    Acme, ErrorLogFormat, ErrorLogTo, Experiments, Field, Https, Listen, ListenAddress, LogField, LogFormat,
    LogTo, Programs, Rules, Tls, TraceContext, duration, field, listen, name, size, usual_listen,
};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = AFTER_LONG_HELP)]
pub(crate) struct Serve {
    /// The folder to serve
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,

    /// Read settings from this TOML file. Each flag is a key of the same name there, and DIR is the key root. What the command
    /// line says wins
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = CONFIGURATION)]
    pub config: Option<PathBuf>,

    /// Look here for files that DIR lacks, such as those of the last release, which open pages still ask for. Scripts are looked for in DIR
    /// alone. If given repeatedly, the first that has the file
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = CONTENT)]
    pub fallback_root: Vec<PathBuf>,

    /// List folders that have no index file
    #[arg(long, help_heading = CONTENT)]
    pub list: bool,

    /// Show this file above the rows of a listing: a name in the listed folder, or a path below DIR such as /HEADER.html for all. HTML is
    /// taken as it is, if the name ends in .html or .htm, and other text is shown. A file of more than 64 KiB is left out
    #[arg(long, value_name = "FILE", value_parser = name::parse_text, help_heading = CONTENT)]
    pub list_header: Option<String>,

    /// Show this file below the rows of a listing, as --list-header does above them
    #[arg(long, value_name = "FILE", value_parser = name::parse_text, help_heading = CONTENT)]
    pub list_footer: Option<String>,

    /// The file that answers for its folder. If given repeatedly, the first that exists. Without this flag, index.html. If
    /// programs answer for a suffix such as .php, index.php comes before it
    #[arg(long, value_name = "NAME", value_parser = name::parse, help_heading = CONTENT)]
    pub index: Vec<String>,

    /// Answer /about with the file about.html, if the path has no file: the end of names that paths leave out, such as .html. If given
    /// repeatedly, the first that exists. The file comes before a folder about/
    #[arg(long, value_name = "END", value_parser = name::parse_extension, help_heading = CONTENT)]
    pub extensions: Vec<String>,

    /// Answer with this file of DIR, and 200, for pages without a file, and for folders without an index: for single-page
    /// applications. A missing name with a dot is 404, unless the client asks for HTML (Accept: text/html)
    #[arg(long, value_name = "FILE", value_parser = name::parse_path, help_heading = CONTENT)]
    pub spa: Option<SitePath<'static>>,

    /// Answer with this script or file of DIR for all paths without a file, and for folders without an index. A front controller
    /// such as /index.php gets every method, and the original target in REQUEST_URI
    #[arg(long, value_name = "FILE", value_parser = name::parse_path, conflicts_with = "spa", help_heading = CONTENT)]
    pub fallback: Option<SitePath<'static>>,

    /// Take the pages for errors from this folder, read at the start: 404.html, 403.html and so on. Without this flag, a 404.html
    /// in DIR is the page for names that do not exist
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = CONTENT)]
    pub error_pages: Option<PathBuf>,

    /// Serve files and folders whose names begin with a dot. `.well-known` is served without it
    #[arg(long, help_heading = CONTENT)]
    pub dotfiles: bool,

    /// Answer 404 for all paths that RULE covers: /folder and all below it, *.suffix, or a name. Or answer 403 to clients of a
    /// network: an address, or a network such as 10.0.0.0/8. May be given repeatedly
    #[arg(long, value_name = "RULE", value_parser = Denial::parse, help_heading = CONTENT)]
    pub deny: Vec<Denial>,

    /// Answer only clients of this network, and 403 to all others: an address, a network such as 10.0.0.0/8, or unix for clients at
    /// Unix sockets. May be given repeatedly. If --deny names a network, too, the longest one that holds an address decides
    #[arg(long, value_name = "ADDR", value_parser = Network::from_str, help_heading = CONTENT)]
    pub allow: Vec<Network>,

    /// How far symbolic links are followed
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = FollowLinks::Inside, help_heading = CONTENT)]
    pub follow_links: FollowLinks,

    /// Answer /~name/ from that user's public_html folder
    #[arg(long, help_heading = CONTENT)]
    pub user_dirs: bool,

    /// Send this Cache-Control with every file, or with those that RULE covers: *.js, or /folder and all below it. May be
    /// given repeatedly. The first rule that covers a file counts, and the value without a rule comes last
    #[arg(long, value_name = "[RULE=]VALUE", value_parser = field::parse_cache_control, help_heading = CONTENT)]
    pub cache_control: Vec<CacheControl>,

    /// What the entity tags of files (ETag) are made of
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Etag::Time, help_heading = CONTENT)]
    pub etag: Etag,

    /// Tell clients the SHA-256 of files: in Repr-Digest, for requests with Want-Repr-Digest (RFC 9530), in listings as JSON, and as
    /// /a.iso.sha256 for sha256sum -c, where no such file exists. Each version is read once, at the lowest priority, and with mp in
    /// each process. Until then there is no field, and /a.iso.sha256 is 503
    #[arg(long, help_heading = CONTENT)]
    pub digests: bool,

    /// Send files that RULE covers with this Content-Type: *.suffix, a name, or /folder and all below it. May be given repeatedly.
    /// The longest rule counts. A charset is a part of TYPE
    #[arg(long, value_name = "RULE=TYPE", value_parser = field::parse_file_type, help_heading = CONTENT)]
    pub types: Vec<FileType>,

    /// Send this field with every response. May be given repeatedly, up to 32K in all. Content-Type and Content-Encoding are those of
    /// files alone
    #[arg(long, value_name = "NAME: VALUE", help_heading = CONTENT)]
    pub header: Vec<Field>,

    /// Send the file itself even if a compressed copy (.br, .zst, .gz) is beside it
    #[arg(long, help_heading = CONTENT)]
    pub no_precompressed: bool,

    /// Compress files of text in these codings, for clients that accept one: br, zstd and gzip with commas between them, or off. A file
    /// has 1 KiB to 16 MiB. A compressed copy beside it comes first. Each version is compressed once, at the lowest priority,
    /// and kept in the file cache. The file as it is is sent meanwhile
    #[arg(long, value_name = "CODINGS", value_parser = codings::parse, default_value = codings::ALL, help_heading = CONTENT)]
    pub compress: CodingSet,

    /// Compress text that programs answer in these codings, as --compress does with files. Where pages hold secrets, and also words
    /// of the request, it tells listeners about the secrets (BREACH)
    #[arg(long, value_name = "CODINGS", value_parser = codings::parse, default_value = codings::OFF, help_heading = CONTENT)]
    pub compress_programs: CodingSet,

    #[command(flatten)]
    pub rules: Rules,

    /// Where to accept connections: ADDRESS:PORT, :PORT for every address, or unix:PATH. Behind a PATH, ,mode=660 and
    /// ,group=NAME say who may connect. With --user the socket is that user's. May be given repeatedly. [::]:PORT includes
    /// IPv4, unless another --listen has that port of IPv4. https:// before it means TLS, and http:// none. Without them, port
    /// 443 means TLS. If a certificate is given and no listener has TLS by these rules, all without http:// have it. With
    /// ,proxy-protocol at its end, each connection there begins with a header of the PROXY protocol, which names the client.
    /// Each peer is believed, unless --trusted-proxies names some. A socket of systemd replaces the --listen of its address.
    /// Without --listen, all of them serve
    #[arg(long, value_name = "ADDR", default_values = usual_listen::usual(), help_heading = LISTENING)]
    pub listen: Vec<Listen>,

    /// Whether clients may speak HTTP/2 as well as HTTP/1
    #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::On, help_heading = LISTENING)]
    pub http2: Switch,

    /// Believe what this proxy says of its client: an address, a network such as 10.0.0.0/8, or unix for the proxies at Unix
    /// sockets. Logs, rules, limits and programs then see the client. May be given repeatedly. With it, only these proxies may send
    /// headers of the PROXY protocol
    #[arg(long, alias = "trusted-proxy", value_name = "ADDR", value_parser = Network::from_str, help_heading = LISTENING)]
    pub trusted_proxies: Vec<Network>,

    /// Where trusted proxies name their clients: in X-Forwarded-For and X-Forwarded-Proto, or in Forwarded. A client may have
    /// forged the other one, so it counts for nothing
    #[arg(long, value_name = "FIELD", value_enum, default_value_t = ForwardedField::XForwardedFor, help_heading = LISTENING)]
    pub forwarded_field: ForwardedField,

    /// The port to listen at, instead of 8080
    #[arg(long, short = 'p', value_name = "N", conflicts_with = "listen", help_heading = LISTENING)]
    pub port: Option<u16>,

    /// The address to listen at, instead of 127.0.0.1: 0.0.0.0 is every address of IPv4, and :: every address
    #[arg(long, visible_alias = "bind", value_name = "ADDR", conflicts_with = "listen", value_parser = listen::parse_host, help_heading = LISTENING)]
    pub host: Option<IpAddr>,

    #[command(flatten)]
    pub administration: Administration,

    /// Open the site in this desktop's browser
    #[arg(long, help_heading = LISTENING)]
    pub open: bool,

    /// Write a line per request to this file, to standard output (-), or nowhere (off). Or to a log daemon: syslog:unix:/dev/log,
    /// syslog:udp:HOST:PORT or journald, with facility=, severity= and tag= behind commas. Without this flag, a short line on a
    /// terminal, and none elsewhere
    #[arg(long, value_name = "PATH|DAEMON|-|off", value_hint = ValueHint::FilePath,
        value_parser = OsStringValueParser::new().try_map(LogTo::parse), help_heading = LOGS)]
    pub access_log: Option<LogTo>,

    /// The format of the access log. Without this flag, short on a terminal if no --access-log is given, and combined elsewhere
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = LOGS)]
    pub log_format: Option<LogFormat>,

    /// The fields of a JSON line, in this order, apart by commas. This flag means --log-format json
    #[arg(long, value_name = "FIELDS", value_enum, value_delimiter = ',', help_heading = LOGS)]
    pub log_fields: Vec<LogField>,

    /// What is done with the trace that a request's traceparent names. Programs get the field as it is, or with a span of Flash.
    /// With always, each request has a trace
    #[arg(long, value_name = "WHAT", value_enum, default_value = "pass-through", help_heading = LOGS)]
    pub trace_context: TraceContext,

    /// Write error lines to this file, or to a log daemon as with --access-log. Without this flag, to standard error
    #[arg(long, value_name = "PATH|DAEMON", value_hint = ValueHint::FilePath,
        value_parser = OsStringValueParser::new().try_map(ErrorLogTo::parse), help_heading = LOGS)]
    pub error_log: Option<ErrorLogTo>,

    /// The format of the error log (docs/logs.md)
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text", help_heading = LOGS)]
    pub error_log_format: ErrorLogFormat,

    /// Say at the start which system calls are missing here, and what that costs. Log every counter at the end, too
    /// (docs/counters.md)
    #[arg(long, help_heading = LOGS)]
    pub verbose: bool,

    #[command(flatten)]
    pub tls: Tls,

    #[command(flatten)]
    pub acme: Acme,

    /// How often the files of certificates, keys and authorities are looked at. Those that have changed are used for new
    /// handshakes, without a reload
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration::parse_positive, help_heading = super::tls::TLS)]
    pub tls_renewal: Duration,

    /// Whether returning clients may send GET and HEAD within their TLS 1.3 handshake. Other methods get 425. Not with --arch mp
    #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::Off, help_heading = super::tls::TLS)]
    pub early_data: Switch,

    #[command(flatten)]
    pub programs: Programs,

    /// Become this user once the listeners and logs are open: a name or a number. A group after a colon replaces the user's
    /// own. Without it, a server that root starts stays root
    #[arg(long, value_name = "USER[:GROUP]", help_heading = RIGHTS)]
    pub user: Option<String>,

    /// Whether helpers are threads, or processes that look names up and pass open files to the server
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Helpers::Thread, help_heading = RIGHTS)]
    pub helpers: Helpers,

    /// With helper processes: serve without any right to files, programs and outgoing connections, and let helpers read below
    /// DIR only. 'on' does as much as the kernel allows; 'required' does not start if the kernel cannot do all of it. Without
    /// this flag, on
    #[arg(long, value_enum, value_name = "HOW", help_heading = RIGHTS)]
    pub sandbox: Option<Sandbox>,

    /// Whether a process that crashes leaves a core dump, and debuggers of its user may attach to it. With on, programs of the server's
    /// user can read its memory, keys among it
    #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::Off, help_heading = RIGHTS)]
    pub core_dumps: Switch,

    /// Time for a request's head to arrive after its first byte. Then 408
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse_positive, help_heading = LIMITS)]
    pub head_timeout: Duration,

    /// How long a connection may stay open between requests
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse_positive, help_heading = LIMITS)]
    pub idle_timeout: Duration,

    /// Bytes per second that a client must acknowledge of a response, or send of a body, on average. One that
    /// was faster may be slower afterwards, for 15 minutes at most. 0 waits for any client
    #[arg(long, value_name = "BYTES", default_value = "500", value_parser = size::parse, help_heading = LIMITS)]
    pub send_rate_min: u64,

    /// Time for the disk to answer. Then 503
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse_positive, help_heading = LIMITS)]
    pub disk_deadline: Duration,

    /// Percentage of a disk's time that clients have together who asked for little so far, while others wait. The others share the
    /// rest equally
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = clap::value_parser!(u8).range(1..100), help_heading = LIMITS)]
    pub disk_share: u8,

    /// Connections at once. A new one beyond them closes one of the client that has most: idle, without a whole head, or too slow.
    /// If there is none, it gets 503. Without this flag, as many as the limit of open files (ulimit -n) allows. If it allows fewer
    /// than N, Flash says at its start how many there are, and which limit would be enough
    #[arg(long, value_name = "N", value_parser = count(1, 1 << 24), help_heading = LIMITS)]
    pub connections_max: Option<usize>,

    /// TLS handshakes that may be unfinished at once. Beyond them, the oldest is closed. Without it, half of --connections-max
    #[arg(long, value_name = "N", value_parser = count(1, 1 << 24), help_heading = LIMITS)]
    pub handshakes_max: Option<usize>,

    /// Connections of each client at once. Beyond them, 429. A client is an IPv4 address, or the first 64 bits of an IPv6 address.
    /// Trusted proxies may have as many as they like
    #[arg(long, value_name = "N", value_parser = count(1, 1 << 20), help_heading = LIMITS)]
    pub connections_per_client: Option<usize>,

    /// Size of a request's head. Beyond it, 431
    #[arg(long, value_name = "BYTES", default_value = "32K", value_parser = size::parse_positive, help_heading = LIMITS)]
    pub head_bytes_max: u64,

    /// Size of a request's target, its path and query. Beyond it, 414
    #[arg(long, value_name = "BYTES", default_value = "8K", value_parser = size::parse_positive, help_heading = LIMITS)]
    pub target_bytes_max: u64,

    /// Size of a request's body. If no program takes it, Flash discards it. Beyond the size, 413
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = size::parse, help_heading = LIMITS)]
    pub body_bytes_max: u64,

    /// How many requests a client may send: 20/s, 600/m, or "20/s burst 40" for 40 at once. Beyond it, 429. A client is an IPv4
    /// address, or the first 64 bits of an IPv6 address. Without a burst, as many at once as in a unit of time
    #[arg(long, value_name = "RATE", value_parser = Rate::from_str, help_heading = LIMITS)]
    pub limit: Option<Rate>,

    /// How fast a client gets responses, over all its connections, streams and ranges: 2M/s, or "2M/s burst 20M" for 20M at full speed
    /// after a pause. A client is an IPv4 address, or the first 64 bits of an IPv6 address. A program's X-Accel-Limit-Rate takes its
    /// place. Without a burst, as much as in a quarter of a second
    #[arg(long, value_name = "RATE", value_parser = ByteRate::from_str, help_heading = LIMITS)]
    pub rate: Option<ByteRate>,

    /// How fast all clients of a site get responses together, as in 100M/s. Each gets what --rate allows at most
    #[arg(long, value_name = "RATE", value_parser = ByteRate::from_str, help_heading = LIMITS)]
    pub rate_total: Option<ByteRate>,

    /// Time for requests under way to finish after SIGTERM or SIGINT. Responses that take longer are cut. 0 waits without limit
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse, help_heading = LIMITS)]
    pub drain: Duration,

    /// The same after an upgrade, in the server whose place was taken. 0 waits without limit
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse, help_heading = LIMITS)]
    pub upgrade_drain: Duration,

    /// Jobs that may wait for a helper of one device. Beyond them, requests that need the disk get 503 at once
    #[arg(long, value_name = "N", default_value = "1024", value_parser = count(1, 1 << 20), help_heading = LIMITS)]
    pub helper_queue_max: usize,

    /// Paths in the path cache. Each process of mp has its part. 0 caches none. Without this flag, one for each 8 KiB of the file
    /// cache, and 6,000 at least. Of large files, as many stay open as memory and the limit of open files (ulimit -n) allow
    #[arg(long, value_name = "ENTRIES", value_parser = count(0, 1 << 30), help_heading = CACHES)]
    pub path_cache: Option<usize>,

    /// Memory for the content of files, at most. Each process of mp has its part. 0 caches none. Without this flag, a quarter of
    /// the memory of the machine or the cgroup, 128M at most. While other programs need the memory, the cache takes less
    #[arg(long, value_name = "BYTES", value_parser = size::parse, help_heading = CACHES)]
    pub file_cache_bytes: Option<u64>,

    /// Keep digests in this file of up to 16 MiB on a local disk, so that files are not read again after a restart. Without this flag,
    /// the file digests in $CACHE_DIRECTORY, which systemd sets for a service
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = CACHES)]
    pub digest_store: Option<PathBuf>,

    /// Send files that are not in Flash's cache from the page cache, without a copy: a third of the work for large downloads.
    /// Only for sites whose files are replaced by renaming, and never changed in place
    #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::Off, help_heading = CACHES)]
    pub zero_copy: Switch,

    /// How long a change of a file may stay unnoticed. 0 checks the disk for every request
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse, help_heading = CACHES)]
    pub revalidate: Duration,

    /// Where requests run, and what waits for the disk
    #[arg(long, value_enum, default_value_t = Arch::Amped, help_heading = ARCHITECTURE)]
    pub arch: Arch,

    /// Event loops of amped, uring and sped, or pools of pipelined. Without this flag, one per processor
    #[arg(long, value_name = "N", value_parser = count(1, 1024), help_heading = ARCHITECTURE)]
    pub loops: Option<usize>,

    /// Threads of mt at the start, and the least that are kept. Without this flag, 64
    #[arg(long, value_name = "N", value_parser = count(1, 10_000), help_heading = ARCHITECTURE)]
    pub threads: Option<usize>,

    /// The most threads of mt. They start when all others serve connections, and end when idle. Without this flag, 4096, or one
    /// for each MiB of memory if those are fewer
    #[arg(long, value_name = "N", value_parser = count(1, 100_000), help_heading = ARCHITECTURE)]
    pub threads_max: Option<usize>,

    /// Processes of mp at the start, and the least that are kept. Without this flag, 32, or one for each 4 MiB of memory if those are fewer
    #[arg(long, value_name = "N", value_parser = count(1, 10_000), help_heading = ARCHITECTURE)]
    pub processes: Option<usize>,

    /// The most processes of mp. They start when all others serve connections, and end when idle. Without this flag, 512, or one
    /// for each 4 MiB of memory if those are fewer
    #[arg(long, value_name = "N", value_parser = count(1, 10_000), help_heading = ARCHITECTURE)]
    pub processes_max: Option<usize>,

    /// The most helpers of amped and uring for each device. They start when a job would block, and end when idle. Without this
    /// flag, 64, or one for each 8 MiB of memory if those are fewer
    #[arg(long, value_name = "N", value_parser = count(1, 4096), help_heading = ARCHITECTURE)]
    pub helpers_max: Option<usize>,

    #[command(flatten)]
    pub experiments: Experiments,

    /// The sites of the configuration file, if it names any. DIR is then the first one's folder.
    #[arg(skip)]
    pub sites: Vec<SiteFlags>,

    /// The variables of the environment that the configuration file has values of.
    #[arg(skip)]
    pub environment: Vec<String>,

    /// The configuration file, and those that it includes.
    #[arg(skip)]
    pub files: Vec<PathBuf>,
}

/// A site of a configuration file.
#[derive(Debug)]
pub(crate) struct SiteFlags {
    pub hosts: Vec<HostName>,
    pub own: RulesFlags,
    pub names: Arc<PlaceNames>,
    /// In the order of [`PlaceNames::pairs`].
    pub places: Vec<RulesFlags>,
}

/// What holds for a site, or for a place in it.
#[derive(Debug)]
pub(crate) struct RulesFlags {
    /// `None` if no folder is needed, because the rules answer themselves.
    pub root: Option<Arc<Path>>,
    pub flags: Arc<Serve>,
    /// Rules with the same number lead to files in the same way, if their folder is the same.
    pub view: usize,
}

impl Serve {
    /// Whether HTTP servers get what no file answers, and not everything.
    pub(crate) fn falls_back_to_proxy(&self) -> bool {
        let fallback = self.fallback.as_ref().map(SitePath::relative);
        fallback == Some(b"proxy") && !self.programs.http.proxy.is_empty()
    }

    /// The values of Cache-Control in the order in which they are tried.
    pub(crate) fn cache_rules(&self) -> Vec<CacheControl> {
        let (rules, all): (Vec<_>, Vec<_>) =
            self.cache_control.iter().cloned().partition(|(rule, _)| rule.is_some());
        rules.into_iter().chain(all).collect()
    }

    /// Puts --port and --host into the place that --listen would have given, and makes paths absolute.
    pub(super) fn settle(mut self: Box<Self>) -> Box<Self> {
        self.make_absolute();
        if self.port.is_some() || self.host.is_some() {
            let host = self.host.unwrap_or(Ipv4Addr::LOCALHOST.into());
            self.listen = vec![ListenAddress::Inet(SocketAddr::new(host, self.port.unwrap_or(8080))).into()];
        }
        if self.rules.internal {
            // Files alone answer, whatever method the program was asked with.
            self.programs.run_nothing();
            (self.fallback, self.spa, self.list) = (None, None, false);
            self.rules.methods.clear();
        }
        self
    }

    /// A server that asks an authority listens where the authority asks back, and redirects other clients there, if nothing else was said.
    pub(super) fn settle_ports_of_authorities(&mut self, has_usual_listen: bool, has_usual_https: bool) {
        let is_said = !has_usual_listen || self.port.is_some() || self.host.is_some();
        if self.tls.acme.is_empty() || is_said || usual_listen::usual() != [usual_listen::OWN] {
            return;
        }
        self.listen = [80, 443].map(|port| ListenAddress::EveryAddress(port).into()).into();
        if has_usual_https {
            self.tls.https = Https::Required;
        }
    }

    /// If there is a certificate, and no listener speaks TLS by its scheme or port, those without a scheme do.
    pub(super) fn settle_schemes(&mut self) {
        let has_certificate = self.tls.is_on() || self.sites.iter().any(|site| site.own.flags.tls.is_on());
        if has_certificate && self.listen.iter().all(|listen| listen.scheme() == Scheme::Http) {
            self.listen.iter_mut().for_each(|listen| _ = listen.scheme.get_or_insert(Scheme::Https));
        }
    }
}

/// The flags of the short help: those that most people need.
pub(super) const SHORT_HELP: [&str; 16] = [
    "config",
    "list",
    "index",
    "spa",
    "error_pages",
    "dotfiles",
    "cache_control",
    "header",
    "listen",
    "port",
    "host",
    "open",
    "access_log",
    "error_log",
    "fastcgi",
    "user",
];

// In the order of the help.
const CONFIGURATION: &str = "Configuration";
const CONTENT: &str = "Content";
const LOGS: &str = "Logs";
const RIGHTS: &str = "Rights";
const LIMITS: &str = "Limits";
const CACHES: &str = "Caches";
const ARCHITECTURE: &str = "Architecture";

macro_rules! examples {
    () => {
        "\
Examples:
  flash serve                     this folder, at http://127.0.0.1:8080/
  flash build -p 3000 --open      another folder and port, in the browser
  flash serve /srv/site --listen :80 --user www-data     to everybody
  flash serve ~/music --list --listen unix:/run/music.sock
  flash serve build --spa index.html --cache-control 'max-age=60'
  flash serve /srv/site --fastcgi .php=unix:/run/php/php-fpm.sock --fallback /index.php
  flash serve --cgi /cgi-bin=/usr/lib/cgi-bin
  flash serve /srv/site --access-log access.log --header 'X-Frame-Options: DENY'"
    };
}

const EXAMPLES: &str = examples!();

const AFTER_LONG_HELP: &str = concat!(
    examples!(),
    "

Values:
  Sizes take K, M or G (powers of 1024). Times need a unit: ms, s, m or h.

Signals:
  SIGTERM, SIGINT   accept no more, finish what is under way, end; another one a second later ends at once
  SIGUSR1           open the logs again, after they were renamed
  SIGHUP            the same, and reload (see flash reload). Of a terminal that was closed: as SIGTERM
  SIGUSR2           another server takes this one's place (see flash upgrade)

Exit codes:
  0   ended as asked
  1   could not serve: no such folder or user, the port is taken, no right to it, no sandbox
  2   the command line or the configuration file is wrong"
);
