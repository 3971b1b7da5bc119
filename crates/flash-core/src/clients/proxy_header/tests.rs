//! Headers of both versions, right and wrong, whole and in pieces.

use super::*;

fn v2_header(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [V2_START, &[command, family], &length, body].concat()
}

fn client(bytes: &[u8]) -> Option<String> {
    match decode(bytes) {
        Ok(Decoded::Complete(header, count)) if count == bytes.len() => {
            Some(header.client.map_or("none".into(), |client| client.to_string()))
        }
        Ok(other) => panic!("{other:?}: {}", bytes.escape_ascii()),
        Err(NoProxyHeader) => None,
    }
}

const IPV4: &[u8] = &[192, 0, 2, 1, 198, 51, 100, 1, 0x1f, 0x90, 0, 80];

#[test]
fn version_1() {
    for (line, expected) in [
        ("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n", Some("192.0.2.1:56324")),
        ("PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n", Some("[2001:db8::1]:1")),
        ("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", Some("192.0.2.1:1")),
        ("PROXY UNKNOWN\r\n", Some("none")),
        ("PROXY UNKNOWN ffff:f:f:f:f:f:f:f ffff::1 65535 65535\r\n", Some("none")),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n", None),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 1\r\n", None),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 56324 +443\r\n", None),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 65536 443\r\n", None),
        ("PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n", None),
        ("PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n", None),
        ("PROXY TCP4  192.0.2.1 198.51.100.1 1 2\r\n", None),
        ("PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n", None),
        ("PROXY \r\n", None),
        ("PROXY UNKNOWN\n", None),
        ("proxy UNKNOWN\r\n", None),
        ("GET / HTTP/1.1\r\n", None),
    ] {
        assert_eq!(client(line.as_bytes()).as_deref(), expected, "{line}");
    }
    let long = format!("PROXY UNKNOWN {}", "x".repeat(V1_BYTES_MAX));
    assert_eq!(decode(long.as_bytes()), Err(NoProxyHeader));
    assert_eq!(decode(&long.as_bytes()[..V1_BYTES_MAX - 1]), Ok(Decoded::Incomplete));
}

#[test]
fn version_2() {
    let ipv6 = [&[0x20, 1, 0x0d, 0xb8][..], &[0; 11], &[1], &[0; 16], &[0, 7, 0, 8]].concat();
    for (header, expected) in [
        (v2_header(0x21, 0x11, IPV4), Some("192.0.2.1:8080")),
        (v2_header(0x21, 0x21, &ipv6), Some("[2001:db8::1]:7")),
        (v2_header(0x20, 0x11, IPV4), Some("none")),
        (v2_header(0x20, 0, &[]), Some("none")),
        (v2_header(0x21, 0x31, &[b'/'; 216]), Some("none")),
        (v2_header(0x21, 0, &[1, 2, 3]), Some("none")),
        (v2_header(0x21, 0x12, IPV4), None),
        (v2_header(0x22, 0x11, IPV4), None),
        (v2_header(0x11, 0x11, IPV4), None),
        (v2_header(0x21, 0x11, &IPV4[..11]), None),
        (v2_header(0x21, 0x21, IPV4), None),
        (v2_header(0x21, 0x11, &[0; HEADER_BYTES_MAX]), None),
    ] {
        assert_eq!(client(&header).as_deref(), expected, "{}", header.escape_ascii());
    }
}

#[test]
fn version_2_says_whether_the_client_came_encrypted() {
    let scheme = |fields: &[u8]| match decode(&v2_header(0x21, 0x11, &[IPV4, fields].concat())) {
        Ok(Decoded::Complete(header, _)) => header.scheme,
        other => panic!("{other:?}"),
    };
    assert_eq!(scheme(&[]), None);
    assert_eq!(scheme(&[0x20, 0, 5, 1, 0, 0, 0, 0]), Some(Scheme::Https));
    assert_eq!(scheme(&[4, 0, 2, 9, 9, 0x20, 0, 5, 1, 0, 0, 0, 0]), Some(Scheme::Https));
    assert_eq!(scheme(&[0x20, 0, 5, 0, 0, 0, 0, 0]), Some(Scheme::Http));
    // A field that is cut off says nothing.
    assert_eq!(scheme(&[0x20, 0, 5, 1]), None);
    assert_eq!(scheme(&[0x20, 0, 0]), None);
}

#[test]
fn every_cut_is_incomplete_and_what_follows_is_left() {
    let headers = [
        b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n".to_vec(),
        v2_header(0x21, 0x11, &[IPV4, &[0x20, 0, 5, 1, 0, 0, 0, 0]].concat()),
    ];
    for header in headers {
        for end in 0..header.len() {
            assert_eq!(decode(&header[..end]), Ok(Decoded::Incomplete), "{end}");
        }
        let more = [&header[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
        assert!(matches!(decode(&more), Ok(Decoded::Complete(_, bytes)) if bytes == header.len()));
    }
    // The first wrong byte decides.
    for wrong in ["\0", "PX", "\r\n\r\n\0\r\nQUIT\r", "\r\n\r\nPROXY"] {
        assert_eq!(decode(wrong.as_bytes()), Err(NoProxyHeader), "{wrong:?}");
    }
}
