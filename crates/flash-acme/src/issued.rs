//! A certificate that an authority has issued.

use flash_tls::Leaf;
use instant_acme::CertificateIdentifier;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::renewal::Life;

#[derive(Clone, Debug)]
pub(crate) struct Issued {
    /// By which the authority knows it, if it names the key of its issuer.
    pub(crate) id: Option<CertificateIdentifier<'static>>,
    pub(crate) serial: String,
    pub(crate) life: Life,
    pub(crate) names: Vec<String>,
    pub(crate) must_staple: bool,
    /// Where the authority answers by OCSP.
    pub(crate) responder: Option<String>,
}

impl Issued {
    pub(crate) fn of_pem(pem: &[u8]) -> Option<Self> {
        let der = CertificateDer::pem_slice_iter(pem).next()?.ok()?;
        let id = CertificateIdentifier::try_from(&der).ok().map(CertificateIdentifier::into_owned);
        let Leaf { serial, names, validity_unix_s: [begins, ends], must_staple, responder } =
            Leaf::read(&der).ok()?;
        Some(Self { id, serial, life: Life { begins, ends }, names, must_staple, responder })
    }

    /// Whether an answer of its authority is stapled to it.
    pub(crate) fn is_stapled(&self) -> bool {
        self.must_staple || self.responder.is_some()
    }

    /// Whether it is for these hosts. An authority may add others.
    pub(crate) fn is_for(&self, hosts: &[String]) -> bool {
        hosts.iter().all(|host| self.names.contains(host))
    }
}
