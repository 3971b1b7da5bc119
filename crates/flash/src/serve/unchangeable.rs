//! The settings that hold from the start of a server to its end, because processes, threads and caches were made with them.

use super::privileges;
use super::site_plan::Fault;
use crate::failure::Failure;
use crate::flags::{Helpers, Sandbox, Serve};

/// Keys with their values, as text.
type Settings = Vec<(&'static str, String)>;

macro_rules! settings {
    ($(#[$doc:meta])* $of:ident $flags:ident: $($key:literal = $value:expr,)*) => {
        $(#[$doc])*
        fn $of($flags: &Serve) -> Settings {
            vec![$(($key, format!("{:?}", $value)),)*]
        }
    };
}

settings! {
    /// What no server changes.
    of_server flags:
    "admin" = flags.admin,
    "arch" = flags.arch,
    "loops" = flags.loops,
    "threads" = flags.threads,
    "threads-max" = flags.threads_max,
    "processes" = flags.processes,
    "processes-max" = flags.processes_max,
    "helpers" = flags.helpers,
    "helpers-max" = flags.helpers_max,
    "helper-queue-max" = flags.helper_queue_max,
    "user" = flags.user,
    "sandbox" = flags.sandbox,
    "disk-deadline" = flags.disk_deadline,
    "revalidate" = flags.revalidate,
    "path-cache" = flags.path_cache,
    "file-cache-bytes" = flags.file_cache_bytes,
    "zero-copy" = flags.zero_copy,
    "verbose" = flags.verbose,
    "connections-per-client" = flags.connections_per_client,
    "tls" = flags.tls.tls,
    "tls-certificate" = flags.tls.tls_certificate,
    "tls-key" = flags.tls.tls_key,
    "program-buffer-bytes" = flags.programs.program_buffer_bytes,
    "file-cache" = flags.experiments,
    // What the fork helper may run is fixed at its start.
    "cgi" = flags.programs.cgi,
    "cgi-direct" = flags.programs.cgi_direct,
    "app" = flags.programs.app,
    "cgi-max" = flags.programs.cgi_max,
    "cgi-queue-max" = flags.programs.cgi_queue_max,
    "cgi-memory" = flags.programs.cgi_memory,
    "cgi-cpu" = flags.programs.cgi_cpu,
    "program-nice" = flags.programs.program_nice,
    "app-max" = flags.programs.app_max,
    "app-requests-max" = flags.programs.app_requests_max,
    "app-idle" = flags.programs.app_idle,
    "program-deadline" = flags.programs.program_deadline,
}

settings! {
    /// What helper processes have from their start.
    of_helper_processes flags:
    "root" = flags.dir,
    "index" = flags.index,
    "follow-links" = flags.follow_links,
    "user-dirs" = flags.user_dirs,
    "deny" = flags.deny,
    "dotfiles" = flags.dotfiles,
    "header" = flags.header,
    "cache-control" = flags.cache_control,
    "no-precompressed" = flags.no_precompressed,
    "no-programs" = flags.programs.no_programs,
    "serve-backups" = flags.programs.serve_backups,
    "fastcgi" = flags.programs.fastcgi,
}

settings! {
    /// What a server in its sandbox may not open.
    of_sandbox flags:
    "listen" = flags.listen,
    "access-log" = flags.access_log,
    "error-log" = flags.error_log,
    "error-pages" = flags.error_pages,
}

/// Each setting that a reload would have to change and cannot.
pub(super) fn changed(present: &Serve, next: &Serve) -> Vec<Fault> {
    let has_processes = present.helpers == Helpers::Process;
    let in_sandbox = has_processes && privileges::sandbox(present) != Sandbox::Off;
    let changed = |of: fn(&Serve) -> Settings, when: &'static str| {
        let settings = of(present).into_iter().zip(of(next)).filter(|(present, next)| present != next);
        let why = move |key: &str| Failure::Run(format!("only a restart changes `{key}`{when}"));
        settings.map(move |((key, _), _)| Fault { key, site: None, failure: why(key) }).collect::<Vec<_>>()
    };
    let mut all = changed(of_server, "");
    if has_processes {
        all.extend(changed(of_helper_processes, " with helper processes"));
    }
    if in_sandbox {
        all.extend(changed(of_sandbox, " in the sandbox"));
    }
    if certificates_of(present) != certificates_of(next) {
        let failure = Failure::Run(
            "only a restart changes which sites there are, and their certificates, if a site has one".into(),
        );
        all.push(Fault { key: "site", site: None, failure });
    }
    all
}

/// The hosts of all sites with their certificates, if there are any certificates.
fn certificates_of(flags: &Serve) -> Option<String> {
    let has_any = |of: &Serve| of.tls.tls || !of.tls.tls_certificate.is_empty();
    let of_sites = flags.sites.iter().map(|site| (&site.hosts, &site.own.flags.tls));
    let has_any = has_any(flags) || flags.sites.iter().any(|site| has_any(&site.own.flags));
    has_any.then(|| {
        format!(
            "{:?}",
            of_sites.map(|(hosts, tls)| (hosts, &tls.tls_certificate, &tls.tls_key)).collect::<Vec<_>>()
        )
    })
}
