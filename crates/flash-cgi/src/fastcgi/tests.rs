//! Records as the specification prints them, what no application may send, and laws: any split gives the same.

use proptest::prelude::*;

use super::*;
use crate::Variables;

/// A record as an application may write it.
fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let mut record = vec![1, kind];
    record.extend(id.to_be_bytes());
    record.extend((content.len() as u16).to_be_bytes());
    record.extend([padding, 0]);
    record.extend(content);
    record.extend(vec![0xaa; usize::from(padding)]);
    record
}

fn end(app_status: u32, protocol_status: u8, padding: u8) -> Vec<u8> {
    record(3, 1, &[&app_status.to_be_bytes()[..], &[protocol_status, 0, 0, 0]].concat(), padding)
}

/// What came in all, however it was cut.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<End>,
    /// Behind the end.
    left: Vec<u8>,
}

fn read<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> Result<Answer, &'static str> {
    let mut decoder = Decoder::new();
    let mut answer = Answer::default();
    for mut piece in pieces {
        while let Some(event) = decoder.next(&mut piece).map_err(|error| error.reason)? {
            match event {
                Event::Stdout(bytes) => answer.stdout.extend(bytes),
                Event::Stderr(bytes) => answer.stderr.extend(bytes),
                Event::End(end) => assert_eq!(answer.end.replace(end), None),
            }
        }
        assert!(piece.is_empty() || answer.end.is_some());
        answer.left.extend(piece);
    }
    Ok(answer)
}

#[test]
fn specification_appendix_b_an_answer() {
    let input = [
        record(7, 1, b"config error: missing SI_UID\n", 3),
        record(6, 1, b"Content-type: text/html\r\n\r\n<html>\n", 5),
        record(6, 1, b"", 0),
        record(7, 1, b"", 0),
        end(938, 0, 0),
    ]
    .concat();
    let answer = read([&input[..]]).unwrap();
    assert_eq!(answer.stdout, b"Content-type: text/html\r\n\r\n<html>\n");
    assert_eq!(answer.stderr, b"config error: missing SI_UID\n");
    assert_eq!((answer.end, answer.left), (Some(End::Complete { app_status: 938 }), vec![]));
}

#[test]
fn an_answer_ends_with_the_padding_of_its_last_record() {
    let input = [end(0, 0, 7), b"more".to_vec()].concat();
    assert_eq!(read([&input[..HEAD_BYTES + 8 + 6]]).unwrap().end, None);
    let answer = read([&input[..]]).unwrap();
    assert_eq!((answer.end, &answer.left[..]), (Some(End::Complete { app_status: 0 }), &b"more"[..]));
}

#[test]
fn specification_5_5_protocol_statuses() {
    let status = |number| read([&end(0, number, 0)[..]]).map(|answer| answer.end);
    assert_eq!(status(1), Ok(Some(End::CannotMultiplex)));
    assert_eq!(status(2), Ok(Some(End::Overloaded)));
    assert_eq!(status(3), Ok(Some(End::UnknownRole)));
    assert_eq!(status(4), Err("an END_REQUEST with an unknown status"));
}

#[test]
fn what_no_application_sends_is_refused_again_and_again() {
    for (bytes, reason) in [
        (record(6, 2, b"x", 0), "a record of another request"),
        (record(6, 0, b"x", 0), "a record of another request"),
        (record(7, 256, b"x", 0), "a record of another request"),
        (record(3, 2, &[0; 8], 0), "a record of another request"),
        (record(3, 1, &[0; 7], 0), "an END_REQUEST that is not of 8 bytes"),
        (record(3, 1, &[0; 9], 0), "an END_REQUEST that is not of 8 bytes"),
        (record(1, 1, &[0; 8], 0), "a record that no application sends"),
        (record(5, 1, b"x", 0), "a record that no application sends"),
        (record(9, 0, b"", 0), "a record that no application sends"),
        (record(0, 1, b"", 0), "a record that no application sends"),
        (record(12, 2, b"", 0), "a record that no application sends"),
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), "a record of another version than 1"),
    ] {
        assert_eq!(read([&bytes[..]]), Err(reason), "{}", bytes.escape_ascii());
        let mut decoder = Decoder::new();
        let input = &mut &bytes[..];
        assert_eq!(decoder.next(input).map_err(|error| error.reason), Err(reason));
        assert_eq!(decoder.next(&mut &b""[..]).map_err(|error| error.reason), Err(reason));
    }
}

#[test]
fn what_later_versions_may_send_is_passed_over() {
    let answers =
        [record(10, 0, b"\x0f\x01FCGI_MPXS_CONNS0", 2), record(11, 0, &[9; 8], 0), record(200, 1, b"abc", 1)];
    let input = [&answers.concat()[..], &record(6, 1, b"x", 255)].concat();
    assert_eq!(read([&input[..]]).unwrap().stdout, b"x");
}

#[test]
fn specification_appendix_b_a_request() {
    let mut variables = Variables::default();
    variables.push(b"SERVER_PORT", b"80");
    variables.push(b"SERVER_ADDR", b"199.170.183.42");
    let mut out = Vec::new();
    Encoder.begin(&variables, true, &mut out);
    Encoder.body(b"", &mut out);
    Encoder.body(b"quantity=100", &mut out);
    Encoder.end_body(&mut out);
    Encoder.abort(&mut out);
    let pairs = b"\x0b\x02SERVER_PORT80\x0b\x0eSERVER_ADDR199.170.183.42";
    let expected = [
        record(1, 1, &[0, 1, 1, 0, 0, 0, 0, 0], 0),
        record(4, 1, pairs, 0),
        record(4, 1, b"", 0),
        record(5, 1, b"quantity=100", 0),
        record(5, 1, b"", 0),
        record(2, 1, b"", 0),
    ];
    assert_eq!(out, expected.concat());
    out.clear();
    Encoder.begin(&Variables::default(), false, &mut out);
    assert_eq!(out, [record(1, 1, &[0, 1, 0, 0, 0, 0, 0, 0], 0), record(4, 1, b"", 0)].concat());
}

/// Takes apart what [`Encoder`] wrote, into types and contents.
fn records(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut records = Vec::new();
    while let [1, kind, 0, 1, high, low, 0, 0, rest @ ..] = bytes {
        let (content, rest) = rest.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        records.push((*kind, content));
        bytes = rest;
    }
    assert!(bytes.is_empty());
    records
}

#[test]
fn streams_are_cut_into_records_that_fit() {
    for (length, cuts) in [(0, 0), (1, 1), (CONTENT_BYTES_MAX, 1), (CONTENT_BYTES_MAX + 1, 2), (200_000, 4)] {
        let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let mut out = Vec::new();
        Encoder.body(&body, &mut out);
        let pieces = records(&out);
        assert!(pieces.iter().all(|(kind, piece)| *kind == 5 && !piece.is_empty()));
        assert_eq!(
            (pieces.len(), pieces.iter().map(|(_, piece)| *piece).collect::<Vec<_>>().concat()),
            (cuts, body)
        );
    }
    let mut variables = Variables::default();
    variables.push(b"LONG", &[b'x'; 100_000]);
    let mut out = Vec::new();
    Encoder.begin(&variables, true, &mut out);
    let kinds: Vec<_> = records(&out).iter().map(|(kind, content)| (*kind, content.is_empty())).collect();
    assert_eq!(kinds, [(1, false), (4, false), (4, false), (4, true)]);
}

fn any_record() -> impl Strategy<Value = Vec<u8>> {
    let content = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        8 => (6u8..=7, Just(1u16), content.clone(), any::<u8>()),
        2 => (10u8..=20, 0u16..=1, content.clone(), any::<u8>()),
        1 => (any::<u8>(), 0u16..=2, content, any::<u8>()),
    ]
    .prop_map(|(kind, id, content, padding)| record(kind, id, &content, padding % 9))
}

proptest! {
    #[test]
    fn any_split_gives_the_same(
        records in prop::collection::vec(any_record(), 0..8),
        ended in any::<bool>(),
        status in 0u8..5,
        piece in 1usize..40,
    ) {
        let mut input = records.concat();
        if ended {
            input.extend(end(7, status, 3));
        }
        let whole = read([&input[..]]);
        prop_assert_eq!(&read(input.chunks(piece)), &whole);
        prop_assert_eq!(&read(input.chunks(1)), &whole);
    }

    /// Junk ends in an error, or in waiting for more of it.
    #[test]
    fn junk_does_no_harm(input in prop::collection::vec(any::<u8>(), 0..200), piece in 1usize..40) {
        prop_assert_eq!(read(input.chunks(piece)), read([&input[..]]));
    }

    #[test]
    fn streams_come_out_as_they_went_in(parts in prop::collection::vec((6u8..=7, prop::collection::vec(any::<u8>(), 0..300), any::<u8>()), 0..10)) {
        let mut input: Vec<u8> = parts.iter().flat_map(|(kind, content, padding)| record(*kind, 1, content, *padding)).collect();
        input.extend(end(1, 0, 0));
        let answer = read(input.chunks(61)).unwrap();
        let stream = |of: u8| parts.iter().filter(|(kind, ..)| *kind == of).flat_map(|(_, content, _)| content.clone()).collect::<Vec<u8>>();
        prop_assert_eq!(answer, Answer { stdout: stream(6), stderr: stream(7), end: Some(End::Complete { app_status: 1 }), left: vec![] });
    }
}
