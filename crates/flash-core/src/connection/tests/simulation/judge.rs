//! Reads what a client got as a client does, and compares it with the requests and the site.

use flash_http::range::{self, Ranges};

use super::places::Places;
use super::script::{Request, What};
use super::*;
use crate::record::ResponseEnd;
use crate::record::counters::Count;

/// A response, as far as it arrived.
struct Response<'a> {
    status: u16,
    head: &'a str,
    /// The body as it arrived, with its chunk sizes.
    raw: &'a [u8],
    body: Vec<u8>,
    is_whole: bool,
}

/// What metrics count of a connection.
#[derive(Default)]
pub(super) struct Counted {
    begun: u64,
    abandoned: u64,
    ended: Vec<ResponseEnd>,
}

impl Counted {
    pub(super) fn take(&mut self, tally: &mut Tally) {
        let counts = std::mem::take(&mut tally.counts);
        self.begun += counts.get(Count::Begun);
        self.abandoned += counts.get(Count::Abandoned);
        self.ended.append(&mut tally.ended);
        assert!(self.over() <= self.begun, "more are over than began");
    }

    fn over(&self) -> u64 {
        self.abandoned + self.ended.len() as u64
    }
}

/// Returns the statuses of the answers.
pub(super) fn judge(guest: &Guest, places: &Places, listings: &[(&str, Vec<u8>)]) -> Vec<u16> {
    let requests = &guest.script.requests;
    let got = &guest.client.got;
    let responses = responses(got, requests, guest.may_be_cut);
    let story = || {
        let lines: Vec<_> = requests.iter().map(|request| &request.line).collect();
        let heads: Vec<_> = responses.iter().map(|response| response.head).collect();
        format!(
            "{lines:#?}\n{heads:#?}\n{:#?}\nheard {} of {} bytes",
            guest.records, guest.heard, guest.spoken
        )
    };
    let asked = requests.iter().filter(|request| request.from < guest.heard).count();
    let complete =
        requests.iter().filter(|request| request.to <= guest.heard && guest.is_complete(request)).count();
    assert!(guest.begun <= asked, "more answers than questions: {}", story());
    assert!(responses.len() <= guest.begun, "more came than was sent: {}", story());
    assert_eq!(guest.records.len(), guest.begun, "each response is recorded, once: {}", story());
    assert_eq!(guest.counted.begun, guest.counted.over(), "each is over: {}", story());
    let recorded = guest.records.iter();
    let recorded: Vec<_> = recorded.map(|of| (of.status, of.cut, of.body_bytes, of.duration_us)).collect();
    let counted = guest.counted.ended.iter();
    let counted: Vec<_> = counted.map(|of| (of.status, of.cut, of.body_bytes, of.duration_us)).collect();
    assert_eq!(counted, recorded, "each response is counted once, as it is logged: {}", story());
    let last_closes = responses.last().is_some_and(|last| closes(last));
    if !guest.may_be_cut {
        assert!(responses.iter().all(|response| response.is_whole), "it was cut short: {}", story());
        assert_eq!(responses.len(), guest.begun, "{}", story());
        assert!(last_closes || responses.len() == complete, "a request without an answer: {}", story());
    }
    if let Some(before) = guest.begun_before_draining {
        assert!(guest.begun <= before + 1, "it went on though the server is stopping: {}", story());
    }
    for (at, response) in responses.iter().enumerate() {
        let request = &requests[at];
        let record = &guest.records[at];
        assert_eq!(
            (record.status, record.body_bytes),
            (response.status, response.raw.len() as u64),
            "{}",
            story()
        );
        // Where the connection's end is the body's, the client cannot tell.
        let is_framed =
            ["Content-Length", "Transfer-Encoding"].iter().any(|name| field(response, name).is_some());
        assert!(!is_framed || record.cut != response.is_whole, "cut: {}: {}", record.cut, story());
        if let Some(fault) = guest.faults.get(&at) {
            assert_eq!(response.status, *fault, "the answer to a failure: {}", story());
        } else if response.status == 408 {
            assert_eq!(guest.too_slow, Some(at), "{}", story());
        } else {
            let as_asked = answers(request, response, places, listings);
            assert!(as_asked, "{} got {}\n{}", request.line, response.head, story());
        }
        let is_last = guest.begun_before_draining.is_some_and(|before| at >= before);
        assert!(!is_last || closes(response), "it does not say that the server is stopping: {}", story());
        let may_close = request.closes
            || matches!(request.what, What::Refused(_))
            || matches!(response.status, 408 | 503)
            || (request.http10 && matches!(request.what, What::Listing(_)))
            || is_last;
        assert!(!request.closes || closes(response) || !response.is_whole, "{}", story());
        assert!(!closes(response) || (may_close && at + 1 == responses.len()), "it closes: {}", story());
    }
    for record in &guest.records[responses.len()..] {
        assert_eq!((record.body_bytes, record.cut), (0, true), "nothing of it came: {}", story());
    }
    let output = guest.client.connection.h1().holds_output();
    assert!(!output, "a closed connection has something to send: {}", story());
    responses.iter().map(|response| response.status).collect()
}

impl Guest {
    /// Whether the end of the script left this request whole.
    fn is_complete(&self, request: &Request) -> bool {
        request.to <= self.script.input.len()
    }
}

fn closes(response: &Response<'_>) -> bool {
    response.head.contains("\r\nConnection: close\r\n")
}

fn field<'a>(response: &Response<'a>, name: &str) -> Option<&'a str> {
    response.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Whether this is a response to that request that the site could give.
fn answers(
    request: &Request,
    response: &Response<'_>,
    places: &Places,
    listings: &[(&str, Vec<u8>)],
) -> bool {
    match &request.what {
        What::Plain(status) | What::Refused(status) => response.status == *status,
        What::Listing(path) => {
            let (_, expected) = listings.iter().find(|(of, _)| of == path).expect("every listing is known");
            response.status == 200 && is_body(request, response, expected)
        }
        What::File { path, range, none_match } => {
            let range = range.as_ref().filter(|_| !request.head_only);
            let select = |size| range.map_or(Ranges::Whole, |range| range::select(range.as_bytes(), size));
            match response.status {
                404 => return places.was_gone(path),
                416 => {
                    let size =
                        field(response, "Content-Range").and_then(|value| value.strip_prefix("bytes */"));
                    let size: u64 = size.and_then(|size| size.parse().ok()).expect("a size");
                    return places.sizes(path).any(|of| of == size) && select(size) == Ranges::Unsatisfiable;
                }
                _ => {}
            }
            let etag = field(response, "ETag").expect("files have entity tags");
            let bytes = &places.version(path, etag).bytes;
            let is_known = none_match.as_ref().is_some_and(|known| known == etag);
            match (response.status, select(bytes.len() as u64)) {
                (304, _) => is_known,
                (200, Ranges::Whole) => !is_known && is_body(request, response, bytes),
                (206, Ranges::One(range)) => {
                    let part = &bytes[range.start as usize..range.end as usize];
                    let place = format!("bytes {}-{}/{}", range.start, range.end - 1, bytes.len());
                    !is_known
                        && field(response, "Content-Range") == Some(&place)
                        && is_body(request, response, part)
                }
                _ => false,
            }
        }
    }
}

/// All of the body, or its beginning if it was cut short.
fn is_body(request: &Request, response: &Response<'_>, expected: &[u8]) -> bool {
    let expected = if request.head_only { &[] } else { expected };
    expected.starts_with(&response.body) && (!response.is_whole || response.body.len() == expected.len())
}

/// Reads responses as far as they arrived. Interim ones are skipped.
fn responses<'a>(mut got: &'a [u8], requests: &[Request], may_be_cut: bool) -> Vec<Response<'a>> {
    let mut all: Vec<Response<'a>> = Vec::new();
    while !got.is_empty() {
        let head_end = memchr::memmem::find(got, b"\r\n\r\n").map(|at| at + 4);
        let (head, rest) = got.split_at(head_end.unwrap_or(got.len()));
        let head = std::str::from_utf8(head).expect("heads are text");
        let request = requests.get(all.len()).expect("there is a request to each response");
        if head.starts_with("HTTP/1.1 100 ") {
            assert!(request.has_body, "nobody asked whether to go on");
            got = rest;
            continue;
        }
        if head_end.is_none() {
            // Not even its head came. The interim one looks the same at first.
            assert!("HTTP/1.1 ".starts_with(&head[..head.len().min(9)]), "{head}");
            break;
        }
        let status = head.get(9..12).and_then(|code| code.parse().ok()).expect("a status");
        let mut response = Response { status, head, raw: &[], body: Vec::new(), is_whole: true };
        let length =
            field(&response, "Content-Length").map(|length| length.parse::<usize>().expect("a length"));
        got = rest;
        // Of a head that never ended nobody knows that it was HEAD's.
        if !(request.head_only && status != 408 || matches!(status, 204 | 304)) {
            let (raw, rest) = match length {
                Some(length) => {
                    response.is_whole = rest.len() >= length;
                    let (raw, rest) = rest.split_at(length.min(rest.len()));
                    response.body = raw.to_vec();
                    (raw, rest)
                }
                None if field(&response, "Transfer-Encoding") == Some("chunked") => {
                    let (used, body) = unframed(rest);
                    response.is_whole = used.is_some();
                    response.body = body;
                    rest.split_at(used.unwrap_or(rest.len()))
                }
                None => {
                    assert!(closes(&response), "nothing says where it ends: {head}");
                    response.is_whole = !may_be_cut;
                    response.body = rest.to_vec();
                    (rest, &[][..])
                }
            };
            response.raw = raw;
            got = rest;
        }
        all.push(response);
    }
    all
}

/// The data of a chunked body as far as it arrived, and its length if it is complete.
fn unframed(bytes: &[u8]) -> (Option<usize>, Vec<u8>) {
    let (mut at, mut body) = (0, Vec::new());
    while let Some(line) = memchr::memmem::find(&bytes[at..], b"\r\n") {
        let size = std::str::from_utf8(&bytes[at..at + line]).expect("a size is text");
        let size = usize::from_str_radix(size, 16).expect("a size is a number");
        let from = at + line + 2;
        let to = from + size;
        body.extend_from_slice(&bytes[from.min(bytes.len())..to.min(bytes.len())]);
        if bytes.len() < to + 2 {
            break;
        }
        assert_eq!(&bytes[to..to + 2], b"\r\n", "a chunk ends with its line");
        if size == 0 {
            return (Some(to + 2), body);
        }
        at = to + 2;
    }
    (None, body)
}

/// Whether the job's result decides which response it is; otherwise it is a body's.
pub(super) fn is_answer(job: &Job) -> bool {
    matches!(job, Job::Find(_) | Job::List(List { page: 0, .. }))
}
