//! The flags for programs become routes, what the fork helper may run, and what begins programs in each process that serves.
//!
//! What is wrong with them is said before anybody listens. What programs are told and what they answer is not known here.

pub(super) mod runnable;

use std::any::Any;
use std::env;
use std::ffi::{CString, OsStr};
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flash_auth::StickyCookies;
use flash_cgi::script;
use flash_core::path::SitePath;
use flash_core::site::path_rules::PathRules;
use flash_core::site::proxy_rules::{Patience, ProxyRules, ResponseRules};
use flash_core::site::redirect::bare_host;
use flash_core::site::routes::{Param, Route, RouteMatch, Routes};
use flash_core::upstream::{self, UpstreamProtocol};
use flash_observe::metrics::MetricsMemory;
use flash_observe::{AccessLogs, ErrorLog};
use flash_process::{Command, Folder, ForkHelper, Limits, Reporter};
use flash_tls::upstream::{Client, read_authorities};
use flash_upstream::{
    Address, Application, Balance, Check, Connector, DirectLimits, HttpServers, LogDetached, Member,
    ProgramCounter, RouteUpstreams, ServerConfig, ServerTls, Settings, UnixAddress, UpstreamConfig,
};

use self::runnable::{Runnable, queue_wait};
use super::named_files::OpenNamed;
use super::program_name::{Counter, ProgramName, Shown, shown_servers};
use super::reach;
use super::response_budgets::ResponseBudgets;
use crate::failure::{Failure, cannot};
use crate::flags::{
    self, NamedUpstream, ProxyField, ProxyTo, ProxyUrl, RouteFlag, Switch, Upstream, UpstreamBalance,
    UpstreamServer, Words,
};
use crate::start_folder::absolute;

/// What programs are told of the server: the `Server` field's value.
const SOFTWARE: &[u8] = b"Flash";
/// How long a connection to a FastCGI server may take at most.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Idle connections that one process keeps to a FastCGI server.
const KEPT_MAX: usize = 32;
/// Of a program that begins: both ends of its stream and of the pipe for its complaints.
const PROGRAM_DESCRIPTORS: usize = 4;
/// The permission bits that allow a user to run a file.
const MAY_RUN: u32 = 0o111;

/// All that the programs of a site need, in every process that serves.
pub(super) struct Programs {
    list: Vec<(Route, UpstreamConfig)>,
    /// The number of the first of them.
    first: usize,
    settings: Settings,
    /// Where the scripts of all sites lie, by the numbers of the folders.
    folders: Arc<[PathBuf]>,
    /// Paths where none of them runs.
    except: PathRules,
    /// What FastCGI servers and applications are told.
    params: Arc<[Param]>,
    /// The sessions of HTTP servers, if they stay with them.
    sticky: Option<Arc<StickyCookies>>,
}

impl Programs {
    /// Finds fault with the flags, and says with which one. `routes` are those of the sites before. Where this process cannot look
    /// names up, another one has.
    pub(super) fn prepare(
        flags: &flags::Serve,
        routes: usize,
        runnable: &mut Runnable,
        (open, looks_up): (&OpenNamed<'_>, bool),
    ) -> Result<Self, (&'static str, Failure)> {
        let programs = &flags.programs;
        let mut plan = Plan { list: Vec::new(), first: routes, runnable, looks_up, sticky: None };
        for (key, mounts, direct) in
            [("cgi", &programs.cgi, false), ("cgi-direct", &programs.cgi_direct, true)]
        {
            for mount in mounts {
                plan.add_folder(mount, direct).map_err(|wrong| (key, wrong))?;
            }
        }
        for mount in &programs.fastcgi {
            plan.add_server(mount).map_err(|wrong| ("fastcgi", wrong))?;
        }
        plan.add_proxy(flags, open).map_err(|wrong| ("proxy", wrong))?;
        for mount in &programs.app {
            plan.add_application(mount, programs).map_err(|wrong| ("app", wrong))?;
        }
        let Plan { list, runnable, sticky, .. } = plan;
        let except = programs.no_programs.iter().cloned().collect();
        let folders = runnable.folders();
        let params = programs.fastcgi_param.iter();
        let params =
            params.map(|param| (param.name.as_bytes().into(), param.value.as_bytes().into())).collect();
        Ok(Self { list, first: routes, settings: settings(programs), folders, except, params, sticky })
    }

    /// Notes where the scripts of a site lie. What is wrong with that is found [later](Self::prepare).
    pub(super) fn note_folders(flags: &flags::Programs, runnable: &mut Runnable) {
        for mount in flags.cgi.iter().chain(&flags.cgi_direct) {
            let _ = script_folder(mount, runnable).and_then(|folder| runnable.folder(folder));
        }
    }

    /// Reads the key of sessions.
    pub(super) fn read_secrets(&self, open: &OpenNamed<'_>) -> Result<(), Failure> {
        self.sticky.as_ref().map_or(Ok(()), |sticky| sticky.read(open)).map_err(Failure::Run)
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether the same upstreams serve them, so that idle connections and processes can stay.
    pub(super) fn are_same(&self, other: &Self) -> bool {
        let upstreams = |programs: &Self| -> Vec<UpstreamConfig> {
            programs.list.iter().map(|(_, upstream)| upstream.clone()).collect()
        };
        self.settings == other.settings && upstreams(self) == upstreams(other)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether any of them is connected to.
    pub(super) fn are_connected_to(&self) -> bool {
        self.list.iter().any(|(_, upstream)| !matches!(upstream, UpstreamConfig::Cgi { .. }))
    }

    pub(super) fn have_applications(&self) -> bool {
        self.list.iter().any(|(_, upstream)| matches!(upstream, UpstreamConfig::Application(_)))
    }

    /// All servers that are connected to.
    pub(super) fn servers(&self) -> impl Iterator<Item = &ServerConfig> {
        self.list.iter().flat_map(|(_, upstream)| match upstream {
            UpstreamConfig::FastCgi(server) => vec![server],
            UpstreamConfig::Http(all) => all.servers.iter().map(|member| &member.server).collect(),
            UpstreamConfig::Cgi { .. } | UpstreamConfig::Application(_) => Vec::new(),
        })
    }

    /// The servers that cannot be reached now, and why.
    pub(super) fn refusals(&self, connector: Option<&Connector>) -> Vec<String> {
        let refusals = |(route, upstream): &(Route, UpstreamConfig)| match upstream {
            UpstreamConfig::FastCgi(server) => {
                reach::refusal(&Shown(&route.matches).to_string(), server, connector).into_iter().collect()
            }
            UpstreamConfig::Http(all) => all
                .servers
                .iter()
                .filter_map(|member| reach::refusal_of_server(&member.server, connector))
                .collect(),
            UpstreamConfig::Cgi { .. } | UpstreamConfig::Application(_) => Vec::new(),
        };
        self.list.iter().flat_map(refusals).collect()
    }

    /// The HTTP servers that get every request, in words.
    pub(super) fn proxied(&self) -> Option<String> {
        let all = |(route, upstream): &(Route, UpstreamConfig)| match (&route.matches, upstream) {
            (RouteMatch::Prefix(_), UpstreamConfig::Http(all)) => {
                // The only address with a scheme in the line is the server's own.
                let schemes = ["https://", "http://", "h2c://", "h2://"];
                let names = schemes.iter().fold(shown_servers(all), |all, scheme| all.replace(scheme, ""));
                Some(format!("what {names} answers"))
            }
            _ => None,
        };
        self.list.iter().find_map(all)
    }

    /// Each of them in words, in the order of the routes.
    pub(super) fn shown(&self) -> Vec<String> {
        let shown = |(route, upstream): &(Route, UpstreamConfig)| {
            let what = match upstream {
                UpstreamConfig::FastCgi(server) => format!("fastcgi at {}", server.name),
                UpstreamConfig::Http(all) => format!("proxy of {}", shown_servers(all)),
                UpstreamConfig::Cgi { .. } => "cgi".into(),
                UpstreamConfig::Application(_) => "app".into(),
            };
            format!("{what} for {}", Shown(&route.matches))
        };
        self.list.iter().map(shown).collect()
    }

    /// The most descriptors that the programs of all sites take, and how many each client's connection does: its own, those of its
    /// request to a server, and the other end of those to a server of HTTP/2.
    pub(super) fn descriptors<'p>(
        sites: impl Iterator<Item = &'p Self>,
        flags: &flags::Programs,
    ) -> (usize, usize) {
        let (mut has_scripts, mut applications, mut of_connection) = (false, 0, 1);
        for (_, service) in sites.flat_map(|programs| &programs.list) {
            match service {
                UpstreamConfig::Cgi { .. } => has_scripts = true,
                UpstreamConfig::Application(_) => applications += 1,
                // Any number of requests may be on their way to it, each over a connection.
                UpstreamConfig::Http(all) if all.servers.iter().any(|member| member.server.is_http2) => {
                    of_connection = 3;
                }
                UpstreamConfig::FastCgi(_) | UpstreamConfig::Http(_) => of_connection = of_connection.max(2),
            }
        }
        let scripts = if has_scripts { flags.cgi_max + flags.cgi_queue_max } else { 0 };
        let processes = scripts + flags.app_max * applications;
        (PROGRAM_DESCRIPTORS * processes, of_connection)
    }

    /// How many processes their applications may have.
    fn processes_max(&self) -> usize {
        let processes = |(_, service): &(Route, UpstreamConfig)| match service {
            UpstreamConfig::Application(application) => application.processes_max,
            UpstreamConfig::Cgi { .. } | UpstreamConfig::FastCgi(_) | UpstreamConfig::Http(_) => 0,
        };
        self.list.iter().map(processes).sum()
    }

    /// For a site in this folder. `budgets` are those of all sites.
    pub(super) fn routes(&self, document_root: &[u8], budgets: &ResponseBudgets) -> Option<Routes> {
        let routes = self.list.iter().map(|(route, _)| route.clone()).collect();
        let routes = || Routes::new(routes, SOFTWARE, document_root, Arc::clone(&budgets.memory));
        let routes = || routes().spooled(Arc::clone(&budgets.disk)).telling(Arc::clone(&self.params));
        (!self.is_empty()).then(|| routes().except(self.except.clone()))
    }

    /// The routes alone, without a site.
    fn bare_routes(&self) -> Option<Routes> {
        self.routes(b"", &ResponseBudgets::nothing())
    }

    /// Whether a program answers this path.
    pub(super) fn answer(&self, path: &SitePath<'_>) -> bool {
        self.bare_routes().is_some_and(|routes| routes.route_of(path).is_some())
    }

    /// The file that the path leads to, in a folder of programs or in the site, where it has the name `in_site`. `None` for an
    /// application below a prefix, which has none.
    pub(super) fn file_of(&self, path: &SitePath<'_>, site: &Path, in_site: &[u8]) -> Option<PathBuf> {
        let name = |path: &[u8]| PathBuf::from(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)));
        let routes = self.bare_routes();
        let route = routes.as_ref().and_then(|routes| routes.route_of(path));
        match route.map(|route| (&route.matches, &self.list[route.number - self.first].1)) {
            Some((RouteMatch::Prefix(prefix), UpstreamConfig::Cgi { folder })) => {
                let below = script::below(path.as_bytes(), prefix)?;
                Some(self.folders[usize::from(*folder)].join(name(below.info)))
            }
            Some((RouteMatch::Prefix(_), _)) => None,
            Some((RouteMatch::Suffix(_) | RouteMatch::Rest, _)) | None => Some(site.join(name(in_site))),
        }
    }

    /// What the names of files end in that are programs' and never content.
    pub(super) fn suffixes(&self) -> Vec<Vec<u8>> {
        let suffix = |place: &RouteMatch| match place {
            RouteMatch::Suffix(suffix) => Some(suffix.to_vec()),
            RouteMatch::Prefix(_) | RouteMatch::Rest => None,
        };
        self.list.iter().filter_map(|(route, _)| suffix(&route.matches)).collect()
    }

    /// Where the scripts of all sites lie, by their real paths.
    pub(super) fn folders(&self) -> &Arc<[PathBuf]> {
        &self.folders
    }

    /// Starts the programs of all sites, for one process, after it was forked. Those that are the same as `before` a reload stay,
    /// with their idle connections and processes.
    pub(super) fn start(
        sites: &[&Self],
        before: Option<&Arc<dyn upstream::Upstreams>>,
        (helper, connector): (Option<&ForkHelper>, Option<Arc<Connector>>),
        error_log: &ErrorLog,
        (detached_logs, metrics_memory): (&DetachedLogs, &Arc<MetricsMemory>),
    ) -> io::Result<Option<Arc<dyn upstream::Upstreams>>> {
        let Some(first) = sites.iter().find(|programs| !programs.is_empty()) else { return Ok(None) };
        let mut settings = first.settings;
        // The fork helper says when it is too much; this bounds what it has not yet heard of.
        settings.monitor.pending_max += sites.iter().map(|programs| programs.processes_max()).sum::<usize>();
        let services = sites.iter().flat_map(|programs| programs.list.iter().map(|one| (one, *programs)));
        let services = services.map(|((route, service), programs)| {
            let counter = |name: ProgramName<'_>| -> Arc<dyn ProgramCounter> {
                Arc::new(Counter(metrics_memory.programs.named(&name.to_string())))
            };
            let names = ProgramName::all(&route.matches, service, &programs.folders);
            (service.clone(), names.map(counter).collect())
        });
        let services: Vec<_> = services.collect();
        let before = before.and_then(|before| (&**before as &dyn Any).downcast_ref::<RouteUpstreams>());
        if let Some(next) =
            before.and_then(|before| before.next(services.clone(), connector.as_ref(), &settings))
        {
            return Ok(Some(Arc::new(next)));
        }
        let (for_stderr, for_lines, for_records) =
            (error_log.clone(), error_log.clone(), detached_logs.clone());
        let reporter = Arc::new(Reporter {
            stderr_line: Box::new(move |name, line| {
                for_stderr.log(format_args!("{name}: {}", String::from_utf8_lossy(line)));
            }),
            log: Box::new(move |what| for_lines.log(what)),
        });
        let for_ends = Arc::clone(metrics_memory);
        let log_detached: LogDetached = Arc::new(move |record, bytes_sent| {
            let (end, record) = record.finish(bytes_sent, flash_arch::server_us(Instant::now()));
            for_ends.count_end(&end);
            record.into_iter().for_each(|record| for_records.get().write(&record));
        });
        let started = RouteUpstreams::start(services, helper, connector, &settings, reporter, log_detached)?;
        Ok(Some(Arc::new(started)))
    }
}

/// The access logs for programs that write to the client themselves. They may run while a reload replaces the logs.
#[derive(Clone, Default)]
pub(super) struct DetachedLogs(Arc<Mutex<AccessLogs>>);

impl DetachedLogs {
    pub(super) fn set(&self, logs: AccessLogs) {
        *self.present() = logs;
    }

    fn get(&self) -> AccessLogs {
        self.present().clone()
    }

    fn present(&self) -> MutexGuard<'_, AccessLogs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was understood so far.
struct Plan<'r> {
    list: Vec<(Route, UpstreamConfig)>,
    /// The number of its first route.
    first: usize,
    runnable: &'r mut Runnable,
    /// Whether this process can look names up.
    looks_up: bool,
    sticky: Option<Arc<StickyCookies>>,
}

impl Plan<'_> {
    fn add(
        &mut self,
        place: &RouteMatch,
        protocol: UpstreamProtocol,
        direct: bool,
        service: UpstreamConfig,
    ) -> Result<(), Failure> {
        if self.list.iter().any(|(route, _)| route.matches == *place) {
            return Err(Failure::Usage(format!("{} is given twice (see flash serve --help)", Shown(place))));
        }
        let number = self.first + self.list.len();
        let route = Route { matches: place.clone(), protocol, direct, number, proxy: None };
        self.list.push((route, service));
        Ok(())
    }

    fn add_proxy(&mut self, flags: &flags::Serve, open: &OpenNamed<'_>) -> Result<(), Failure> {
        let http = &flags.programs.http;
        let usage = |what: String| Failure::Usage(format!("{what} (see flash serve --help)"));
        let upstream = match &http.proxy[..] {
            [] => return Ok(()),
            [ProxyTo::Named(name)] => named(name, &http.upstream).cloned().map_err(usage).map(Some)?,
            all if all.iter().any(|one| matches!(one, ProxyTo::Named(_))) => {
                return Err(usage("the name of an upstream stands alone: it has all its servers".into()));
            }
            _ => None,
        };
        let upstream = upstream.map_or_else(|| unnamed(http).map_err(usage), Ok)?;
        let Some(first) = upstream.servers.first() else { return Ok(()) };
        let authorities = http.proxy_ca.as_ref().map(|path| read_authorities(path, open));
        let authorities = authorities.transpose().map_err(Failure::Run)?;
        let member = |one: &UpstreamServer| {
            let server = http_server(&one.url, http.other_host(), authorities.as_ref())?;
            let UpstreamServer { weight, is_backup, requests_max, .. } = *one;
            Ok::<_, Failure>(Member {
                server,
                weight,
                is_backup,
                requests_max: requests_max.unwrap_or(usize::MAX),
            })
        };
        let servers = upstream.servers.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        self.sticky = upstream.sticky.clone().map(|terms| {
            let names = servers.iter().map(|member| member.server.name.clone());
            Arc::new(StickyCookies::new(terms, names.collect()))
        });
        let balance = match &upstream.balance {
            UpstreamBalance::LeastRequests => Balance::LeastRequests,
            UpstreamBalance::RoundRobin => Balance::RoundRobin,
            UpstreamBalance::Hash(_) => Balance::Hash,
        };
        let place = match flags.falls_back_to_proxy() {
            true => RouteMatch::Rest,
            false => RouteMatch::Prefix(b"/".as_slice().into()),
        };
        let (settings, base) = (settings(&flags.programs), &first.url.base);
        let check = upstream.check.as_ref().map(|(path, every)| Check {
            path: format!("{base}{path}"),
            host: http.other_host().cloned(),
            every: *every,
        });
        let servers = HttpServers {
            name: Some(upstream.name.clone()).filter(|name| !name.is_empty()),
            servers,
            balance,
            connect: upstream.connect.unwrap_or(settings.connect),
            slow_start: upstream.slow_start,
            check,
            queue_max: upstream.queue_max,
            queue_wait: upstream.queue_wait.unwrap_or(settings.queue_wait),
        };
        self.add(&place, UpstreamProtocol::Http, false, UpstreamConfig::Http(servers))?;
        let rules = proxy_rules(http, &upstream, self.sticky.clone());
        if let Some((route, _)) = self.list.last_mut() {
            route.proxy = Some(rules.into());
        }
        Ok(())
    }

    fn add_folder(&mut self, mount: &RouteFlag<PathBuf>, direct: bool) -> Result<(), Failure> {
        let folder = script_folder(mount, self.runnable)?;
        let folder = self.runnable.folder(folder)?;
        self.add(&mount.place, UpstreamProtocol::Cgi, direct, UpstreamConfig::Cgi { folder })
    }

    fn add_server(&mut self, mount: &RouteFlag<Upstream>) -> Result<(), Failure> {
        let server = UpstreamConfig::FastCgi(server(&mount.what, !self.looks_up)?);
        self.add(&mount.place, UpstreamProtocol::FastCgi, false, server)
    }

    fn add_application(&mut self, mount: &RouteFlag<Words>, flags: &flags::Programs) -> Result<(), Failure> {
        let RouteFlag { place, what: Words(words) } = mount;
        let program = program(&words[0], self.runnable)?;
        let c_string = |bytes: &[u8]| {
            CString::new(bytes).map_err(|_| Failure::Usage("a command cannot hold a zero byte".into()))
        };
        let arguments = words.iter().map(|word| c_string(word.as_bytes())).collect::<Result<_, _>>()?;
        let command = Command { program: c_string(program.as_os_str().as_bytes())?, arguments };
        let name = words.join(" ");
        let application = Application {
            command: self.runnable.command(command, &name)?,
            name,
            processes_max: flags.app_max,
            requests_max: match flags.app_requests_max {
                0 => usize::MAX,
                requests => requests,
            },
            idle: flags.app_idle,
        };
        self.add(place, UpstreamProtocol::FastCgi, false, UpstreamConfig::Application(application))
    }
}

/// The upstream of this name.
fn named<'u>(name: &str, all: &'u [NamedUpstream]) -> Result<&'u NamedUpstream, String> {
    let known = || all.iter().map(|upstream| &*upstream.name);
    let advice = || match flash_config::nearest(name, known()) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("write [upstream.{name}], or an address such as http://{name}:3000"),
    };
    let found = all.iter().find(|upstream| upstream.name == name);
    found.ok_or_else(|| format!("there is no upstream `{name}`: {}", advice()))
}

/// Servers that `proxy` names one by one.
fn unnamed(http: &flags::Proxy) -> Result<NamedUpstream, String> {
    let url = |one: &ProxyTo| match one {
        ProxyTo::Url(url) => Some(url.clone()),
        ProxyTo::Named(_) => None,
    };
    let balance = match http.balance {
        flags::Balance::LeastRequests => UpstreamBalance::LeastRequests,
        flags::Balance::RoundRobin => UpstreamBalance::RoundRobin,
    };
    NamedUpstream::of_servers(http.proxy.iter().filter_map(url), balance)
}

/// What the servers of an upstream are told, and what becomes of their responses.
fn proxy_rules(
    http: &flags::Proxy,
    upstream: &NamedUpstream,
    sticky: Option<Arc<StickyCookies>>,
) -> ProxyRules {
    let is_http2 = upstream.servers.iter().any(|server| server.url.is_http2);
    let field = |field: &ProxyField| (field.name.as_bytes().into(), field.value.as_bytes().into());
    let ms = |time: Option<Duration>| time.map(|time| time.as_millis() as u64);
    ProxyRules {
        host: http.other_host().map(|host| host.as_bytes().into()),
        base: upstream.servers.first().map(|server| server.url.base.as_bytes().into()).unwrap_or_default(),
        fields: http.proxy_header.iter().map(field).collect(),
        hash: match &upstream.balance {
            UpstreamBalance::Hash(by) => Some(by.clone()),
            UpstreamBalance::LeastRequests | UpstreamBalance::RoundRobin => None,
        },
        forwarded: http.proxy_forwarded == Switch::On,
        response: ResponseRules {
            redirects: http.proxy_redirect == Switch::On,
            cookies: http.proxy_cookies == Switch::On,
            fields: http.proxy_response_header.iter().map(field).collect(),
            servers: upstream.servers.iter().filter_map(|server| server.url.authority()).collect(),
        },
        sticky: sticky.map(|sticky| sticky as _),
        patience: Patience { first_byte_ms: ms(upstream.first_byte), idle_ms: ms(upstream.idle) },
        streams_requests: http.stream_requests || is_http2,
        is_duplex: is_http2,
    }
}

fn http_server(
    url: &ProxyUrl,
    host: Option<&String>,
    authorities: Option<&Vec<u8>>,
) -> Result<ServerConfig, Failure> {
    // It may be there later.
    let ServerConfig { name, address, lookup, .. } = server(&url.upstream, true)?;
    let name = match &url.upstream {
        Upstream::Unix(_) => name,
        Upstream::Inet(_) => format!("{}://{name}", url.scheme()),
    };
    let server_tls = |of_url| server_tls(host.unwrap_or(of_url), authorities, url.is_http2);
    let tls = url.tls.as_ref().map(server_tls).transpose()?;
    Ok(ServerConfig { name, address, lookup, tls, is_http2: url.is_http2 })
}

/// A folder as programs are told of it.
pub(super) fn document_root(folder: &Path) -> Vec<u8> {
    match folder.as_os_str().as_bytes() {
        b"/" => Vec::new(),
        path => path.to_vec(),
    }
}

/// The folder of scripts, with the prefix of their URLs.
fn script_folder(mount: &RouteFlag<PathBuf>, runnable: &mut Runnable) -> Result<Folder, Failure> {
    let RouteFlag { place, what: folder } = mount;
    let what = format_args!("run the programs in {}", folder.display()).to_string();
    let path = runnable.real_path(folder).and_then(|path| match path.is_dir() {
        true => Ok(path),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    let path = path.map_err(|error| cannot(format_args!("{what}"), &error))?;
    let RouteMatch::Prefix(prefix) = place else {
        return Err(Failure::Usage(format!("{} is no prefix (see flash serve --help)", Shown(place))));
    };
    let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix).to_vec();
    Ok(Folder { prefix, path })
}

fn settings(flags: &flags::Programs) -> Settings {
    Settings {
        kept_max: KEPT_MAX,
        connect: CONNECT_MAX.min(queue_wait(flags)),
        queue_max: flags.cgi_queue_max,
        queue_wait: queue_wait(flags),
        direct: DirectLimits {
            silence_max: flags.program_deadline,
            fin_max: flags.program_fin_timeout,
            send_max: flags.program_send_timeout,
        },
        monitor: Limits { pending_max: flags.cgi_max + flags.cgi_queue_max, linger: flags.program_deadline },
    }
}

/// Without TLS. If `may_be_unknown`, its name need not have an address yet.
fn server(upstream: &Upstream, may_be_unknown: bool) -> Result<ServerConfig, Failure> {
    let (name, lookup) = match upstream {
        Upstream::Unix(path) => (format!("unix:{}", path.display()), None),
        Upstream::Inet(name) => (name.clone(), name.parse::<SocketAddr>().is_err().then(|| name.clone())),
    };
    let address = match address(upstream) {
        Err(_) if may_be_unknown && lookup.is_some() => Address::Inet(Vec::new()),
        address => address?,
    };
    Ok(ServerConfig { name, address, lookup, tls: None, is_http2: false })
}

fn address(upstream: &Upstream) -> Result<Address, Failure> {
    match upstream {
        // It need not be there yet.
        Upstream::Unix(path) => {
            let address = UnixAddress::new(path)
                .map_err(|error| Failure::Usage(format!("unix:{}: {error}", path.display())))?;
            Ok(Address::Unix(address))
        }
        Upstream::Inet(name) => {
            let failure = |why: &dyn fmt::Display| Failure::Run(format!("cannot look up {name}: {why}"));
            let all: Vec<_> = name.to_socket_addrs().map_err(|error| failure(&error))?.collect();
            if all.is_empty() {
                return Err(failure(&"it has no address"));
            }
            Ok(Address::of_name(all))
        }
    }
}

/// TLS with the server of this name, whose port stands behind it where a host is meant.
fn server_tls(name: &str, authorities: Option<&Vec<u8>>, is_http2: bool) -> Result<ServerTls, Failure> {
    let name = bare_host(name.as_bytes()).map_or(name, |host| name[..host.len()].trim_matches(['[', ']']));
    let protocols: &[&[u8]] = if is_http2 { &[b"h2"] } else { &[] };
    let client = Client::new(name, authorities.map(Vec::as_slice), protocols).map_err(Failure::Run)?;
    let made_of = (name.to_owned(), authorities.cloned().unwrap_or_default());
    Ok(ServerTls { made_of, client: Arc::new(client) })
}

/// Where a program is: a path, or a name that is looked for as a shell would.
fn program(name: &str, runnable: &mut Runnable) -> Result<PathBuf, Failure> {
    let failure = |why: &str| Failure::Run(format!("cannot run {name}: {why}"));
    let may_run = |path: &PathBuf| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & MAY_RUN != 0)
    };
    if name.contains('/') {
        let path = runnable.real_path(&absolute(Path::new(name))).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => failure("there is no such program"),
            _ => failure(&error.to_string()),
        })?;
        return if may_run(&path) { Ok(path) } else { Err(failure("it is no program")) };
    }
    let places = env::var_os("PATH").unwrap_or_else(|| flash_cgi::variables::PATH.into());
    let mut paths =
        env::split_paths(&places).filter(|folder| folder.is_absolute()).map(|folder| folder.join(name));
    paths.find(may_run).ok_or_else(|| failure("there is no such program in PATH"))
}

#[cfg(test)]
mod tests;
