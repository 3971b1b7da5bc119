//! What answers the handshakes of some sites: their certificates, and the rules that all handshakes have in common.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use flash_core::connection::transport::CertificatesId;
use rustls::crypto;
use rustls::pki_types::UnixTime;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerConfig, ServerSessionMemoryCache,
};
use rustls::sign::CertifiedKey;

use crate::certificates::{self, Certificate, CertificateFiles, FileStamp, Open};
use crate::check;
use crate::client_certificates::ClientAuthorities;
use crate::compression;
use crate::resumption::{StoredSessions, TicketSessions};
use crate::self_signed;
use crate::tickets::{OwnTickets, Tickets};

/// The certificates of the sites that share them.
#[derive(Debug)]
pub struct Endpoint {
    id: CertificatesId,
    tickets: Arc<Tickets>,
    choices: Choices,
    /// Whose certificates clients show, if they are asked for any.
    clients: ArcSwapOption<ClientAuthorities>,
    config: ArcSwap<ServerConfig>,
    /// Of the present certificates.
    certificates: ArcSwap<Vec<Certificate>>,
    /// Locked while the files are read again.
    seen: Mutex<Seen>,
    /// What answers an authority, for each host and its key authorization.
    challenges: ArcSwap<Answers>,
}

/// What clients may choose in their handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    pub http2: bool,
    /// A client that comes back may send requests with its first message.
    pub early_data: bool,
}

/// What the last look at the files has found.
#[derive(Debug, Default)]
struct Seen {
    /// What the files were when they were last read, whether they could be used or not.
    stamps: Stamps,
    /// When the same files are read again, because what they hold is valid from then on.
    looks_again_at: Option<i64>,
    /// What was wrong with the answers about the certificates, once it was asked for.
    staple_faults: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stamps {
    /// Of each certificate and its key, and at last of the clients' authorities.
    files: Vec<Option<FileStamp>>,
    /// Of the authorities' answers about certificates.
    staples: Vec<Option<FileStamp>>,
}

/// To hosts and their key authorizations.
type Answers = BTreeMap<(String, Vec<u8>), Arc<Endpoint>>;

/// ALPN's names of protocols (RFC 7301 §6).
pub(crate) const HTTP1: &[u8] = b"http/1.1";
pub(crate) const HTTP2: &[u8] = b"h2";
/// A client may send so many bytes before its handshake is complete.
const EARLY_DATA_BYTES_MAX: u32 = 16 << 10;
/// Sessions that an endpoint with early data remembers. Each takes a third of a kilobyte.
const SESSIONS_MAX: usize = 8192;
/// Answers to authorities that an endpoint keeps. Most are asked for a few times within seconds, and never again.
const CHALLENGES_MAX: usize = 100;
/// In the order of preference.
const APPLICATION_PROTOCOLS: [&[u8]; 2] = [HTTP2, HTTP1];

impl Endpoint {
    /// `certificates` are for the same sites, for example with keys of different kinds. If there are `clients`, a client is asked
    /// for a certificate.
    pub fn new(
        id: CertificatesId,
        certificates: Vec<Certificate>,
        clients: Option<ClientAuthorities>,
        tickets: Arc<Tickets>,
        choices: Choices,
    ) -> Self {
        let config = ArcSwap::new(config(&certificates, clients.as_ref(), &tickets, choices));
        let seen = Seen { stamps: stamps_of(&certificates, clients.as_ref()), ..Seen::default() };
        let clients = ArcSwapOption::new(clients.map(Arc::new));
        Self {
            id,
            tickets,
            choices,
            clients,
            config,
            certificates: ArcSwap::from_pointee(certificates),
            seen: Mutex::new(seen),
            challenges: ArcSwap::default(),
        }
    }

    pub fn id(&self) -> CertificatesId {
        self.id
    }

    /// Whether clients are asked for certificates.
    pub(crate) fn asks_clients(&self) -> bool {
        self.clients.load().is_some()
    }

    /// What answers the handshake in which an authority asks for this host in the place of this endpoint. No site is answered over
    /// its connection.
    pub fn for_challenge(&self, host: &str, key_authorization: &[u8]) -> Option<Arc<Self>> {
        let key = (host.to_ascii_lowercase(), key_authorization.to_vec());
        let known = self.challenges.load();
        if let Some(endpoint) = known.get(&key) {
            return Some(Arc::clone(endpoint));
        }
        let new = self.answering(&key.0, key_authorization)?;
        let mut challenges = Answers::clone(&known);
        if challenges.len() >= CHALLENGES_MAX {
            challenges.clear();
        }
        challenges.insert(key, Arc::clone(&new));
        self.challenges.store(Arc::new(challenges));
        Some(new)
    }

    fn answering(&self, host: &str, key_authorization: &[u8]) -> Option<Arc<Self>> {
        Some(Arc::new(Self {
            id: CertificatesId::NO_SITES,
            tickets: Arc::clone(&self.tickets),
            choices: self.choices,
            clients: ArcSwapOption::empty(),
            config: ArcSwap::new(self_signed::for_challenge(host, key_authorization)?),
            certificates: ArcSwap::default(),
            seen: Mutex::default(),
            challenges: ArcSwap::default(),
        }))
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    pub fn certificates(&self) -> Arc<Vec<Certificate>> {
        self.certificates.load_full()
    }

    /// Reads the files again if they have changed, at `now` in seconds since 1970. Returns whether other certificates are used; with
    /// other answers of OCSP, they are the same. Connections keep the certificates of their handshakes.
    ///
    /// # Errors
    /// If a file is gone or cannot be used, or if the new certificate has a fault that the present one has not. The certificates then
    /// stay as they are. The same files are no error again.
    pub fn reload(&self, now: i64, open: &Open<'_>) -> Result<bool, String> {
        let mut seen = self.seen();
        // Those of the start are known.
        seen.staple_faults.get_or_insert_with(|| self.staple_faults(now));
        let stamps = self.stamps(open);
        let is_same = stamps.files == seen.stamps.files && seen.looks_again_at.is_none_or(|at| now < at);
        seen.stamps.files = stamps.files;
        let replaced = if is_same { Ok(false) } else { self.replace(&mut seen, now, open) };
        match replaced {
            Ok(true) => seen.stamps.staples = stamps.staples,
            _ => self.staple_again(&mut seen, stamps.staples, open),
        }
        replaced
    }

    fn replace(&self, seen: &mut Seen, now: i64, open: &Open<'_>) -> Result<bool, String> {
        seen.looks_again_at = None;
        let read = |present: &Certificate| match present.is_stand_in() && present.files().are_gone(open) {
            true => Ok(present.clone()),
            false => Certificate::read(present.files(), open),
        };
        let (certificates, clients) = self.read_again(&read, open)?;
        let present = self.certificates.load();
        let mut renewals = present.iter().zip(&certificates);
        if let Some(fault) = renewals.find_map(|(old, new)| check::fault_of_renewal(old, new, now)) {
            let begins = certificates.iter().map(Certificate::begins).filter(|begins| *begins > now);
            seen.looks_again_at = begins.min();
            return Err(fault);
        }
        self.show(certificates, clients.map(Arc::new));
        Ok(true)
    }

    /// Reads the answers about the present certificates again if they have changed.
    fn staple_again(&self, seen: &mut Seen, staples: Vec<Option<FileStamp>>, open: &Open<'_>) {
        if staples == seen.stamps.staples {
            return;
        }
        seen.stamps.staples = staples;
        let certificates =
            self.certificates.load().iter().map(|present| present.stapled_again(open)).collect();
        self.show(certificates, self.clients.load_full());
    }

    fn show(&self, certificates: Vec<Certificate>, clients: Option<Arc<ClientAuthorities>>) {
        self.config.store(config(&certificates, clients.as_deref(), &self.tickets, self.choices));
        self.clients.store(clients);
        self.certificates.store(Arc::new(certificates));
    }

    /// What has become wrong with the answers about the certificates since the last call, or since they were read at the start.
    pub fn new_staple_faults(&self, now: i64) -> Vec<String> {
        let faults = self.staple_faults(now);
        let known = self.seen().staple_faults.replace(faults.clone()).unwrap_or_default();
        faults.into_iter().filter(|fault| !known.contains(fault)).collect()
    }

    fn staple_faults(&self, now: i64) -> Vec<String> {
        let certificates = self.certificates.load();
        // The process that has certificates issued asks for answers about them, and says what fails.
        let own = certificates.iter().filter(|certificate| certificate.files().stand_in.is_empty());
        own.flat_map(|certificate| check::staple_problems(certificate, now)).collect()
    }

    /// The endpoint after a reload of the server, which may still fail: another one if something has changed but answers of OCSP.
    /// Certificates of an authority whose files are gone stay.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub fn next(self: &Arc<Self>, choices: Choices, open: &Open<'_>) -> Result<Arc<Self>, String> {
        let mut seen = self.seen();
        let certificates = self.certificates.load();
        let before = stamps_of(&certificates, self.clients.load().as_deref()).files;
        // An authority issues its own anew.
        let may_be_gone =
            certificates.iter().flat_map(|of| [!of.files().stand_in.is_empty(); 2]).chain([false]);
        let stamps = self.stamps(open);
        let mut files = stamps.files.into_iter().zip(before).zip(may_be_gone);
        let is_same = files.all(|((now, before), may_be_gone)| now.is_none() && may_be_gone || now == before);
        if choices == self.choices && is_same {
            self.staple_again(&mut seen, stamps.staples, open);
            return Ok(Arc::clone(self));
        }
        let read = |present: &Certificate| match present.files() {
            files if !files.stand_in.is_empty() && files.are_gone(open) => Ok(present.clone()),
            files if present.is_stand_in() => Certificate::read_or_stand_in(files, open),
            files => Certificate::read(files, open),
        };
        let (certificates, clients) = self.read_again(&read, open)?;
        Ok(Arc::new(Self::new(self.id, certificates, clients, Arc::clone(&self.tickets), choices)))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By what changes of the files are recognized.
    fn stamps(&self, open: &Open<'_>) -> Stamps {
        let (certificates, clients) = (self.certificates.load(), self.clients.load());
        let stamp = |path: &Path| certificates::stamp_of(path, open);
        let files = || certificates.iter().map(Certificate::files);
        let paths = files().flat_map(|files| [&*files.certificate, &*files.key]);
        let paths = paths.chain(clients.iter().map(|clients| clients.path()));
        Stamps {
            files: paths.map(stamp).collect(),
            staples: files().map(|files| stamp(&files.staple())).collect(),
        }
    }

    fn read_again(
        &self,
        read: &dyn Fn(&Certificate) -> Result<Certificate, String>,
        open: &Open<'_>,
    ) -> Result<(Vec<Certificate>, Option<ClientAuthorities>), String> {
        let certificates = self.certificates.load().iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let clients = self.clients.load().as_ref().map(|clients| clients.again(open)).transpose()?;
        Ok((certificates, clients))
    }
}

/// Of the files when they were read.
fn stamps_of(certificates: &[Certificate], clients: Option<&ClientAuthorities>) -> Stamps {
    let of_certificates = certificates.iter().flat_map(Certificate::stamps);
    Stamps {
        files: of_certificates.chain(clients.map(ClientAuthorities::stamp)).collect(),
        staples: certificates.iter().map(Certificate::staple_stamp).collect(),
    }
}

/// The files of an endpoint, read and checked. Where a certificate can stand in, none has to be there.
pub fn read(files: &[CertificateFiles], open: &Open<'_>) -> Result<Vec<Certificate>, String> {
    files.iter().map(|files| Certificate::read_or_stand_in(files, open)).collect()
}

/// Makes ready what cryptography needs of the system, before the server gives its rights up.
pub fn prepare() -> io::Result<()> {
    aws_lc_rs::rand::fill(&mut [0; 32]).map_err(|_| io::Error::other("the system has no random numbers"))
}

fn config(
    certificates: &[Certificate],
    clients: Option<&ClientAuthorities>,
    tickets: &Arc<Tickets>,
    choices: Choices,
) -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has the suites of TLS 1.2 and 1.3");
    let mut config = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients.verifier()),
        None => builder.with_no_client_auth(),
    }
    .with_cert_resolver(Arc::new(Resolver(certificates.to_vec())));
    let offered = APPLICATION_PROTOCOLS.iter().filter(|name| choices.http2 || **name != HTTP2);
    config.alpn_protocols = offered.map(|name| name.to_vec()).collect();
    if choices.early_data {
        // rustls takes early data only of sessions in a memory, which it forgets when they are resumed. So nobody can repeat the
        // data. The memory is for those alone who verify clients in this way.
        config.max_early_data_size = EARLY_DATA_BYTES_MAX;
        config.send_half_rtt_data = true;
        config.session_storage = Arc::new(StoredSessions(ServerSessionMemoryCache::new(SESSIONS_MAX)));
    } else {
        // A ticket carries the client's identity, so it is for those alone who would have verified the same.
        let of_whom = clients.map_or_else(Vec::new, |clients| clients.digest().to_vec());
        config.ticketer = Arc::new(TicketSessions(OwnTickets::new(Arc::clone(tickets), of_whom)));
        // Sessions are in tickets alone, which every process can read.
        config.session_storage = Arc::new(NoServerSessionStorage {});
    }
    compression::set_up(&mut config, certificates.len());
    Arc::new(config)
}

/// Chooses among the certificates of an endpoint.
#[derive(Debug)]
struct Resolver(Vec<Certificate>);

impl ResolvesServerCert for Resolver {
    /// The first certificate for the name whose key the client can use; else the first whose key it can use.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        let is_usable = |of: &&Certificate| of.key().key.choose_scheme(schemes).is_some();
        let name = hello.server_name();
        let covers = |of: &&Certificate| name.is_some_and(|name| of.covers(name));
        let usable = || self.0.iter().filter(is_usable);
        let found = usable().find(covers).or_else(|| usable().next())?;
        // rustls staples the answer for those who ask for it.
        let key = found.stapled_key(UnixTime::now().as_secs()).unwrap_or(found.key());
        Some(Arc::clone(key))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;
    use crate::certificates::staple_of;
    use crate::ocsp::tests::{BEGINS, ENDS, bench};

    const HOST: &str = "www.example";

    fn write(path: &Path, begins: i32) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
        params.not_before = date_time_ymd(begins, 1, 1);
        fs::write(path, key.serialize_pem() + &params.self_signed(&key).unwrap().pem()).unwrap();
    }

    fn open(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    fn endpoint(path: &Path) -> Arc<Endpoint> {
        endpoint_of(path, vec![HOST.into()])
    }

    fn endpoint_of(path: &Path, stand_in: Vec<String>) -> Arc<Endpoint> {
        let files = CertificateFiles { certificate: path.into(), key: path.into(), stand_in };
        let certificates = read(&[files], &open).unwrap();
        let choices = Choices { http2: true, early_data: false };
        let tickets = Arc::new(Tickets::new().unwrap());
        Arc::new(Endpoint::new(CertificatesId::NO_SITES, certificates, None, tickets, choices))
    }

    fn year(year: i32) -> i64 {
        date_time_ymd(year, 1, 1).unix_timestamp()
    }

    #[test]
    fn what_is_not_valid_yet_is_shown_once_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pem");
        write(&path, 2020);
        let endpoint = endpoint(&path);
        write(&path, 2040);
        let why = endpoint.reload(year(2030), &open).unwrap_err();
        assert!(why.contains("not valid for another"), "{why}");
        assert_eq!(endpoint.reload(year(2039), &open), Ok(false), "it is said once");
        assert_eq!(endpoint.reload(year(2040), &open), Ok(true));
        assert_eq!(endpoint.reload(year(2041), &open), Ok(false));
    }

    #[test]
    fn files_that_cannot_be_used_are_as_good_as_none_and_a_stand_in_gives_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pem");
        fs::write(&path, "no certificate").unwrap();
        let endpoint = endpoint(&path);
        let shown = endpoint.certificates();
        assert!(shown[0].is_stand_in() && shown[0].fault().is_some_and(|why| why.contains("pem")));
        assert!(endpoint.reload(year(2030), &open).is_err());
        let choices = Choices { http2: false, early_data: false };
        assert!(endpoint.next(choices, &open).unwrap().certificates()[0].is_stand_in());
        write(&path, 2040);
        assert_eq!(endpoint.reload(year(2030), &open), Ok(true));
        assert!(!endpoint.certificates()[0].is_stand_in());
        fs::write(&path, "no certificate again").unwrap();
        assert!(endpoint.reload(year(2030), &open).is_err() && endpoint.next(choices, &open).is_err());
        assert!(!endpoint.certificates()[0].is_stand_in());
    }

    #[test]
    fn a_certificate_whose_file_is_gone_stays_and_that_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pem");
        let stand_in = endpoint(&path);
        let others = Choices { http2: false, early_data: false };
        assert_eq!(stand_in.reload(year(2030), &open), Ok(false), "there was none");
        assert!(stand_in.next(others, &open).unwrap().certificates()[0].is_stand_in());
        write(&path, 2020);
        let endpoint = endpoint(&path);
        fs::remove_file(&path).unwrap();
        for choices in [endpoint.choices, others] {
            assert!(!endpoint.next(choices, &open).unwrap().certificates()[0].is_stand_in());
        }
        let why = endpoint.reload(year(2030), &open).unwrap_err();
        assert!(why.contains("pem: cannot read it"), "{why}");
        assert_eq!(endpoint.reload(year(2030), &open), Ok(false), "it is said once");
        assert!(!endpoint.certificates()[0].is_stand_in());
        write(&path, 2021);
        assert_eq!(endpoint.reload(year(2030), &open), Ok(true));
    }

    #[test]
    fn a_reload_of_the_server_reads_a_changed_answer() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bench) = (folder.path().join("pem"), bench());
        fs::write(&path, &bench.pem).unwrap();
        let endpoint = endpoint_of(&path, Vec::new());
        let is_stapled = || endpoint.certificates()[0].stapled_key(BEGINS).is_some();
        assert!(!is_stapled());
        fs::write(staple_of(&path), bench.good()).unwrap();
        assert!(Arc::ptr_eq(&endpoint, &endpoint.next(endpoint.choices, &open).unwrap()));
        assert!(is_stapled());
    }

    #[test]
    fn an_answer_that_breaks_is_said_once_and_the_one_before_is_stapled_while_it_is_true() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bench) = (folder.path().join("pem"), bench());
        let (staple, now) = (staple_of(&path), BEGINS as i64);
        fs::write(&path, &bench.pem).unwrap();
        fs::write(&staple, bench.good()).unwrap();
        let endpoint = endpoint_of(&path, Vec::new());
        let look = |now: i64| {
            assert_eq!(endpoint.reload(now, &open), Ok(false));
            endpoint.new_staple_faults(now)
        };
        assert!(look(now).is_empty());
        let to_others = self::bench().good();
        let breaks: [(&dyn Fn(), &str); 4] = [
            (&|| fs::write(&staple, "no answer").unwrap(), "no answer of OCSP"),
            (&|| fs::write(&staple, &to_others).unwrap(), "has not signed"),
            (&|| fs::remove_file(&staple).unwrap(), "the answer is gone"),
            (&|| fs::create_dir(&staple).unwrap(), "it is not a file"),
        ];
        for (breaks, why) in breaks {
            breaks();
            let said = look(now);
            assert!(said.len() == 1 && said[0].contains(why), "{said:?}");
            assert!(said[0].contains("pem.ocsp: ") && said[0].ends_with("; the one before is stapled"));
            assert!(look(now).is_empty(), "it is said once");
            assert!(endpoint.certificates()[0].stapled_key(BEGINS).is_some());
        }
        let said = look(ENDS as i64);
        assert!(said.len() == 1 && said[0].ends_with("it is not a file; it is not stapled"), "{said:?}");
        fs::remove_dir(&staple).unwrap();
        fs::write(&staple, bench.good()).unwrap();
        assert!(look(now).is_empty());
        let said = look(ENDS as i64);
        assert!(said.len() == 1 && said[0].contains("of another time"), "nothing has renewed it: {said:?}");
        assert!(look(ENDS as i64).is_empty());
    }

    #[test]
    fn an_answer_that_is_wrong_at_the_start_is_said_there_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bench) = (folder.path().join("pem"), bench());
        fs::write(&path, &bench.pem).unwrap();
        fs::write(staple_of(&path), "no answer").unwrap();
        for (stand_in, said_later) in [(Vec::new(), 1), (vec!["a.example".to_owned()], 0)] {
            let endpoint = endpoint_of(&path, stand_in);
            assert_eq!(endpoint.reload(BEGINS as i64, &open), Ok(false));
            assert!(endpoint.new_staple_faults(BEGINS as i64).is_empty());
            fs::write(staple_of(&path), [0x30, 3, 10, 1, 6]).unwrap();
            assert_eq!(endpoint.reload(BEGINS as i64, &open), Ok(false));
            assert_eq!(endpoint.new_staple_faults(BEGINS as i64).len(), said_later);
            fs::write(staple_of(&path), "no answer").unwrap();
        }
    }

    #[test]
    fn a_certificate_that_cannot_be_read_again_keeps_its_answer_renewed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bench) = (folder.path().join("pem"), bench());
        fs::write(&path, &bench.pem).unwrap();
        let endpoint = endpoint_of(&path, Vec::new());
        fs::remove_file(&path).unwrap();
        fs::write(staple_of(&path), bench.good()).unwrap();
        assert!(endpoint.reload(BEGINS as i64, &open).is_err());
        assert!(endpoint.certificates()[0].stapled_key(BEGINS).is_some());
    }

    #[test]
    fn an_answer_to_an_authority_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = endpoint(&folder.path().join("pem"));
        let first = endpoint.for_challenge(HOST, b"one").unwrap();
        assert!(Arc::ptr_eq(&first, &endpoint.for_challenge("WWW.example", b"one").unwrap()));
        assert!(!Arc::ptr_eq(&first, &endpoint.for_challenge(HOST, b"two").unwrap()));
        for number in 0..2 * CHALLENGES_MAX {
            assert!(endpoint.for_challenge(&format!("host{number}.example"), b"").is_some());
        }
        assert!(endpoint.challenges.load().len() <= CHALLENGES_MAX);
    }
}
