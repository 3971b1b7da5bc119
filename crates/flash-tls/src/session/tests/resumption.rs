//! Sessions that are resumed, and those of clients whose certificates have expired.

use std::thread;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::SupportedProtocolVersion;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;

#[test]
fn sessions_resume() {
    for versions in [&[&version::TLS13][..], &[&version::TLS12]] {
        let (endpoint, config) = endpoint_of(versions);
        let kinds: Vec<HandshakeKind> = (0..3)
            .map(|_| {
                let mut peers = Peers::new(&endpoint, &config);
                peers.client.writer().write_all(b"x").unwrap();
                peers.exchange(usize::MAX);
                assert_eq!(peers.received, b"x");
                peers.secured[0].1
            })
            .collect();
        assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed]);
    }
}

/// An endpoint that requires certificates, and a client with a chain of so many, whose own is valid until then.
pub(super) fn endpoint_of_clients(
    version: &'static SupportedProtocolVersion,
    early_data: bool,
    chain: usize,
    until: SystemTime,
) -> (Arc<Endpoint>, Arc<ClientConfig>) {
    let folder = tempfile::tempdir().unwrap();
    let (root_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = params.self_signed(&root_key).unwrap();
    let path = folder.path().join("clients.pem");
    std::fs::write(&path, root.pem()).unwrap();
    let mut own = CertificateParams::default();
    own.not_after = until.into();
    let own = own.signed_by(&key, &Issuer::new(params, root_key)).unwrap();
    let mut certificates: Vec<CertificateDer<'static>> = vec![own.der().clone()];
    certificates.resize(chain, root.der().clone());
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    endpoint_asking(
        &[version],
        early_data,
        |_| Some(ClientAuthorities::read(&path, true, &flash_trust::open).unwrap()),
        |builder| builder.with_client_auth_cert(certificates, key).unwrap(),
    )
}

/// What comes of a client's next connection.
fn connect(endpoint: &Arc<Endpoint>, config: &Arc<ClientConfig>) -> Result<HandshakeKind, Failure> {
    let mut peers = Peers::new(endpoint, config);
    peers.client.writer().write_all(b"x").unwrap();
    peers.try_exchange(usize::MAX)?;
    assert_eq!(peers.received, b"x");
    Ok(peers.secured[0].1)
}

#[test]
fn an_expired_certificate_resumes_no_session() {
    let until = SystemTime::now() + Duration::from_secs(3);
    let made = [
        (&version::TLS13, false),
        (&version::TLS12, false),
        (&version::TLS13, true),
        (&version::TLS12, true),
    ];
    let clients = made.map(|(version, early_data)| {
        (version, early_data, endpoint_of_clients(version, early_data, 1, until))
    });
    for (version, early_data, (endpoint, config)) in &clients {
        let kinds = [(); 2].map(|()| connect(endpoint, config).unwrap());
        assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed], "{version:?}, {early_data}");
    }
    assert!(SystemTime::now() < until, "the machine is too slow for this test");
    // The certificate's time is in whole seconds.
    while SystemTime::now() < until + Duration::from_secs(1) {
        thread::sleep(Duration::from_millis(50));
    }
    for (version, early_data, (endpoint, config)) in &clients {
        let result = connect(endpoint, config);
        let is_expired = matches!(
            result,
            Err(Failure::BadClientCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. }
            ))
        );
        assert!(is_expired, "{version:?}, {early_data}: {result:?}");
    }
}

/// Its ticket would make the next ClientHello too long.
#[test]
fn a_session_of_many_certificates_is_not_resumed() {
    let until = SystemTime::now() + Duration::from_secs(1000);
    for (chain, kind) in [(10, HandshakeKind::Resumed), (30, HandshakeKind::Full)] {
        for (version, early_data) in
            [(&version::TLS13, false), (&version::TLS12, false), (&version::TLS13, true)]
        {
            let (endpoint, config) = endpoint_of_clients(version, early_data, chain, until);
            let kinds = [(); 2].map(|()| connect(&endpoint, &config).unwrap());
            assert_eq!(kinds, [HandshakeKind::Full, kind], "{version:?}, {early_data}, {chain}");
        }
    }
}
