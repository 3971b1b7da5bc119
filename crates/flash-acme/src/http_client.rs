//! The requests to an authority: a thread makes one at a time, each with an end in time and in size.

use std::cell::Cell;
use std::fmt;
use std::fs;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body::Body;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::clock::unix_seconds;
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::state::ADVICE_S;

/// For a whole request.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Chains of certificates are the longest answers.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// An answer of OCSP is a few kilobytes, which each handshake repeats.
const STAPLE_BYTES_MAX: u64 = 16 << 10;
const OWN_NAME: &str = concat!("flash/", env!("CARGO_PKG_VERSION"));

#[derive(Clone, Debug)]
pub(crate) struct Http {
    agent: ureq::Agent,
    /// For those whose answers are signed.
    responders: ureq::Agent,
}

thread_local! {
    static RETRY_AFTER_S: Cell<Option<u64>> = const { Cell::new(None) };
}

/// How long the last answer to this thread asks to wait, if it does.
pub(crate) fn retry_after_s() -> Option<u64> {
    RETRY_AFTER_S.get()
}

impl Http {
    /// # Errors
    /// If no authority could be verified.
    pub(crate) fn new(settings: &Settings) -> io::Result<Self> {
        let roots: Vec<CertificateDer<'static>> = match &settings.roots {
            Some(path) => {
                let wrong = |why: &dyn fmt::Display| io::Error::other(format!("{}: {why}", path.display()));
                let pem = fs::read(path).map_err(|error| wrong(&error))?;
                CertificateDer::pem_slice_iter(&pem)
                    .collect::<Result<_, _>>()
                    .map_err(|error| wrong(&error))?
            }
            None => rustls_native_certs::load_native_certs().certs,
        };
        if roots.is_empty() {
            let why = "there is no root certificate to verify the authority's server by";
            let file =
                settings.roots.as_ref().map_or_else(String::new, |path| format!("{}: ", path.display()));
            return Err(io::Error::other(file + why));
        }
        let roots: Vec<_> = roots.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&roots))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        let tls = tls.build();
        let config = || {
            ureq::Agent::config_builder()
                .tls_config(tls.clone())
                .http_status_as_error(false)
                .timeout_global(Some(TIMEOUT))
        };
        // RFC 8555 §6.1.
        let agent = config().https_only(true).build().new_agent();
        // Whoever is on the way to a responder without TLS could lead this process to any server that it reaches.
        let responders = config().max_redirects(0).build().new_agent();
        Ok(Self { agent, responders })
    }

    /// An authority's answer by OCSP (RFC 6960 appendix A).
    pub(crate) fn staple(&self, responder: &str, request: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        let cannot = |why: &dyn fmt::Display| Refusal::new(format_args!("cannot ask {responder}: {why}"));
        let asked = Request::post(responder)
            .header(USER_AGENT, OWN_NAME)
            .header(CONTENT_TYPE, "application/ocsp-request")
            .body(request)
            .map_err(|error| cannot(&error))?;
        let mut response = self.responders.run(asked).map_err(|error| cannot(&error))?;
        if response.status() != StatusCode::OK {
            let retry_after_s = response.headers().get(RETRY_AFTER).and_then(seconds);
            let status = response.status();
            return Err(Refusal { retry_after_s, ..cannot(&format_args!("it answers {status}")) });
        }
        let body = response.body_mut().with_config().limit(STAPLE_BYTES_MAX).read_to_vec();
        body.map_err(|error| cannot(&error))
    }

    fn answer(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let other = |error: ureq::Error| Error::Other(Box::new(error));
        RETRY_AFTER_S.set(None);
        let (mut parts, body) = request.into_parts();
        let is_get = parts.method == Method::GET;
        parts.headers.insert(USER_AGENT, HeaderValue::from_static(OWN_NAME));
        let response = match parts.method {
            Method::POST => self.agent.run(Request::from_parts(parts, bytes_of(body))),
            _ => self.agent.run(Request::from_parts(parts, ())),
        };
        let (mut parts, mut body) = response.map_err(other)?.into_parts();
        let retry_after_s = parts.headers.get(RETRY_AFTER).and_then(seconds);
        RETRY_AFTER_S.set(retry_after_s.filter(|seconds| *seconds > 0));
        if is_get && retry_after_s.is_none() {
            // Advice that does not say when it is to be asked for again the library would pass over.
            parts.headers.insert(RETRY_AFTER, ADVICE_S.into());
        }
        let bytes = body.with_config().limit(ANSWER_BYTES_MAX).read_to_vec().map_err(other)?;
        Ok(BytesResponse { parts, body: Box::new(Bytes::from(bytes)) })
    }
}

impl HttpClient for Http {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(std::future::ready(self.answer(request)))
    }
}

/// How long a field asks to wait, by a number or a date (RFC 9110 §10.2.3).
fn seconds(value: &HeaderValue) -> Option<u64> {
    let number = || value.to_str().ok()?.trim().parse().ok();
    let date = || u64::try_from(flash_http::date::parse(value.as_bytes())?).ok();
    number().or_else(|| Some(date()?.saturating_sub(unix_seconds())))
}

fn bytes_of(mut body: BodyWrapper<Bytes>) -> Vec<u8> {
    let mut cx = Context::from_waker(Waker::noop());
    match Pin::new(&mut body).poll_frame(&mut cx) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().map(Vec::from).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// The result of a future that waits for nothing but this client, whose requests block. The library panics at some answers: at a URL
/// that is none, and at a time that no clock has.
pub(crate) fn now<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let poll = || pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    match catch_unwind(AssertUnwindSafe(poll)) {
        Ok(Poll::Ready(result)) => result,
        Ok(Poll::Pending) => {
            unreachable!("its timers are not used, and its requests are done when they return")
        }
        Err(_) => Err(Error::Other("its answer makes no sense".into())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::mpsc;
    use std::thread;

    use instant_acme::Account;

    use super::*;
    use crate::settings::KeyKind;

    #[test]
    fn a_responder_leads_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("ca.pem");
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(&root, own.cert.pem()).unwrap();
        let http = Http::new(&Settings {
            directory: String::new(),
            roots: Some(root),
            email: None,
            profile: None,
            folder: folder.path().into(),
            key: KeyKind::Ecdsa,
            hooks: Vec::new(),
            account_binding: None,
            has_plain_listener: true,
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let responder = format!("http://{}/", listener.local_addr().unwrap());
        let elsewhere = format!("{responder}internal");
        let (told, requests) = mpsc::channel();
        thread::spawn(move || {
            for mut socket in listener.incoming().flatten() {
                let line = BufReader::new(&socket).lines().next().unwrap().unwrap();
                told.send(line).unwrap();
                let _ = write!(
                    socket,
                    "HTTP/1.1 302 Found\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
            }
        });
        let refusal = http.unwrap().staple(&responder, Vec::new()).unwrap_err();
        assert!(refusal.why.contains("it answers 302"), "{}", refusal.why);
        assert_eq!(requests.try_iter().collect::<Vec<_>>(), ["POST / HTTP/1.1"]);
    }

    #[derive(Debug)]
    struct Liar;

    impl HttpClient for Liar {
        fn request(
            &self,
            _: Request<BodyWrapper<Bytes>>,
        ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
            let directory = r#"{"newNonce": "", "newAccount": "", "newOrder": ""}"#;
            let (parts, ()) = http::Response::new(()).into_parts();
            Box::pin(std::future::ready(Ok(BytesResponse { parts, body: Box::new(Bytes::from(directory)) })))
        }
    }

    #[test]
    fn what_the_library_cannot_read_is_an_error_and_ends_no_process() {
        let account = instant_acme::NewAccount {
            contact: &[],
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        for directory in ["https://localhost/dir", "https://["] {
            let builder = Account::builder_with_http(Box::new(Liar));
            assert!(now(builder.create(&account, directory.into(), None)).is_err(), "{directory}");
        }
    }
}
