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
    "admin" = flags.administration.admin,
    "admin-listen" = flags.administration.admin_listen,
    "admin-hosts" = flags.administration.admin_hosts,
    "arch" = flags.arch,
    "loops" = flags.loops,
    "threads" = flags.threads,
    "threads-max" = flags.threads_max,
    "processes" = flags.processes,
    "processes-max" = flags.processes_max,
    "helpers" = flags.helpers,
    "helper-queue-max" = flags.helper_queue_max,
    "user" = flags.user,
    "sandbox" = flags.sandbox,
    "core-dumps" = flags.core_dumps,
    "disk-deadline" = flags.disk_deadline,
    "revalidate" = flags.revalidate,
    "path-cache" = flags.path_cache,
    "file-cache-bytes" = flags.file_cache_bytes,
    "digest-store" = flags.digest_store,
    "zero-copy" = flags.zero_copy,
    "verbose" = flags.verbose,
    "error-log-format" = flags.error_log_format,
    "connections-per-client" = flags.connections_per_client,
    "tls-renewal" = flags.tls_renewal,
    // The process that asks the authority keeps what it began with.
    "acme-directory" = flags.acme.acme_directory,
    "acme-ca" = flags.acme.acme_ca,
    "acme-email" = flags.acme.acme_email,
    "acme-profile" = flags.acme.acme_profile,
    "acme-folder" = flags.acme.acme_folder,
    "acme-key" = flags.acme.acme_key,
    "acme-dns" = flags.acme.acme_dns,
    "acme-account" = flags.acme.acme_account,
    "program-buffer-bytes" = flags.programs.program_buffer_bytes,
    "program-spool-bytes" = flags.programs.program_spool_bytes,
    "file-cache" = flags.experiments,
    // What the fork helper may run is fixed at its start.
    "cgi" = flags.programs.cgi,
    "cgi-direct" = flags.programs.cgi_direct,
    "app" = flags.programs.app,
    "cgi-max" = flags.programs.cgi_max,
    "cgi-queue-max" = flags.programs.cgi_queue_max,
    "cgi-memory" = flags.programs.cgi_memory,
    "cgi-user" = flags.programs.cgi_user,
    "cgi-cpu" = flags.programs.cgi_cpu,
    "program-nice" = flags.programs.program_nice,
    "app-max" = flags.programs.app_max,
    "app-requests-max" = flags.programs.app_requests_max,
    "app-idle" = flags.programs.app_idle,
    "program-deadline" = flags.programs.program_deadline,
    "program-send-timeout" = flags.programs.program_send_timeout,
    "program-fin-timeout" = flags.programs.program_fin_timeout,
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
        // An upgrade keeps the user of the start.
        let by = |key: &str| if key == "user" { "a restart" } else { "`flash upgrade` or a restart" };
        let why = move |key: &str| Failure::Run(format!("only {} changes `{key}`{when}", by(key)));
        settings.map(move |((key, _), _)| Fault { key, site: None, failure: why(key) }).collect::<Vec<_>>()
    };
    let mut all = changed(of_server, "");
    if in_sandbox {
        all.extend(changed(of_sandbox, " in the sandbox"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::flags::Command;

    fn flags(text: &str) -> Box<Serve> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("flash.toml");
        std::fs::write(&path, text).expect("the file is written");
        let words = ["flash".into(), "serve".into(), "--config".into(), path.into()];
        match config::read(words).expect("it is right").command {
            Some(Command::Serve(flags)) => flags,
            other => panic!("{other:?}"),
        }
    }

    fn keys(present: &str, next: &str) -> Vec<&'static str> {
        changed(&flags(present), &flags(next)).into_iter().map(|fault| fault.key).collect()
    }

    #[test]
    fn certificates_need_no_restart() {
        let tls = "root = '/'\ntls = true\n";
        for next in
            ["root = '/'\n", "root = '/'\ntls = true\nhttp2 = 'off'\n", "[site.'a.example']\nroot = '/'\n"]
        {
            assert_eq!(keys(tls, next), [""; 0], "{next}");
        }
    }
}
