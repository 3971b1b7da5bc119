//! Exchanges without HTTP/1: a made-up protocol with many exchanges on one connection. Jobs end in any order. Each exchange
//! has a flow-control window.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use flash_http::head::{self, Parsed};
use flash_http::method::Method;
use flash_http::status::Status;

use super::answer::Next;
use super::body::Piece;
use super::respond::Responder;
use super::sink::{BodyLength, BodySink, FileHead, HeadSink, ResponseSink};
use super::upstream::{Need, Request, RequestBodyLength, UpstreamExchange, Writer};
use super::*;
use crate::clock::Now;
use crate::connection::context::Context;
use crate::connection::transport::TransportInfo;
use crate::file::{Content, File};
use crate::job::Find;
use crate::path::SitePath;
use crate::record::Peer;
use crate::server::Settings;
use crate::site::WINDOW_BYTES;
use crate::site::held::HeldSite;
use crate::site::id::SiteId;
use crate::testing::{Disk, Manner, Program, Random, World, each_seed};
use crate::upstream::{Open, Opened, UpstreamProtocol};

/// A response under way, as frames would carry it.
#[derive(Default)]
struct Stream {
    /// Status, fields and the length of the body.
    head: Vec<String>,
    /// Bytes that the exchange has written, and that flow control holds back.
    waiting: VecDeque<Part>,
    got: Vec<u8>,
    ended: bool,
}

enum Part {
    Bytes(Bytes),
    Memory(Arc<File>, Range<u64>),
    Resident(Arc<File>, Range<u64>),
}

struct Fields<'h>(&'h mut Vec<String>);

impl ResponseSink for Stream {
    type Head<'h> = Fields<'h>;

    fn head(&mut self, status: Status, _: &[u8], _: &Now, age_s: Option<u64>) -> Fields<'_> {
        self.head.push(format!(":status {}", status.0));
        self.head.extend(age_s.map(|age_s| format!("age {age_s}")));
        Fields(&mut self.head)
    }

    fn proceed(&mut self) {}

    fn raw(&mut self) -> bool {
        false
    }

    fn file_head(&mut self, head: FileHead<'_>, now: &Now, body: &[u8]) -> u64 {
        let validators = head.block.validators(&now.date, head.is_modified_later);
        self.head(Status::OK, b"", now, head.age_s).lines(&validators).end();
        self.write(body);
        0
    }
}

impl HeadSink for Fields<'_> {
    fn field(self, name: &[u8], value: &[u8]) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).to_lowercase();
        self.0.push(format!("{} {}", text(name), text(value)));
        self
    }

    fn lines(self, lines: &[u8]) -> Self {
        let lines = [lines, b"\r\n"].concat();
        flash_http::Fields::of_checked(&lines).fold(self, |head, (name, value)| head.field(name, value))
    }

    fn length(self, length: BodyLength) -> Self {
        self.0.push(format!("{length:?}"));
        self
    }

    fn end(self) -> u64 {
        0
    }
}

impl BodySink for Stream {
    fn write(&mut self, bytes: &[u8]) {
        self.push_copied(Bytes::copy_from_slice(bytes), None);
    }

    fn push_copied(&mut self, bytes: Bytes, _: Option<u64>) {
        if !bytes.is_empty() {
            self.waiting.push_back(Part::Bytes(bytes));
        }
    }

    fn push_memory(&mut self, file: &Arc<File>, range: Range<u64>) {
        self.waiting.push_back(Part::Memory(Arc::clone(file), range));
    }

    fn push_resident(&mut self, file: &Arc<File>, range: Range<u64>) {
        self.waiting.push_back(Part::Resident(Arc::clone(file), range));
    }

    fn end_with(&mut self, _: &[u8]) {
        self.ended = true;
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Stream {
    /// The window lets this many bytes go.
    fn send(&mut self, mut window: u64, disk: &Disk) {
        while let Some(part) = self.waiting.front_mut().filter(|_| window > 0) {
            let (taken, left) = match part {
                Part::Bytes(bytes) => {
                    let piece = bytes.split_to(bytes.len().min(window as usize));
                    self.got.extend_from_slice(&piece);
                    (piece.len() as u64, bytes.len() as u64)
                }
                Part::Memory(file, range) | Part::Resident(file, range) => {
                    let end = range.end.min(range.start + window);
                    let piece = range.start..end;
                    match &file.content {
                        Content::Memory(bytes) => {
                            self.got.extend_from_slice(&bytes[piece.start as usize..piece.end as usize]);
                        }
                        Content::Open(_) => {
                            self.got.extend_from_slice(disk.vouched_bytes(file, piece.clone()))
                        }
                    }
                    range.start = end;
                    (piece.end - piece.start, range.end - end)
                }
            };
            window -= taken;
            if left == 0 {
                self.waiting.pop_front();
            }
        }
    }
}

/// A request of the made-up protocol.
struct Running {
    request: Vec<u8>,
    exchange: Exchange,
    stream: Stream,
    is_over: bool,
}

/// The next step of a request that is not answered: a job, or the beginning of a response.
fn go_on(running: &mut Running, cx: &mut Context<'_>) {
    let Ok(Parsed::Complete { head, .. }) = head::parse(&running.request, &cx.server.settings.head) else {
        panic!("a head")
    };
    let Running { exchange, stream, .. } = running;
    let site = Arc::clone(&exchange.site);
    let (_, waited) = exchange.waited();
    let of = (&TransportInfo::plain(Peer::Unix), cx.server);
    let (next, _) = decide::decide(&head, (Some(&site), waited), of, false, cx);
    let (answer, age_s) = match next {
        Next::Respond { answer, age_s } => (answer, age_s),
        Next::Lookup(lookup) => return exchange.state = ExchangeState::Lookup(lookup),
        Next::Wait => return,
        other => panic!("{other:?}"),
    };
    let head_only = exchange.head_only;
    let responder = Responder::new(&site, cx.now, stream);
    let mut responder = Responder { head_only, age_s, ..responder };
    match responder.answer(&head, answer).rest {
        Some(body) => exchange.state = ExchangeState::Body(body),
        None => running.is_over = true,
    }
}

fn completed(running: &mut Running, done: Done, cx: &mut Context<'_>) {
    match &mut running.exchange.state {
        ExchangeState::Lookup(lookup) => {
            lookup.take(done, cx.now.ms(), cx.server.settings.revalidate_ms);
            go_on(running, cx);
        }
        ExchangeState::Body(body) => body.take(done, &mut running.stream).expect("the disk is well"),
        ExchangeState::Login(_) | ExchangeState::Upstream(_) => unreachable!("files are asked for"),
    }
}

const SMALL: &[u8] = b"a small file";

#[test]
#[expect(clippy::too_many_lines, reason = "one simulation")]
fn many_exchanges_share_a_connection_whatever_order_their_jobs_end_in() {
    each_seed(1..40, |seed| {
        let mut random = Random::new(seed);
        let mut disk = Disk::new(1_000);
        let large: Vec<u8> = (0..WINDOW_BYTES as usize + 70_000).map(|at| (at % 251) as u8).collect();
        disk.put("/small", SMALL);
        disk.put("/large", large.clone());
        let mut world = World::new(Settings::default(), disk);
        let paths = ["/small", "/large", "/missing"];
        let mut id = ExchangeId::default();
        let mut all: Vec<Running> = Vec::new();
        for number in 0..random.within(2..9) {
            id = id.next();
            let path = *random.pick(&paths);
            let method = if random.chance(20) { Method::Head } else { Method::Get };
            let name = if method == Method::Head { "HEAD" } else { "GET" };
            let request = format!("{name} {path} HTTP/1.1\r\nHost: h\r\nX-Number: {number}\r\n\r\n");
            let find = Find::first(SiteId(0), SitePath::parse(path.as_bytes()).unwrap().into_owned());
            let nothing = ExchangeState::Lookup(lookup::FileLookup::of_file(find));
            let exchange = Exchange {
                id,
                site: HeldSite::new(world.server.hosts.unnamed(), world.server.hosts.unnamed()),
                terms: Terms::of(world.server.hosts.unnamed()),
                passed: Passed::default(),
                state: nothing,
                timing: Timing::begin(&mut world.ids, &world.now),
                head_only: method == Method::Head,
                redirects: 0,
                record: None,
            };
            let stream = Stream::default();
            all.push(Running { request: request.into_bytes(), exchange, stream, is_over: false });
        }
        let mut under_way: Vec<(ExchangeId, Job)> = Vec::new();
        let mut client = world.connect();
        for _ in 0..100_000 {
            for running in all.iter_mut().filter(|running| !running.is_over) {
                under_way.extend(running.exchange.job(u64::MAX).map(|job| (running.exchange.id, job)));
            }
            if all.iter().all(|running| running.is_over && running.stream.is_empty()) {
                break;
            }
            if !under_way.is_empty() && random.chance(50) {
                let (of, job) = under_way.swap_remove(random.within(0..under_way.len() as u64) as usize);
                let done = world.disk.help(&job);
                let running = all.iter_mut().find(|running| running.exchange.id == of).expect("it is there");
                world.with(&mut client, |_, cx| completed(running, done, cx));
            }
            let which = random.within(0..all.len() as u64) as usize;
            let running = &mut all[which];
            running.stream.send(random.within(1..300_000), &world.disk);
            if let ExchangeState::Body(body) = &mut running.exchange.state
                && running.stream.is_empty()
                && body.piece == Piece::Ready
                && !body.next(&mut running.stream)
                && running.stream.is_empty()
            {
                running.is_over = true;
            }
        }
        for running in all {
            let request = String::from_utf8_lossy(&running.request).into_owned();
            let expected = match () {
                () if running.exchange.head_only => &b""[..],
                () if request.contains("/small") => SMALL,
                () if request.contains("/large") => &large,
                () => running.stream.got.as_slice(),
            };
            let status = if request.contains("/missing") { ":status 404" } else { ":status 200" };
            assert_eq!(running.stream.head[0], status, "{request}");
            assert!(running.is_over && running.stream.got == expected, "{request}");
        }
    });
}

fn writer<'a>(world: &'a World, upstream: &UpstreamExchange, sink: &'a mut Stream) -> Writer<'a, Stream> {
    Writer {
        site: world.server.hosts.unnamed(),
        now: &world.now,
        limits: &world.server.settings.program_head,
        sink,
        head_only: false,
        accepts: upstream.request.accepts,
        head: None,
        upgrades: false,
        expects: false,
        takes_trailers: false,
        changes: None,
        persists: None,
        rate: None,
    }
}

#[test]
fn two_programs_answer_at_a_time_and_neither_is_framed() {
    let world = World::new(Settings::default(), Disk::new(0));
    let request = b"POST /app HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n";
    let Ok(Parsed::Complete { head, .. }) = head::parse(request, &world.server.settings.head) else {
        panic!()
    };
    let (first, mut all) = (ExchangeId::default().next(), Vec::new());
    for id in [first, first.next()] {
        let begin = Open {
            route: 0,
            path: SitePath::parse(b"/app").unwrap().into_owned(),
            variables: Arc::default(),
            name: Arc::from("POST /app"),
            again: false,
            may_be_repeated: true,
            failed: None,
            sticky: None,
            hash: None,
            direct: None,
            upstreams: None,
        };
        let manner = Manner { protocol: UpstreamProtocol::Cgi, used: false, room: 1 << 20, answer: None };
        let (program, backend) = Program::new(id, begin, manner);
        let request = Request::new(&head, request, &answer::Program { script: None, is_fallback: false });
        let mut upstream = UpstreamExchange::new(
            id,
            (request, &head),
            RequestBodyLength::Known,
            world.server.hosts.unnamed(),
        );
        assert!(upstream.need_after_reading(0).is_none(), "its body is not whole");
        upstream.body_arrived(3);
        assert!(matches!(upstream.need_after_reading(0), Some(Need::Open)));
        upstream.begun(Opened::Running((), backend), 0).expect("it runs");
        all.push((upstream, Stream::default(), program));
    }
    let say = |(upstream, stream, _): &mut (UpstreamExchange, Stream, Program), bytes: &[u8]| {
        let mut writer = writer(&world, upstream, stream);
        match bytes {
            b"" => assert!(upstream.upstream_ended(&mut writer).is_ok()),
            _ => assert!(upstream.upstream_received(bytes, &mut writer).is_ok()),
        }
    };
    let [one, two] = &mut all[..] else { panic!("two") };
    assert_eq!(one.0.body_room(), two.0.body_room());
    two.0.put_body(b"two");
    one.0.put_body(b"one");
    assert_eq!((one.0.to_upstream(), two.0.to_upstream()), (&b"one"[..], &b"two"[..]));
    say(two, b"Content-Type: a/b\n\nof the ");
    say(one, b"Status: 201 Made\nContent-Length: 3\n\n1");
    say(two, b"second");
    say(one, b"11 and more than it had promised");
    say(two, b"");
    assert_eq!(one.1.head, [":status 201", "Known(3)"]);
    assert_eq!(two.1.head, [":status 200", "content-type a/b", "Unknown"]);
    for ((upstream, stream, _), (body, ended)) in
        all.iter_mut().zip([("111", false), ("of the second", true)])
    {
        stream.send(1 << 20, &world.disk);
        assert_eq!((String::from_utf8_lossy(&stream.got).as_ref(), stream.ended), (body, ended));
        assert!(
            upstream.is_over()
                && upstream.released().is_some_and(|release| release.exchange != ExchangeId::default())
        );
    }
}
