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
    records: Vec<Record>,
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.asker.store.clear_challenges();
        for record in &self.records {
            // The record was right, and tells nobody anything that stays a secret.
            let wait = |pause| {
                if (self.asker.wait)(pause).is_err() {
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
        // What a process has left that was killed.
        asker.store.clear_challenges();
        Self { asker, records: Vec::new() }
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
            let mut record = Record { host, value, hosts, remaining, output: None };
            if let Some(hook) = &self.asker.hook {
                record.output = Some(hook.run(&record, self.asker.wait)?);
            }
            self.records.push(record);
            return Ok(kind);
        }
        if !is_token(&challenge.token) {
            return Err(Refusal::new("the authority's token is none"));
        }
        let key_authorization = authorization.as_str().to_owned();
        self.asker.store.show(&Pending { token: challenge.token.clone(), host, key_authorization })?;
        Ok(kind)
    }

    /// The challenges that this server can answer, the best first. After a failure, another one comes first.
    fn kinds(&self, identifier: &Identifier, is_wildcard: bool, failures: u32) -> Vec<ChallengeType> {
        if self.asker.hook.is_some() {
            return vec![ChallengeType::Dns01];
        }
        if is_wildcard {
            return Vec::new();
        }
        let mut kinds = vec![ChallengeType::Http01, ChallengeType::TlsAlpn01];
        if let Identifier::Ip(_) = identifier {
            // In a handshake an address has the name of its reverse record, which no site has.
            return vec![ChallengeType::Http01];
        }
        if self.asker.settings.has_plain_listener == (failures % 2 == 1) {
            kinds.reverse();
        }
        kinds
    }
}

pub(crate) fn identifier(host: &str) -> Identifier {
    host.parse().map_or_else(|_| Identifier::Dns(host.into()), Identifier::Ip)
}

pub(crate) fn host_of(identifier: &Identifier) -> String {
    identifier.authorized(false).to_string()
}
