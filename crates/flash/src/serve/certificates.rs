//! The certificates that the flags ask for: read and checked before anybody listens, and watched while the server runs.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use flash_core::hosts::HostName;
use flash_core::transport::CertificatesId;
use flash_http::Scheme;
use flash_observe::ErrorLog;
use flash_tls::tickets::Tickets;
use flash_tls::{
    Certificate, CertificateFiles, ClientAuthorities, Endpoint, Endpoints, authority, check, endpoint,
};

use crate::failure::{Failure, cannot};
use crate::flags::{self, Https};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The certificates of all sites.
pub(super) struct Certificates {
    pub(super) endpoints: Arc<Endpoints>,
    /// For each site the number of its endpoint.
    of_sites: Vec<Option<u32>>,
    /// What clients may not like, and how to trust a certificate that Flash has made.
    pub(super) remarks: Vec<String>,
}

/// Reads the certificates of all sites; `None` if no site has one.
pub(super) fn read(flags: &flags::Serve) -> Result<Option<Certificates>, Failure> {
    let sites = sites(flags);
    if !sites.iter().any(|(flags, _)| flags.tls.is_on()) {
        return Ok(None);
    }
    let http2 = flags.http2 == flags::Switch::On;
    endpoint::prepare().map_err(|error| cannot(format_args!("prepare TLS"), &error))?;
    let tickets = Tickets::new().map_err(|_| Failure::Run("cannot make keys of session tickets".into()))?;
    let tickets = Arc::new(tickets);
    let (mut all, mut of_sites, mut remarks) = (Vec::new(), Vec::new(), Vec::new());
    let mut known: HashMap<_, u32> = HashMap::new();
    for (flags, hosts) in sites {
        let files = files(flags, &mut remarks)?;
        if files.is_empty() {
            of_sites.push(None);
            continue;
        }
        let what = (files, flags.tls.client_ca.clone(), flags.tls.client_certificate);
        let number = match known.get(&what) {
            Some(number) => *number,
            None => {
                let certificates = endpoint::read(&what.0).map_err(Failure::Run)?;
                let clients = clients(flags)?;
                let number = all.len() as u32;
                let id = CertificatesId(number);
                all.push(Arc::new(Endpoint::new(id, certificates, clients, Arc::clone(&tickets), http2)));
                known.insert(what, number);
                number
            }
        };
        remarks.extend(problems(&all[number as usize].certificates(), hosts));
        of_sites.push(Some(number));
    }
    Ok(Some(Certificates { endpoints: Arc::new(Endpoints::new(all)), of_sites, remarks }))
}

impl Certificates {
    /// The certificates of the site with this number.
    pub(super) fn of(&self, site: u32) -> Option<CertificatesId> {
        self.of_sites.get(site as usize).copied().flatten().map(CertificatesId)
    }

    /// Reads files again that have changed, now and once a minute in a thread. A process of mp may start long after the server.
    pub(super) fn watch(&self, error_log: &ErrorLog) -> io::Result<()> {
        let (endpoints, error_log) = (Arc::clone(&self.endpoints), error_log.clone());
        endpoints.iter().for_each(|endpoint| reload(endpoint, &error_log));
        let watch = move || {
            loop {
                thread::sleep(LOOK_EVERY);
                endpoints.iter().for_each(|endpoint| reload(endpoint, &error_log));
            }
        };
        thread::Builder::new().name("certificates".into()).spawn(watch).map(drop)
    }
}

fn reload(endpoint: &Endpoint, error_log: &ErrorLog) {
    match endpoint.reload() {
        Ok(false) => {}
        Ok(true) => {
            let path =
                endpoint.certificates().first().map(|certificate| certificate.files().certificate.clone());
            let path = path.unwrap_or_default();
            error_log.log(format_args!("{}: the certificate was replaced", path.display()));
        }
        Err(why) => error_log.log(format_args!("the certificates stay as they were: {why}")),
    }
}

/// The flags and the hosts of each site.
fn sites(flags: &flags::Serve) -> Vec<(&flags::Serve, &[HostName])> {
    match &flags.sites[..] {
        [] => vec![(flags, &[])],
        sites => sites.iter().map(|site| (&*site.own.flags, &site.hosts[..])).collect(),
    }
}

/// The files of a site's certificates. Makes those for localhost if that is wanted.
fn files(flags: &flags::Serve, remarks: &mut Vec<String>) -> Result<Vec<CertificateFiles>, Failure> {
    let tls = &flags.tls;
    if tls.tls {
        let folder = data_folder()?.join("tls");
        let local = authority::local(&folder)
            .map_err(|error| cannot(format_args!("make a certificate in {}", folder.display()), &error))?;
        let path = local.authority.display();
        let remark = match local.is_new {
            true => format!(
                "made a certificate authority for this machine. Let your browser trust it as an authority: {path}. Other \
                 programs: curl --cacert {path}"
            ),
            false => format!("the certificate is for localhost, by the authority {path}"),
        };
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
        return Ok(vec![local.files]);
    }
    if tls.tls_certificate.len() != tls.tls_key.len() {
        let (certificates, keys) = (tls.tls_certificate.len(), tls.tls_key.len());
        return Err(Failure::Usage(format!(
            "each --tls-certificate needs its --tls-key: there are {certificates} and {keys} (see flash serve --help)"
        )));
    }
    let pairs = tls.tls_certificate.iter().zip(&tls.tls_key);
    Ok(pairs
        .map(|(certificate, key)| CertificateFiles { certificate: certificate.clone(), key: key.clone() })
        .collect())
}

/// The authorities of a site's clients.
fn clients(flags: &flags::Serve) -> Result<Option<ClientAuthorities>, Failure> {
    let tls = &flags.tls;
    let read = |path: &PathBuf| ClientAuthorities::read(path, tls.requires_client_certificate());
    tls.client_ca.as_ref().map(read).transpose().map_err(Failure::Run)
}

/// Where the user's own data is (XDG Base Directory Specification).
fn data_folder() -> Result<PathBuf, Failure> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|folder| folder.join("flash"))
        .ok_or_else(|| Failure::Run("cannot make a certificate: there is no HOME to keep it in".into()))
}

/// What clients may not like about the certificates of a site. A host that one of them covers is covered.
fn problems(certificates: &[Certificate], hosts: &[HostName]) -> Vec<String> {
    let now =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let name = |host: &HostName| match host {
        HostName::Exact(name) => Some(String::from_utf8_lossy(name).into_owned()),
        HostName::Below(name) => Some(format!("*.{}", String::from_utf8_lossy(name))),
        HostName::Any => None,
    };
    let hosts: Vec<String> = hosts.iter().filter_map(name).collect();
    let covered = |host: &String| certificates.iter().any(|certificate| certificate.covers(host));
    let missing: Vec<String> = hosts.into_iter().filter(|host| !covered(host)).collect();
    let (first, others) = match certificates.split_first() {
        Some(split) => split,
        None => return Vec::new(),
    };
    let of_first = check::problems(first, &missing, now);
    of_first.into_iter().chain(others.iter().flat_map(|other| check::problems(other, &[], now))).collect()
}

/// All that is wrong with the certificates, for `flash check`: each with the position of its site, if there are several.
pub(super) fn check(flags: &flags::Serve) -> Vec<(Option<usize>, Failure)> {
    let mut faults = Vec::new();
    for (position, (site, hosts)) in sites(flags).into_iter().enumerate() {
        let mut wrong: Vec<String> =
            clients(site).err().map(|failure| failure.to_string()).into_iter().collect();
        // `tls = true` makes files, and a check makes none.
        if !site.tls.tls {
            let read = |files: Vec<CertificateFiles>| endpoint::read(&files).map_err(Failure::Run);
            match files(site, &mut Vec::new()).and_then(read) {
                Ok(certificates) => wrong.extend(problems(&certificates, hosts)),
                Err(failure) => wrong.push(failure.to_string()),
            }
        }
        if !wrong.is_empty() {
            let site = (!flags.sites.is_empty()).then_some(position);
            faults.push((site, Failure::Run(wrong.join("; "))));
        }
    }
    faults
}

/// Whether the listeners suit the certificates.
pub(super) fn check_listeners(flags: &flags::Serve) -> Result<(), Failure> {
    let is_on = sites(flags).iter().any(|(flags, _)| flags.tls.is_on());
    let https = flags.listen.iter().find(|place| place.scheme() == Scheme::Https);
    let has_plain = flags.listen.iter().any(|place| place.scheme() == Scheme::Http);
    let is_bypassed = |tls: &flags::Tls| tls.requires_client_certificate() && tls.https == Https::Optional;
    let is_required = sites(flags).iter().any(|(flags, _)| flags.tls.https == Https::Required);
    let wrong = match (is_on, https) {
        (false, Some(listen)) => format!(
            "{} speaks TLS, and no certificate is given: add --tls-certificate and --tls-key, or --tls",
            listen.place
        ),
        (true, None) => {
            "a certificate is given, and no listener speaks TLS: write --listen https://:443".into()
        }
        _ if sites(flags).iter().any(|(flags, _)| flags.tls.client_ca.is_some() && !flags.tls.is_on()) => {
            "--client-ca needs TLS: add --tls-certificate and --tls-key, or --tls".into()
        }
        _ if has_plain && sites(flags).iter().any(|(flags, _)| is_bypassed(&flags.tls)) => {
            "--client-certificate required needs --https required: no client shows a certificate without TLS"
                .into()
        }
        (false, None) if is_required => "--https required needs a listener that speaks TLS".into(),
        _ => match sites(flags)
            .iter()
            .find(|(flags, _)| flags.tls.hsts.is_some() && flags.tls.https == Https::Optional)
        {
            Some(_) => "--hsts needs --https required".into(),
            None => return Ok(()),
        },
    };
    Err(Failure::Usage(format!("{wrong} (see flash serve --help)")))
}

pub(super) fn say(remarks: &[String]) {
    for remark in remarks {
        // With standard error closed there is nobody who waits for this line.
        let _ = writeln!(io::stderr(), "flash: {remark}");
    }
}
