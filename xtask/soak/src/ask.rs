//! A request, and the one answer to it that is right.

use std::fmt::{self, Write};
use std::ops::Range;
use std::time::{Duration, Instant};

use flash_traffic::content::Content;

use super::checker::Checker;
use super::client::{Broken, Connection, Head};
use super::history::{Age, Seen};
use super::live::Live;
use super::report::{Fault, Kind, Report};
use super::site::{self, Still};

/// `--revalidate` is a second, and no answer is older than twice that.
const AGE_MAX: Duration = Duration::from_secs(2);
/// What a loaded machine may put between the server's look at the clock and its answer.
const AGE_SLACK: Duration = Duration::from_millis(200);

pub(crate) enum Target<'a> {
    Still(Still),
    Live(&'a Live),
    Missing(String),
    Listing {
        target: String,
        names: usize,
    },
    /// A program that says this back.
    Echo(Vec<u8>),
    /// A program that sends a file.
    File,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestVariant {
    Whole,
    Head,
    /// From a byte to a byte, both of them included.
    Bytes {
        first: u64,
        last: u64,
    },
    From {
        first: u64,
    },
    Last {
        bytes: u64,
    },
    /// A range that lies behind the end.
    Beyond,
    Unless(Known),
    Since(Known),
}

/// What a client knows of a file from an earlier answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    etag: String,
    date: String,
    seen: Seen,
}

pub(crate) struct Ask<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) variant: RequestVariant,
}

impl Ask<'_> {
    pub(crate) fn name(&self) -> &str {
        match &self.target {
            Target::Still(still) => &still.target,
            Target::Live(live) => &live.target,
            Target::Missing(target) | Target::Listing { target, .. } => target,
            Target::Echo(_) => "/cgi/echo",
            Target::File => "/cgi/file",
        }
    }

    /// For messages.
    fn shown(&self) -> String {
        match &self.variant {
            RequestVariant::Whole => self.name().to_owned(),
            variant => format!("{} ({variant})", self.name()),
        }
    }

    pub(crate) fn write(&self, closes: bool, request: &mut Vec<u8>) {
        let method = match (&self.variant, &self.target) {
            (RequestVariant::Head, _) => "HEAD",
            (_, Target::Echo(_)) => "POST",
            _ => "GET",
        };
        let mut text = format!("{method} {} HTTP/1.1\r\nHost: soak\r\n", self.name());
        let written = match &self.variant {
            RequestVariant::Whole | RequestVariant::Head => Ok(()),
            RequestVariant::Bytes { first, last } => write!(text, "Range: bytes={first}-{last}\r\n"),
            RequestVariant::From { first } => write!(text, "Range: bytes={first}-\r\n"),
            RequestVariant::Last { bytes } => write!(text, "Range: bytes=-{bytes}\r\n"),
            RequestVariant::Beyond => write!(text, "Range: bytes=99999999999-\r\n"),
            RequestVariant::Unless(known) => write!(text, "If-None-Match: {}\r\n", known.etag),
            RequestVariant::Since(known) => write!(text, "If-Modified-Since: {}\r\n", known.date),
        };
        written.expect("a string takes everything");
        if closes {
            text += "Connection: close\r\n";
        }
        if let Target::Echo(body) = &self.target {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        text += "\r\n";
        request.extend_from_slice(text.as_bytes());
        if let Target::Echo(body) = &self.target {
            request.extend_from_slice(body);
        }
    }

    /// Reads the answer to this request, which was sent at `asked`, and reports what is wrong with it. What it tells of
    /// the file may be used for conditions.
    pub(crate) fn answer(
        &self,
        connection: &mut Connection,
        asked: Instant,
        report: &Report,
    ) -> Result<(Head, Option<Known>), Broken> {
        let head = connection.head()?;
        let answered = Instant::now();
        report.waited(answered - asked);
        self.count(report);
        let reader = Reader { ask: self, head: &head, asked, answered, report };
        let known = reader.read(connection)?;
        Ok((head, known))
    }

    fn count(&self, report: &Report) {
        report.count(match (&self.target, &self.variant) {
            (Target::Missing(_), _) => Kind::Missing,
            (Target::Listing { .. }, _) => Kind::Listing,
            (Target::Echo(_) | Target::File, _) => Kind::Program,
            (_, RequestVariant::Whole) => Kind::Whole,
            (_, RequestVariant::Head) => Kind::Head,
            (_, RequestVariant::Unless(_) | RequestVariant::Since(_)) => Kind::Conditional,
            _ => Kind::Range,
        });
        if matches!(self.target, Target::Live(_)) {
            report.count(Kind::Changing);
        }
    }
}

impl RequestVariant {
    /// The status, and the bytes of a file of this length.
    fn expected(&self, length: u64) -> (u16, Range<u64>) {
        match *self {
            RequestVariant::Whole | RequestVariant::Head => (200, 0..length),
            RequestVariant::Bytes { first, last } => (206, first..last + 1),
            RequestVariant::From { first } => (206, first..length),
            RequestVariant::Last { bytes } => (206, length - bytes..length),
            RequestVariant::Beyond => (416, 0..0),
            RequestVariant::Unless(_) | RequestVariant::Since(_) => (304, 0..0),
        }
    }

    fn known(&self) -> Option<&Known> {
        match self {
            RequestVariant::Unless(known) | RequestVariant::Since(known) => Some(known),
            _ => None,
        }
    }
}

/// As it stands in the request, for messages.
impl fmt::Display for RequestVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestVariant::Whole => f.write_str("whole"),
            RequestVariant::Head => f.write_str("HEAD"),
            RequestVariant::Bytes { first, last } => write!(f, "bytes {first}-{last}"),
            RequestVariant::From { first } => write!(f, "bytes {first}-"),
            RequestVariant::Last { bytes } => write!(f, "bytes -{bytes}"),
            RequestVariant::Beyond => f.write_str("bytes behind its end"),
            RequestVariant::Unless(known) => write!(f, "unless it is {}, {}", known.etag, known.seen),
            RequestVariant::Since(known) => write!(f, "if changed since {}, {}", known.date, known.seen),
        }
    }
}

/// An answer whose head has come.
struct Reader<'a> {
    ask: &'a Ask<'a>,
    head: &'a Head,
    asked: Instant,
    answered: Instant,
    report: &'a Report,
}

impl Reader<'_> {
    fn read(&self, connection: &mut Connection) -> Result<Option<Known>, Broken> {
        match (&self.ask.target, self.head.status) {
            (_, 503) if self.report.disk.excuses(self.asked, self.answered) => {
                self.report.count(Kind::Excused);
                self.pass(connection)
            }
            (_, 503) => self.other(Fault::Refused, connection),
            (Target::Still(still), _) => self.file(Checked::Still(still), connection),
            (Target::Live(live), 404) if live.may_be_absent() => {
                self.judge(live, Seen::Absent);
                self.pass(connection)
            }
            (Target::Live(live), _) => self.file(Checked::Live(live), connection),
            (Target::Missing(_), 404) => self.pass(connection),
            (Target::Listing { names, .. }, 200) => self.listing(*names, connection),
            (Target::Echo(said), 200) => self.echo(said, connection),
            (Target::File, 200) => self.program_file(connection),
            _ => self.other(Fault::WrongAnswer, connection),
        }
    }

    fn wrong(&self, fault: Fault, what: &str) {
        self.report.violation(fault, format_args!("{}: {what}; {}", self.ask.shown(), self.head.shown()));
    }

    fn other(&self, fault: Fault, connection: &mut Connection) -> Result<Option<Known>, Broken> {
        self.wrong(fault, &format!("status {}", self.head.status));
        self.pass(connection)
    }

    /// Reads a body that nothing is known of.
    fn pass(&self, connection: &mut Connection) -> Result<Option<Known>, Broken> {
        connection.body(self.head, self.ask.variant == RequestVariant::Head, |_| ())?;
        Ok(None)
    }

    fn file(&self, file: Checked, connection: &mut Connection) -> Result<Option<Known>, Broken> {
        let variant = &self.ask.variant;
        let Some(length) = self.whole_length() else { return self.other(Fault::WrongAnswer, connection) };
        // A file that has changed since is sent whole.
        let anew = matches!(file, Checked::Live(_)) && variant.known().is_some() && self.head.status == 200;
        let (status, range) = if anew { (200, 0..length) } else { variant.expected(length) };
        let still_length = match file {
            Checked::Still(still) => still.bytes,
            Checked::Live(_) => length,
        };
        if (self.head.status, length) != (status, still_length) {
            self.wrong(Fault::WrongAnswer, &format!("not {status} of a file of {still_length} bytes"));
            return self.pass(connection);
        }
        if status == 416 {
            // Its body is an error page.
            return self.pass(connection);
        }
        let has_body = status != 304;
        if has_body && self.head.length() != Some(range.end - range.start) {
            self.wrong(Fault::WrongAnswer, "another length than its range");
        }
        let of = format!("bytes {}-{}/{length}", range.start, range.end.saturating_sub(1));
        if status == 206 && self.head.field("content-range") != Some(&of) {
            self.wrong(Fault::WrongAnswer, &format!("not {of}"));
        }
        let mut checker = match file {
            Checked::Still(still) => Checker::still(&still.target, range.start),
            Checked::Live(live) => Checker::live(live, range.start),
        };
        let head_only = *variant == RequestVariant::Head;
        let bytes = connection.body(self.head, head_only || !has_body, |piece| checker.take(piece));
        // What was wrong in a response that was cut says how it came to be cut.
        let version = checker.version();
        let wrong = checker.finish();
        self.report.checked(*bytes.as_ref().unwrap_or(&0));
        let bytes = bytes?;
        if let Some(wrong) = wrong {
            self.wrong(Fault::WrongBytes, &wrong);
            return Ok(None);
        }
        let shows_version = bytes > 0;
        let seen = match (status, variant.known()) {
            (304, Some(known)) => known.seen,
            _ => Seen::Present {
                version: version.filter(|_| shows_version),
                bytes: length,
                modified: self.head.field("last-modified").and_then(date),
            },
        };
        if let Checked::Live(live) = file {
            self.judge(live, seen);
        }
        let field = |name| self.head.field(name).map(str::to_owned);
        let known = field("etag").zip(field("last-modified"));
        Ok(known.filter(|_| status == 200).map(|(etag, date)| Known { etag, date, seen }))
    }

    /// Of the whole file, wherever this answer says it.
    fn whole_length(&self) -> Option<u64> {
        match self.head.status {
            200 => self.head.length(),
            206 | 416 => self.head.field("content-range")?.rsplit_once('/')?.1.parse().ok(),
            304 => match self.ask.variant.known()?.seen {
                Seen::Present { bytes, .. } => Some(bytes),
                Seen::Absent => None,
            },
            _ => None,
        }
    }

    /// Whether the answer is younger than the rule wants, or says that it is not.
    fn judge(&self, live: &Live, seen: Seen) {
        match live.history().age(seen, self.asked, self.answered) {
            Age::Current => {}
            Age::Replaced(age) if age <= AGE_MAX + AGE_SLACK => self.report.aged(age),
            Age::Replaced(age) => {
                let said = self.head.field("age").and_then(|said| said.parse().ok()).map(Duration::from_secs);
                match said {
                    // A device that does not answer; seconds are rounded down.
                    Some(said) if said + Duration::from_secs(1) >= age => self.report.count(Kind::Admitted),
                    _ => {
                        self.report.aged(age);
                        self.wrong(Fault::TooOld, &format!("{:.2} s old: {seen}", age.as_secs_f64()));
                    }
                }
            }
            Age::Unknown => self.wrong(Fault::WrongAnswer, &format!("the file was never so: {seen}")),
        }
    }

    fn listing(&self, names: usize, connection: &mut Connection) -> Result<Option<Known>, Broken> {
        let mut page = Vec::new();
        let bytes = connection.body(self.head, false, |piece| page.extend_from_slice(piece))?;
        let link = b"<a href=\"./";
        let links = page.windows(link.len()).filter(|window| window == link).count();
        if links != names || !page.ends_with(b"</html>\n") {
            self.wrong(Fault::WrongBytes, &format!("{links} names of {names} in {bytes} bytes"));
        }
        self.report.checked(bytes);
        Ok(None)
    }

    fn echo(&self, said: &[u8], connection: &mut Connection) -> Result<Option<Known>, Broken> {
        let mut back = Vec::new();
        let bytes = connection.body(self.head, false, |piece| back.extend_from_slice(piece))?;
        if back != said {
            self.wrong(Fault::WrongBytes, &format!("{bytes} bytes, not the {} that were sent", said.len()));
        }
        self.report.checked(bytes);
        Ok(None)
    }

    fn program_file(&self, connection: &mut Connection) -> Result<Option<Known>, Broken> {
        let still = site::program_file();
        let mut checker = Checker::still(&still.target, 0);
        let bytes = connection.body(self.head, false, |piece| checker.take(piece))?;
        match checker.finish() {
            Some(wrong) => self.wrong(Fault::WrongBytes, &wrong),
            None if bytes != still.bytes => {
                self.wrong(Fault::WrongBytes, &format!("{bytes} of {} bytes", still.bytes));
            }
            None => {}
        }
        self.report.checked(bytes);
        Ok(None)
    }
}

#[derive(Clone, Copy)]
enum Checked<'a> {
    Still(&'a Still),
    Live(&'a Live),
}

fn date(text: &str) -> Option<i64> {
    flash_http::date::parse(text.as_bytes())
}

/// A body for a program that says it back.
pub(crate) fn said(number: u64, bytes: usize) -> Vec<u8> {
    let mut said = vec![0; bytes];
    Content::new(number, "/cgi/echo").fill(0, &mut said);
    said
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::super::client::VISITOR;
    use super::*;

    /// What is wrong with this answer, which a made-up server gives.
    fn faults(ask: &Ask, answer: Vec<u8>) -> Vec<Fault> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let report = Report::new("made up", 0);
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = [0; 10_000];
            assert!(stream.read(&mut request).expect("a request") > 0);
            stream.write_all(&answer).expect("it takes it");
        });
        let mut connection = Connection::open(port, VISITOR, None).expect("a connection");
        let mut request = Vec::new();
        ask.write(true, &mut request);
        let asked = Instant::now();
        connection.send(&request).expect("it takes it");
        ask.answer(&mut connection, asked, &report).expect("an answer");
        server.join().expect("no panic");
        report.violations().into_keys().collect()
    }

    fn answer(head: &str, target: &str, from: u64, bytes: usize) -> Vec<u8> {
        let mut body = vec![0; bytes];
        Content::new(0, target).fill(from, &mut body);
        [format!("HTTP/1.1 {head}\r\nContent-Length: {bytes}\r\n\r\n").as_bytes(), &body].concat()
    }

    #[test]
    fn only_the_right_answer_is_right() {
        let still = Still { target: "/x".into(), bytes: 100 };
        let ask = |variant| Ask { target: Target::Still(still.clone()), variant };
        let whole = ask(RequestVariant::Whole);
        assert_eq!(faults(&whole, answer("200 OK", "/x", 0, 100)), []);
        assert_eq!(faults(&whole, answer("200 OK", "/x", 0, 99)), [Fault::WrongAnswer]);
        assert_eq!(faults(&whole, answer("200 OK", "/y", 0, 100)), [Fault::WrongBytes]);
        assert_eq!(faults(&whole, answer("404 Not Found", "/x", 0, 9)), [Fault::WrongAnswer]);
        assert_eq!(faults(&whole, answer("503 Busy", "/x", 0, 9)), [Fault::Refused]);
        let range = ask(RequestVariant::Bytes { first: 10, last: 49 });
        assert_eq!(range.shown(), "/x (bytes 10-49)");
        let of = |range: &str| format!("206 Partial\r\nContent-Range: bytes {range}");
        assert_eq!(faults(&range, answer(&of("10-49/100"), "/x", 10, 40)), []);
        assert_eq!(faults(&range, answer(&of("10-49/100"), "/x", 11, 40)), [Fault::WrongBytes]);
        assert_eq!(faults(&range, answer(&of("10-48/100"), "/x", 10, 40)), [Fault::WrongAnswer]);
        assert_eq!(faults(&range, answer(&of("10-49/101"), "/x", 10, 40)), [Fault::WrongAnswer]);
        assert_eq!(faults(&range, answer("200 OK", "/x", 0, 100)), [Fault::WrongAnswer]);
        let beyond = answer("416 No\r\nContent-Range: bytes */100", "/error", 0, 30);
        assert_eq!(faults(&ask(RequestVariant::Beyond), beyond), []);
        let last = ask(RequestVariant::Last { bytes: 9 });
        assert_eq!(faults(&last, answer(&of("91-99/100"), "/x", 91, 9)), []);
    }

    #[test]
    fn old_answers_and_mixtures_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let live = Live::make_all(folder.path()).expect("files").swap_remove(0);
        let mut old = vec![0; 294];
        live.content(0).fill(0, &mut old);
        let mut mixed = old.clone();
        live.change(&mut fastrand::Rng::with_seed(1)).expect("a change");
        let mut new = vec![0; 295];
        live.content(1).fill(0, &mut new);
        mixed[200..].copy_from_slice(&new[200..294]);
        let ask = Ask { target: Target::Live(&live), variant: RequestVariant::Whole };
        let answer = |body: &[u8]| {
            [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
        };
        assert_eq!(faults(&ask, answer(&old)), [], "it is not old yet");
        assert_eq!(faults(&ask, answer(&mixed)), [Fault::WrongBytes]);
        assert_eq!(faults(&ask, answer(&new[..294])), [Fault::WrongAnswer], "another version's length");
        thread::sleep(AGE_MAX + AGE_SLACK);
        assert_eq!(faults(&ask, answer(&old)), [Fault::TooOld]);
        assert_eq!(faults(&ask, answer(&new)), []);
        let admits = b"HTTP/1.1 200 OK\r\nAge: 2\r\nContent-Length: 294\r\n\r\n";
        assert_eq!(faults(&ask, [&admits[..], &old].concat()), []);
    }
}
