//! The authority's answer that it has not revoked a certificate (OCSP): asked for, checked, and kept beside the certificate.

use std::fs;
use std::time::Duration;

use flash_tls::ocsp::Subject;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::asker::Asker;
use crate::issued::Issued;
use crate::refusal::Refusal;

impl Asker<'_> {
    /// Has an answer beside the certificate whose first host this is. Returns when half of the answer's life has passed.
    pub(crate) fn staple_kept(&self, host: &str) -> Result<u64, Refusal> {
        self.staple(host, &fs::read(self.store.certificate_path(host))?)
    }

    /// The same for a certificate that may not be written yet.
    pub(crate) fn staple(&self, host: &str, pem: &[u8]) -> Result<u64, Refusal> {
        let chain: Result<Vec<CertificateDer<'_>>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let chain = chain.map_err(Refusal::new)?;
        let subject = Subject::of(&chain).map_err(Refusal::new)?;
        let now = (self.clock)();
        let kept = self.store.staple(host).and_then(|kept| subject.read(&kept).ok());
        if let Some(kept) = kept.filter(|kept| kept.is_valid(now) && now < kept.half()) {
            return Ok(kept.half());
        }
        let responder = Issued::of_pem(pem).and_then(|issued| issued.responder);
        let responder = responder.ok_or_else(|| Refusal::new("the certificate does not say who answers"))?;
        self.halt.wait(Duration::ZERO)?;
        let answer = self.http.staple(&responder, subject.request().map_err(Refusal::new)?)?;
        let staple = subject.read(&answer);
        let staple = staple.map_err(|why| Refusal::new(format_args!("{responder}: {why}")))?;
        if !staple.is_valid(now) {
            let why = "its answer is of another time, or this machine's clock is wrong";
            return Err(Refusal::new(format_args!("{responder}: {why}")));
        }
        self.store.write_staple(host, &staple.der)?;
        Ok(staple.half())
    }
}
