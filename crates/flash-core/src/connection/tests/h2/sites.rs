//! Which site answers over which transport: the same for HTTP/1 and HTTP/2.

use super::*;
use crate::connection::tests::statuses;
use crate::connection::transport::{
    ApplicationProtocol, CertificatesId, SiteCertificates, TlsInfo, TransportInfo,
};

const OWN: CertificatesId = CertificatesId(1);
const OTHER: CertificatesId = CertificatesId(2);
const EARLIER: CertificatesId = CertificatesId(3);

/// A world whose clients have seen these certificates, over TLS.
fn world_over_tls(certificates: CertificatesId, protocol: ApplicationProtocol) -> World {
    let mut world = world();
    world.site().certificates = Some(SiteCertificates { present: OWN, earlier: [EARLIER].into() });
    let tls = TlsInfo {
        protocol,
        certificates,
        version: 0x0304,
        cipher: 0x1301,
        has_client_certificate: false,
        is_early: false,
    };
    world.transport = world.transport.secured(tls);
    world
}

/// RFC 8470 §5.2.
#[test]
fn until_the_handshake_is_complete_only_get_and_head_are_answered() {
    for protocol in [ApplicationProtocol::Http1, ApplicationProtocol::Http2] {
        let mut world = world_over_tls(OWN, protocol);
        let tls = world.transport.tls.expect("it is secured");
        for is_early in [true, false] {
            world.transport.tls = Some(TlsInfo { is_early, ..tls });
            for (method, late) in
                [("GET", 200), ("HEAD", 200), ("OPTIONS", 204), ("DELETE", 405), ("POST", 405)]
            {
                let expected = if is_early && late != 200 { 425 } else { late };
                let status = match protocol {
                    ApplicationProtocol::Http1 => {
                        let request = format!("{method} /small.txt HTTP/1.1\r\nHost: a\r\n\r\n");
                        String::from_utf8_lossy(&world.ask(request)[9..12]).into_owned()
                    }
                    ApplicationProtocol::Http2 => {
                        ask(&mut world, method, "/small.txt", &[]).status().to_owned()
                    }
                };
                assert_eq!(status, expected.to_string(), "{protocol:?} {method} {is_early}");
            }
        }
    }
}

#[test]
fn a_request_for_a_site_with_other_certificates_is_misdirected() {
    for (certificates, expected) in [(OWN, 200), (OTHER, 421), (EARLIER, 200)] {
        let mut h1 = world_over_tls(certificates, ApplicationProtocol::Http1);
        assert_eq!(statuses(&h1.ask(get("/small.txt"))), [expected], "HTTP/1 with {certificates:?}");
        let mut h2 = world_over_tls(certificates, ApplicationProtocol::Http2);
        let answer = ask(&mut h2, "GET", "/small.txt", &[]);
        assert_eq!(answer.status(), expected.to_string(), "HTTP/2 with {certificates:?}");
    }
}

#[test]
fn a_request_without_tls_is_redirected_if_its_site_requires_tls() {
    for (port, location) in [(443, "https://a/small.txt"), (8443, "https://a:8443/small.txt")] {
        let mut world = world();
        world.site().https_port = Some(port);
        let h1 = reply(&world.ask(get("/small.txt")));
        assert_eq!((h1.status, h1.field("Location")), (308, Some(location)), "HTTP/1");
        let h2 = ask(&mut world, "GET", "/small.txt", &[]);
        assert_eq!((h2.status(), h2.field("location")), ("308", Some(location)), "HTTP/2");
        world.transport = TransportInfo { scheme: flash_http::Scheme::Https, ..world.transport };
        assert_eq!(ask(&mut world, "GET", "/small.txt", &[]).status(), "200", "behind a proxy with TLS");
    }
}

/// A proxy may say that its client speaks TLS. The client's certificate, nobody can show for it.
#[test]
fn a_proxys_word_is_no_clients_certificate() {
    let trusted = crate::clients::forwarded::TrustedProxies::new(
        vec!["192.0.2.7".parse().unwrap()],
        Default::default(),
    );
    for scheme in [flash_http::Scheme::Https, flash_http::Scheme::Http] {
        let mut world = world();
        world.site().requires_client_certificate = true;
        world.server.settings.trusted_proxies = trusted.clone();
        world.transport = TransportInfo { scheme, ..world.transport };
        for (forwarded, status) in [("https", 403), ("http", 308)] {
            let request =
                format!("GET /small.txt HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: {forwarded}\r\n\r\n");
            assert_eq!(statuses(&world.ask(request)), [status], "{scheme:?} {forwarded}");
            let answer = ask(&mut world, "GET", "/small.txt", &[("x-forwarded-proto", forwarded)]);
            assert_eq!(answer.status(), status.to_string(), "{scheme:?} {forwarded}");
        }
    }
    for protocol in [ApplicationProtocol::Http1, ApplicationProtocol::Http2] {
        for (has_client_certificate, status) in [(false, "403"), (true, "200")] {
            let mut world = world_over_tls(OWN, protocol);
            world.site().requires_client_certificate = true;
            let tls = world.transport.tls.expect("it is secured");
            world.transport.tls = Some(TlsInfo { has_client_certificate, ..tls });
            let answered = match protocol {
                ApplicationProtocol::Http1 => reply(&world.ask(get("/small.txt"))).status.to_string(),
                ApplicationProtocol::Http2 => ask(&mut world, "GET", "/small.txt", &[]).status().to_owned(),
            };
            assert_eq!(answered, status, "{protocol:?}");
        }
    }
}
