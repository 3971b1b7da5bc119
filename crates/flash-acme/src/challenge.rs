//! How this server shows that a host is its own: which challenge is taken, what is put where the authority looks, and its removal.

use std::thread;

use instant_acme::{AuthorizationHandle, ChallengeType, Identifier};

use crate::asker::Asker;
use crate::board::Pending;
use crate::hook::Record;
use crate::refusal::Refusal;
use crate::store::is_token;

/// The challenges of an order that the authority may look at. They are removed with this.
pub(crate) struct Shown<'a> {
    asker: &'a Asker<'a>,
    tokens: Vec<String>,
    records: Vec<Record>,
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.tokens.iter().for_each(|token| self.asker.store.hide(token));
        for record in &self.records {
            // The record was right, and tells nobody anything that stays a secret.
            let wait = |pause| {
                if self.asker.halt.wait(pause).is_err() {
                    thread::sleep(pause);
                }
                Ok(())
            };
            let _ = self.asker.hook.as_ref().map(|hook| hook.run(record, wait));
        }
    }
}

impl<'a> Shown<'a> {
    pub(crate) fn nothing(asker: &'a Asker<'a>) -> Self {
        Self { asker, tokens: Vec::new(), records: Vec::new() }
    }

    /// Puts the answer for one host where the authority looks for it. Returns the kind of challenge.
    pub(crate) fn show<'h>(
        &mut self,
        authorization: &'h mut AuthorizationHandle<'h>,
        (hosts, remaining): (&[String], usize),
        failures: u32,
    ) -> Result<ChallengeType, Refusal> {
        let identifier = authorization.identifier();
        let (host, is_wildcard) = (host_of(identifier.identifier), identifier.wildcard);
        if !is_asked(&host, hosts) {
            return Err(Refusal::new("the authority asks about a host that the certificate is not for"));
        }
        let offered: Vec<&ChallengeType> = authorization.challenges.iter().map(|of| &of.r#type).collect();
        let kinds = self.kinds(identifier.identifier, is_wildcard, failures);
        let Some(kind) = kinds.into_iter().find(|kind| offered.contains(&kind)) else {
            let hint = if is_wildcard { ": write acme-dns" } else { "" };
            return Err(Refusal::new(format_args!(
                "of the challenges that the authority offers for {host}, this server can answer none{hint}"
            )));
        };
        let Some(challenge) = authorization.challenge(kind.clone()) else {
            return Err(Refusal::new("the authority has no challenge"));
        };
        let authorization = challenge.key_authorization();
        if kind == ChallengeType::Dns01 {
            let (value, hosts) = (authorization.dns_value(), hosts.to_vec());
            let record = Record { host, value, hosts, remaining, output: None };
            // It is removed even if the program fails, which may have set it before.
            self.records.push(Record { output: Some(String::new()), ..record.clone() });
            if let (Some(hook), Some(kept)) = (&self.asker.hook, self.records.last_mut()) {
                kept.output = Some(hook.run(&record, |pause| self.asker.halt.wait(pause))?);
            }
            return Ok(kind);
        }
        if !is_token(&challenge.token) {
            return Err(Refusal::new("the authority's token is none"));
        }
        let key_authorization = authorization.as_str().to_owned();
        self.tokens.push(challenge.token.clone());
        self.asker.store.show(&Pending { token: challenge.token.clone(), host, key_authorization })?;
        Ok(kind)
    }

    /// The challenges that this server can answer, the best first. After a failure, another one comes first.
    fn kinds(&self, identifier: &Identifier, is_wildcard: bool, failures: u32) -> Vec<ChallengeType> {
        // An address has no records (RFC 8738 §7).
        if self.asker.hook.is_some() && !matches!(identifier, Identifier::Ip(_)) {
            return vec![ChallengeType::Dns01];
        }
        if is_wildcard {
            return Vec::new();
        }
        let mut kinds = vec![ChallengeType::Http01, ChallengeType::TlsAlpn01];
        if self.asker.settings.has_plain_listener == (failures % 2 == 1) {
            kinds.reverse();
        }
        kinds
    }
}

pub(crate) fn identifier(host: &str) -> Identifier {
    host.parse().map_or_else(|_| Identifier::Dns(host.into()), Identifier::Ip)
}

/// Whether a certificate for these hosts was asked for, and so `host` is to be shown to be this server's. What an authority sends is
/// no host until then.
fn is_asked(host: &str, hosts: &[String]) -> bool {
    let name = |asked: &String| host_of(&identifier(asked.strip_prefix("*.").unwrap_or(asked)));
    hosts.iter().any(|asked| name(asked).eq_ignore_ascii_case(host))
}

pub(crate) fn host_of(identifier: &Identifier) -> String {
    identifier.authorized(false).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_asks_about_the_hosts_of_the_order_alone() {
        let hosts = ["a.example", "*.b.example", "2001:db8::1"].map(str::to_owned);
        for host in ["a.example", "A.Example", "b.example", "2001:db8::1"] {
            assert!(is_asked(host, &hosts), "{host}");
        }
        for host in ["", "c.b.example", "a\nTOKEN victim.example TOKEN.THUMBPRINT\nz", "a.example b", "*"] {
            assert!(!is_asked(host, &hosts), "{host}");
        }
    }
}
