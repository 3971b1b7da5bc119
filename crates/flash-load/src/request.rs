//! A request's bytes. Everything that all requests of a group have in common is written once.

use flash_h2::hpack::encoder;
use flash_h2::{Client, CommonFields};
use flash_traffic::Message;

use crate::Server;
use crate::load::{ClientOptions, Method};

pub(crate) struct RequestTemplate {
    method: Method,
    /// The same for HTTP/2.
    fields: CommonFields,
    /// From behind the target to the last field that all requests have.
    common: Vec<u8>,
    /// Fields of which a request has one or none.
    encodings: Vec<Vec<u8>>,
}

/// What one request has besides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras<'a> {
    /// First and last byte.
    pub(crate) range: Option<(u64, u64)>,
    /// What the workload has it say.
    pub(crate) message: Option<&'a Message>,
    /// How long its body is, if it has one.
    pub(crate) body_bytes: Option<u64>,
    /// A conditional request's field, with its line's end.
    pub(crate) condition: Option<&'a str>,
    /// The place of an Accept-Encoding among those of the options.
    pub(crate) encoding: Option<u8>,
    /// The connection ends after the answer.
    pub(crate) last: bool,
}

/// The method of a request with this message in a group with that method.
pub(crate) fn method(usual: Method, message: Option<&Message>) -> Method {
    if message.is_some_and(|message| message.body.is_some()) { Method::Post } else { usual }
}

impl RequestTemplate {
    pub(crate) fn new(server: &Server, options: &ClientOptions) -> RequestTemplate {
        let agent = concat!("flash-load/", env!("CARGO_PKG_VERSION"));
        let authority = &server.authority;
        let mut common = format!(" HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {agent}\r\n");
        for field in &options.fields {
            common.push_str(field);
            common.push_str("\r\n");
        }
        let own: Vec<(String, &str)> =
            options.fields.iter().filter_map(|field| name_and_value(field)).collect();
        let own = own.iter().map(|(name, value)| (name.as_str(), *value));
        let fields =
            CommonFields::new(server.scheme(), authority, [("user-agent", agent)].into_iter().chain(own));
        let encodings = options.encodings.iter();
        RequestTemplate {
            method: options.method,
            fields,
            common: common.into_bytes(),
            encodings: encodings.map(|(value, _)| format!("Accept-Encoding: {value}\r\n").into()).collect(),
        }
    }

    pub(crate) fn write(&self, target: &str, extras: Extras, out: &mut Vec<u8>) {
        out.extend_from_slice(method(self.method, extras.message).name().as_bytes());
        out.push(b' ');
        out.extend_from_slice(target.as_bytes());
        out.extend_from_slice(&self.common);
        if let Some(message) = extras.message {
            out.extend_from_slice(message.fields.as_bytes());
        }
        if let Some(bytes) = extras.body_bytes {
            out.extend_from_slice(format!("Content-Length: {bytes}\r\n").as_bytes());
        }
        if let Some((first, last)) = extras.range {
            out.extend_from_slice(format!("Range: bytes={first}-{last}\r\n").as_bytes());
        }
        if let Some(condition) = extras.condition {
            out.extend_from_slice(condition.as_bytes());
        }
        if let Some(encoding) = extras.encoding {
            out.extend_from_slice(&self.encodings[usize::from(encoding)]);
        }
        if extras.last {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The same as a request of HTTP/2. Returns its stream.
    pub(crate) fn open(&self, target: &str, extras: Extras, client: &mut Client, out: &mut Vec<u8>) -> u32 {
        let method = method(self.method, extras.message).name();
        let own = |out: &mut Vec<u8>| {
            let lines = |text: &str, out: &mut Vec<u8>| {
                for (name, value) in text.split("\r\n").filter_map(name_and_value) {
                    encoder::field(out, name.as_bytes(), value.as_bytes());
                }
            };
            if let Some(message) = extras.message {
                lines(&message.fields, out);
            }
            if let Some(bytes) = extras.body_bytes {
                encoder::field(out, b"content-length", bytes.to_string().as_bytes());
            }
            if let Some((first, last)) = extras.range {
                encoder::field(out, b"range", format!("bytes={first}-{last}").as_bytes());
            }
            if let Some(condition) = extras.condition {
                lines(condition, out);
            }
            if let Some(encoding) = extras.encoding {
                lines(&String::from_utf8_lossy(&self.encodings[usize::from(encoding)]), out);
            }
        };
        let ends = extras.body_bytes.is_none_or(|bytes| bytes == 0);
        client.open((method, target), &self.fields, own, ends, out)
    }
}

/// A field of HTTP/1 as HTTP/2 has it. Those of a connection are left out (RFC 9113 §8.2.2).
fn name_and_value(line: &str) -> Option<(String, &str)> {
    let (name, value) = line.split_once(':')?;
    let name = name.to_ascii_lowercase();
    let is_of_connection =
        ["connection", "host", "keep-alive", "transfer-encoding", "upgrade"].contains(&name.as_str());
    (!is_of_connection).then(|| (name, value.trim()))
}
