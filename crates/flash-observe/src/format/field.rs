//! The fields of a line of JSON: their names, and what each takes from a record.

use flash_core::record::Record;
use flash_core::record::program_times::ProgramTimes;
use flash_core::record::request_id::LoggedId;

use super::text::{client, json_text, put};
use crate::date::Utc;

macro_rules! fields {
    ($($(#[doc = $doc:literal])+ $field:ident = $name:literal,)*) => {
        /// A field of a record.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field {
            $($(#[doc = $doc])+ $field,)*
        }

        impl Field {
            pub const ALL: &[Field] = &[$(Field::$field,)*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Field::$field => $name,)*
                }
            }

            /// What the field says, for the help.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Field::$field => concat!($($doc),+).trim_ascii(),)*
                }
            }
        }
    };
}

fields! {
    /// When the request's head was complete, in UTC
    Time = "time",
    /// The client's address
    Client = "client",
    /// Who has logged in
    User = "user",
    /// The request line
    Request = "request",
    /// The request's method
    Method = "method",
    /// What the request line asks for: path and query
    Target = "target",
    /// The protocol, such as HTTP/1.1 or HTTP/2.0
    Protocol = "protocol",
    /// How the client asked: http or https
    Scheme = "scheme",
    /// The version of TLS, such as TLSv1.3
    TlsVersion = "tls_version",
    /// The host that was asked
    Host = "host",
    /// The response's status
    Status = "status",
    /// Bytes of the body that were sent
    Bytes = "bytes",
    /// From the complete head to the last byte that the kernel accepted
    DurationUs = "duration_us",
    /// Path look-ups
    WalkUs = "walk_us",
    /// Opening files
    OpenUs = "open_us",
    /// Reading files
    ReadUs = "read_us",
    /// Waiting for a free helper
    QueueUs = "queue_us",
    /// All work of that helper
    HelpUs = "help_us",
    /// Sending the response
    SendUs = "send_us",
    /// From the complete head to the beginning of the response
    FirstByteUs = "first_byte_us",
    /// Waiting for a free process of a program, or for a server of an upstream that has room
    ProgramQueueUs = "program_queue_us",
    /// Then, starting that process or connecting
    ProgramConnectUs = "program_connect_us",
    /// From then on, until the program's first byte
    ProgramFirstByteUs = "program_first_byte_us",
    /// The program's time in all, until its last byte
    ProgramUs = "program_us",
    /// The page that led here
    Referer = "referer",
    /// The client's program
    UserAgent = "user_agent",
    /// Why bytes were refused that were no request, or came too slowly
    Reason = "reason",
    /// The request's id
    RequestId = "request_id",
    /// The trace that the request belongs to
    TraceId = "trace_id",
    /// The span of that trace
    SpanId = "span_id",
    /// The client's span, if span_id is one of Flash
    ParentSpanId = "parent_span_id",
    /// Whether the response ended before its last byte left
    Cut = "cut",
}

impl Field {
    /// Those that are written if none are chosen.
    pub const USUAL: [Field; 27] = [
        Field::Time,
        Field::Client,
        Field::User,
        Field::Request,
        Field::Host,
        Field::Status,
        Field::Bytes,
        Field::DurationUs,
        Field::WalkUs,
        Field::OpenUs,
        Field::ReadUs,
        Field::QueueUs,
        Field::HelpUs,
        Field::SendUs,
        Field::FirstByteUs,
        Field::ProgramQueueUs,
        Field::ProgramConnectUs,
        Field::ProgramFirstByteUs,
        Field::ProgramUs,
        Field::Referer,
        Field::UserAgent,
        Field::Reason,
        Field::RequestId,
        Field::TraceId,
        Field::SpanId,
        Field::ParentSpanId,
        Field::Cut,
    ];

    /// Appends the value. Returns whether there is one; what was appended otherwise is of no use.
    pub(super) fn write(self, record: &Record, line: &mut Vec<u8>) -> bool {
        let spent = &record.spent;
        match self {
            Field::Time => put(line, format_args!("\"{}\"", Utc::from_unix_ms(record.unix_ms).rfc3339())),
            Field::Client => {
                line.push(b'"');
                client(record.peer, line);
                line.push(b'"');
            }
            Field::User => return text_if_any(&record.user, line),
            Field::Request => text(&record.request_line, line),
            Field::Method => return text_if_any(word(record, 0), line),
            Field::Target => return text_if_any(word(record, 1), line),
            Field::Protocol => return text_if_any(record.protocol.as_bytes(), line),
            Field::Scheme => return text_if_any(record.scheme.as_bytes(), line),
            Field::TlsVersion => return text_if_any(record.tls_version.unwrap_or_default().as_bytes(), line),
            Field::Host => text(&record.host, line),
            Field::Status => number(record.status.into(), line),
            Field::Bytes => number(record.body_bytes, line),
            Field::DurationUs => number(record.duration_us, line),
            Field::WalkUs => number(spent.walk_ns / 1000, line),
            Field::OpenUs => number(spent.open_ns / 1000, line),
            Field::ReadUs => number(spent.read_ns / 1000, line),
            Field::QueueUs => number(spent.queue_ns / 1000, line),
            Field::HelpUs => number(spent.help_ns / 1000, line),
            Field::SendUs => number(record.send_us, line),
            Field::FirstByteUs => number(record.first_byte_us, line),
            Field::ProgramQueueUs => return of_program(record, |times| times.queue_us, line),
            Field::ProgramConnectUs => return of_program(record, |times| times.connect_us, line),
            Field::ProgramFirstByteUs => return of_program(record, |times| times.first_byte_us, line),
            Field::ProgramUs => return of_program(record, |times| times.whole_us, line),
            Field::Referer => text(&record.referer, line),
            Field::UserAgent => text(&record.user_agent, line),
            Field::Reason => return text_if_any(record.reason.as_bytes(), line),
            Field::RequestId => match &record.id {
                Some(LoggedId::Own(id)) => put(line, format_args!("\"{id}\"")),
                Some(LoggedId::Given(id)) => text(id, line),
                None => return false,
            },
            Field::TraceId => return hex(record.span.map(|span| span.trace_id), line),
            Field::SpanId => return hex(record.span.map(|span| span.span_id), line),
            Field::ParentSpanId => return hex(record.span.and_then(|span| span.parent_id), line),
            Field::Cut => line.extend_from_slice(b"true"),
        }
        self != Field::Cut || record.cut
    }
}

/// A word of the request line. Bytes that were no request have none.
fn word(record: &Record, number: usize) -> &[u8] {
    let is_request = !record.protocol.is_empty();
    let mut words = record.request_line.split(|byte| *byte == b' ');
    words.nth(number).filter(|_| is_request).unwrap_or_default()
}

fn text(bytes: &[u8], line: &mut Vec<u8>) {
    line.push(b'"');
    json_text(bytes, line);
    line.push(b'"');
}

fn text_if_any(bytes: &[u8], line: &mut Vec<u8>) -> bool {
    text(bytes, line);
    !bytes.is_empty()
}

fn number(number: u64, line: &mut Vec<u8>) {
    put(line, format_args!("{number}"));
}

fn of_program(record: &Record, time: fn(&ProgramTimes) -> u64, line: &mut Vec<u8>) -> bool {
    record.program.iter().for_each(|times| number(time(times), line));
    record.program.is_some()
}

fn hex<const N: usize>(bytes: Option<[u8; N]>, line: &mut Vec<u8>) -> bool {
    line.push(b'"');
    bytes.iter().flatten().for_each(|byte| put(line, format_args!("{byte:02x}")));
    line.push(b'"');
    bytes.is_some()
}
