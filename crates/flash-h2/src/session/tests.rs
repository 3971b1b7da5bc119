//! A session against a client that is right, one that is wrong, and one that attacks.

use super::*;
use crate::frame::{FrameHeader, HEADER_BYTES, PREFACE, flag, kind};
use crate::hpack::encoder;
use crate::request::HeadLimits;

const LIMITS: Limits = Limits {
    streams_max: 3,
    head: HeadLimits { bytes_max: 2_000, fields_max: 20 },
    resets: (10, 1),
    idle_frames: (50, 10),
};

struct Client {
    session: Session<&'static str>,
    scratch: Scratch,
    now_ms: u64,
}

fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { length: payload.len() as u32, kind, flags, stream };
    [&header.to_bytes()[..], payload].concat()
}

fn get(stream: u32, flags: u8) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "h")] {
        encoder::indexed(&mut block, name.as_bytes(), value.as_bytes());
    }
    raw(kind::HEADERS, flags | flag::END_HEADERS, stream, &block)
}

impl Client {
    fn new() -> Self {
        let mut client = Self { session: Session::new(LIMITS), scratch: Scratch::default(), now_ms: 0 };
        client.send(&[&PREFACE[..], &raw(kind::SETTINGS, 0, 0, &[])].concat()).unwrap();
        let kinds: Vec<u8> = client.sent().iter().map(|(header, _)| header.kind).collect();
        assert_eq!(kinds, [kind::SETTINGS, kind::WINDOW_UPDATE, kind::SETTINGS]);
        client
    }

    /// What the session says of the bytes, in words. Requests are kept as streams.
    fn send(&mut self, bytes: &[u8]) -> Result<Vec<String>, ErrorCode> {
        let mut input = bytes;
        let mut events = Vec::new();
        loop {
            let event = self.session.next(&mut input, &mut self.scratch, self.now_ms);
            match event.map_err(|error| error.code)? {
                None => return Ok(events),
                Some(Event::Request { stream, priority, ends_stream }) => {
                    self.session.open(stream, priority, ends_stream, "kept");
                    events.push(format!("request {stream} {ends_stream}"));
                }
                Some(Event::Data { stream, bytes, ends_stream }) => {
                    events.push(format!("data {stream} {} {ends_stream}", bytes.len()));
                }
                Some(Event::Reset(stream)) => events.push(format!("reset {}", stream.id)),
                Some(Event::Window) => {}
                Some(event) => events.push(format!("{event:?}")),
            }
        }
    }

    /// Frames that the session has written.
    fn sent(&mut self) -> Vec<(FrameHeader, Vec<u8>)> {
        let mut bytes = Vec::new();
        self.session.take_control(&mut bytes);
        let mut rest = &bytes[..];
        let mut frames = Vec::new();
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::of(header);
            let (payload, after) = after.split_at(header.length as usize);
            frames.push((header, payload.to_vec()));
            rest = after;
        }
        frames
    }

    /// The streams that it has reset, and their codes.
    fn resets(&mut self) -> Vec<(u32, u8)> {
        let resets = self.sent().into_iter().filter(|(header, _)| header.kind == kind::RST_STREAM);
        resets.map(|(header, payload)| (header.stream, payload[3])).collect()
    }

    /// How many times this can be sent until the session has had enough.
    #[track_caller]
    fn flood(&mut self, mut bytes: impl FnMut(u32) -> Vec<u8>) -> usize {
        for count in 0..10_000 {
            match self.send(&bytes(count)) {
                Ok(_) => {}
                Err(ErrorCode::ENHANCE_YOUR_CALM) => return count as usize,
                Err(other) => panic!("{other:?}"),
            }
        }
        panic!("it takes them all");
    }
}

#[test]
fn a_request_its_body_and_its_trailers() {
    let mut client = Client::new();
    let post =
        [get(1, 0), raw(kind::DATA, 0, 1, b"abc"), raw(kind::DATA, flag::END_STREAM, 1, b"d")].concat();
    assert_eq!(client.send(&post).unwrap(), ["request 1 false", "data 1 3 false", "data 1 1 true"]);
    assert_eq!(client.scratch.text, b"GET / HTTP/2.0\r\nhost: h\r\n\r\n");
    let trailers = raw(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 3, &[0, 1, b'a', 1, b'b']);
    assert_eq!(
        client.send(&[get(3, 0), trailers].concat()).unwrap(),
        ["request 3 false", "End { stream: 3 }"]
    );
    assert!(client.sent().is_empty());
}

#[test]
fn the_first_frame_is_settings() {
    let mut session = Session::<()>::new(LIMITS);
    let bytes = [&PREFACE[..], &raw(kind::PING, 0, 0, &[0; 8])].concat();
    let error = session.next(&mut &bytes[..], &mut Scratch::default(), 0).unwrap_err();
    assert_eq!(error.code, ErrorCode::PROTOCOL_ERROR);
}

#[test]
fn rfc9113_5_1_frames_on_streams_in_a_wrong_state() {
    let protocol = ErrorCode::PROTOCOL_ERROR;
    for bytes in [
        raw(kind::DATA, 0, 1, b"a"),
        raw(kind::RST_STREAM, 0, 1, &[0; 4]),
        raw(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        raw(kind::WINDOW_UPDATE, 0, 0, &[0; 4]),
        raw(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 0]),
        raw(kind::PRIORITY_UPDATE, 0, 0, &[0; 4]),
        get(2, flag::END_STREAM),
        [get(5, flag::END_STREAM), get(3, flag::END_STREAM)].concat(),
    ] {
        assert_eq!(Client::new().send(&bytes), Err(protocol), "{bytes:?}");
    }
    let mut client = Client::new();
    let late = [get(1, flag::END_STREAM), raw(kind::DATA, 0, 1, b"x")].concat();
    assert_eq!(client.send(&late).unwrap(), ["request 1 true", "reset 1"]);
    assert_eq!(client.resets(), [(1, 5)], "STREAM_CLOSED");
    assert!(client.send(&raw(kind::DATA, 0, 1, b"xyz")).unwrap().is_empty(), "it may have been on the way");
    assert!(client.resets().is_empty());
    client.send(&get(3, flag::END_STREAM)).unwrap();
    client.session.finish(3, true);
    assert_eq!(client.send(&get(3, flag::END_STREAM)), Err(ErrorCode::STREAM_CLOSED));
}

#[test]
fn windows_are_kept_on_both_sides() {
    let mut client = Client::new();
    client.send(&get(1, 0)).unwrap();
    let full = raw(kind::DATA, 0, 1, &[0; 16_384]);
    for _ in 0..3 {
        client.send(&full).unwrap();
    }
    client.session.consumed(1, 40_000);
    let updates = client.sent();
    assert_eq!((updates.len(), updates[0].0.stream), (1, 1), "the stream's window is half used");
    assert_eq!(updates[0].1, 40_000u32.to_be_bytes());
    for _ in 0..3 {
        client.send(&full).unwrap();
    }
    assert_eq!(client.send(&full).unwrap().last().unwrap(), "reset 1");
    assert_eq!(client.resets(), [(1, 3)], "FLOW_CONTROL_ERROR");
    let overflow = raw(kind::WINDOW_UPDATE, 0, 3, &[0x7f, 0xff, 0xff, 0xff]);
    client.send(&get(3, flag::END_STREAM)).unwrap();
    assert_eq!(client.send(&overflow).unwrap(), ["reset 3"]);
    let overflow = raw(kind::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]);
    assert_eq!(client.send(&overflow), Err(ErrorCode::FLOW_CONTROL_ERROR));
}

#[test]
fn what_is_free_again_is_granted_before_the_window_is_used_up() {
    let mut client = Client::new();
    client.send(&get(1, 0)).unwrap();
    // Elsewhere, so much of the connection's window is held.
    client.session.inner.receive_window = 65_535;
    let mut window = 65_535;
    for _ in 0..20 {
        let frame = raw(kind::DATA, 0, 1, &[0; 16_000]);
        assert!(window >= 16_000, "the client may send no more");
        client.send(&frame).unwrap();
        client.session.consumed(1, 16_000);
        let sent = client.sent();
        let updates = sent.iter().filter(|(header, _)| header.stream == 0);
        let granted: u32 = updates.map(|(_, bytes)| u32::from_be_bytes(bytes[..].try_into().unwrap())).sum();
        window = window - 16_000 + granted;
    }
    assert!(!client.session.is_withholding());
    // Nothing is free: the client is not told so.
    client.session.inner.receive_window = 15;
    client.session.inner.consumed = 0;
    client.send(&raw(kind::DATA, 0, 1, &[0; 15])).unwrap();
    assert!(client.session.is_withholding() && client.sent().is_empty());
}

#[test]
fn data_that_nobody_reads_gives_its_window_back() {
    let mut client = Client::new();
    client.send(&get(1, 0)).unwrap();
    client.session.finish(1, false);
    assert_eq!(client.resets(), [(1, 0)], "NO_ERROR");
    for _ in 0..100 {
        client.send(&raw(kind::DATA, flag::PADDED, 1, &[&[50][..], &[0; 8_000]].concat())).unwrap();
    }
    let bytes: u32 =
        client.sent().iter().map(|(_, payload)| u32::from_be_bytes(payload[..].try_into().unwrap())).sum();
    assert!(bytes > 100 * 8_001 - CONNECTION_WINDOW_BYTES / 2, "{bytes}");
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let mut client = Client::new();
    for stream in [1, 3, 5, 7] {
        client.send(&get(stream, flag::END_STREAM)).unwrap();
    }
    assert_eq!(client.resets(), [(7, 7)], "REFUSED_STREAM");
    client.session.finish(3, true);
    assert_eq!(client.send(&get(9, flag::END_STREAM)).unwrap(), ["request 9 true"]);
}

/// Each block is decoded, because later ones build on it. None is for free.
#[test]
fn blocks_that_nothing_answers_have_a_budget() {
    let blocks_taken = |client: &mut Client, block: &dyn Fn(u32) -> Vec<u8>| -> (u32, ErrorCode) {
        (0..1_000)
            .find_map(|count| Some((count, client.send(&block(count)).err()?)))
            .expect("they are for free")
    };
    let mut client = Client::new();
    client.send(&get(1, 0)).unwrap();
    client.session.finish(1, false);
    let (count, code) = blocks_taken(&mut client, &|_| get(1, 0));
    assert!(
        count <= 60 && code == ErrorCode::ENHANCE_YOUR_CALM,
        "on a stream that is over: {count} {code:?}"
    );
    let mut client = Client::new();
    client.session.drain();
    client.session.end_requests();
    let (count, code) = blocks_taken(&mut client, &|count| get(2 * count + 1, flag::END_STREAM));
    assert!(count <= 60 && code == ErrorCode::ENHANCE_YOUR_CALM, "beyond the last stream: {count} {code:?}");
}

#[test]
fn trailers_have_the_limit_of_heads() {
    let mut client = Client::new();
    client.send(&get(1, 0)).unwrap();
    // A field of 1,500 bytes in the table, named twice.
    let block = [&[0x40, 1, b'a', 0x7f, 0xdd, 0x0a][..], &[b'x'; 1_500], &[0xbe; 2]].concat();
    let trailers = raw(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &block[..block.len() - 2]);
    assert_eq!(client.send(&trailers).unwrap(), ["End { stream: 1 }"]);
    client.send(&get(3, 0)).unwrap();
    let trailers = raw(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 3, &block);
    assert_eq!(client.send(&trailers).unwrap(), ["reset 3"]);
}

#[test]
fn a_drain_ends_with_two_goaways() {
    let mut client = Client::new();
    client.session.drain();
    let sent = client.sent();
    assert_eq!((sent[0].0.kind, &sent[0].1[..4]), (kind::GOAWAY, &STREAM_MAX.to_be_bytes()[..]));
    assert_eq!(client.send(&get(1, flag::END_STREAM)).unwrap(), ["request 1 true"]);
    assert_eq!(client.send(&raw(kind::PING, flag::ACK, 0, &sent[1].1)).unwrap(), ["Pong"]);
    client.session.end_requests();
    assert_eq!(client.sent()[0].1[..4], 1u32.to_be_bytes());
    assert!(client.send(&get(3, flag::END_STREAM)).unwrap().is_empty(), "it came too late");
    client.session.end_requests();
    assert!(client.sent().is_empty());
}

#[test]
fn floods_of_frames_without_use_are_ended() {
    let limit = |count: usize| assert!((10..=200).contains(&count), "{count}");
    limit(Client::new().flood(|_| raw(kind::PING, 0, 0, &[0; 8])));
    limit(Client::new().flood(|_| raw(kind::SETTINGS, 0, 0, &[])));
    limit(Client::new().flood(|_| raw(kind::SETTINGS, flag::ACK, 0, &[])));
    limit(Client::new().flood(|_| raw(kind::PRIORITY, 0, 1, &[0; 5])));
    limit(Client::new().flood(|_| raw(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 1])));
    limit(Client::new().flood(|_| raw(kind::GOAWAY, 0, 0, &[0; 8])));
    limit(Client::new().flood(|_| raw(0x70, 0, 0, &[])));
    limit(Client::new().flood(|_| raw(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])));
    let mut client = Client::new();
    client.send(&get(1, 0)).unwrap();
    limit(client.flood(|_| raw(kind::DATA, 0, 1, &[])));
    let mut client = Client::new();
    client.send(&get(1, 0)).unwrap();
    limit(client.flood(|_| raw(kind::DATA, flag::PADDED, 1, &[0])));
}

#[test]
fn rapid_resets_of_either_side_are_ended() {
    let stream = |count: u32| 2 * count + 1;
    let limit = |count: usize| assert_eq!(count, LIMITS.resets.0 as usize);
    limit(Client::new().flood(|count| {
        [get(stream(count), flag::END_STREAM), raw(kind::RST_STREAM, 0, stream(count), &[0, 0, 0, 8])]
            .concat()
    }));
    // The client breaks a rule, so that the server resets.
    limit(Client::new().flood(|count| {
        [get(stream(count), flag::END_STREAM), raw(kind::WINDOW_UPDATE, 0, stream(count), &[0; 4])].concat()
    }));
    limit(Client::new().flood(|count| {
        [get(stream(count), flag::END_STREAM), raw(kind::DATA, flag::END_STREAM, stream(count), b"x")]
            .concat()
    }));
    // Malformed requests, and requests beyond the limit.
    limit(
        Client::new()
            .flood(|count| raw(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream(count), &[0x82])),
    );
    let mut client = Client::new();
    for count in 0..3 {
        client.send(&get(stream(count), flag::END_STREAM)).unwrap();
    }
    limit(client.flood(|count| get(stream(count + 3), flag::END_STREAM)));
    // With time the budget comes back.
    let mut client = Client::new();
    for count in 0..100 {
        client.now_ms += 1_000;
        client.send(&get(stream(count), flag::END_STREAM)).unwrap();
        client.send(&raw(kind::RST_STREAM, 0, stream(count), &[0, 0, 0, 8])).unwrap();
    }
}

#[test]
fn a_small_table_is_asked_for_once() {
    let mut client = Client::new();
    assert!(!client.session.empties_table());
    client.send(&raw(kind::SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0])).unwrap();
    assert!(client.session.empties_table() && !client.session.empties_table());
}

#[test]
fn priorities_are_taken_from_the_field_and_from_updates() {
    let mut client = Client::new();
    let mut request = get(1, flag::END_STREAM);
    request.extend_from_slice(&[0, 8]);
    request.extend_from_slice(b"priority\x03u=5");
    request[2] += 14;
    client.send(&request).unwrap();
    let urgency = |client: &Client| client.session.streams().get(1).unwrap().priority.urgency;
    assert_eq!(urgency(&client), 5);
    client.send(&raw(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1")).unwrap();
    assert_eq!(urgency(&client), 1);
}

#[test]
fn heads_beyond_the_limits_are_told_apart() {
    let mut client = Client::new();
    let mut request = get(1, flag::END_STREAM);
    let crumbs = [&[0, 6][..], b"cookie\x01a"].concat().repeat(20);
    request.extend_from_slice(&crumbs);
    let length = (request.len() - HEADER_BYTES) as u32;
    request[..3].copy_from_slice(&length.to_be_bytes()[1..]);
    assert_eq!(client.send(&request).unwrap(), ["TooLarge { stream: 1, ends_stream: true }"]);
}

#[test]
fn the_smallest_change_of_settings_can_overflow_a_window() {
    let mut client = Client::new();
    client.send(&get(1, flag::END_STREAM)).unwrap();
    client.send(&raw(kind::WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0, 0])).unwrap();
    let settings = raw(kind::SETTINGS, 0, 0, &[0, 4, 0, 1, 0xff, 0xff]);
    assert_eq!(client.send(&settings), Err(ErrorCode::FLOW_CONTROL_ERROR));
}

/// A stream of gRPC may have any number of messages, each in a frame.
#[test]
fn small_messages_are_of_use_and_frames_without_bytes_are_not() {
    for (bytes, is_of_use) in [(5, true), (0, false)] {
        let mut server = Session::<()>::new(LIMITS);
        let mut scratch = Scratch::default();
        let mut out = PREFACE.to_vec();
        frame::settings(&mut out, &[]);
        out.extend(get(1, 0));
        (0..10_000).for_each(|_| out.extend(raw(kind::DATA, 0, 1, &[0; 5][..bytes])));
        let mut input = &*out;
        let result = loop {
            match server.next(&mut input, &mut scratch, 0) {
                Ok(None) => break Ok(()),
                Ok(Some(Event::Request { stream, priority, ends_stream })) => {
                    server.open(stream, priority, ends_stream, ());
                }
                Ok(Some(Event::Data { stream, bytes, .. })) => server.consumed(stream, bytes.len()),
                Ok(Some(_)) => {}
                Err(error) => break Err(error.code),
            }
        };
        assert_eq!(result.is_ok(), is_of_use, "{result:?}");
    }
}
