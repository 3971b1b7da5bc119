//! An authority's word that it has not revoked a certificate (OCSP, RFC 6960), which a server staples to its handshakes.
//!
//! On bytes: who asks the authority, and when, is not known here.

use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use rustls::crypto;
use rustls::pki_types::{CertificateDer, UnixTime};
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_cert::der::asn1::{Null, ObjectIdentifier, OctetString};
use x509_cert::der::{self, AnyRef, Decode, Encode, Reader, SliceReader};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::AlgorithmIdentifierOwned;
use x509_ocsp::{
    BasicOcspResponse, CertId, CertStatus, OcspGeneralizedTime, OcspRequest, OcspResponse,
    OcspResponseStatus, Request, SingleResponse, TbsRequest, Version,
};
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

/// A certificate that an authority is asked about, and the one that the authority has issued it with.
pub struct Subject<'c> {
    leaf: X509Certificate<'c>,
    issuer: X509Certificate<'c>,
    issuer_der: &'c CertificateDer<'c>,
}

/// An answer of the authority that the certificate is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staple {
    /// From when until when it is true, in seconds since 1970.
    pub validity_unix_s: [u64; 2],
}

/// id-ad-ocsp (RFC 5280 §4.2.2.1).
const RESPONDER: &str = "1.3.6.1.5.5.7.48.1";
const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");
const SHA2: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
/// id-kp-OCSPSigning (RFC 6960 §4.2.2.2), as DER has it.
const MAY_SIGN: &[u8] = &[43, 6, 1, 5, 5, 7, 3, 9];
/// id-pkix-ocsp-basic.
const BASIC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1.1");
/// An authority's clock may be ahead.
const CLOCKS_DIFFER_S: u64 = 300;

impl Staple {
    pub fn is_valid(&self, now: u64) -> bool {
        let [begins, ends] = self.validity_unix_s;
        (begins.saturating_sub(CLOCKS_DIFFER_S)..ends).contains(&now)
    }
}

/// Where the authority answers, if a certificate says so.
pub(crate) fn responder_of(leaf: &X509Certificate<'_>) -> Option<String> {
    let of_extension = |extension: &ParsedExtension<'_>| {
        let ParsedExtension::AuthorityInfoAccess(access) = extension else { return None };
        let mut answering =
            access.accessdescs.iter().filter(|of| of.access_method.to_id_string() == RESPONDER);
        answering.find_map(|of| match of.access_location {
            GeneralName::URI(url) => Some(url.to_owned()),
            _ => None,
        })
    };
    leaf.extensions().iter().find_map(|extension| of_extension(extension.parsed_extension()))
}

impl<'c> Subject<'c> {
    /// # Errors
    /// If the chain lacks the certificate that has issued the first one.
    pub fn of(chain: &'c [CertificateDer<'c>]) -> Result<Self, String> {
        let [leaf_der, issuer_der, ..] = chain else {
            return Err("the certificate of the authority is missing in its file".into());
        };
        let read = |der: &'c CertificateDer<'c>| {
            let read = X509Certificate::from_der(der).map(|(_, certificate)| certificate);
            read.map_err(|error| format!("no certificate of X.509: {error}"))
        };
        Ok(Self { leaf: read(leaf_der)?, issuer: read(issuer_der)?, issuer_der })
    }

    /// Where the authority answers, if the certificate says so.
    pub fn responder(&self) -> Option<String> {
        responder_of(&self.leaf)
    }

    /// What the authority is sent (RFC 5019 §2.1).
    ///
    /// # Errors
    /// If the certificate's number is longer than any authority's.
    pub fn request(&self) -> Result<Vec<u8>, String> {
        let request = || {
            let [name, key] = self.hashes(&SHA1_FOR_LEGACY_USE_ONLY).map(OctetString::new);
            let req_cert = CertId {
                hash_algorithm: AlgorithmIdentifierOwned { oid: SHA1, parameters: Some(Null.into()) },
                issuer_name_hash: name?,
                issuer_key_hash: key?,
                serial_number: SerialNumber::new(self.leaf.raw_serial())?,
            };
            let request_list = vec![Request { req_cert, single_request_extensions: None }];
            let tbs_request = TbsRequest {
                version: Version::V1,
                requestor_name: None,
                request_list,
                request_extensions: None,
            };
            OcspRequest { tbs_request, optional_signature: None }.to_der()
        };
        request().map_err(|error: der::Error| format!("cannot ask about the certificate: {error}"))
    }

    fn hashes(&self, algorithm: &'static Algorithm) -> [Vec<u8>; 2] {
        let key = &self.issuer.public_key().subject_public_key.data;
        [self.leaf.issuer().as_raw(), key].map(|bytes| digest(algorithm, bytes).as_ref().to_vec())
    }

    /// Reads an answer. Whether its time has come, and has not passed, its [validity](Staple::is_valid) says.
    ///
    /// # Errors
    /// If it is none, if the authority has not signed it, or if it says anything but that this certificate is good.
    pub fn read(&self, answer: &[u8]) -> Result<Staple, String> {
        let no_answer = |error: der::Error| format!("no answer of OCSP: {error}");
        let response = OcspResponse::from_der(answer).map_err(no_answer)?;
        if response.response_status != OcspResponseStatus::Successful {
            return Err(format!("the authority does not answer: {:?}", response.response_status));
        }
        let bytes = response.response_bytes.filter(|bytes| bytes.response_type == BASIC);
        let bytes = bytes.ok_or("no answer of OCSP in its basic form")?;
        let signed = SliceReader::new(bytes.response.as_bytes())
            .and_then(|mut reader| {
                reader.sequence(|inner| {
                    inner.tlv_bytes().map(<[u8]>::to_vec).and_then(|signed| {
                        while !inner.is_finished() {
                            inner.tlv_bytes()?;
                        }
                        Ok(signed)
                    })
                })
            })
            .map_err(no_answer)?;
        let basic = BasicOcspResponse::from_der(bytes.response.as_bytes()).map_err(no_answer)?;
        let time = |time: OcspGeneralizedTime| time.0.to_unix_duration().as_secs();
        self.check_signature(&basic, &signed, time(basic.tbs_response_data.produced_at))?;
        let mut all = basic.tbs_response_data.responses.iter();
        let own =
            all.find(|of| self.is_about(&of.cert_id)).ok_or("the answer is about another certificate")?;
        let SingleResponse { cert_status, this_update, next_update, .. } = own;
        match cert_status {
            CertStatus::Good(_) => {}
            CertStatus::Revoked(_) => return Err("the authority has revoked the certificate".into()),
            CertStatus::Unknown(_) => return Err("the authority does not know the certificate".into()),
        }
        let next_update = next_update.ok_or("the answer does not say until when it is true")?;
        Ok(Staple { validity_unix_s: [time(*this_update), time(next_update)] })
    }

    fn is_about(&self, id: &CertId) -> bool {
        let algorithm = match id.hash_algorithm.oid {
            SHA1 => &SHA1_FOR_LEGACY_USE_ONLY,
            SHA2 => &SHA256,
            _ => return false,
        };
        let plain = |number: &[u8]| number.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<_>>();
        let [name, key] = self.hashes(algorithm);
        id.issuer_name_hash.as_bytes() == name
            && id.issuer_key_hash.as_bytes() == key
            && plain(id.serial_number.as_bytes()) == plain(self.leaf.raw_serial())
    }

    /// The authority signs itself, or has issued a certificate to the one that does (RFC 6960 §4.2.2.2).
    fn check_signature(&self, basic: &BasicOcspResponse, signed: &[u8], at: u64) -> Result<(), String> {
        let algorithms = crypto::aws_lc_rs::default_provider().signature_verification_algorithms.all;
        let id = basic.signature_algorithm.to_der().unwrap_or_default();
        let id = AnyRef::from_der(&id).map(|id| id.value()).unwrap_or_default();
        let signature = basic.signature.raw_bytes();
        let has_signed = |key: &EndEntityCert<'_>| {
            let mut usable =
                algorithms.iter().filter(|algorithm| algorithm.signature_alg_id().as_ref() == id);
            usable.any(|algorithm| key.verify_signature(*algorithm, signed, signature).is_ok())
        };
        if EndEntityCert::try_from(self.issuer_der).is_ok_and(|issuer| has_signed(&issuer)) {
            return Ok(());
        }
        let anchor = anchor_from_trusted_cert(self.issuer_der).map_err(|error| error.to_string())?;
        let (anchors, at) = ([anchor], UnixTime::since_unix_epoch(Duration::from_secs(at)));
        let is_signer = |der: &CertificateDer<'_>| {
            let Ok(signer) = EndEntityCert::try_from(der) else { return false };
            let usage = KeyUsage::required(MAY_SIGN);
            let issued = signer.verify_for_usage(algorithms, &anchors, &[], at, usage, None, None);
            issued.is_ok() && has_signed(&signer)
        };
        let others = basic.certs.iter().flatten().filter_map(|other| other.to_der().ok());
        match others.map(CertificateDer::from).any(|der| is_signer(&der)) {
            true => Ok(()),
            false => Err("the authority has not signed the answer".into()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
        KeyPair, SerialNumber as Serial, SigningKey,
    };
    use x509_cert::der::asn1::{BitString, GeneralizedTime};
    use x509_cert::der::oid::db::rfc5912::ECDSA_WITH_SHA_256;
    use x509_cert::name::Name;
    use x509_ocsp::{ResponderId, ResponseData, RevokedInfo};

    use super::*;

    pub(crate) const BEGINS: u64 = 1_800_000_000;
    pub(crate) const ENDS: u64 = BEGINS + 7 * 86_400;

    /// An authority, and a certificate that it has issued.
    pub(crate) struct Bench {
        authority: Issuer<'static, KeyPair>,
        chain: Vec<CertificateDer<'static>>,
        /// The certificate with its key, as a file has them.
        pub(crate) pem: String,
    }

    pub(crate) fn bench() -> Bench {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = params.self_signed(&key).unwrap();
        let authority = Issuer::new(params, key);
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        // With a byte in front that keeps it positive.
        params.serial_number = Some(Serial::from_slice(&[0x81, 2, 3]));
        let url = b"http://ocsp.example/a";
        let place = [&[0x86, url.len() as u8], &url[..]].concat();
        let access = [&[0x30, place.len() as u8 + 10, 6, 8, 43, 6, 1, 5, 5, 7, 48, 1], &place[..]].concat();
        let value = [&[0x30, access.len() as u8], &access[..]].concat();
        params.custom_extensions.push(CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], value));
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &authority).unwrap();
        let pem = key.serialize_pem() + &leaf.pem() + &own.pem();
        Bench { authority, chain: vec![leaf.der().clone(), own.der().clone()], pem }
    }

    fn at(seconds: u64) -> OcspGeneralizedTime {
        OcspGeneralizedTime(GeneralizedTime::from_unix_duration(Duration::from_secs(seconds)).unwrap())
    }

    impl Bench {
        /// The authority's answer that the certificate is good.
        pub(crate) fn good(&self) -> Vec<u8> {
            self.answer(&self.chain, CertStatus::good(), self.authority.key(), None)
        }

        /// One that may sign in the authority's place, if it is said to.
        fn signer(&self, usage: Option<ExtendedKeyUsagePurpose>) -> (KeyPair, CertificateDer<'static>) {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::default();
            params.extended_key_usages.extend(usage);
            let certificate = params.signed_by(&key, &self.authority).unwrap();
            (key, certificate.der().clone())
        }

        /// An answer to the request about a certificate of this chain.
        fn answer(
            &self,
            about: &[CertificateDer<'_>],
            cert_status: CertStatus,
            key: &KeyPair,
            signer: Option<&CertificateDer<'_>>,
        ) -> Vec<u8> {
            let request = Subject::of(about).unwrap().request().unwrap();
            let mut asked = OcspRequest::from_der(&request).unwrap().tbs_request.request_list;
            let single = SingleResponse {
                cert_id: asked.remove(0).req_cert,
                cert_status,
                this_update: at(BEGINS),
                next_update: Some(at(ENDS)),
                single_extensions: None,
            };
            let tbs_response_data = ResponseData {
                version: Version::V1,
                responder_id: ResponderId::ByName(Name::default()),
                produced_at: at(BEGINS),
                responses: vec![single],
                response_extensions: None,
            };
            let signature = key.sign(&tbs_response_data.to_der().unwrap()).unwrap();
            let basic = BasicOcspResponse {
                tbs_response_data,
                signature_algorithm: AlgorithmIdentifierOwned { oid: ECDSA_WITH_SHA_256, parameters: None },
                signature: BitString::from_bytes(&signature).unwrap(),
                certs: signer.map(|der| vec![Decode::from_der(der).unwrap()]),
            };
            OcspResponse::successful(basic).unwrap().to_der().unwrap()
        }
    }

    #[test]
    fn an_answer_is_about_this_certificate_and_says_until_when() {
        let bench = bench();
        let subject = Subject::of(&bench.chain).unwrap();
        assert_eq!(subject.responder().as_deref(), Some("http://ocsp.example/a"));
        let good = bench.good();
        let staple = subject.read(&good).unwrap();
        assert_eq!(staple.validity_unix_s, [BEGINS, ENDS]);
        for (now, is_valid) in [(BEGINS - 301, false), (BEGINS - 300, true), (ENDS - 1, true), (ENDS, false)]
        {
            assert_eq!(staple.is_valid(now), is_valid, "{now}");
        }
        let revoked = RevokedInfo { revocation_time: at(BEGINS), revocation_reason: None };
        for (about, status, why) in [
            (&bench.chain, CertStatus::revoked(revoked), "has revoked the certificate"),
            (&bench.chain, CertStatus::unknown(), "does not know the certificate"),
            (&super::tests::bench().chain, CertStatus::good(), "about another certificate"),
        ] {
            let answer = bench.answer(about, status, bench.authority.key(), None);
            let error = subject.read(&answer).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        for broken in [&b""[..], &[0x30, 3, 10, 1, 6], &good[..good.len() - 1]] {
            assert!(subject.read(broken).is_err());
        }
        assert!(Subject::of(&bench.chain[..1]).is_err_and(|why| why.contains("missing in its file")));
    }

    #[test]
    fn the_authority_signs_or_has_another_sign() {
        let bench = bench();
        let subject = Subject::of(&bench.chain).unwrap();
        let answer = |key: &KeyPair, signer: Option<&CertificateDer<'_>>| {
            subject.read(&bench.answer(&bench.chain, CertStatus::good(), key, signer))
        };
        let (key, signer) = bench.signer(Some(ExtendedKeyUsagePurpose::OcspSigning));
        assert!(answer(&key, Some(&signer)).is_ok());
        let (others_key, others) = self::bench().signer(Some(ExtendedKeyUsagePurpose::OcspSigning));
        let (site_key, site) = bench.signer(Some(ExtendedKeyUsagePurpose::ServerAuth));
        let (plain_key, plain) = bench.signer(None);
        for (key, signer) in [
            (&key, None),
            (&others_key, Some(&signer)),
            (&others_key, Some(&others)),
            (&site_key, Some(&site)),
            (&plain_key, Some(&plain)),
        ] {
            let why = answer(key, signer).unwrap_err();
            assert!(why.contains("has not signed"), "{why}");
        }
    }
}
