//! Frames come out the same however their bytes are cut, and each broken rule has its code.

use proptest::prelude::*;

use super::*;
use crate::error::ErrorCode;
use crate::frame;

const LIMITS: BlockLimits = BlockLimits { bytes_max: 20_000, continuations_max: 3 };

fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { length: payload.len() as u32, kind, flags, stream };
    [&header.to_bytes()[..], payload].concat()
}

/// All frames in words. Pieces of a DATA frame are joined.
fn read(pieces: &[&[u8]]) -> Result<Vec<String>, ErrorCode> {
    let mut reader = Reader::of_frames(LIMITS);
    let mut shown = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Some(frame) = reader.next(&mut input).map_err(|error| error.code)? {
            match frame {
                Frame::Data { stream, bytes, size, ends_stream } => {
                    if let Some(DataSize { flow_bytes, padding, .. }) = size {
                        shown.push(format!("data {stream}, {flow_bytes} with {padding}: "));
                    }
                    let begun = shown.last_mut().expect("a first piece has a size");
                    begun.extend(bytes.iter().map(|&byte| char::from(byte)));
                    if ends_stream {
                        begun.push('.');
                    }
                }
                Frame::Partial => {}
                frame => shown.push(format!("{frame:?}")),
            }
        }
        assert!(input.is_empty());
    }
    Ok(shown)
}

fn example() -> Vec<u8> {
    [
        raw(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 1, 0]),
        raw(
            kind::HEADERS,
            flag::PADDED | flag::PRIORITY | flag::END_HEADERS,
            1,
            &[2, 0x80, 0, 0, 3, 9, 7, 8, 0, 0],
        ),
        raw(kind::DATA, 0, 1, b"a body"),
        raw(kind::DATA, flag::PADDED, 1, b"\x03padded---"),
        raw(kind::DATA, flag::PADDED | flag::END_STREAM, 1, b"\x02--"),
        raw(kind::HEADERS, flag::END_STREAM, 3, &[1, 2]),
        raw(kind::CONTINUATION, 0, 3, &[]),
        raw(kind::CONTINUATION, flag::END_HEADERS, 3, &[3]),
        raw(kind::DATA, flag::END_STREAM, 5, b""),
        raw(0x77, 0xff, 9, b"unknown"),
        raw(kind::PING, 0, 0, b"12345678"),
        raw(kind::WINDOW_UPDATE, 0, 5, &[0x80, 0, 0, 7]),
        raw(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x05u=1"),
        raw(kind::RST_STREAM, 0, 5, &[0, 0, 0, 8]),
        raw(kind::GOAWAY, 0, 0, &[0, 0, 0, 7, 0, 0, 0, 11, b'!']),
    ]
    .concat()
}

#[test]
fn all_kinds_are_read() {
    assert_eq!(
        read(&[&example()]).unwrap(),
        [
            "Settings { payload: [0, 4, 0, 0, 1, 0] }",
            "Headers { stream: 1, block: [7, 8], ends_stream: false, depends_on: Some(3) }",
            "data 1, 6 with 0: a body",
            "data 1, 10 with 4: padded",
            "data 1, 3 with 3: .",
            "Headers { stream: 3, block: [1, 2, 3], ends_stream: true, depends_on: None }",
            "data 5, 0 with 0: .",
            "Unknown",
            "Ping { data: [49, 50, 51, 52, 53, 54, 55, 56], is_ack: false }",
            "WindowUpdate { stream: 5, increment: 7 }",
            "PriorityUpdate { stream: 5, value: [117, 61, 49] }",
            "RstStream { stream: 5, code: ErrorCode(8) }",
            "Goaway { last_stream: 7, code: ErrorCode(11) }",
        ]
    );
}

#[test]
fn every_cut_shows_the_same() {
    let (bytes, whole) = (example(), read(&[&example()]));
    for at in 0..=bytes.len() {
        assert_eq!(read(&[&bytes[..at], &bytes[at..]]), whole, "cut at {at}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(&single), whole);
}

#[test]
fn a_preface_comes_first() {
    let settings = raw(kind::SETTINGS, 0, 0, &[]);
    let bytes = [&frame::PREFACE[..], &settings].concat();
    for cut in 0..bytes.len() {
        let mut reader = Reader::new(LIMITS);
        let (mut first, mut second) = bytes.split_at(cut);
        assert_eq!(reader.next(&mut first), Ok(None));
        assert_eq!(reader.next(&mut second), Ok(Some(Frame::Settings { payload: &[] })));
    }
    let error = Reader::new(LIMITS).next(&mut &b"PRI * HTTP/1.1\r\n"[..]).unwrap_err();
    assert_eq!(error.code, ErrorCode::PROTOCOL_ERROR);
}

#[test]
fn broken_frames_have_their_codes() {
    let (protocol, size, calm) =
        (ErrorCode::PROTOCOL_ERROR, ErrorCode::FRAME_SIZE_ERROR, ErrorCode::ENHANCE_YOUR_CALM);
    let begun = raw(kind::HEADERS, 0, 1, &[]);
    let continuation = raw(kind::CONTINUATION, 0, 1, &[]);
    let long = raw(kind::CONTINUATION, 0, 1, &[0; 16_000]);
    for (bytes, code) in [
        (raw(kind::DATA, 0, 0, b"x"), protocol),
        (raw(kind::DATA, flag::PADDED, 1, b"\x05abc"), protocol),
        (raw(kind::DATA, flag::PADDED, 1, b""), size),
        (raw(kind::HEADERS, flag::END_HEADERS, 0, b""), protocol),
        (raw(kind::HEADERS, flag::PADDED | flag::END_HEADERS, 1, b"\x05abc"), protocol),
        (raw(kind::HEADERS, flag::PRIORITY | flag::END_HEADERS, 1, b"abc"), size),
        (raw(kind::PRIORITY, 0, 0, &[0; 5]), protocol),
        (raw(kind::PRIORITY, 0, 1, &[0; 4]), size),
        (raw(kind::RST_STREAM, 0, 0, &[0; 4]), protocol),
        (raw(kind::RST_STREAM, 0, 1, &[0; 3]), size),
        (raw(kind::SETTINGS, 0, 1, &[]), protocol),
        (raw(kind::SETTINGS, flag::ACK, 0, &[0; 6]), size),
        (raw(kind::PUSH_PROMISE, 0, 1, &[0; 4]), protocol),
        (raw(kind::PING, 0, 1, &[0; 8]), protocol),
        (raw(kind::PING, 0, 0, &[0; 7]), size),
        (raw(kind::GOAWAY, 0, 1, &[0; 8]), protocol),
        (raw(kind::GOAWAY, 0, 0, &[0; 7]), size),
        (raw(kind::WINDOW_UPDATE, 0, 0, &[0; 3]), size),
        (raw(kind::PRIORITY_UPDATE, 0, 1, &[0; 4]), protocol),
        (raw(kind::PRIORITY_UPDATE, 0, 0, &[0; 3]), size),
        (raw(kind::CONTINUATION, flag::END_HEADERS, 1, &[]), protocol),
        ([&begun[..], &raw(kind::PING, 0, 0, &[0; 8])].concat(), protocol),
        ([&begun[..], &raw(kind::CONTINUATION, 0, 3, &[])].concat(), protocol),
        ([&begun[..], &continuation, &continuation, &continuation, &continuation].concat(), calm),
        ([&begun[..], &long, &long].concat(), calm),
        (FrameHeader { length: 16_385, kind: 0, flags: 0, stream: 1 }.to_bytes().to_vec(), size),
    ] {
        assert_eq!(read(&[&bytes]), Err(code), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_are_a_panic_and_no_cut_changes_the_verdict(
        bytes in prop::collection::vec(prop_oneof![0u8..12, any::<u8>()], 0..400),
        cut in 0usize..400,
    ) {
        let cut = cut.min(bytes.len());
        prop_assert_eq!(read(&[&bytes[..cut], &bytes[cut..]]), read(&[&bytes]));
    }
}
