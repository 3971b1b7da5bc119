//! The folder where accounts, certificates and what has failed are kept. Each file is for its user alone, and is replaced by renaming.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use instant_acme::CertificateIdentifier;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::board::Pending;
use crate::renewal::Life;

#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// The folders in it.
const ACCOUNTS: &str = "accounts";
const CERTIFICATES: &str = "certificates";
const STATES: &str = "states";
const CHALLENGES: &str = "challenges";
/// Where `flash acme renew` asks.
const REQUESTS: &str = "requests";
/// What each server wants.
const SERVERS: &str = "servers";
const FOLDERS: [&str; 6] = [ACCOUNTS, CERTIFICATES, STATES, CHALLENGES, REQUESTS, SERVERS];
/// A server that has not said so again by then wants nothing any more.
const WANTED_FOR_S: u64 = 300;

/// What is known of a certificate beside itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    pub hosts: Vec<String>,
    /// The directory of the authority that is asked.
    pub authority: String,
    /// The certificate that this is about; empty without one.
    pub certificate: String,
    /// When it is renewed.
    pub renew_at: u64,
    /// When the authority is asked again for its advice.
    pub advice_at: u64,
    /// In a row.
    pub failures: u32,
    /// In the authority's own words.
    pub failure: String,
    /// When the failure was logged.
    pub logged_at: u64,
    /// Nothing is asked before.
    pub retry_at: u64,
}

/// What a server wants.
#[derive(Serialize, Deserialize)]
struct Wants {
    until: u64,
    certificates: Vec<Vec<String>>,
}

/// A certificate that was issued.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) id: CertificateIdentifier<'static>,
    pub(crate) life: Life,
    pub(crate) names: Vec<String>,
}

impl State {
    /// It is about this certificate from now on, about which the authority has given no advice.
    pub(crate) fn begin(&mut self, issued: &Issued) {
        self.certificate = issued.id.to_string();
        (self.renew_at, self.advice_at) = (issued.life.renewal(fastrand::f64()), 0);
    }
}

/// The file of the certificate whose first host this is, with its key in front of it.
pub fn file_of(folder: &Path, host: &str) -> PathBuf {
    folder.join(CERTIFICATES).join(name_of(host) + ".pem")
}

/// A host as a file's name.
fn name_of(host: &str) -> String {
    host.replace('*', "_").replace(['/', ':'], "-")
}

impl Store {
    /// # Errors
    /// If a folder cannot be made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        for name in FOLDERS {
            match DirBuilder::new().mode(0o700).create(folder.join(name)) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(io::Error::new(
                        error.kind(),
                        format!("{}: {error}", folder.join(name).display()),
                    ));
                }
                _ => {}
            }
        }
        Ok(Self::at(folder))
    }

    /// One that is only looked at.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.into() }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // Its mode is 0600.
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(&self.folder))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    }

    pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    pub(crate) fn write_json(&self, path: &Path, value: &impl Serialize) -> io::Result<()> {
        self.write(path, &serde_json::to_vec(value)?)
    }

    /// The file of an account with the authority of this directory.
    pub(crate) fn account(&self, directory: &str) -> PathBuf {
        let name: String =
            directory.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.folder.join(ACCOUNTS).join(name + ".json")
    }

    fn state_path(&self, host: &str) -> PathBuf {
        self.folder.join(STATES).join(name_of(host) + ".json")
    }

    /// What is known of the certificate whose first host this is.
    pub fn state(&self, host: &str) -> State {
        Self::read_json(&self.state_path(host)).unwrap_or_default()
    }

    pub(crate) fn keep(&self, host: &str, state: &State) -> io::Result<()> {
        self.write_json(&self.state_path(host), state)
    }

    pub(crate) fn certificate_path(&self, host: &str) -> PathBuf {
        file_of(&self.folder, host)
    }

    /// The present certificate, if it can be read.
    pub(crate) fn issued(&self, host: &str) -> Option<Issued> {
        Issued::of_pem(&fs::read(self.certificate_path(host)).ok()?)
    }

    /// When the certificate whose first host this is expires.
    pub fn ends(&self, host: &str) -> Option<u64> {
        Some(self.issued(host)?.life.ends)
    }

    /// Asks the process that holds the lease to renew a certificate now.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn request(&self, host: &str) -> io::Result<()> {
        fs::write(self.folder.join(REQUESTS).join(name_of(host)), [])
    }

    /// Takes what was asked so: whether it is about the certificate whose first host is given.
    pub(crate) fn take_requests(&self) -> impl Fn(&str) -> bool + use<> {
        let files = fs::read_dir(self.folder.join(REQUESTS)).into_iter().flatten().flatten();
        let take = |file: fs::DirEntry| {
            fs::remove_file(file.path()).ok().and_then(|()| file.file_name().into_string().ok())
        };
        let names: Vec<String> = files.filter_map(take).collect();
        move |host| names.contains(&name_of(host))
    }

    fn server_path(&self, server: u64) -> PathBuf {
        self.folder.join(SERVERS).join(format!("{server:016x}.json"))
    }

    /// Says to all servers with this folder what this one wants.
    pub(crate) fn want(&self, server: u64, certificates: &[Vec<String>], now: u64) -> io::Result<()> {
        let wants = Wants { until: now + WANTED_FOR_S, certificates: certificates.to_vec() };
        self.write_json(&self.server_path(server), &wants)
    }

    pub(crate) fn want_no_more(&self, server: u64) {
        let _ = fs::remove_file(self.server_path(server));
    }

    /// What all servers want. Of two certificates with the same first host, the one of `own` is taken.
    pub(crate) fn all_wanted(&self, own: &[Vec<String>], now: u64) -> Vec<Vec<String>> {
        let mut all = own.to_vec();
        for file in fs::read_dir(self.folder.join(SERVERS)).into_iter().flatten().flatten() {
            match Self::read_json::<Wants>(&file.path()) {
                Some(wants) if now < wants.until => {
                    for hosts in wants.certificates {
                        if hosts.first().is_some_and(|host| all.iter().all(|known| known[0] != *host)) {
                            all.push(hosts);
                        }
                    }
                }
                Some(_) => _ = fs::remove_file(file.path()),
                None => {}
            }
        }
        all
    }

    pub(crate) fn show(&self, pending: &Pending) -> io::Result<()> {
        let path = self.folder.join(CHALLENGES).join(&pending.token);
        self.write(&path, format!("{} {}", pending.host, pending.key_authorization).as_bytes())
    }

    /// The challenges that are pending, of whichever server.
    pub(crate) fn pending(&self) -> Vec<Pending> {
        let files = fs::read_dir(self.folder.join(CHALLENGES)).into_iter().flatten().flatten();
        let read = |file: fs::DirEntry| {
            let token = file.file_name().into_string().ok().filter(|name| is_token(name))?;
            let text = fs::read_to_string(file.path()).ok()?;
            let (host, key_authorization) = text.split_once(' ')?;
            Some(Pending { token, host: host.into(), key_authorization: key_authorization.into() })
        };
        let mut pending: Vec<Pending> = files.filter_map(read).collect();
        pending.sort_by(|one, other| one.token.cmp(&other.token));
        pending
    }

    pub(crate) fn clear_challenges(&self) {
        for file in fs::read_dir(self.folder.join(CHALLENGES)).into_iter().flatten().flatten() {
            let _ = fs::remove_file(file.path());
        }
    }
}

/// RFC 8555 §8.3: base64url, which is no path.
pub(crate) fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=200).contains(&text.len()) && text.bytes().all(is_letter)
}

impl Issued {
    pub(crate) fn of_pem(pem: &[u8]) -> Option<Self> {
        let leaf = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
        let id = CertificateIdentifier::try_from(&leaf).ok()?.into_owned();
        let (_, leaf) = X509Certificate::from_der(&leaf).ok()?;
        let second = |seconds: i64| u64::try_from(seconds).unwrap_or_default();
        let validity = leaf.validity();
        let life = Life {
            begins: second(validity.not_before.timestamp()),
            ends: second(validity.not_after.timestamp()),
        };
        let names = leaf.subject_alternative_name().ok()??.value.general_names.iter();
        let names = names.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            GeneralName::IPAddress(bytes) => address(bytes),
            _ => None,
        });
        Some(Self { id, life, names: names.collect() })
    }

    /// Whether it is for these hosts and for no others.
    pub(crate) fn is_for(&self, hosts: &[String]) -> bool {
        self.names.len() == hosts.len() && hosts.iter().all(|host| self.names.contains(host))
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| std::net::Ipv4Addr::from(bytes).to_string());
    let v6 = <[u8; 16]>::try_from(bytes).map(|bytes| std::net::Ipv6Addr::from(bytes).to_string());
    v4.or(v6).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_for_their_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let state = State { hosts: vec!["*.example".into()], failures: 3, ..State::default() };
        store.keep("*.example", &state).unwrap();
        assert_eq!(store.state("*.example"), state);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&store.state_path("*.example")), 0o600);
        assert_eq!(mode(&folder.path().join(CERTIFICATES)), 0o700);
        assert_eq!(store.state("b.example"), State::default());
        fs::write(store.state_path("*.example"), "{").unwrap();
        assert_eq!(store.state("*.example"), State::default());
    }

    #[test]
    fn a_token_is_no_path() {
        for text in ["", ".", "..", "a/b", "a.b", &"a".repeat(201)] {
            assert!(!is_token(text), "{text}");
        }
        assert!(is_token("evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr_oA"));
        assert_eq!(file_of(Path::new("/a"), "*.example"), Path::new("/a/certificates/_.example.pem"));
        assert_eq!(file_of(Path::new("/a"), "../::1"), Path::new("/a/certificates/..---1.pem"));
    }

    #[test]
    fn what_all_servers_want_is_known_while_they_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let of = |hosts: &str| hosts.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let own = vec![of("a b")];
        store.want(1, &own, 1000).unwrap();
        store.want(2, &[of("a c"), of("d")], 1100).unwrap();
        assert_eq!(store.all_wanted(&own, 1200), [of("a b"), of("d")]);
        assert_eq!(store.all_wanted(&[], 1350), [of("a c"), of("d")], "one has not said so again");
        store.want_no_more(2);
        assert!(store.all_wanted(&[], 1350).is_empty());
    }

    #[test]
    fn requests_are_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        store.request("a.example").unwrap();
        let taken = store.take_requests();
        assert!(taken("a.example") && !taken("b.example"));
        assert!(!store.take_requests()("a.example"));
    }
}
