//! The authority's answer that it has not revoked a certificate (OCSP): asked for, checked, and kept beside the certificate.

use std::fs;
use std::time::Duration;

use flash_tls::ocsp::{Staple, Subject};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::asker::Asker;
use crate::refusal::Refusal;
use crate::renewal::Life;

/// The answer that lies beside a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) life: Life,
    /// It was written just now.
    pub(crate) is_new: bool,
}

impl Asker<'_> {
    /// Has an answer beside the certificate whose first host this is.
    pub(crate) fn staple_kept(&self, host: &str) -> Result<Kept, Refusal> {
        self.staple(host, &fs::read(self.store.certificate_path(host))?)
    }

    /// The same for a certificate that may not be written yet.
    pub(crate) fn staple(&self, host: &str, pem: &[u8]) -> Result<Kept, Refusal> {
        let chain: Result<Vec<CertificateDer<'_>>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let chain = chain.map_err(Refusal::new)?;
        let subject = Subject::of(&chain).map_err(Refusal::new)?;
        let now = (self.clock)();
        let kept = self.store.staple(host).and_then(|kept| subject.read(&kept).ok());
        let kept = kept.filter(|kept| kept.is_valid(now)).map(life_of);
        if let Some(life) = kept.filter(|life| now < life.half()) {
            return Ok(Kept { life, is_new: false });
        }
        let responder = subject.responder();
        let responder = responder.ok_or_else(|| Refusal::new("the certificate does not say who answers"))?;
        self.halt.wait(Duration::ZERO)?;
        let answer = self.http.staple(&responder, subject.request().map_err(Refusal::new)?)?;
        let staple = subject.read(&answer);
        let staple = staple.map_err(|why| Refusal::new(format_args!("{responder}: {why}")))?;
        if !staple.is_valid(now) {
            let why = "its answer is of another time, or this machine's clock is wrong";
            return Err(Refusal::new(format_args!("{responder}: {why}")));
        }
        let kept = newer(kept, life_of(staple));
        if kept.is_new {
            self.store.write_staple(host, &answer)?;
        }
        Ok(kept)
    }
}

fn life_of(staple: Staple) -> Life {
    let [begins, ends] = staple.validity_unix_s;
    Life { begins, ends }
}

/// A responder may repeat an answer, and one of several may be behind the others.
fn newer(kept: Option<Life>, answer: Life) -> Kept {
    match kept {
        Some(life) if life.ends >= answer.ends => Kept { life, is_new: false },
        _ => Kept { life: answer, is_new: true },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_if_it_is_true_for_longer_than_the_one_before() {
        let [older, kept, later] = [900, 1000, 1100].map(|ends| Life { begins: ends - 500, ends });
        for (before, answer, result) in [
            (None, kept, Kept { life: kept, is_new: true }),
            (Some(kept), older, Kept { life: kept, is_new: false }),
            (Some(kept), kept, Kept { life: kept, is_new: false }),
            (Some(kept), later, Kept { life: later, is_new: true }),
        ] {
            assert_eq!(newer(before, answer), result, "{before:?} {answer:?}");
        }
    }
}
