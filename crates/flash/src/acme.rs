//! `flash acme`: the certificates of an authority, by the folder where the server keeps them.
//!
//! The folder is the server's user's, and so is what is done in it, whoever asks.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use flash_acme::{Settings, State, Store};
use flash_core::printable::printable;
use flash_os::user::{self, User};
use rustix::process::geteuid;

use crate::config;
use crate::failure::{Failure, cannot};
use crate::flags::{AcmeCommand, AcmeFolder, AcmeHosts};
use crate::serve;

/// What the configuration asks an authority for.
struct Asked {
    settings: Settings,
    /// The hosts of each certificate.
    certificates: Vec<Vec<String>>,
}

/// # Errors
/// If the folder cannot be used; for `status`, also if a certificate has not been issued.
pub(crate) fn run(command: &AcmeCommand) -> Result<(), Failure> {
    match command {
        AcmeCommand::Status(of) => open(of)?.status(),
        AcmeCommand::Renew(AcmeHosts { hosts, of }) => {
            let asked = open(of)?;
            hosts.iter().try_for_each(|host| asked.renew(host))
        }
        AcmeCommand::Revoke(AcmeHosts { hosts, of }) => {
            let asked = open(of)?;
            hosts.iter().try_for_each(|host| {
                asked.check(host)?;
                flash_acme::revoke(&asked.settings, host)
                    .map_err(|why| Failure::Run(format!("cannot revoke the certificate of {host}: {why}")))?;
                asked.renew(host)
            })
        }
    }
}

/// Reads the configuration. From now on this process is the user's whose folder it is.
fn open(of: &AcmeFolder) -> Result<Asked, Failure> {
    let (settings, certificates) = serve::wanted_certificates(&*config::look(&of.config)?);
    let failed = |error| unread(&settings.folder, &error);
    let found = fs::metadata(&settings.folder).map_err(failed)?;
    if geteuid().is_root() && found.uid() != 0 {
        let owner = User { id: found.uid(), group: found.gid(), home: "/".into() };
        user::become_user(None, &owner).map_err(failed)?;
    }
    Ok(Asked { settings, certificates })
}

fn unread(folder: &Path, error: &std::io::Error) -> Failure {
    cannot(format_args!("use {} (acme-folder)", folder.display()), error)
}

impl Asked {
    fn check(&self, host: &str) -> Result<(), Failure> {
        match self.certificates.iter().any(|hosts| hosts[0] == host) {
            true => Ok(()),
            false => Err(Failure::Run(format!(
                "{host} is not the first host of a certificate: see flash acme status"
            ))),
        }
    }

    fn renew(&self, host: &str) -> Result<(), Failure> {
        self.check(host)?;
        let folder = &self.settings.folder;
        Store::at(folder).request(host).map_err(|error| unread(folder, &error))
    }

    fn status(&self) -> Result<(), Failure> {
        let store = Store::at(&self.settings.folder);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let states: Result<Vec<State>, _> =
            self.certificates.iter().map(|hosts| store.state(&hosts[0])).collect();
        let states = states.map_err(|error| unread(&self.settings.folder, &error))?;
        let known = self.certificates.iter().zip(&states);
        let lines: String =
            known.map(|(hosts, state)| line(hosts, state, store.ends(&hosts[0]), now)).collect();
        flash_cli::print(lines.as_bytes())?;
        match states.iter().filter(|state| state.failures > 0).count() {
            0 => Ok(()),
            count => Err(Failure::Run(format!("{count} of {} certificates were not issued", states.len()))),
        }
    }
}

fn line(hosts: &[String], state: &State, ends: Option<u64>, now: u64) -> String {
    let hosts = hosts.join(", ");
    let expires = match ends {
        None => "no certificate".to_owned(),
        Some(ends) if ends <= now => "expired".into(),
        Some(ends) => format!("expires in {}", duration(ends - now)),
    };
    let comes = match state.failures {
        0 if state.hosts.is_empty() => "nothing was asked so far".to_owned(),
        0 => format!("is renewed in {}", duration(state.renew_at.saturating_sub(now))),
        failures => format!(
            "failed {failures} times, is asked for again in {}: {}",
            duration(state.retry_at.saturating_sub(now)),
            printable(format_args!("{}", state.failure))
        ),
    };
    let why = match &*state.explanation {
        "" => String::new(),
        why => format!("; the authority explains it at {}", printable(format_args!("{why}"))),
    };
    let staple = match state.staple.failures {
        0 => String::new(),
        failures => format!(
            "; OCSP failed {failures} times, is asked for again in {}: {}",
            duration(state.staple.ask_at.saturating_sub(now)),
            printable(format_args!("{}", state.staple.failure))
        ),
    };
    format!("{hosts}: {expires}, {comes}{why}{staple}\n")
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..7_200 => format!("{} minutes", seconds.div_ceil(60)),
        7_200..172_800 => format!("{} hours", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use flash_acme::Staple;

    use super::*;

    #[test]
    fn a_line_says_what_comes_next() {
        let hosts = vec!["a.example".to_owned(), "b.example".into()];
        assert_eq!(
            line(&hosts, &State::default(), None, 1000),
            "a.example, b.example: no certificate, nothing was asked so far\n"
        );
        let state = State { hosts: hosts.clone(), renew_at: 1000 + 20 * 86_400, ..State::default() };
        let good = line(&hosts, &state, Some(1000 + 30 * 86_400), 1000);
        assert_eq!(good, "a.example, b.example: expires in 30 days, is renewed in 20 days\n");
        let explained = State { explanation: "https://a\u{1b}".into(), ..state.clone() };
        let explained = line(&hosts[..1], &explained, Some(1000 + 30 * 86_400), 1000);
        assert_eq!(
            explained,
            "a.example: expires in 30 days, is renewed in 20 days; the authority explains it at https://a\\u{1b}\n"
        );
        let staple = Staple { failures: 3, failure: "no\n".into(), ask_at: 1540, ..Staple::default() };
        let unstapled = line(&hosts[..1], &State { staple, ..state.clone() }, Some(1000 + 30 * 86_400), 1000);
        assert_eq!(
            unstapled,
            "a.example: expires in 30 days, is renewed in 20 days; OCSP failed 3 times, is asked for again in 9 minutes: no\\n\n"
        );
        let failed = State { failures: 2, failure: "no\u{1b}[2J".into(), retry_at: 1090, ..state };
        let failed = line(&hosts, &failed, None, 1000);
        assert_eq!(
            failed,
            "a.example, b.example: no certificate, failed 2 times, is asked for again in 2 minutes: no\\u{1b}[2J\n"
        );
    }
}
