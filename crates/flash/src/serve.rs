//! `flash serve`: flags become a site, listeners and an architecture.

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use flash_arch::{SiteOpeners, Startup};
use flash_core::cache::PathCache;
use flash_core::clients::Clients;
use flash_core::record::refusal_log::RefusalLog;
use flash_core::server::{Server, Settings};
use flash_http::Scheme;
use flash_observe::metrics::MetricsMemory;
use flash_os::{allocator, system_calls};
use flash_process::{Child, Predecessor, ServiceManager, SupervisorProcess, Upgrader, child};

use crate::failure::{Failure, cannot};
use crate::flags::{self, Listen};
use crate::serve::acme_process::AcmeProcess;
use crate::serve::certificates::{TlsSites, Watch};
use crate::serve::configured::Configured;
use crate::serve::dir::Dir;
use crate::serve::inherited::{Inherited, Legacy};
use crate::serve::listeners::Listeners;
use crate::serve::logs::Logs;
use crate::serve::memory::pressure::MemoryFiles;
use crate::serve::named_files::Secrets;
use crate::serve::plan::Plan;
use crate::serve::privileges::Privileges;
use crate::serve::programs::{DetachedLogs, Programs};
use crate::serve::ready::Ready;
use crate::serve::response_budgets::ResponseBudgets;
use crate::serve::shape::Shape;
use crate::serve::site_plan::OfSites;
use crate::serve::supervisor::HelperSites;
use crate::start_folder::start_folder;

mod access;
mod acme;
mod acme_process;
mod admin;
mod browser;
mod certificate_numbers;
mod certificates;
mod cgi_user;
mod check;
mod configured;
mod denied;
mod descriptors;
mod dir;
mod environment;
mod fallback;
mod folders;
mod inherited;
mod links;
mod listeners;
mod lists;
mod log_numbers;
mod logs;
mod memory;
mod named_files;
mod no_effect;
mod plan;
mod privileged;
mod privileges;
mod program_name;
mod programs;
mod reach;
mod reachable;
mod reader;
mod ready;
mod rehearsal;
mod response_budgets;
mod response_extras;
mod shape;
mod shares;
mod site_plan;
mod sleeps;
mod supervisor;
mod unchangeable;
mod unsupported;

/// More descriptors than most ever use: room for them is made at the start.
const DESCRIPTORS_READY: usize = 128 << 10;

pub(crate) use acme_process::wanted as wanted_certificates;
pub(crate) use admin::make_folder;
pub(crate) use certificates::OF_LISTENERS;
pub(crate) use check::{Findings, check};
pub(crate) use descriptors::raise_limit;
pub(crate) use links::links_at;
pub(crate) use privileges::{as_user_first, become_user, user_of};
pub(crate) use reader::{Again, Check, Reader};
pub(crate) use rehearsal::{Answer, Found, Rehearsal};
pub(crate) use site_plan::Fault;

/// The helpers of a device if no flag says otherwise.
pub(crate) fn usual_helpers() -> usize {
    shares::helpers_max(memory::available_bytes(Path::new("/")))
}

pub(crate) fn run(flags: Box<flags::Serve>, reader: Reader) -> Result<(), Failure> {
    let _ = privileges::protect_memory(&flags);
    // Files in the folder of the start may be another user's, and some of what is started here has the rights of the start.
    start_folder();
    rustix::process::chdir("/").map_err(|error| cannot(format_args!("work in /"), &error.into()))?;
    // Before anything else is opened.
    let (inherited, predecessor, legacy) = Inherited::take()?;
    let predecessor = predecessor.map(Rc::new);
    let served = serve(flags, reader, inherited, predecessor.clone(), legacy);
    if let (Some(predecessor), Err(failure)) = (predecessor, &served) {
        predecessor.failed(failure);
    }
    served
}

/// In the place of the predecessor, if there is one.
#[expect(
    clippy::too_many_lines,
    reason = "one order: what needs the rights of the start comes before they are given up"
)]
fn serve(
    flags: Box<flags::Serve>,
    reader: Reader,
    mut inherited: Inherited,
    predecessor: Option<Rc<Predecessor>>,
    legacy: Legacy,
) -> Result<(), Failure> {
    let flags: Arc<flags::Serve> = flags.into();
    // The memory of the command line's parser would stay with this thread, which allocates little from now on.
    allocator::collect();
    logs::begin(&flags);
    check_flags(&flags)?;
    let dir = Dir::new(&flags.dir)
        .map_err(|error| cannot(format_args!("serve {}", flags.dir.display()), &error))?;
    let mut plan = Plan::new(flags, &dir, Secrets::Left)?;
    let (tls_sites, wanted) = (TlsSites::new(&plan.flags), certificates::wanted(&plan.flags)?);
    let of_rules: Vec<String> = check::warnings(&plan.flags).map(|fault| fault.failure.to_string()).collect();
    plan.forget_sites();
    allocator::collect();
    let flags = Arc::clone(&plan.flags);
    // What is wrong with the folders shall be said before anybody listens.
    let file_bytes_max = PathCache::new(plan.cache_limits(0)).file_bytes_max();
    dir.open()
        .and_then(|root| plan.disk(0, &dir, root, file_bytes_max))
        .map_err(|error| cannot(format_args!("serve {}", flags.dir.display()), &error))?;
    let upgrader = Upgrader::start(&environment::of_next_server(&flags))
        .map_err(|error| cannot(format_args!("start the upgrader"), &error))?;
    let sockets = supervisor::socket_names(&flags, &inherited);
    let setup = plan.sites.runnable.setup(&flags.programs);
    let helper_sites = HelperSites {
        plan: &plan,
        dir: &dir,
        reader,
        sockets: &sockets,
        memory_file_bytes_max: file_bytes_max,
    };
    // Before any process is forked that counts there.
    let metrics_memory = plan.arch.metrics_memory().map(Arc::new);
    let metrics_memory = metrics_memory.map_err(|error| cannot(format_args!("serve"), &error))?;
    let (acme, until_replaced) = acme_process::process(&wanted, &flags, &metrics_memory)?.unzip();
    let board = acme.as_ref().map(AcmeProcess::board);
    let supervisor::Started { process: supervisor, of_programs, fork_helper } =
        supervisor::start(&helper_sites, setup.as_ref(), acme)?;
    let privileged_opener = privileged::start(&plan, reader, &sockets)?;
    let sleep_recorder = sleeps::recorder(flags.arch, !privileges::are_given_up(&flags));
    // After the processes that must not have them, and before this one gives its rights up.
    plan.read_secrets(&tls_sites, board)?;
    let listeners = Listeners::open(&flags, &Listeners::default(), &mut inherited)?;
    listeners.speak();
    let places = listeners.shown();
    let admin = admin::open(&flags, &mut inherited, upgrader.socket())?;
    inherited.check_all_taken()?;
    let logs = Logs::open(&plan)?;
    let logs = logs.opened_again_by(privileged_opener);
    let manager = ServiceManager::of_environment().unwrap_or_else(|error| {
        child::log(format_args!("cannot reach the service manager (NOTIFY_SOCKET): {error}"));
        ServiceManager::default()
    });
    // It is there after an upgrade.
    if flags.open && predecessor.is_none() {
        browser::open(&listeners.all());
    }
    let open = |root| plan.disk(0, &dir, root, file_bytes_max);
    let (spool, digests) = (|| plan.spool(), || plan.digest_store());
    let site = privileges::Site { dir: &dir, open: &open, spool: &spool, digests: &digests };
    let memory = Arc::new(MemoryFiles::open(Path::new("/")));
    // Refused or not, the server serves. In a sandbox they would be refused.
    let _ = flash_os::preload::disable_huge_pages();
    let _ = flash_os::preload::grow_descriptor_table(plan.table.limit.min(DESCRIPTORS_READY));
    let privileges = Privileges::give_up(&flags, &site, supervisor.as_ref(), sleep_recorder)?;
    let connector = privileges
        .connector(plan.sites.are_connected_to(), &privileges.helper_kind().first_openers())
        .map_err(|error| cannot(format_args!("start the connector"), &error))?;
    let (arch, limits) = (plan.arch, plan.limits());
    let ready = Ready {
        predecessor,
        manager: manager.clone(),
        line: {
            let folder = match plan.sites.len() {
                1 => plan.sites.proxied().unwrap_or_else(|| dir.real_path.display().to_string()),
                count => format!("{count} sites"),
            };
            format!("serving {folder} at {places} ({}{privileges}{})", Shape(arch), plan.caches())
        },
        certificates: Arc::clone(&plan.certificates),
        warnings: [plan.table.warning(), plan.table.folders_warning(), dir.warning()]
            .into_iter()
            .flatten()
            .chain(plan.flags.verbose.then(missing_calls).into_iter().flatten())
            .chain(of_rules)
            .chain(privileges.unenforced())
            .collect(),
        programs: plan.sites.shared_programs(),
        connector: connector.clone(),
    };
    let clients = plan.clients.clone();
    let needed = supervisor.iter().map(|supervisor| supervisor.child());
    let needed: Vec<Child> = needed.chain(of_programs.iter().map(SupervisorProcess::child)).collect();
    let (privileged_opener, helper_kind) = (logs.privileged_opener(), privileges.helper_kind());
    let admin_name = admin.socket.as_ref().and_then(|admin| admin.own_name().map(Path::to_owned));
    let budgets =
        ResponseBudgets::new(plan.shares.program_buffer_bytes, plan.flags.programs.program_spool_bytes);
    let sockets = listeners.all();
    let configurator = Configured {
        plan,
        dir,
        logs,
        listeners,
        privileges,
        fork_helper,
        reader,
        number: 1,
        budgets,
        memory,
        detached_logs: DetachedLogs::default(),
        watch: Watch::default(),
        metrics_memory: Arc::clone(&metrics_memory),
        connector: connector.into(),
        prepared: None,
    };
    let startup = Startup {
        limits,
        clients,
        listeners: sockets,
        needed: &needed,
        configurator: Box::new(configurator),
        admin,
        manager,
        metrics_memory,
        upgrader: Some(upgrader),
        hot_paths: legacy.hot_paths,
        earlier_servers: legacy.earlier_servers,
        until_replaced,
        ready: Box::new(|log| ready.tell(log)),
    };
    let served = flash_arch::serve(arch, startup);
    if let Some(name) = admin_name {
        // In a sandbox only another process may.
        let _ = flash_trust::remove_abandoned(&name);
        helper_kind.tidy_up();
    }
    if let Some(privileged_opener) = privileged_opener {
        privileged_opener.tidy_up();
    }
    served.map_err(|error| match error.raw_os_error() {
        Some(_) => cannot(format_args!("serve"), &error),
        None => Failure::Run(error.to_string()),
    })
}

fn check_flags(flags: &flags::Serve) -> Result<(), Failure> {
    if let Some(fault) = unsupported::check(flags).next() {
        return Err(fault.failure);
    }
    privileges::check(flags)?;
    privileges::check_user(flags)?;
    certificates::check_listeners(flags).map_err(|(_, failure)| failure)?;
    listeners::check(flags)?;
    shares::check_counts(flags)
}

/// A server that answers in this thread alone, for explanations.
pub(crate) fn rehearse(flags: &Arc<flags::Serve>) -> Result<Rehearsal, Failure> {
    shares::check_counts(flags)?;
    let failed = |error: io::Error| cannot(format_args!("serve {}", flags.dir.display()), &error);
    let dir = Dir::new(&flags.dir).map_err(failed)?;
    let plan = Plan::new(Arc::clone(flags), &dir, Secrets::Read)?;
    // Files are found with the rights that a server has then.
    if rustix::process::geteuid().is_root() {
        flags.user.as_deref().map_or(Ok(()), become_user)?;
    }
    // A file that is open can say where it lies, so no content is copied.
    let disk = dir.open().and_then(|root| plan.disk(0, &dir, root, 0)).map_err(failed)?;
    let openers = SiteOpeners::ThisProcess;
    let next = disk
        .prepare_sites(plan.sites.folders_on_disk(dir.path()), |site| openers.of_site(site))
        .map_err(failed)?;
    let (number, budgets) = (Arc::default(), ResponseBudgets::nothing());
    let tls = (&plan.certificates, https_port(flags));
    let metrics_memory = Arc::new(MetricsMemory::for_loops(0).map_err(failed)?);
    let hosts = plan.sites.hosts(
        &next,
        &OfSites {
            number: &number,
            budgets: &budgets,
            upstreams: None,
            tls,
            metrics_memory: &metrics_memory,
        },
    );
    disk.replace_sites(next);
    let server = Server {
        number,
        // Each request is its client's first.
        settings: Settings { clients: Clients::unlimited(), access_log: None, ..plan.settings() },
        hosts,
        paths: PathCache::new(plan.cache_limits(0)).into(),
        refusals: RefusalLog::default().into(),
    };
    Ok(Rehearsal::new(server, disk, plan.sites.programs().flat_map(Programs::shown).collect()))
}

/// The port to which requests without TLS would be redirected.
fn https_port(flags: &flags::Serve) -> Option<u16> {
    let https = flags.listen.iter().filter(|listen| listen.scheme() == Scheme::Https);
    https.filter_map(Listen::port).next()
}

/// A line for each system call that this kernel, or its container, does not have.
fn missing_calls() -> impl Iterator<Item = String> {
    system_calls::missing().map(|row| format!("{} is missing: {}", row.name, row.instead))
}
