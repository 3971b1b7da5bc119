//! Chunked bodies, whole, in pieces, and malformed.

use super::*;
use proptest::prelude::*;

/// Feeds `body` in pieces of `piece` bytes; what was consumed and how much of it was data, if it came to an end.
fn read(body: &[u8], piece: usize) -> Result<Option<(usize, usize)>, Reject> {
    let mut decoder = Chunked::new();
    let (mut consumed, mut data) = (0, 0);
    for bytes in body.chunks(piece) {
        let progress = decoder.decode(bytes)?;
        consumed += progress.consumed;
        data += progress.data;
        if progress.complete {
            return Ok(Some((consumed, data)));
        }
        assert_eq!(progress.consumed, bytes.len(), "only the end leaves bytes behind");
    }
    Ok(None)
}

fn status(body: &str) -> Option<Status> {
    read(body.as_bytes(), 4096).err().map(|reject| reject.status)
}

#[test]
fn rfc9112_7_1_a_body_ends_where_it_says() {
    let body = b"4\r\nWiki\r\n6\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\n\r\nGET / HTTP/1.1\r\n";
    for piece in 1..=body.len() {
        assert_eq!(read(body, piece), Ok(Some((44, 24))), "pieces of {piece}");
    }
    assert_eq!(read(b"0\r\n\r\n", 9), Ok(Some((5, 0))));
    assert_eq!(read(b"0\r\n\r", 9), Ok(None));
}

#[test]
fn after_the_end_nothing_is_consumed() {
    let mut decoder = Chunked::new();
    assert!(decoder.decode(b"0\r\n\r\n").expect("well-formed").complete);
    assert_eq!(decoder.decode(b"x"), Ok(Progress { consumed: 0, data: 0, complete: true }));
}

#[test]
fn rfc9112_7_1_sizes() {
    assert_eq!(read(b"000000000000000A\r\n0123456789\r\n00\r\n\r\n", 3), Ok(Some((36, 10))));
    assert_eq!(read(b"ffffffffffffffff\r\nx", 99), Ok(None));
    for size in ["", " 1", "1 ", "\t1", "+1", "-1", "0x1", "g", "1_0", "00000000000000001", "1,1", "\r\n1"] {
        assert_eq!(status(&format!("{size}\r\nx\r\n0\r\n\r\n")), Some(Status::BAD_REQUEST), "{size:?}");
    }
}

#[test]
fn rfc9112_7_1_line_ends_are_crlf() {
    for body in
        ["1\nx\r\n0\r\n\r\n", "1\r\nx\n0\r\n\r\n", "1\r\nxx\r\n", "1\rx", "0\r\n\n", "0\r\n\rX", "1\r\nx\rX"]
    {
        assert_eq!(status(body), Some(Status::BAD_REQUEST), "{body:?}");
    }
}

#[test]
fn rfc9112_7_1_1_extensions_are_read_over() {
    for body in ["0;a\r\n\r\n", "0;a=b;c = \"d;\\\"\r\"\r\n\r\n", "0;a=\"\u{e9}\\\\\"\r\n\r\n", "0;\r\n\r\n"]
    {
        let ends = !body.contains("\r\"");
        assert_eq!(status(body), (!ends).then_some(Status::BAD_REQUEST), "{body:?}");
    }
    for body in ["0;a\n\r\n", "0;\"a\r\n\"\r\n\r\n", "0;a=\u{7f}\r\n\r\n", "0;a=\0\r\n\r\n", "0;(\r\n\r\n"] {
        assert_eq!(status(body), Some(Status::BAD_REQUEST), "{body:?}");
    }
}

#[test]
fn extensions_are_bounded_over_the_whole_body() {
    let chunk = format!("1;{}\r\nx\r\n", "a".repeat(EXTENSION_BYTES_MAX as usize / 4));
    assert_eq!(status(&chunk.repeat(4)), None);
    assert_eq!(status(&chunk.repeat(5)), Some(Status::BAD_REQUEST));
}

#[test]
fn rfc9112_7_1_2_trailers_are_checked_and_dropped() {
    assert_eq!(read(b"0\r\nA: b\r\nC:\td\xe9\r\n\r\nrest", 2), Ok(Some((18, 0))));
    for trailer in
        ["A : b\r\n", " A: b\r\n", ": b\r\n", "A\r\n", "A: b\n", "A: b\rc\r\n", "A: \0\r\n", "A: b\r\n c\r\n"]
    {
        assert_eq!(status(&format!("0\r\n{trailer}\r\n")), Some(Status::BAD_REQUEST), "{trailer:?}");
    }
}

#[test]
fn trailers_are_bounded() {
    let lines = |count: usize| format!("0\r\n{}\r\n", "A: 56789\r\n".repeat(count));
    assert_eq!(status(&lines(TRAILER_BYTES_MAX as usize / 10)), None);
    assert_eq!(status(&lines(TRAILER_BYTES_MAX as usize / 10 + 1)), Some(Status::FIELDS_TOO_LARGE));
}

proptest! {
    #[test]
    fn bodies_come_out_as_they_went_in(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
        piece in 1..64usize,
    ) {
        let mut body = Vec::new();
        for chunk in &chunks {
            body.extend(format!("{:x}\r\n", chunk.len()).bytes());
            body.extend(chunk);
            body.extend(b"\r\n");
        }
        body.extend(b"0\r\n\r\n");
        let length = body.len();
        body.extend(b"more");
        let data = chunks.iter().map(Vec::len).sum();
        prop_assert_eq!(read(&body, piece), Ok(Some((length, data))));
    }

    #[test]
    fn pieces_change_nothing(body in "[0-2a;\r\n\":x ]{0,30}", piece in 1..8usize) {
        prop_assert_eq!(read(body.as_bytes(), piece), read(body.as_bytes(), 99));
    }
}
