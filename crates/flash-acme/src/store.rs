//! The folder where accounts, certificates and what has failed are kept. Each file is for its user alone, and is replaced by renaming.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use flash_tls::certificates::staple_of;
use flash_tls::{Certificate, CertificateFiles};
use rustix::process::geteuid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::begun::Begun;
use crate::board::Pending;
use crate::issued::Issued;
use crate::state::State;

#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// The folders in it.
const ACCOUNTS: &str = "accounts";
const CERTIFICATES: &str = "certificates";
const STATES: &str = "states";
/// Orders that have begun, with the keys of their certificates.
const ORDERS: &str = "orders";
const CHALLENGES: &str = "challenges";
/// Where `flash acme renew` asks.
const REQUESTS: &str = "requests";
/// What each server wants.
const SERVERS: &str = "servers";
const FOLDERS: [&str; 7] = [ACCOUNTS, CERTIFICATES, STATES, ORDERS, CHALLENGES, REQUESTS, SERVERS];
/// A server that has not said so again by then wants nothing any more.
const WANTED_FOR_S: u64 = 300;
const CLOCKS_DIFFER_S: u64 = 60;
/// What the names of files begin with that are not written to their end.
const UNFINISHED: &str = ".tmp";

/// What a server wants.
#[derive(Serialize, Deserialize)]
struct Wants {
    until: u64,
    certificates: Vec<Vec<String>>,
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
    /// If a folder cannot be made, or if another user decides what is in it.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let found = fs::metadata(folder)?;
        if found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
            let why =
                format!("{}: the server's user has to own it, and no other may write it", folder.display());
            return Err(io::Error::new(ErrorKind::PermissionDenied, why));
        }
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

    /// Writes a file that is of no use after the machine has been off: nothing waits for the disk.
    fn write_for_now(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // Closed first, so that other machines see all of it under its name (NFS).
        self.unfinished(path, bytes)?.into_temp_path().persist(path)?;
        Ok(())
    }

    /// Writes a file that lasts, if its content is right as a file.
    fn write_checked(
        &self,
        path: &Path,
        bytes: &[u8],
        check: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let file = self.unfinished(path, bytes)?;
        check(file.path())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        // Its name.
        File::open(self.folder_of(path))?.sync_all()
    }

    fn unfinished(&self, path: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
        // Its mode is 0600.
        let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(self.folder_of(path))?;
        file.write_all(bytes)?;
        Ok(file)
    }

    fn folder_of<'p>(&'p self, path: &'p Path) -> &'p Path {
        path.parent().unwrap_or(&self.folder)
    }

    /// # Errors
    /// InvalidData if the file has another content.
    pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| failed(io::Error::new(ErrorKind::InvalidData, error))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    pub(crate) fn write_json(&self, path: &Path, value: &impl Serialize) -> io::Result<()> {
        self.write_checked(path, &serde_json::to_vec(value)?, |_| Ok(()))
    }

    /// The same of what is of no use after the machine has been off.
    pub(crate) fn write_json_for_now(&self, path: &Path, value: &impl Serialize) -> io::Result<()> {
        self.write_for_now(path, &serde_json::to_vec(value)?)
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
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn state(&self, host: &str) -> io::Result<State> {
        Self::read_json(&self.state_path(host)).map(Option::unwrap_or_default)
    }

    pub(crate) fn keep(&self, host: &str, state: &State) -> io::Result<()> {
        self.write_json(&self.state_path(host), state)
    }

    fn order_path(&self, host: &str) -> PathBuf {
        self.folder.join(ORDERS).join(name_of(host) + ".json")
    }

    /// The order that has begun for the certificate whose first host this is. One whose certificate is there is over.
    pub(crate) fn begun(&self, host: &str) -> Option<Begun> {
        let begun: Begun = Self::read_json(&self.order_path(host)).ok()??;
        let present = fs::read(self.certificate_path(host)).unwrap_or_default();
        (!present.starts_with(begun.key.as_bytes())).then_some(begun)
    }

    pub(crate) fn keep_begun(&self, host: &str, begun: &Begun) -> io::Result<()> {
        self.write_json(&self.order_path(host), begun)
    }

    pub(crate) fn forget_begun(&self, host: &str) {
        let _ = fs::remove_file(self.order_path(host));
    }

    pub(crate) fn certificate_path(&self, host: &str) -> PathBuf {
        file_of(&self.folder, host)
    }

    /// Keeps a certificate behind its key.
    ///
    /// # Errors
    /// Also if the server could not use it.
    pub(crate) fn write_certificate(&self, host: &str, pem: &[u8]) -> io::Result<()> {
        self.write_checked(&self.certificate_path(host), pem, |path| {
            let files = CertificateFiles { certificate: path.into(), key: path.into(), stand_in: Vec::new() };
            let read = Certificate::read(&files, &|path| File::open(path));
            read.map(drop).map_err(|why| {
                let why = why.replace(&*path.to_string_lossy(), "its file");
                io::Error::other(format!("what the authority has issued cannot be used: {why}"))
            })
        })
    }

    /// The present certificate, if it can be read.
    pub(crate) fn issued(&self, host: &str) -> Option<Issued> {
        Issued::of_pem(&fs::read(self.certificate_path(host)).ok()?)
    }

    /// What the authority has answered about the certificate whose first host this is.
    pub(crate) fn staple(&self, host: &str) -> Option<Vec<u8>> {
        fs::read(staple_of(&self.certificate_path(host))).ok()
    }

    pub(crate) fn write_staple(&self, host: &str, der: &[u8]) -> io::Result<()> {
        self.write_checked(&staple_of(&self.certificate_path(host)), der, |_| Ok(()))
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
        move |host| !names.is_empty() && names.contains(&name_of(host))
    }

    fn server_path(&self, server: u64) -> PathBuf {
        self.folder.join(SERVERS).join(format!("{server:016x}.json"))
    }

    /// Says to all servers with this folder what this one wants.
    pub(crate) fn want(&self, server: u64, certificates: &[Vec<String>], now: u64) -> io::Result<()> {
        let wants = Wants { until: now + WANTED_FOR_S, certificates: certificates.to_vec() };
        self.write_json_for_now(&self.server_path(server), &wants)
    }

    pub(crate) fn want_no_more(&self, server: u64) {
        let _ = fs::remove_file(self.server_path(server));
    }

    /// What all servers want. Of two certificates with the same first host, the one of `own` is taken.
    pub(crate) fn all_wanted(&self, own: &[Vec<String>], now: u64) -> Vec<Vec<String>> {
        let (mut all, mut known) = (Vec::new(), BTreeSet::new());
        let mut add = |certificates: Vec<Vec<String>>| {
            let new = |hosts: &Vec<String>| hosts.first().is_some_and(|host| known.insert(host.clone()));
            all.extend(certificates.into_iter().filter(new));
        };
        add(own.to_vec());
        for file in fs::read_dir(self.folder.join(SERVERS)).into_iter().flatten().flatten() {
            match Self::read_json::<Wants>(&file.path()) {
                Ok(Some(wants))
                    if (now + 1..=now + WANTED_FOR_S + CLOCKS_DIFFER_S).contains(&wants.until) =>
                {
                    add(wants.certificates);
                }
                Ok(Some(_)) => _ = fs::remove_file(file.path()),
                // The machine was off before it was whole.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => _ = fs::remove_file(file.path()),
                Ok(None) | Err(_) => {}
            }
        }
        all
    }

    pub(crate) fn show(&self, pending: &Pending) -> io::Result<()> {
        let path = self.folder.join(CHALLENGES).join(&pending.token);
        self.write_for_now(&path, format!("{} {}", pending.host, pending.key_authorization).as_bytes())
    }

    /// The challenges that are pending, of whichever server.
    pub(crate) fn pending(&self) -> Vec<Pending> {
        let files = fs::read_dir(self.folder.join(CHALLENGES)).into_iter().flatten().flatten();
        let read = |file: fs::DirEntry| {
            let token = file.file_name().into_string().ok().filter(|name| is_token(name))?;
            let text = fs::read_to_string(file.path()).ok()?;
            // On the board each has a line.
            let (host, key_authorization) =
                text.split_once(' ').filter(|_| !text.contains(char::is_control))?;
            Some(Pending { token, host: host.into(), key_authorization: key_authorization.into() })
        };
        let mut pending: Vec<Pending> = files.filter_map(read).collect();
        pending.sort_by(|one, other| one.token.cmp(&other.token));
        pending
    }

    pub(crate) fn hide(&self, token: &str) {
        let _ = fs::remove_file(self.folder.join(CHALLENGES).join(token));
    }

    /// Removes what a process has left that was killed while it held the lease.
    pub(crate) fn clear_leftovers(&self) {
        let in_folder = |name| fs::read_dir(self.folder.join(name)).into_iter().flatten().flatten();
        let is_unfinished =
            |file: &fs::DirEntry| file.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
        let unfinished =
            [ACCOUNTS, CERTIFICATES, STATES, ORDERS].into_iter().flat_map(in_folder).filter(is_unfinished);
        for file in unfinished.chain(in_folder(CHALLENGES)) {
            let _ = fs::remove_file(file.path());
        }
    }
}

/// RFC 8555 §8.3: base64url, which is no path.
pub(crate) fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=200).contains(&text.len()) && text.bytes().all(is_letter)
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
        assert_eq!(store.state("*.example").unwrap(), state);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&store.state_path("*.example")), 0o600);
        assert_eq!(mode(&folder.path().join(CERTIFICATES)), 0o700);
        assert_eq!(store.state("b.example").unwrap(), State::default());
        fs::write(store.state_path("*.example"), "{").unwrap();
        let why = store.state("*.example").unwrap_err().to_string();
        assert!(why.contains("_.example.json"), "{why}");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o770)).unwrap();
        assert!(Store::open(folder.path()).is_err(), "others may put a link in the place of a folder");
    }

    #[test]
    fn what_the_server_could_not_use_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let [key, other] = [(); 2].map(|()| rcgen::KeyPair::generate().unwrap());
        let params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        let leaf = params.self_signed(&key).unwrap().pem();
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n";
        for (pem, why) in [
            (other.serialize_pem() + &leaf, "its file: this is not the key"),
            (key.serialize_pem() + &leaf + broken, "no certificate"),
        ] {
            let error = store.write_certificate("a.example", pem.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert!(store.issued("a.example").is_none());
        }
        store.write_certificate("a.example", (key.serialize_pem() + &leaf).as_bytes()).unwrap();
        // It names no key of its issuer.
        let issued = store.issued("a.example").unwrap();
        assert!(issued.id.is_none() && issued.is_for(&["a.example".into()]));
        assert!(!issued.is_for(&["a.example".into(), "b.example".into()]));
    }

    #[test]
    fn challenges_are_removed_one_by_one_and_leftovers_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let pending = |token: &str| Pending {
            token: token.into(),
            host: "a.example".into(),
            key_authorization: format!("{token}.thumbprint"),
        };
        ["one", "two"].iter().for_each(|token| store.show(&pending(token)).unwrap());
        store.hide("one");
        assert_eq!(store.pending(), [pending("two")]);
        fs::write(folder.path().join("challenges/three"), "a\nTOKEN b.example x\n TOKEN").unwrap();
        assert_eq!(store.pending(), [pending("two")], "it would be two lines of the board");
        fs::write(folder.path().join("certificates/.tmpAbCdEf"), "a key").unwrap();
        store.keep("a.example", &State::default()).unwrap();
        store.clear_leftovers();
        assert!(store.pending().is_empty() && store.state_path("a.example").exists());
        assert!(fs::read_dir(folder.path().join("certificates")).unwrap().next().is_none());
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
        store.want(3, &[of("e")], 4_000_000_000).unwrap();
        assert_eq!(store.all_wanted(&[], 1350), [of("a c"), of("d")], "its clock was wrong");
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
