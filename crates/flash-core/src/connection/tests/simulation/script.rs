//! What a simulated client sends and when, and how it reads and leaves.

use super::places::{LISTED, Places};
use crate::testing::Random;

/// All that a client will do, decided before it connects.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) input: Vec<u8>,
    pub(super) requests: Vec<Request>,
    /// How long it pauses and how many bytes it then sends.
    pub(super) pieces: Vec<(u64, usize)>,
    pub(super) reading: Reading,
    /// The server's kernel still holds this much of what was sent.
    pub(super) unacknowledged_bytes: u64,
    pub(super) ending: Ending,
}

#[derive(Debug)]
pub(super) struct Request {
    /// Where in the input it begins, and where it ends.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) line: String,
    pub(super) what: What,
    pub(super) head_only: bool,
    pub(super) http10: bool,
    /// The request closes its connection: by a field, or because it is HTTP/1.0.
    pub(super) closes: bool,
    pub(super) has_body: bool,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    File {
        path: &'static str,
        range: Option<String>,
        none_match: Option<String>,
    },
    Listing(&'static str),
    /// Always this status.
    Plain(u16),
    /// This status, and the end of the connection.
    Refused(u16),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Reading {
    Everything,
    /// At most this many bytes, at this interval.
    Slowly {
        bytes: u64,
        pause_us: u64,
    },
    Never,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// The client keeps the connection for as long as it may.
    Stays,
    /// The client shuts down its side, this long after its last byte.
    Shuts { after_us: u64 },
    /// The client vanishes, this long after it connected, whatever is under way.
    Vanishes { after_us: u64 },
}

impl Script {
    pub(super) fn random(random: &mut Random, places: &Places) -> Self {
        let (mut input, mut requests) = (Vec::new(), Vec::new());
        for _ in 0..random.within(1..7) {
            let from = input.len();
            let request = Request::random(random, places, &mut input);
            requests.push(Request { from, to: input.len(), ..request });
        }
        if random.chance(5) {
            // It never ends its last request.
            input.truncate(input.len() - random.within(1..4) as usize);
        }
        let reading = match random.within(0..20) {
            0 => Reading::Never,
            // Too slow for the server's patience.
            1 => Reading::Slowly { bytes: 1, pause_us: random.within(5_000..1_000_000) },
            2..=5 => Reading::Slowly {
                bytes: *random.pick(&[700, 30_000, 400_000]),
                pause_us: random.within(1..1_000_000),
            },
            _ => Reading::Everything,
        };
        let unacknowledged_bytes = *random.pick(&[0, 0, 10_000, 300_000]);
        let ending = match random.within(0..10) {
            0..=1 => Ending::Vanishes { after_us: random.within(0..2_000_000) },
            2..=5 => Ending::Shuts { after_us: random.within(0..3_000_000) },
            _ => Ending::Stays,
        };
        Self { pieces: pieces(random, input.len()), input, requests, reading, unacknowledged_bytes, ending }
    }
}

/// Most clients send everything at once, some in pieces, and a few are very slow.
fn pieces(random: &mut Random, bytes: usize) -> Vec<(u64, usize)> {
    let (piece_max, pause_max_us) = match random.within(0..10) {
        0..=4 => (u64::MAX, 1),
        5..=6 => (60, 2_000),
        7..=8 => (400, 400_000),
        _ => (100, 9_000_000),
    };
    let (mut left, mut pieces) = (bytes, Vec::new());
    while left > 0 {
        let piece = left.min(random.within(1..piece_max.saturating_add(1).max(2)) as usize);
        let piece = if piece_max == u64::MAX { left } else { piece };
        pieces.push((random.within(0..pause_max_us), piece));
        left -= piece;
    }
    pieces
}

impl Request {
    fn random(random: &mut Random, places: &Places, input: &mut Vec<u8>) -> Self {
        let (mut method, mut fields, mut body) = ("GET", String::new(), Vec::new());
        let (target, what) = match random.within(0..100) {
            0..=59 => {
                let path = places.any_path(random);
                let range = random.chance(25).then(|| range(random));
                let none_match = random.chance(20).then(|| places.any_etag(path, random));
                fields.extend(range.iter().map(|range| format!("Range: {range}\r\n")));
                fields.extend(none_match.iter().map(|etag| format!("If-None-Match: {etag}\r\n")));
                (path.to_owned(), What::File { path, range, none_match })
            }
            60..=69 => (format!("/missing-{}", random.within(0..4)), What::Plain(404)),
            70..=77 => {
                let path = *random.pick(LISTED);
                (path.to_owned(), What::Listing(path))
            }
            78..=80 => ("/folder".to_owned(), What::Plain(301)),
            81..=83 => ("/closed".to_owned(), What::Plain(403)),
            84..=86 => {
                method = "OPTIONS";
                ("*".to_owned(), What::Plain(204))
            }
            87..=88 => {
                method = "BREW";
                ("/".to_owned(), What::Plain(501))
            }
            89..=90 => ("/%zz".to_owned(), What::Plain(400)),
            91..=92 => {
                fields.push_str("Content-Length: 99999999\r\n");
                (places.any_path(random).to_owned(), What::Refused(413))
            }
            93..=94 => {
                fields.push_str("Expect: miracles\r\n");
                ("/closed".to_owned(), What::Refused(417))
            }
            95 => ("/ and more".to_owned(), What::Refused(400)),
            _ => {
                method = "POST";
                ("/folder/".to_owned(), What::Plain(405))
            }
        };
        // Nobody knows of what is no request whether it was HEAD.
        let head_only = method == "GET" && !matches!(what, What::Refused(400)) && random.chance(12);
        if head_only {
            method = "HEAD";
        }
        if method == "GET" && !matches!(what, What::Refused(_)) && random.chance(12) {
            let sent = random.within(1..20_000);
            if random.chance(50) {
                fields.push_str("Transfer-Encoding: chunked\r\n");
                body = format!("{sent:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(sent as usize)).into_bytes();
            } else {
                fields.push_str(&format!("Content-Length: {sent}\r\n"));
                body = vec![b'x'; sent as usize];
            }
            if random.chance(40) {
                fields.push_str("Expect: 100-continue\r\n");
            }
        }
        let http10 = body.is_empty() && !matches!(what, What::Refused(_)) && random.chance(10);
        let token = *random.pick(&["", "", "", "", "keep-alive", "close"]);
        if !token.is_empty() {
            fields.push_str(&format!("Connection: {token}\r\n"));
        }
        let closes = token == "close" || (http10 && token.is_empty());
        let line = format!("{method} {target} HTTP/1.{}", u8::from(!http10));
        input.extend_from_slice(format!("{line}\r\nHost: a\r\n{fields}\r\n").as_bytes());
        input.extend_from_slice(&body);
        Self { from: 0, to: 0, line, what, head_only, http10, closes, has_body: !body.is_empty() }
    }
}

fn range(random: &mut Random) -> String {
    let first = *random.pick(&[0, 1, 70, 5_000, 9_999, 1 << 20, 5 << 20]);
    match random.within(0..3) {
        0 => format!("bytes={first}-"),
        1 => format!("bytes={first}-{}", first + *random.pick(&[0, 9, 3_000, 2 << 20])),
        _ => format!("bytes=-{first}"),
    }
}
