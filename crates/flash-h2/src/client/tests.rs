//! A client against this crate's server, and against frames that a server should not send.

use super::*;
use crate::Scratch;
use crate::frame::HEADER_BYTES;
use crate::request::HeadLimits;
use crate::session::{Event, Limits, Session};

const LIMITS: Limits = Limits {
    streams_max: 3,
    head: HeadLimits { bytes_max: 8_000, fields_max: 40 },
    resets: (10, 1),
    idle_frames: (50, 10),
};

fn common() -> CommonFields {
    CommonFields::new("https", "example.org", [("user-agent", "tester"), ("x-long", "a value of its own")])
}

/// What a server says of the client's bytes.
fn at_server(session: &mut Session<()>, bytes: &[u8]) -> Vec<String> {
    let (mut input, mut scratch, mut said) = (bytes, Scratch::default(), Vec::new());
    while let Some(event) = session.next(&mut input, &mut scratch, 0).unwrap() {
        match event {
            Event::Request { stream, priority, ends_stream } => {
                session.open(stream, priority, ends_stream, ());
                let head = String::from_utf8(scratch.text.clone()).unwrap();
                said.push(format!("{stream} {ends_stream}: {}", head.replace("\r\n", "|")));
            }
            Event::Data { stream, bytes, ends_stream } => {
                session.consumed(stream, bytes.len());
                said.push(format!("{stream} {ends_stream}: {} bytes", bytes.len()));
            }
            Event::Window => {}
            event => said.push(format!("{event:?}")),
        }
    }
    said
}

fn control(session: &mut Session<()>) -> Vec<u8> {
    let mut out = Vec::new();
    session.take_control(&mut out);
    out
}

/// What the client makes of a server's bytes.
fn at_client(client: &mut Client, bytes: &[u8]) -> Vec<String> {
    let (mut input, mut said) = (bytes, Vec::new());
    loop {
        let mut fields = String::new();
        let show = |_, name: &[u8], value: &[u8]| {
            fields += &format!("{}={} ", name.escape_ascii(), value.escape_ascii());
        };
        match client.next(&mut input, 0, show).unwrap() {
            Some(ClientEvent::Window { .. }) => {}
            Some(event) => said.push(format!("{fields}{event:?}")),
            None => return said,
        }
    }
}

fn open(client: &mut Client, path: &str, ends: bool) -> (u32, Vec<u8>) {
    let mut out = Vec::new();
    let stream = client.open(("GET", path), &common(), |_| {}, ends, &mut out);
    (stream, out)
}

#[test]
fn a_server_reads_each_request_alike_and_later_ones_are_shorter() {
    let (mut client, mut session) = (Client::default(), Session::new(LIMITS));
    let (_, first) = open(&mut client, "/a", true);
    let (_, second) = open(&mut client, "/b", true);
    let (first, second) = (at_server(&mut session, &first), (second.len(), at_server(&mut session, &second)));
    let fields = "HTTP/2.0|host: example.org|user-agent: tester|x-long: a value of its own||";
    assert_eq!(first, [format!("1 true: GET /a {fields}")]);
    assert_eq!(second.1, [format!("3 true: GET /b {fields}")]);
    assert!(second.0 < 20, "{} bytes", second.0);
}

#[test]
fn a_server_that_wants_no_table_gets_none() {
    let mut client = Client::default();
    let mut no_table = Vec::new();
    frame::settings(&mut no_table, &[(settings::HEADER_TABLE_SIZE, 0)]);
    open(&mut client, "/a", true);
    at_client(&mut client, &no_table);
    client.take_control(&mut Vec::new());
    let blocks = [open(&mut client, "/b", true).1, open(&mut client, "/c", true).1];
    // A decoder that allows no table takes them all, after the acknowledgement of SETTINGS.
    let mut decoder = Decoder::new(0);
    for block in blocks {
        let mut rest = &block[..];
        let mut reader = Reader::of_frames(BlockLimits { bytes_max: 1 << 16, continuations_max: 1 });
        let mut count = 0;
        while let Some(frame) = reader.next(&mut rest).unwrap() {
            if let Frame::Headers { block, .. } = frame {
                decoder.decode(block, &mut Vec::new(), |_, _| count += 1).unwrap();
            }
        }
        assert_eq!(count, 6);
    }
}

#[test]
fn bodies_keep_to_both_windows() {
    let (mut client, mut session) = (Client::default(), Session::<()>::new(LIMITS));
    let (stream, head) = open(&mut client, "/", false);
    at_server(&mut session, &head);
    let body = vec![7; 100_000];
    let mut sent = 0;
    let send = |client: &mut Client, sent: &mut usize| {
        let mut out = Vec::new();
        while *sent < body.len() {
            match client.send_data(stream, &body[*sent..], true, &mut out) {
                0 => break,
                count => *sent += count,
            }
        }
        out
    };
    let out = send(&mut client, &mut sent);
    assert_eq!(sent, WINDOW_BYTES as usize, "no further before the server says so");
    let said = at_server(&mut session, &out);
    assert_eq!(said.len(), 4, "frames of 16 KiB: {said:?}");
    at_client(&mut client, &control(&mut session));
    let out = send(&mut client, &mut sent);
    assert_eq!(sent, body.len());
    assert_eq!(at_server(&mut session, &out).last().unwrap(), "1 true: 1697 bytes");
}

#[test]
fn responses_and_resets_belong_to_their_streams() {
    let mut client = Client::default();
    for path in ["/a", "/b", "/c"] {
        open(&mut client, path, true);
    }
    let mut bytes = Vec::new();
    frame::settings(&mut bytes, &[(settings::MAX_CONCURRENT_STREAMS, 3)]);
    let start = frame::begin_headers(&mut bytes, 3);
    encoder::status(&mut bytes, 200);
    frame::end_headers(&mut bytes, start);
    bytes.extend_from_slice(&[0, 0, 2, kind::DATA, flag::END_STREAM, 0, 0, 0, 3, b'o', b'k']);
    frame::rst_stream(&mut bytes, 1, ErrorCode::ENHANCE_YOUR_CALM);
    // For a stream that is over: dropped.
    frame::rst_stream(&mut bytes, 3, ErrorCode::NO_ERROR);
    frame::goaway(&mut bytes, 5, ErrorCode::NO_ERROR, "");
    assert_eq!(
        at_client(&mut client, &bytes),
        [
            ":status=200 Fields { stream: 3, ends: false }",
            "Data { stream: 3, bytes: [111, 107], ends: true }",
            "Reset { stream: 1, code: ErrorCode(11) }",
            "Goaway { last_stream: 5, code: ErrorCode(0) }",
        ]
    );
    assert!(!client.can_open() && !client.is_idle());
}

#[test]
fn the_servers_limit_of_streams_holds() {
    let (mut client, mut session) = (Client::default(), Session::<()>::new(LIMITS));
    at_client(&mut client, &control(&mut session));
    for _ in 0..LIMITS.streams_max {
        assert!(client.can_open());
        open(&mut client, "/", true);
    }
    assert!(!client.can_open());
    client.reset(1, ErrorCode::CANCEL);
    assert!(client.can_open());
}

#[test]
fn a_ping_is_answered_and_what_breaks_rules_ends_the_connection() {
    let mut client = Client::default();
    client.take_control(&mut Vec::new());
    let mut ping = Vec::new();
    frame::settings(&mut ping, &[]);
    frame::ping(&mut ping, b"12345678", false);
    at_client(&mut client, &ping);
    let mut answer = Vec::new();
    client.take_control(&mut answer);
    let pong = answer.split_off(HEADER_BYTES);
    assert_eq!((answer[3], &pong[3..5]), (kind::SETTINGS, &[kind::PING, flag::ACK][..]));
    for wrong in [
        &[0, 0, 0, kind::DATA, 0, 0, 0, 0, 9][..],
        &[0, 0, 4, kind::WINDOW_UPDATE, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 4, kind::RST_STREAM, 0, 0, 0, 0, 2, 0, 0, 0, 0],
    ] {
        let (mut client, mut bytes) = (Client::default(), Vec::new());
        frame::settings(&mut bytes, &[]);
        bytes.extend_from_slice(wrong);
        let mut input = &*bytes;
        assert!(client.next(&mut input, 0, |_, _, _| {}).is_ok(), "its settings");
        assert!(client.next(&mut input, 0, |_, _, _| {}).is_err(), "{wrong:?}");
    }
}

const PROXYS: ClientLimits =
    ClientLimits { window_bytes: Some(1_000), block_bytes_max: 2_000, idle_frames: (10, 1) };

fn proxys_client() -> (Client, u32) {
    let (mut client, mut out) = (Client::new(PROXYS), Vec::new());
    let stream = client.open_alone(|block| encoder::indexed(block, b":method", b"GET"), true, &mut out);
    let mut bytes = Vec::new();
    frame::settings(&mut bytes, &[]);
    assert_eq!(client.next(&mut &*bytes, 0, |_, _, _| {}), Ok(Some(ClientEvent::Window { stream: 0 })));
    (client, stream)
}

#[test]
fn a_wider_window_says_whose_it_is() {
    let (mut client, stream) = proxys_client();
    for stream in [stream, 0] {
        let mut bytes = Vec::new();
        frame::window_update(&mut bytes, stream, 1);
        let event = client.next(&mut &*bytes, 0, |_, _, _| {});
        assert_eq!(event, Ok(Some(ClientEvent::Window { stream })));
    }
}

fn data(stream: u32, bytes: usize) -> Vec<u8> {
    let header = FrameHeader { length: bytes as u32, kind: kind::DATA, flags: 0, stream };
    [&header.to_bytes()[..], &vec![0; bytes]].concat()
}

#[test]
fn a_stream_brings_no_more_than_its_user_has_room_for() {
    let (mut client, stream) = proxys_client();
    let (mut input, mut control) = (&*data(stream, 1_000), Vec::new());
    while client.next(&mut input, 0, |_, _, _| {}).unwrap().is_some() {}
    client.take_control(&mut control);
    control.clear();
    client.consumed(stream, 600);
    client.take_control(&mut control);
    assert_eq!(FrameHeader::of(control.first_chunk().unwrap()).stream, stream, "its window opens");
    let mut input = &*data(stream, 600);
    while client.next(&mut input, 0, |_, _, _| {}).unwrap().is_some() {}
    let error = client.next(&mut &*data(stream, 1), 0, |_, _, _| {}).unwrap_err();
    assert_eq!(error.code, ErrorCode::FLOW_CONTROL_ERROR);
}

#[test]
fn floods_of_frames_without_use_end_the_connection() {
    let mut frames: Vec<Vec<u8>> = vec![Vec::new(); 6];
    frame::ping(&mut frames[0], &[0; 8], false);
    frame::settings(&mut frames[1], &[]);
    frame::rst_stream(&mut frames[2], 1, ErrorCode::CANCEL);
    frame::window_update(&mut frames[3], 0, 1);
    frames[4] = data(1, 0);
    frames[5] = FrameHeader { length: 0, kind: 0x77, flags: 0, stream: 1 }.to_bytes().to_vec();
    for bytes in frames {
        let (mut client, _) = proxys_client();
        let mut pass = |ms| {
            let flood = bytes.repeat(20);
            let mut input = &*flood;
            loop {
                match client.next(&mut input, ms, |_, _, _| {}) {
                    Ok(None) => return Ok(()),
                    Ok(Some(_)) => {}
                    Err(error) => return Err(error.code),
                }
            }
        };
        assert_eq!(pass(0), Err(ErrorCode::ENHANCE_YOUR_CALM), "{bytes:?}");
    }
}
