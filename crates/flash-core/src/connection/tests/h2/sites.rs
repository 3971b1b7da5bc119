//! Which site answers over which transport: the same for HTTP/1 and HTTP/2.

use super::*;
use crate::connection::tests::statuses;
use crate::transport::{ApplicationProtocol, CertificatesId, SiteCertificates, TlsInfo, TransportInfo};

const OWN: CertificatesId = CertificatesId(1);
const OTHER: CertificatesId = CertificatesId(2);
const EARLIER: CertificatesId = CertificatesId(3);

/// A world whose clients have seen these certificates, over TLS.
fn world_over_tls(certificates: CertificatesId, protocol: ApplicationProtocol) -> World {
    let mut world = world();
    world.site().certificates = Some(SiteCertificates { present: OWN, earlier: [EARLIER].into() });
    world.transport =
        world.transport.secured(TlsInfo { protocol, certificates, version: 0x0304, cipher: 0x1301 });
    world
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
