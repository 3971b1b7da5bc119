//! Responses of every framing, whole, in pieces, several at once, and bytes that are none.

use super::*;

struct Collect(Vec<u8>);

impl Body for Collect {
    fn take(&mut self, _reply: &Reply, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// Feeds pieces of a size: the replies, their bodies in one, and whether the bytes were responses.
fn read(text: &[u8], piece_bytes: usize, asked: Asked) -> (Vec<Reply>, Vec<u8>, Result<(), Bad>) {
    let mut reader = Reader::default();
    let mut body = Collect(Vec::new());
    let mut replies = Vec::new();
    for piece in text.chunks(piece_bytes) {
        let mut at = 0;
        while at < piece.len() {
            match reader.feed(&piece[at..], asked, &mut body) {
                Ok((bytes, reply)) => {
                    at += bytes;
                    replies.extend(reply);
                }
                Err(bad) => return (replies, body.0, Err(bad)),
            }
        }
    }
    replies.extend(reader.closed());
    assert!(reader.is_idle() || replies.is_empty(), "something is left over");
    (replies, body.0, Ok(()))
}

#[test]
fn every_framing_in_pieces_of_every_size() {
    let good: [(&str, u16, &str, bool); 9] = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200, "", true),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: Keep-Alive\r\n\r\nhi", 200, "hi", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: foo, close\r\n\r\nhi", 200, "hi", false),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end", false),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", 304, "", true),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1",
            200,
            "1",
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n00B;x=\"y\"\r\n, and so on\r\n0\r\nX: y\r\n\r\n",
            200,
            "hello, and so on",
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\na\r\n0\r\n\r\n",
            200,
            "a",
            true,
        ),
    ];
    for (text, status, body, keeps) in good {
        for piece in 1..=text.len() {
            let (replies, read, result) = read(text.as_bytes(), piece, Asked::default());
            assert_eq!((result, replies.len()), (Ok(()), 1), "{text} by {piece}");
            assert_eq!((replies[0].status, replies[0].keeps), (status, keeps), "{text} by {piece}");
            assert_eq!(
                (read.as_slice(), replies[0].body_bytes),
                (body.as_bytes(), body.len() as u64),
                "{text}"
            );
        }
    }
}

#[test]
fn several_at_once_are_told_apart() {
    let one = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    let chunked = "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n";
    let text = [one, chunked, one, one].concat();
    for piece in 1..=text.len() {
        let (replies, body, result) = read(text.as_bytes(), piece, Asked::default());
        assert_eq!(result, Ok(()));
        let statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        assert_eq!(
            (statuses.as_slice(), body.as_slice()),
            (&[200, 404, 200, 200][..], &b"abcdeabcabc"[..]),
            "{piece}"
        );
    }
}

#[test]
fn an_answer_to_head_has_no_body() {
    let text =
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let asked = Asked { head_only: true, validator: false };
    let (replies, body, result) = read(text, text.len(), asked);
    assert_eq!((replies.len(), body.len(), result), (2, 0, Ok(())));
}

#[test]
fn what_is_no_response_is_refused() {
    let bad = [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ];
    for text in bad {
        for piece in [1, 7, text.len()] {
            let (replies, _, result) = read(text.as_bytes(), piece, Asked::default());
            assert_eq!((replies.len(), result), (0, Err(Bad)), "{text}");
        }
    }
    let endless = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; HEAD_BYTES_MAX + 1]].concat();
    assert_eq!(read(&endless, 1000, Asked::default()).2, Err(Bad));
}

#[test]
fn a_body_can_be_skipped() {
    let mut reader = Reader::default();
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc";
    let mut body = Collect(Vec::new());
    assert_eq!(reader.feed(head, Asked::default(), &mut body), Ok((head.len(), None)));
    assert_eq!(reader.rest_of_body(), 997);
    assert_eq!(reader.skip(996), None);
    let reply = reader.skip(1).expect("that was the last byte");
    assert_eq!((reply.body_bytes, reader.is_idle()), (1000, true));
}

#[test]
fn what_later_requests_need_is_kept() {
    let text = b"HTTP/1.1 206 Part\r\nContent-Range: bytes 2-4/9\r\nETag: \"a\"\r\nLast-Modified: x\r\nContent-Length: 3\r\n\r\nabc";
    let asked = Asked { head_only: false, validator: true };
    let (replies, ..) = read(text, 11, asked);
    assert_eq!(replies[0].range, Some((2, 4, 9)));
    assert_eq!(replies[0].validator.as_deref(), Some("If-None-Match: \"a\"\r\n"));
    assert_eq!(read(text, 11, Asked::default()).0[0].validator, None);
}
