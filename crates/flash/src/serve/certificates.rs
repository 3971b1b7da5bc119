//! The certificates that the flags ask for: read and checked before the server listens and with each reload, and watched meanwhile.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use flash_acme::Board;
use flash_core::connection::transport::{CertificatesId, SiteCertificates};
use flash_core::site::hosts::HostName;
use flash_http::Scheme;
use flash_observe::ErrorLog;
use flash_observe::metrics::MetricsMemory;
use flash_process::PrivilegedOpener;
use flash_tls::certificates::{Open, staple_of};
use flash_tls::tickets::Tickets;
use flash_tls::{
    Certificate, CertificateFiles, Choices, ClientAuthorities, Endpoint, Endpoints, authority, check,
    endpoint,
};

use super::acme;
use super::certificate_numbers::{Numbers, Set};
use super::named_files;
use crate::failure::{Failure, cannot};
use crate::flags::{self, ClientCertificate, Https, ListenAddress};

/// The certificates of all sites, if they have any.
#[derive(Default)]
pub(super) struct Certificates {
    /// In the order of their numbers.
    pub(super) endpoints: Arc<Vec<Arc<Endpoint>>>,
    numbers: Numbers,
    of_sites: Vec<Option<SiteCertificates>>,
    /// The keys of all configurations, so that clients resume their sessions after a reload.
    tickets: Option<Arc<Tickets>>,
    /// Those for localhost that Flash has made.
    local: Option<CertificateFiles>,
    /// Where the process that asks the authority is told so. A server has it from its start or never.
    pub(super) board: Option<Arc<Board>>,
    /// What clients may not like, and how to trust a certificate that Flash has made.
    pub(super) remarks: Vec<String>,
}

/// What is wrong with the certificates of a site, with its position, if there are several.
pub(super) type Wrong = (Option<usize>, Failure);

/// What sites say of TLS: position, if there are several, flags and hosts. It is kept until the certificates are read, and the flags of
/// sites are not.
pub(super) struct TlsSites(Vec<(Option<usize>, flags::Tls, Vec<HostName>)>);

impl TlsSites {
    pub(super) fn new(flags: &flags::Serve) -> Self {
        let position = |number: usize| (!flags.sites.is_empty()).then_some(number);
        let of = |(number, (site, hosts)): (usize, (&flags::Serve, &[HostName]))| {
            (position(number), site.tls.clone(), hosts.to_vec())
        };
        Self(sites(flags).into_iter().enumerate().map(of).collect())
    }
}

/// Reads the certificates of all sites. With a board there is a process that asks an authority for some.
pub(super) fn read(
    flags: &flags::Serve,
    sites: &TlsSites,
    board: Option<Arc<Board>>,
) -> Result<Certificates, Failure> {
    let read = Certificates { board, ..Certificates::default() }.next(flags, sites, &named_files::open);
    read.map_err(|wrong| wrong.into_iter().next().map_or_else(no_certificates, |(_, failure)| failure))
}

fn no_certificates() -> Failure {
    Failure::Run("the certificates cannot be read".into())
}

impl Certificates {
    /// The certificates after a reload. What has not changed stays.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub(super) fn next(
        &self,
        flags: &flags::Serve,
        TlsSites(sites): &TlsSites,
        open: &Open<'_>,
    ) -> Result<Self, Vec<Wrong>> {
        let (mut next, mut wrong, mut sets) = (Self::default(), Vec::new(), Vec::new());
        (next.tickets, next.local, next.board) =
            (self.tickets.clone(), self.local.clone(), self.board.clone());
        for (position, tls, hosts) in sites {
            let files = next.files(flags, tls, hosts).unwrap_or_else(|failure| {
                wrong.push((*position, failure));
                Vec::new()
            });
            let clients = tls.client_ca.clone().map(|path| (path, tls.client_certificate));
            sets.push((&**hosts, (!files.is_empty()).then_some(Set { files, clients })));
        }
        (next.numbers, next.of_sites) = self.numbers.next(&sets);
        let mut known = BTreeMap::new();
        for ((position, _, hosts), ((_, set), own)) in sites.iter().zip(sets.iter().zip(&next.of_sites)) {
            let (Some(set), Some(own)) = (set, own) else { continue };
            let endpoint = known.entry(own.present).or_insert_with(|| {
                let endpoint = self.endpoint(set, own.present, &mut next.tickets, flags, open);
                endpoint.map_err(|failure| wrong.push((*position, failure))).ok()
            });
            let Some(endpoint) = endpoint else { continue };
            let certificates = endpoint.certificates();
            // Sites may share a certificate.
            let problems = problems(&certificates, hosts);
            next.remarks.extend(
                problems.into_iter().filter(|problem| !next.remarks.contains(problem)).collect::<Vec<_>>(),
            );
            next.remarks.extend(certificates.iter().filter(|of| of.is_stand_in()).map(|of| {
                let (hosts, authority) = (of.names().join(", "), &flags.acme.acme_directory);
                let fault = of.fault().map(|fault| format!("; {fault}")).unwrap_or_default();
                format!("{hosts}: clients get a certificate that they do not trust until {authority} has issued one{fault}")
            }));
        }
        next.endpoints = Arc::new(known.into_values().flatten().collect());
        if !Board::has_room(&next.wanted()) {
            wrong.push((None, Failure::Run("too many certificates of an authority".into())));
        }
        if wrong.is_empty() { Ok(next) } else { Err(wrong) }
    }

    /// The files of a site's certificates.
    fn files(
        &mut self,
        server: &flags::Serve,
        tls: &flags::Tls,
        names: &[HostName],
    ) -> Result<Vec<CertificateFiles>, Failure> {
        let Some(hosts) = acme::hosts(server, tls, names)? else {
            return files(tls, &mut self.local, &mut self.remarks);
        };
        if self.board.is_none() {
            let why = "only `flash upgrade` or a restart lets a server ask an authority that asked none at its start";
            return Err(Failure::Run(why.into()));
        }
        Ok(vec![acme::files(server, hosts)])
    }

    /// The endpoint of a set. An unchanged one is the same.
    fn endpoint(
        &self,
        set: &Set,
        id: CertificatesId,
        tickets: &mut Option<Arc<Tickets>>,
        flags: &flags::Serve,
        open: &Open<'_>,
    ) -> Result<Arc<Endpoint>, Failure> {
        let choices = Choices {
            http2: flags.http2 == flags::Switch::On,
            early_data: flags.early_data == flags::Switch::On,
        };
        if let Ok(present) = self.endpoints.binary_search_by_key(&id, |endpoint| endpoint.id()) {
            return self.endpoints[present].next(choices, open).map_err(Failure::Run);
        }
        let certificates = endpoint::read(&set.files, open).map_err(Failure::Run)?;
        let clients = clients(set.clients.as_ref(), open)?;
        let tickets = match tickets {
            Some(tickets) => tickets,
            None => {
                endpoint::prepare().map_err(|error| cannot(format_args!("prepare TLS"), &error))?;
                let new = Tickets::new();
                tickets.insert(Arc::new(
                    new.map_err(|_| Failure::Run("cannot make keys of session tickets".into()))?,
                ))
            }
        };
        Ok(Arc::new(Endpoint::new(id, certificates, clients, Arc::clone(tickets), choices)))
    }

    /// The hosts of each certificate that an authority is to issue.
    pub(super) fn wanted(&self) -> Vec<Vec<String>> {
        let hosts = |of: &Certificate| of.files().stand_in.clone();
        let all =
            self.endpoints.iter().flat_map(|of| of.certificates().iter().map(hosts).collect::<Vec<_>>());
        all.filter(|hosts| !hosts.is_empty()).collect()
    }

    /// The certificates of the site with this position.
    pub(super) fn of(&self, site: u32) -> Option<&SiteCertificates> {
        self.of_sites.get(site as usize)?.as_ref()
    }

    /// Those for clients that name no host, or one that no site has.
    pub(super) fn first(&self) -> Option<CertificatesId> {
        self.of_sites.iter().flatten().map(|own| own.present).next()
    }
}

/// How often a process looks at the board.
const BOARD_LOOK: Duration = Duration::from_secs(1);

/// Reads files again that have changed, while a process serves.
#[derive(Default)]
pub(super) struct Watch {
    /// Those of the process.
    pub(super) endpoints: Arc<Endpoints>,
    is_on: Cell<bool>,
}

impl Watch {
    /// Tells other processes of the certificates.
    pub(super) fn tell(&self, memory: &MetricsMemory) {
        tell(&self.endpoints, memory);
    }

    /// Reads them now and `every` so often in a thread. A process of mp may start long after the server.
    pub(super) fn start(
        &self,
        (every, board): (Duration, Option<Arc<Board>>),
        opener: Option<Arc<PrivilegedOpener>>,
        error_log: &ErrorLog,
        metrics_memory: &Arc<MetricsMemory>,
    ) -> io::Result<()> {
        if self.is_on.replace(true) {
            return Ok(());
        }
        let (endpoints, error_log) = (Arc::clone(&self.endpoints), error_log.clone());
        let (memory, log) = (Arc::clone(metrics_memory), error_log.clone());
        let read_again = move || {
            let open = named_files::opened_by(opener.clone());
            endpoints.all().iter().for_each(|endpoint| reload(endpoint, &open, &error_log));
            tell(&endpoints, &memory);
        };
        let mut renewals = board.as_ref().map(|board| board.renewals());
        read_again();
        let watch = move || {
            loop {
                // Counted before, so that none is missed that is issued meanwhile.
                renewals = wait(every, board.as_deref(), renewals, &log);
                read_again();
            }
        };
        thread::Builder::new().name("certificates".into()).spawn(watch).map(drop)
    }
}

/// Waits until files are to be read again: so long, or until a certificate was issued. Logs what the process says that asks for them.
/// Returns how many were until then.
fn wait(every: Duration, board: Option<&Board>, renewals: Option<u64>, log: &ErrorLog) -> Option<u64> {
    let Some(board) = board else {
        thread::sleep(every);
        return None;
    };
    let until = Instant::now() + every;
    while Instant::now() < until && renewals == Some(board.renewals()) {
        if let Some(line) = board.take_line() {
            log.log(format_args!("{line}"));
        }
        thread::sleep(BOARD_LOOK.min(until.saturating_duration_since(Instant::now())));
    }
    Some(board.renewals())
}

/// Tells other processes when the certificates of this one expire.
fn tell(endpoints: &Endpoints, memory: &MetricsMemory) {
    let all = endpoints.all();
    let certificates: Vec<_> = all.iter().map(|endpoint| endpoint.certificates()).collect();
    let shown: Vec<(String, [u64; 2])> = certificates
        .iter()
        .flat_map(|of| of.iter())
        .map(|certificate| (certificate.names().join(" "), certificate.validity_unix_s()))
        .collect();
    memory.certificates.tell(shown.iter().map(|(names, validity)| (&**names, *validity)));
}

fn reload(endpoint: &Endpoint, open: &Open<'_>, error_log: &ErrorLog) {
    let now = unix_seconds();
    match endpoint.reload(now, open) {
        Ok(false) => {}
        Ok(true) => {
            let path =
                endpoint.certificates().first().map(|certificate| certificate.files().certificate.clone());
            let path = path.unwrap_or_default();
            error_log.log(format_args!("{}: the certificate was replaced", path.display()));
        }
        Err(why) => error_log.log(format_args!("the certificates stay as they were: {why}")),
    }
    endpoint.new_staple_faults(now).iter().for_each(|fault| error_log.log(format_args!("{fault}")));
}

fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// The flags and the hosts of each site.
fn sites(flags: &flags::Serve) -> Vec<(&flags::Serve, &[HostName])> {
    match &flags.sites[..] {
        [] => vec![(flags, &[])],
        sites => sites.iter().map(|site| (&*site.own.flags, &site.hosts[..])).collect(),
    }
}

/// The files of all sites' certificates, their keys, and the authorities of their clients.
pub(super) fn named(flags: &flags::Serve) -> Vec<PathBuf> {
    let of_site = |(site, names): (&flags::Serve, &[HostName])| {
        let issued = acme::hosts(flags, &site.tls, names).ok().flatten();
        let issued = issued.map(|hosts| acme::files(flags, hosts));
        let files = issued.into_iter().chain(files_named(&site.tls)).flat_map(|files| {
            let staple = staple_of(&files.certificate);
            [files.certificate, files.key, staple]
        });
        files.chain(site.tls.client_ca.clone()).collect::<Vec<_>>()
    };
    sites(flags).into_iter().flat_map(of_site).collect()
}

/// The files of a site's certificates. Makes those for localhost if that is wanted.
fn files(
    tls: &flags::Tls,
    made: &mut Option<CertificateFiles>,
    remarks: &mut Vec<String>,
) -> Result<Vec<CertificateFiles>, Failure> {
    if let (true, Some(made)) = (tls.tls, &*made) {
        return Ok(vec![made.clone()]);
    }
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
        remarks.push(remark);
        *made = Some(local.files.clone());
        return Ok(vec![local.files]);
    }
    if tls.tls_certificate.len() != tls.tls_key.len() {
        let (certificates, keys) = (tls.tls_certificate.len(), tls.tls_key.len());
        return Err(Failure::Usage(format!(
            "each --tls-certificate needs its --tls-key: there are {certificates} and {keys} (see flash serve --help)"
        )));
    }
    Ok(files_named(tls).collect())
}

/// The files of certificates that a site names with their keys.
fn files_named(tls: &flags::Tls) -> impl Iterator<Item = CertificateFiles> {
    let pairs = tls.tls_certificate.iter().cloned().zip(tls.tls_key.iter().cloned());
    pairs.map(|(certificate, key)| CertificateFiles { certificate, key, stand_in: Vec::new() })
}

/// The authorities of a site's clients.
fn clients(
    of: Option<&(PathBuf, ClientCertificate)>,
    open: &Open<'_>,
) -> Result<Option<ClientAuthorities>, Failure> {
    let read =
        |(path, how): &(PathBuf, _)| ClientAuthorities::read(path, *how == ClientCertificate::Required, open);
    of.map(read).transpose().map_err(Failure::Run)
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
    let now = unix_seconds();
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

/// For `flash check`: what is wrong with the certificates, and then what clients may not like. Each has the position of its site, if
/// there are several.
pub(super) fn check(flags: &flags::Serve) -> (Vec<Wrong>, Vec<Wrong>) {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    for (position, (site, hosts)) in sites(flags).into_iter().enumerate() {
        let at = (!flags.sites.is_empty()).then_some(position);
        let authorities = site.tls.client_ca.clone().map(|path| (path, site.tls.client_certificate));
        errors.extend(clients(authorities.as_ref(), &named_files::open).err().map(|failure| (at, failure)));
        // `tls = true` makes files, and a check makes none.
        if site.tls.tls {
            continue;
        }
        let read =
            |files: Vec<CertificateFiles>| endpoint::read(&files, &named_files::open).map_err(Failure::Run);
        let files = match acme::hosts(flags, &site.tls, hosts) {
            Ok(Some(wanted)) => Ok(vec![acme::files(flags, wanted)]),
            Ok(None) => files(&site.tls, &mut None, &mut Vec::new()),
            Err(failure) => Err(failure),
        };
        match files.and_then(read) {
            Ok(certificates) => {
                let faults = certificates.iter().filter_map(Certificate::fault);
                warnings.extend(faults.map(|why| (at, Failure::Run(why.into()))));
                warnings
                    .extend(problems(&certificates, hosts).into_iter().map(|why| (at, Failure::Run(why))));
            }
            Err(failure) => errors.push((at, failure)),
        }
    }
    (errors, warnings)
}

/// The hosts of each certificate that an authority is asked for.
pub(super) fn wanted(flags: &flags::Serve) -> Result<Vec<Vec<String>>, Failure> {
    let mut all = Vec::new();
    for (site, names) in sites(flags) {
        let hosts = acme::hosts(flags, &site.tls, names)?;
        all.extend(hosts.filter(|hosts| !all.contains(hosts)));
    }
    Ok(all)
}

/// For `flash check`: what an authority would be asked for, and how it would ask back.
pub(super) fn would_ask(flags: &flags::Serve) -> Vec<String> {
    let acme = &flags.acme;
    let how = match acme.acme_dns.first() {
        Some(program) => format!("{} sets records of DNS for it", program.display()),
        None => "it asks back at port 80 or 443".into(),
    };
    let asked = |hosts: Vec<String>| {
        format!("{} would be asked for a certificate for {}; {how}", acme.acme_directory, hosts.join(", "))
    };
    wanted(flags).into_iter().flatten().map(asked).collect()
}

/// That an authority may not reach this server.
pub(super) fn unreachable(flags: &flags::Serve) -> Option<Failure> {
    // An address has no record that a program could set.
    let is_address = |host: &String| host.parse::<IpAddr>().is_ok();
    let asks = |hosts: &Vec<String>| flags.acme.acme_dns.is_empty() || hosts.iter().any(is_address);
    let asks = wanted(flags).iter().flatten().any(asks);
    let is_reached = flags.listen.iter().any(|listen| {
        let local = matches!(&listen.place, ListenAddress::Inet(address) if address.ip().is_loopback());
        listen.port().is_some_and(|port| acme::PORTS.contains(&port)) && !local
    });
    let why = "an authority asks at the ports 80 and 443, and this server listens at neither: something has to lead from there to here, or write acme-dns";
    (asks && !is_reached).then(|| Failure::Run(why.into()))
}

/// That programs can read what certificates of an authority are kept with.
pub(super) fn readable_by_programs(flags: &flags::Serve) -> Option<Failure> {
    let runs = |(site, _): &(&flags::Serve, _)| {
        let programs = &site.programs;
        !(programs.cgi.is_empty() && programs.cgi_direct.is_empty() && programs.app.is_empty())
    };
    let is_asked =
        flags.programs.cgi_user.is_none() && sites(flags).iter().any(|(site, _)| site.tls.is_acme());
    let why = format!(
        "programs run as the server's user, and can read and change the keys in {}: write cgi-user",
        flags.acme.acme_folder.display()
    );
    (is_asked && sites(flags).iter().any(runs)).then_some(Failure::Run(why))
}

/// The keys of the errors of [`check_listeners`].
pub(crate) const OF_LISTENERS: [&str; 6] =
    ["listen", "client-ca", "client-certificate", "early-data", "https", "hsts"];

/// Whether the listeners suit the certificates. An error comes with the key that is wrong.
pub(super) fn check_listeners(flags: &flags::Serve) -> Result<(), (&'static str, Failure)> {
    let is_on = sites(flags).iter().any(|(flags, _)| flags.tls.is_on());
    let https = flags.listen.iter().find(|place| place.scheme() == Scheme::Https);
    let has_plain = flags.listen.iter().any(|place| place.scheme() == Scheme::Http);
    let any = |is: fn(&flags::Tls) -> bool| sites(flags).iter().any(|(flags, _)| is(&flags.tls));
    let early_data = flags.early_data == flags::Switch::On;
    let (key, wrong) = match (is_on, https) {
        (false, Some(listen)) => {
            let place = &listen.place;
            let why = format!(
                "{place} speaks TLS, and no certificate is given: add --tls-certificate and --tls-key, or --tls"
            );
            ("listen", why)
        }
        (true, None) => (
            "listen",
            "a certificate is given, and no listener speaks TLS: write --listen https://:443".into(),
        ),
        _ if any(|tls| tls.client_ca.is_some() && !tls.is_on()) => {
            ("client-ca", "--client-ca needs TLS: add --tls-certificate and --tls-key, or --tls".into())
        }
        _ if has_plain && any(|tls| tls.requires_client_certificate() && tls.https == Https::Optional) => (
            "client-certificate",
            "--client-certificate required needs --https required: no client shows a certificate without TLS"
                .into(),
        ),
        (false, None) if early_data => {
            ("early-data", "--early-data on needs a listener that speaks TLS".into())
        }
        (false, None) if any(|tls| tls.https == Https::Required) => {
            ("https", "--https required needs a listener that speaks TLS".into())
        }
        _ if any(|tls| tls.hsts.is_some() && tls.https == Https::Optional) => {
            ("hsts", "--hsts needs --https required".into())
        }
        _ => return Ok(()),
    };
    Err((key, Failure::Usage(format!("{wrong} (see flash serve --help)"))))
}
