//! A request's bytes. Everything that all requests of a group have in common is written once.

use crate::load::{ClientOptions, Method};
use flash_traffic::Message;

pub(crate) struct RequestTemplate {
    method: Method,
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
    pub(crate) fn new(authority: &str, options: &ClientOptions) -> RequestTemplate {
        let agent = concat!("flash-load/", env!("CARGO_PKG_VERSION"));
        let mut common = format!(" HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {agent}\r\n");
        for field in &options.fields {
            common.push_str(field);
            common.push_str("\r\n");
        }
        let encodings = options.encodings.iter();
        RequestTemplate {
            method: options.method,
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
}
