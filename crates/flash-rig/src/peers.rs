//! How the peers are told what to do: their configurations (`peers/*.conf`) filled in, and their command lines. Each is
//! set up the way its best users would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use flash_system::find_module;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::dynamic::PHP_PROCESSES;
use crate::helper::{USER, helper_socket};
use crate::setup::{CGI_FOLDER, Setup};
use crate::variants::{Program, Variant};

/// Descriptors for what is not a connection: files that nginx keeps open, and a few more.
const OTHER_DESCRIPTORS: usize = 12_288;
const FEW_DESCRIPTORS: usize = 256;

/// Writes the configuration, and lets the command line point to it.
pub(crate) fn configure(command: &mut Command, variant: &Variant, setup: &Setup, port: u16) -> Result<()> {
    let (template, flags): (_, &[&str]) = match variant.program {
        Program::Nginx => (include_str!("../peers/nginx.conf"), &["-c"]),
        Program::H2o => (include_str!("../peers/h2o.conf"), &["-c"]),
        Program::Lighttpd => (include_str!("../peers/lighttpd.conf"), &["-D", "-f"]),
        Program::Apache => (include_str!("../peers/apache.conf"), &["-DFOREGROUND", "-f"]),
        Program::Caddy => {
            // It keeps its state at home even when told to keep none.
            command.env("GOMAXPROCS", setup.loops.to_string()).env("HOME", setup.work);
            (include_str!("../peers/caddy.conf"), &["run", "--adapter", "caddyfile", "--config"])
        }
        Program::Haproxy => (include_str!("../peers/haproxy.conf"), &["-db", "-f"]),
        Program::Flash | Program::Floor => return Ok(()),
    };
    let file = setup.work.join(format!("{}-{port}.conf", variant.name));
    fs::write(&file, fill(template, variant, setup, port)?)
        .with_context(|| format!("writing {}", file.display()))?;
    command.args(flags).arg(file);
    Ok(())
}

fn fill(template: &str, variant: &Variant, setup: &Setup, port: u16) -> Result<String> {
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
    };
    let (loops, descriptors) = (setup.loops, descriptors(setup.connections_max));
    let connections = match variant.program {
        // It closes idle ones as soon as only a sixteenth is free, and counts its listener among them.
        Program::Nginx => setup.connections_max + setup.connections_max / 8,
        // Each needs one to a server, too.
        Program::Haproxy => setup.connections_max.min(descriptors as usize / 2 - FEW_DESCRIPTORS),
        _ => setup.connections_max,
    };
    let threads = setup.threads.unwrap_or(variant.threads);
    let workers = match variant.program {
        // One process without a watchman above it.
        Program::Lighttpd if loops == 1 => 0,
        Program::Lighttpd => loops,
        _ if variant.name == "apache-prefork" => threads,
        _ => loops * threads,
    };
    let php = setup.dynamic.and_then(|dynamic| dynamic.php);
    // One that is missing was found out before.
    let module = variant
        .module
        .map(|(name, source)| find_module(name, source).unwrap_or_else(|missing| missing.program.into()));
    let ours = [
        ("@MODULE@", text(&module.clone().unwrap_or_default())?),
        ("@HELPER@", text(&helper_socket(setup.work, port))?),
        ("@ROOT@", text(setup.root)?),
        ("@WORK@", text(setup.work)?),
        ("@PORT@", port.to_string()),
        // Workers give up the superuser's rights, as they would at home.
        ("@USER@", USER.to_owned()),
        ("@GROUP@", "nogroup".to_owned()),
        ("@MODULES@", text(&PathBuf::from("/usr/lib/apache2/modules"))?),
        ("@LOOPS@", loops.to_string()),
        ("@THREADS@", threads.to_string()),
        ("@WORKERS@", workers.to_string()),
        // Only threads that are idle at the moment count, so half of them must be enough.
        ("@ASYNC@", (2 * connections.div_ceil(workers.max(1))).to_string()),
        ("@CONNECTIONS@", connections.to_string()),
        ("@DESCRIPTORS@", descriptors.to_string()),
        ("@CGI@", text(&setup.root.join(CGI_FOLDER))?),
        ("@PHP@", text(php.unwrap_or(Path::new("")))?),
        ("@PHP-PROCESSES@", PHP_PROCESSES.to_string()),
        ("@PHP-CONNECTIONS@", PHP_PROCESSES.div_ceil(2 * loops).to_string()),
        ("@CERTIFICATE@", text(setup.tls.map_or(Path::new(""), |tls| tls.certificate))?),
        ("@KEY@", text(setup.tls.map_or(Path::new(""), |tls| tls.key))?),
        ("@SERVERS@", servers(setup.back_ends)),
        ("@REUSE-PORT@", if loops > 1 { " reuseport" } else { "" }.to_owned()),
    ];
    // Lines about programs and TLS are for those who have some.
    let lines = template.lines().filter_map(|line| match line.trim_start().split_once("@ ") {
        Some(("@WITH-CGI", rest)) => setup.dynamic.map(|_| rest),
        Some(("@WITH-PHP", rest)) => php.map(|_| rest),
        Some(("@WITH-HELPER", rest)) => module.as_ref().map(|_| rest),
        Some(("@WITH-TLS", rest)) => setup.tls.map(|_| rest),
        Some(("@WITHOUT-TLS", rest)) => setup.tls.is_none().then_some(rest),
        _ => Some(line),
    });
    let mut filled: String = lines.flat_map(|line| [line, "\n"]).collect();
    for (key, value) in variant.words {
        filled = filled.replace(key, value);
    }
    for (key, value) in ours {
        filled = filled.replace(key, &value);
    }
    Ok(filled)
}

/// Lines for the servers behind a balancer.
fn servers(ports: &[u16]) -> String {
    let lines = ports.iter().map(|port| format!("    server flash-{port} 127.0.0.1:{port}\n"));
    lines.collect()
}

/// As many as the connections and the files need, or as there may be.
fn descriptors(connections: usize) -> u64 {
    let wanted = (connections + OTHER_DESCRIPTORS) as u64;
    getrlimit(Resource::Nofile).maximum.map_or(wanted, |maximum| wanted.min(maximum))
}

/// Raises this process's limit of open files, which servers and clients inherit, so that so many connections fit.
/// To be called before servers are started.
///
/// # Errors
/// When that is more than this user may have.
pub fn raise_descriptors(connections: usize) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = (connections + OTHER_DESCRIPTORS) as u64;
    if limit.current.is_none_or(|now| now >= wanted) {
        return Ok(());
    }
    let beyond = Rlimit { current: Some(wanted), maximum: limit.maximum.map(|maximum| maximum.max(wanted)) };
    if setrlimit(Resource::Nofile, beyond).is_ok() {
        return Ok(());
    }
    // Not everybody may go beyond the limit's own limit. Fewer files at once will do, if connections fit.
    let maximum = limit.maximum.unwrap_or(wanted);
    if maximum < (connections + FEW_DESCRIPTORS) as u64 {
        bail!(
            "{connections} connections need more than the {maximum} open files that this user may have (ulimit -Hn)"
        );
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(maximum), maximum: limit.maximum })
        .context("raising the limit of open files")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus::Cpus;
    use crate::setup::{Dynamic, TlsFiles};
    use crate::variants::VARIANTS;

    #[test]
    fn no_template_keeps_a_gap() {
        let cpus = Cpus { server: vec![0], client: vec![1] };
        let setup = Setup::new("/the/site".as_ref(), "/the/work".as_ref(), &cpus);
        let dynamic = Some(Dynamic { php: Some("/the/php".as_ref()) });
        let with_programs = Setup { dynamic, ..setup.clone() };
        let templates = [
            (Program::Nginx, include_str!("../peers/nginx.conf")),
            (Program::Apache, include_str!("../peers/apache.conf")),
            (Program::H2o, include_str!("../peers/h2o.conf")),
            (Program::Lighttpd, include_str!("../peers/lighttpd.conf")),
            (Program::Caddy, include_str!("../peers/caddy.conf")),
            (Program::Haproxy, include_str!("../peers/haproxy.conf")),
        ];
        for (program, template) in templates {
            for variant in VARIANTS.iter().filter(|variant| variant.program == program) {
                let filled = fill(template, variant, &setup, 8099).expect("plain paths");
                assert!(!filled.contains('@'), "{}: {filled}", variant.name);
                let has_site = program != Program::Haproxy;
                assert!(filled.contains("/the/site") == has_site && filled.contains("8099"), "{filled}");
                let told = |line: &&str| !line.trim_start().starts_with('#') && line.contains("php");
                assert!(!filled.lines().any(|line| told(&line)) && !filled.contains("cgi-bin"), "{filled}");
                let filled = fill(template, variant, &with_programs, 8099).expect("plain paths");
                assert!(!filled.contains('@'), "{}: {filled}", variant.name);
                let tls = TlsFiles { certificate: "/the/certificate".as_ref(), key: "/the/key".as_ref() };
                let encrypted = Setup { tls: Some(tls), ..setup.clone() };
                let encrypted = fill(template, variant, &encrypted, 8099).expect("plain paths");
                let speaks = matches!(program, Program::Nginx | Program::H2o | Program::Caddy);
                assert!(!encrypted.contains('@'), "{encrypted}");
                assert_eq!(encrypted.contains("/the/certificate") && encrypted.contains("/the/key"), speaks);
                let (cgi, php) = (filled.contains("cgi-bin/"), filled.contains("/the/php"));
                let runs_cgi = matches!(program, Program::Apache | Program::Lighttpd);
                assert_eq!((cgi, php), (runs_cgi, runs_cgi || program == Program::Nginx), "{filled}");
            }
        }
    }

    #[test]
    fn pools_have_their_sizes() {
        let cpus = Cpus { server: vec![0], client: vec![1] };
        let mut setup = Setup::new("/site".as_ref(), "/work".as_ref(), &cpus);
        let filled = |name: &str, setup: &Setup| {
            let variant = VARIANTS.iter().find(|variant| variant.name == name).expect("it is there");
            let template = match variant.program {
                Program::Nginx => include_str!("../peers/nginx.conf"),
                _ => include_str!("../peers/apache.conf"),
            };
            fill(template, variant, setup, 1).expect("plain paths")
        };
        assert!(filled("nginx-threads", &setup).contains("threads=128 "));
        assert!(filled("nginx-aio", &setup).contains("open_file_cache off;"));
        (setup.loops, setup.threads) = (2, Some(50));
        assert!(filled("apache", &setup).contains("MaxRequestWorkers 100\n"));
        assert!(filled("nginx", &setup).contains(" deferred reuseport;"));
        assert!(filled("apache-prefork", &setup).contains("MaxRequestWorkers 50\n"));
        assert!(filled("nginx-threads", &setup).contains("worker_processes 2;"));
    }
}
