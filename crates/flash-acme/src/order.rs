//! One order: from the account to the certificate and its key.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, Authorizations, CertificateIdentifier,
    ChallengeStatus, NewOrder, Order, OrderState, OrderStatus, RevocationReason,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_RSA_SHA256, RsaKeySize};

use crate::asker::Asker;
use crate::begun::{Asked, Begun};
use crate::board::cut;
use crate::challenge::{Shown, host_of, identifier};
use crate::http_client;
use crate::issued::Issued;
use crate::refusal::{Kind, Refusal, words_of};
use crate::settings::{KeyKind, Settings};
use crate::state::Advice;

/// Other servers with the same folder see challenges within this time.
const SEEN_WITHIN: Duration = Duration::from_secs(2);
/// An order may take that long.
const ORDER: Duration = Duration::from_secs(15 * 60);
const LOOK_MIN: Duration = Duration::from_secs(1);
const LOOK_MAX: Duration = Duration::from_secs(30);
/// The only profile by which Let's Encrypt issues certificates for addresses.
const OF_ADDRESSES: &str = "shortlived";
/// A longer URL is cut.
const EXPLANATION_BYTES_MAX: usize = 500;
/// An order that was refused so often is given up.
const FAILURES_MAX: u32 = 5;
/// How often an order begins again because the authority has forgotten its nonces.
const TRIES: usize = 6;

impl Asker<'_> {
    /// Gets a certificate for these hosts, and writes it with its key. `failures` is how often that has failed before.
    pub(crate) fn obtain(
        &self,
        hosts: &[String],
        replaces: Option<&CertificateIdentifier<'_>>,
        failures: u32,
    ) -> Result<Issued, Refusal> {
        let (mut replaces, mut has_account, mut last) = (replaces, true, None);
        for _ in 0..TRIES {
            let account = self.account()?;
            let refusal = match self.try_to_obtain(&account, hosts, replaces, failures) {
                Ok(issued) => return Ok(issued),
                Err(refusal) => refusal,
            };
            match refusal.kind {
                Kind::CannotReplace => replaces = None,
                Kind::BadNonce => {}
                Kind::NoAccount if std::mem::take(&mut has_account) => self.forget(&account)?,
                _ => return Err(refusal),
            }
            last = Some(refusal);
        }
        Err(last.unwrap_or_else(|| Refusal::new("nothing was asked")))
    }

    fn try_to_obtain(
        &self,
        account: &Account,
        hosts: &[String],
        replaces: Option<&CertificateIdentifier<'_>>,
        failures: u32,
    ) -> Result<Issued, Refusal> {
        let asked = self.asked(account, hosts);
        let (mut order, begun) = match self.go_on(account, &asked)? {
            Some(known) => known,
            None => self.begin(account, asked, replaces)?,
        };
        let chain = match self.complete(account, &mut order, (hosts, &begun.key), failures) {
            Ok(chain) => chain,
            Err(refusal) => {
                self.count_failure(&mut order, begun, refusal.kind)?;
                return Err(refusal);
            }
        };
        let pem = begun.key + &chain;
        let issued = Issued::of_pem(pem.as_bytes())
            .filter(|issued| issued.is_for(hosts))
            .ok_or_else(|| Refusal::new("what the authority has issued is no certificate for these hosts"))?;
        if issued.life.ends <= (self.clock)() {
            return Err(Refusal::new(
                "what the authority has issued has expired, or this machine's clock is wrong",
            ));
        }
        if issued.must_staple {
            // Clients refuse it without one. If there is none yet, it is asked for again.
            let _ = self.staple(&hosts[0], pem.as_bytes());
        }
        self.store.write_certificate(&hosts[0], pem.as_bytes())?;
        self.store.forget_begun(&hosts[0]);
        Ok(issued)
    }

    fn asked(&self, account: &Account, hosts: &[String]) -> Asked {
        let Settings { directory, profile, key, .. } = &self.settings;
        let has_address = hosts.iter().any(|host| host.parse::<IpAddr>().is_ok());
        let of_addresses = || account.profiles().any(|profile| profile.name == OF_ADDRESSES);
        let profile =
            profile.clone().or_else(|| (has_address && of_addresses()).then(|| OF_ADDRESSES.into()));
        Asked { hosts: hosts.to_vec(), directory: directory.clone(), profile, key: *key }
    }

    /// The order that an earlier process or an earlier try has begun for the same.
    fn go_on(&self, account: &Account, asked: &Asked) -> Result<Option<(Order, Begun)>, Refusal> {
        let begun = self.store.begun(&asked.hosts[0]).filter(|begun| begun.asked == *asked);
        let Some(begun) = begun else { return Ok(None) };
        match self.ask(account.order(begun.url.clone())) {
            Ok(mut order) => Ok((order.state().status != OrderStatus::Invalid).then_some((order, begun))),
            // It may know nothing of it any more.
            Err(Refusal { kind: Kind::Other, retry_after_s: None, .. }) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Gives an order up that cannot go on, or that the authority has refused often. Whether it can be reached says nothing of an order.
    fn count_failure(&self, order: &mut Order, begun: Begun, kind: Kind) -> io::Result<()> {
        let (host, failures) = (begun.asked.hosts[0].clone(), begun.failures + 1);
        if order.state().status == OrderStatus::Invalid || kind == Kind::Other && failures >= FAILURES_MAX {
            self.store.forget_begun(&host);
        } else if kind == Kind::Other {
            self.store.keep_begun(&host, &Begun { failures, ..begun })?;
        }
        Ok(())
    }

    /// Begins an order, and keeps it with its key: an authority counts what it has issued, whether anybody has got it or not.
    fn begin(
        &self,
        account: &Account,
        asked: Asked,
        replaces: Option<&CertificateIdentifier<'_>>,
    ) -> Result<(Order, Begun), Refusal> {
        let key = match asked.key {
            KeyKind::Ecdsa => KeyPair::generate(),
            KeyKind::Rsa => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
        };
        let key = key.map_err(Refusal::new)?.serialize_pem();
        let identifiers: Vec<_> = asked.hosts.iter().map(|host| identifier(host)).collect();
        let mut new = NewOrder::new(&identifiers);
        if let Some(profile) = &asked.profile {
            new = new.profile(profile);
        }
        if let Some(id) = replaces {
            new = new.replaces(id.clone().into_owned());
        }
        let order = self.ask(account.new_order(&new)).map_err(|refusal| match refusal {
            // It may know nothing of the certificate to be replaced.
            Refusal { kind: Kind::Other, retry_after_s: None, why } if replaces.is_some() => {
                Refusal { kind: Kind::CannotReplace, retry_after_s: None, why }
            }
            refusal => refusal,
        })?;
        let begun = Begun { url: order.url().into(), key, asked, failures: 0 };
        self.store.keep_begun(&begun.asked.hosts[0], &begun)?;
        Ok((order, begun))
    }

    /// Does what an order still needs. Returns the certificate with the intermediate ones.
    fn complete(
        &self,
        account: &Account,
        order: &mut Order,
        (hosts, key): (&[String], &str),
        failures: u32,
    ) -> Result<String, Refusal> {
        if order.state().status == OrderStatus::Pending {
            let shown = self.authorize(order, hosts, failures)?;
            self.wait_until(order, |state| state.status != OrderStatus::Pending)?;
            drop(shown);
        }
        if order.state().status == OrderStatus::Ready {
            let key = KeyPair::from_pem(key).map_err(Refusal::new)?;
            let mut params = CertificateParams::new(hosts).map_err(Refusal::new)?;
            params.distinguished_name = DistinguishedName::new();
            let request = params.serialize_request(&key).map_err(Refusal::new)?;
            self.ask(order.finalize_csr(request.der()))?;
        }
        self.wait_until(order, |state| matches!(state.status, OrderStatus::Valid | OrderStatus::Invalid))?;
        if order.state().status == OrderStatus::Invalid {
            return Err(self.why_invalid(account, order));
        }
        let chain = self.ask(order.certificate())?;
        chain.ok_or_else(|| Refusal::new("the authority has issued no certificate"))
    }

    /// Shows the answers for all hosts about which the authority does not know yet, and has it look at them.
    fn authorize<'s>(
        &'s self,
        order: &mut Order,
        hosts: &[String],
        failures: u32,
    ) -> Result<Shown<'s>, Refusal> {
        let mut shown = Shown::nothing(self);
        let mut kinds = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(mut authorization) = self.next(&mut authorizations)? {
            let remaining = hosts.len().saturating_sub(kinds.len() + 1);
            kinds.push(match authorization.status {
                AuthorizationStatus::Valid => None,
                _ => Some(shown.show(&mut authorization, (hosts, remaining), failures)?),
            });
        }
        if kinds.iter().any(Option::is_some) {
            self.halt.wait(SEEN_WITHIN)?;
        }
        let (mut authorizations, mut kinds) = (order.authorizations(), kinds.into_iter());
        while let Some(mut authorization) = self.next(&mut authorizations)? {
            let Some(kind) = kinds.next().flatten() else { continue };
            // An earlier process may have said so.
            match authorization.challenge(kind) {
                Some(mut challenge) if challenge.status == ChallengeStatus::Pending => {
                    self.ask(challenge.set_ready())?;
                }
                _ => {}
            }
        }
        Ok(shown)
    }

    fn next<'a>(&self, all: &'a mut Authorizations<'_>) -> Result<Option<AuthorizationHandle<'a>>, Refusal> {
        let next = all.next();
        self.ask(async { next.await.transpose() })
    }

    fn wait_until(&self, order: &mut Order, is_over: impl Fn(&OrderState) -> bool) -> Result<(), Refusal> {
        let (mut waited, mut doubled) = (Duration::ZERO, LOOK_MIN);
        while !is_over(order.state()) {
            let asked = http_client::retry_after_s().map_or(doubled, Duration::from_secs);
            let pause = asked.clamp(LOOK_MIN, LOOK_MAX);
            if waited >= ORDER {
                let minutes = ORDER.as_secs() / 60;
                return Err(Refusal::new(format_args!("the order is not done after {minutes} minutes")));
            }
            self.halt.wait(pause)?;
            (waited, doubled) = (waited + pause, pause * 2);
            match self.ask(order.refresh()) {
                // The next one brings its own.
                Ok(_) | Err(Refusal { kind: Kind::BadNonce, .. }) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(())
    }

    /// What the authority says of the challenges that it has looked at in vain.
    fn why_invalid(&self, account: &Account, order: &mut Order) -> Refusal {
        let mut reasons = Vec::new();
        if let Ok(mut order) = self.ask(account.order(order.url().to_owned())) {
            let mut authorizations = order.authorizations();
            while let Ok(Some(authorization)) = self.next(&mut authorizations) {
                let problems =
                    authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
                let host = host_of(authorization.identifier().identifier);
                reasons.extend(problems.map(|problem| format!("{host}: {}", words_of(problem))));
            }
        }
        reasons.extend(order.state().error.as_ref().map(words_of));
        Refusal::new(if reasons.is_empty() { "the order is invalid".into() } else { reasons.join("; ") })
    }

    /// When the authority wants a certificate to be renewed. `None` if it gives no advice.
    pub(crate) fn advice(&self, id: &CertificateIdentifier<'_>) -> Result<Option<Advice>, Refusal> {
        let account = self.account()?;
        let second = |time: i64| u64::try_from(time).unwrap_or_default();
        let advice = self.ask(async {
            match account.renewal_info(id).await {
                Err(instant_acme::Error::Unsupported(_)) => Ok(None),
                advice => advice.map(Some),
            }
        })?;
        let advice = advice.map(|(info, again)| {
            let window = info.suggested_window;
            let window = second(window.start.unix_timestamp())..second(window.end.unix_timestamp());
            let explanation = info.explanation_url.unwrap_or_default();
            Advice {
                window,
                again_s: again.as_secs(),
                explanation: cut(&explanation, EXPLANATION_BYTES_MAX).into(),
            }
        });
        // RFC 9773 §4.2: any other one is none.
        Ok(advice.filter(|advice| !advice.window.is_empty()))
    }

    /// Tells the authority that a certificate must not be trusted any more.
    pub(crate) fn revoke(&self, host: &str) -> Result<(), Refusal> {
        use rustls::pki_types::{CertificateDer, pem::PemObject};
        let certificate =
            CertificateDer::from_pem_file(self.store.certificate_path(host)).map_err(Refusal::new)?;
        let reason = Some(RevocationReason::KeyCompromise);
        let request = instant_acme::RevocationRequest { certificate: &certificate, reason };
        self.ask(self.account()?.revoke(&request))
    }
}
