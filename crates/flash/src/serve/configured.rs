//! What a server was configured with: what each process that serves is made of, and what takes its place after a reload.
//!
//! A reload reads everything again that the command line names: the configuration file, the pages for errors, the addresses of
//! FastCGI servers. It checks all of it, then opens what is new, and changes nothing before all of it is right.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use flash_arch::{Arch, Configurator, HelperKind, Listener, Next, Present, ServerParts, SiteOpeners};
use flash_core::cache::PathCache;
use flash_core::record::refusal_log::RefusalLog;
use flash_core::server::Server;
use flash_core::site::configuration_number::ConfigurationNumber;
use flash_core::upstream::Upstreams;
use flash_observe::metrics::MetricsMemory;
use flash_observe::{AccessLogs, ErrorLog, Limits};
use flash_process::ForkHelper;
use flash_upstream::Connector;

use super::certificates::{Certificates, TlsSites, Watch, Wrong};
use super::check::of_certificate;
use super::dir::Dir;
use super::inherited::Inherited;
use super::listeners::Listeners;
use super::logs::Logs;
use super::memory::pressure::{self, MemoryFiles};
use super::named_files::{self, OpenNamed, Secrets};
use super::plan::Plan;
use super::privileges::Privileges;
use super::programs::{DetachedLogs, Programs};
use super::reader::Reader;
use super::response_budgets::ResponseBudgets;
use super::site_plan::OfSites;
use crate::failure::{Failure, cannot};
use crate::flags;
use crate::start_folder::absolute;

pub(super) struct Configured {
    pub(super) plan: Plan,
    pub(super) dir: Dir,
    pub(super) logs: Logs,
    pub(super) listeners: Listeners,
    pub(super) privileges: Privileges,
    pub(super) fork_helper: Option<ForkHelper>,
    pub(super) reader: Reader,
    /// The number of the configuration, in a process that is forked.
    pub(super) number: u64,
    /// The memory of all sites for what programs answer.
    pub(super) budgets: ResponseBudgets,
    /// They tell how much memory is left for the file cache.
    pub(super) memory: Arc<MemoryFiles>,
    /// The access logs of this process, for programs that write to the client themselves.
    pub(super) detached_logs: DetachedLogs,
    pub(super) watch: Watch,
    /// Where all processes count.
    pub(super) metrics_memory: Arc<MetricsMemory>,
    /// What connects in place of a server in its sandbox, until its upstreams have it.
    pub(super) connector: RefCell<Option<Arc<Connector>>>,
    /// What is to take the place of the rest once it serves.
    pub(super) prepared: Option<Prepared>,
}

/// What was read again.
type Again = (Arc<flags::Serve>, Arc<Certificates>, SiteOpeners);

/// What a reload has made.
pub(super) struct Prepared {
    plan: Plan,
    dir: Dir,
    logs: Logs,
    listeners: Listeners,
    access_logs: AccessLogs,
}

impl Configured {
    /// What opens the upstreams of these sites, if they have any.
    fn upstreams(
        &self,
        plan: &Plan,
        before: Option<&Arc<dyn Upstreams>>,
        connector: Option<Arc<Connector>>,
        error_log: &ErrorLog,
    ) -> io::Result<Option<Arc<dyn Upstreams>>> {
        let programs: Vec<_> = plan.sites.programs().collect();
        Programs::start(
            &programs,
            before,
            (self.fork_helper.as_ref(), connector),
            error_log,
            (&self.detached_logs, &self.metrics_memory),
        )
    }

    fn of_sites<'a>(
        &'a self,
        (certificates, listeners): (&'a Arc<Certificates>, &Listeners),
        number: &'a Arc<ConfigurationNumber>,
        upstreams: Option<&'a Arc<dyn Upstreams>>,
    ) -> OfSites<'a> {
        let tls = (certificates, listeners.https_port());
        OfSites { number, budgets: &self.budgets, upstreams, tls, metrics_memory: &self.metrics_memory }
    }

    /// Reads everything again, and checks it. With helper processes another process does, which starts the next helpers.
    fn read_again(&self, open: &OpenNamed<'_>) -> Result<Again, String> {
        let certificates =
            |flags: &flags::Serve| self.plan.certificates.next(flags, &TlsSites::new(flags), open);
        match self.privileges.helper_kind() {
            HelperKind::Processes(processes) => {
                let (of_file, openers) = processes.read_configuration()?;
                let flags: Arc<flags::Serve> = (self.reader.in_place)(&of_file)?.into();
                let why = |wrong: Vec<Wrong>| {
                    wrong.iter().map(|(_, failure)| failure.to_string()).collect::<Vec<_>>().join("\n")
                };
                let certificates = certificates(&flags).map_err(why)?;
                Ok((flags, Arc::new(certificates), openers))
            }
            HelperKind::Threads => {
                let read = RefCell::default();
                let check = |flags: &flags::Serve| match certificates(flags) {
                    Ok(certificates) => {
                        read.replace(certificates);
                        Vec::new()
                    }
                    Err(wrong) => wrong.into_iter().map(of_certificate).collect(),
                };
                let again = self.reader.read(&self.plan.flags, (open, Secrets::Read), &check)?;
                Ok((again.flags.into(), Arc::new(read.into_inner()), SiteOpeners::ThisProcess))
            }
        }
    }

    /// Opens what the configuration names, for one reload.
    fn open_named(&self) -> impl Fn(&Path) -> io::Result<File> + use<> {
        named_files::opened_by(self.logs.privileged_opener())
    }

    fn watch_certificates(&self, plan: &Plan, error_log: &ErrorLog) -> io::Result<()> {
        if plan.certificates.endpoints.is_empty() {
            return Ok(());
        }
        let opener = self.logs.privileged_opener();
        let board = plan.certificates.board.clone();
        self.watch.start((plan.flags.tls_renewal, board), opener, error_log, &self.metrics_memory)
    }

    /// What clients may not like since this reload.
    fn log_remarks(&self, plan: &Plan, error_log: &ErrorLog) {
        let known = &self.plan.certificates.remarks;
        let new = plan.certificates.remarks.iter().filter(|remark| !known.contains(remark));
        new.for_each(|remark| error_log.log(format_args!("{remark}")));
    }
}

impl Configurator for Configured {
    fn parts(&self, number: usize) -> io::Result<ServerParts> {
        let Self { plan, dir, logs, privileges, .. } = self;
        let (limits, helper_kind) = (Limits::default(), privileges.helper_kind());
        let error_log = ErrorLog::start(logs.error(&helper_kind)?, limits)?;
        let error_log = error_log.with_format(plan.flags.error_log_format.into());
        let access_logs = logs.access(&helper_kind, &AccessLogs::default(), &error_log)?;
        logs.close();
        let paths = Arc::new(PathCache::new(plan.cache_limits(number)));
        pressure::start(&self.memory, &paths, plan.parts_of(number), &error_log)?;
        let disk = match privileges.take_disk() {
            Some(disk) => disk,
            None => {
                let mut disk = plan.disk(number, dir, dir.open()?, paths.file_bytes_max())?;
                // Whoever began the server has heard of a failure.
                if let Ok(Some(spool)) = plan.spool() {
                    disk.keep_bodies_in(spool);
                }
                if let Ok(Some(digests)) = plan.digest_store() {
                    disk.keep_digests_in(digests);
                }
                disk
            }
        };
        // Here, because a fork does not inherit it. It can be done without.
        let _ = flash_os::preload::mlock_program();
        self.detached_logs.set(access_logs.clone());
        let programs = self.upstreams(plan, None, self.connector.take(), &error_log)?;
        let openers = helper_kind.first_openers();
        let next =
            disk.prepare_sites(plan.sites.folders_on_disk(dir.path()), |site| openers.of_site(site))?;
        let configuration = Arc::new(ConfigurationNumber::new(self.number));
        let hosts = plan.sites.hosts(
            &next,
            &self.of_sites((&plan.certificates, &self.listeners), &configuration, programs.as_ref()),
        );
        disk.replace_sites(next);
        let server = Server {
            number: configuration,
            settings: plan.settings(),
            hosts,
            paths,
            refusals: {
                let (error_log, memory) = (error_log.clone(), Arc::clone(&self.metrics_memory));
                // 0 stands for all that are not counted apart.
                let name = move |site: u32| memory.names.name(site).filter(|_| site > 0);
                RefusalLog::new(move |refused| {
                    error_log.refused(refused, refused.site.and_then(&name).as_deref());
                })
                .into()
            },
        };
        let verbose = plan.flags.verbose;
        let tls = Arc::clone(&self.watch.endpoints);
        tls.replace(&*plan.certificates.endpoints);
        self.watch_certificates(plan, &error_log)?;
        self.watch.tell(&self.metrics_memory);
        Ok(ServerParts {
            server,
            disk,
            access_logs,
            error_log,
            helper_kind,
            programs,
            sleep_recorder: privileges.sleep_recorder(),
            tls,
            metrics_memory: Arc::clone(&self.metrics_memory),
            verbose,
        })
    }

    fn prepare(&mut self, present: &Present<'_>) -> Result<Next, String> {
        self.prepared = None;
        let open = self.open_named();
        let again = self.read_again(&open)?;
        let (next, prepared) =
            self.prepare_with(again, &open, present).map_err(|failure| failure.to_string())?;
        self.prepared = Some(prepared);
        Ok(next)
    }

    fn check(&self, file: &Path) -> Result<(), String> {
        let is_own = self.plan.flags.config.as_deref().map(absolute).is_some_and(|own| own == file);
        if is_own { self.read_again(&self.open_named()).map(drop) } else { Ok(()) }
    }

    fn rehearse(&self) -> Result<(), String> {
        let Prepared { plan, dir, .. } = self.prepare_for_processes()?;
        let opened = dir.open().and_then(|root| plan.disk(0, &dir, root, 0));
        let cannot = |error| cannot(format_args!("serve {}", dir.path().display()), &error).to_string();
        opened.map(drop).map_err(cannot)
    }

    fn replace(&mut self) -> Result<(Vec<Arc<Listener>>, flash_arch::Limits), String> {
        self.prepared = Some(self.prepare_for_processes()?);
        self.replaced();
        self.number += 1;
        Ok((self.listeners.all(), self.plan.limits()))
    }

    fn log(&self, lines: &str) {
        let log =
            self.logs.error(&HelperKind::Threads).and_then(|sink| ErrorLog::start(sink, Limits::default()));
        if let Ok(log) = log.map(|log| log.with_format(self.plan.flags.error_log_format.into())) {
            lines.lines().filter(|line| !line.is_empty()).for_each(|line| log.log(format_args!("{line}")));
            log.close();
        }
    }

    fn replaced(&mut self) {
        if let Some(Prepared { plan, dir, logs, listeners, access_logs }) = self.prepared.take() {
            self.detached_logs.set(access_logs);
            listeners.speak();
            if let Some(board) = &plan.certificates.board {
                // There is room, as was seen before.
                let _ = board.want(&plan.certificates.wanted());
            }
            (self.plan, self.dir, self.logs, self.listeners) = (plan, dir, logs, listeners);
            // The parent of mp keeps them for its workers.
            if !matches!(self.plan.arch, Arch::Mp { .. }) {
                self.logs.close();
            }
        }
    }
}

impl Configured {
    /// What the parent of mp replaces. Its processes open the rest themselves.
    fn prepare_for_processes(&self) -> Result<Prepared, String> {
        let open = self.open_named();
        let (flags, certificates, _) = self.read_again(&open)?;
        let prepare = || -> Result<_, Failure> {
            let dir = self.dir.again(&flags.dir, self.privileges.is_in_sandbox())?;
            let used = self.plan.access_logs();
            self.plan.log_numbers.keep(|number| used.contains(&number));
            let named = (&open as &OpenNamed<'_>, Secrets::Read);
            let plan = self.plan.next((flags, certificates), &dir, named, self.privileges.is_in_sandbox())?;
            let listeners = Listeners::open(&plan.flags, &self.listeners, &mut Inherited::default())?;
            let (logs, _) = self.logs.next(&plan, &HelperKind::Threads)?;
            Ok(Prepared { plan, dir, logs, listeners, access_logs: AccessLogs::default() })
        };
        prepare().map_err(|failure| failure.to_string())
    }

    fn prepare_with(
        &self,
        (flags, certificates, openers): Again,
        open: &OpenNamed<'_>,
        present: &Present<'_>,
    ) -> Result<(Next, Prepared), Failure> {
        let dir = self.dir.again(&flags.dir, self.privileges.is_in_sandbox())?;
        self.plan.log_numbers.keep(|number| present.access_logs.get(number).is_some());
        let named = (open, Secrets::Read);
        let plan = self.plan.next((flags, certificates), &dir, named, self.privileges.is_in_sandbox())?;
        let listeners = Listeners::open(&plan.flags, &self.listeners, &mut Inherited::default())?;
        let helper_kind = present.helper_kind;
        let (logs, error_sink) = self.logs.next(&plan, helper_kind)?;
        let failed = |what: &str, error: &io::Error| Failure::Run(format!("cannot {what}: {error}"));
        let mut access_logs = logs
            .access(helper_kind, present.access_logs, present.error_log)
            .map_err(|error| failed("start an access log", &error))?;
        access_logs.keep(present.access_logs);
        let connector = self
            .privileges
            .connector(plan.sites.are_connected_to(), &openers)
            .map_err(|error| failed("start the connector", &error))?;
        let upstreams = match self.plan.sites.have_programs_of(&plan.sites) && connector.is_none() {
            true => present.upstreams.cloned(),
            false => self
                .upstreams(&plan, present.upstreams, connector, present.error_log)
                .map_err(|error| failed("start what opens upstreams", &error))?,
        };
        let sites = present
            .disk
            .prepare_sites(plan.sites.folders_on_disk(dir.path()), |site| openers.of_site(site))
            .map_err(|error| cannot(format_args!("serve {}", dir.path().display()), &error))?;
        let number = Arc::new(ConfigurationNumber::new(present.server.number.number + 1));
        let hosts = plan
            .sites
            .hosts(&sites, &self.of_sites((&plan.certificates, &listeners), &number, upstreams.as_ref()));
        let server = Server {
            number,
            settings: plan.settings(),
            hosts,
            paths: Arc::clone(&present.server.paths),
            refusals: Arc::clone(&present.server.refusals),
        };
        let next = Next {
            server,
            sites,
            access_logs: access_logs.clone(),
            error_sink,
            limits: plan.limits(),
            helpers_max: plan.helpers_max(),
            listeners: listeners.all(),
            upstreams,
            endpoints: Arc::clone(&plan.certificates.endpoints),
        };
        self.watch_certificates(&plan, present.error_log)
            .map_err(|error| failed("start a thread that reads certificates again", &error))?;
        self.log_remarks(&plan, present.error_log);
        Ok((next, Prepared { plan, dir, logs, listeners, access_logs }))
    }
}
