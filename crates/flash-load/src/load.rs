//! What a run is: which server, who asks, how they behave, how long. Plain data, made by the flags or by a program.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use flash_traffic::Workload;

use crate::{Pace, Server, Verify};

/// One run against one server.
#[derive(Clone)]
pub struct Load {
    pub server: Server,
    /// Who asks; all groups at the same time.
    pub groups: Vec<ClientGroup>,
    pub threads: u32,
    /// The first time, which is not counted.
    pub warm_up: Duration,
    pub until: Until,
    /// How long an answer may take, from the moment its request was due.
    pub timeout: Duration,
    /// What each client of a closed loop should get, if anybody asks how many did: [`Conformance`](crate::Conformance).
    pub bits_per_second_min: Option<u64>,
    pub seed: u64,
}

/// When a run ends; the warm-up comes before that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Time(Duration),
    /// So many requests have been asked and answered, or have failed.
    Requests(u64),
}

/// Clients with the same workload, pace and options.
#[derive(Clone)]
pub struct ClientGroup {
    pub workload: Arc<dyn Workload>,
    pub pace: Pace,
    pub options: ClientOptions,
}

/// How clients use their connections, and what their requests contain.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub keep: Keep,
    pub protocol: Protocol,
    /// Requests of HTTP/1 that may wait for a response at the same time on a connection.
    pub pipeline: u32,
    pub link: Option<Link>,
    pub method: Method,
    /// The body of every request to which the workload gives none.
    pub body: Option<Body>,
    /// The part of the requests for files that a client has seen before, 0 to 1, that are conditional.
    pub conditional: f64,
    /// The part of the requests for files of known size, 0 to 1, that request a range.
    pub ranges: f64,
    /// Values of Accept-Encoding, each with its part of the requests. The rest of the requests have none.
    pub encodings: Vec<(String, f64)>,
    /// More fields of every request, as `Name: value`.
    pub fields: Vec<String>,
    /// The content that response bodies are compared with.
    pub verify: Verify,
}

impl Default for ClientOptions {
    /// Clients that send GET requests on kept-alive connections over fast lines.
    fn default() -> ClientOptions {
        ClientOptions {
            keep: Keep::Open,
            protocol: Protocol::Http1,
            pipeline: 1,
            link: None,
            method: Method::Get,
            body: None,
            conditional: 0.0,
            ranges: 0.0,
            encodings: Vec::new(),
            fields: Vec::new(),
            verify: Verify::Nothing,
        }
    }
}

impl ClientOptions {
    /// Requests that may wait for a response at the same time on a connection.
    pub(crate) fn concurrency(&self) -> u32 {
        match self.protocol {
            Protocol::Http1 => self.pipeline,
            Protocol::Http2 { streams } => streams,
        }
    }
}

/// What is spoken on connections, with TLS or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    /// Without TLS by prior knowledge (RFC 9113 §3.3).
    Http2 {
        /// Requests that may wait for a response at the same time, if the server allows them.
        streams: u32,
    },
}

/// How long a connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// As long as the server lets it, or until the workload says that a session ends.
    Open,
    /// So many requests, at least one.
    Requests(u32),
}

/// A slow line, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub down_bytes_per_second: u64,
    pub up_bytes_per_second: u64,
}

/// A request's method (RFC 9110 §9). A request to which the workload gives a body is a POST whatever is said here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl Method {
    const ALL: [Method; 7] = [
        Method::Get,
        Method::Head,
        Method::Post,
        Method::Put,
        Method::Patch,
        Method::Delete,
        Method::Options,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
        }
    }

    /// Whether a second one changes no more than the first, so that it may be sent again (RFC 9110 §9.2.2).
    pub(crate) fn is_idempotent(self) -> bool {
        !matches!(self, Method::Post | Method::Patch)
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(name: &str) -> Result<Method, String> {
        let known = Method::ALL.into_iter().find(|method| method.name().eq_ignore_ascii_case(name));
        known.ok_or_else(|| format!("write one of {}", Method::ALL.map(Method::name).join(", ")))
    }
}

/// A request's body: a block, sent again and again until it is so many bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Body {
    block: Arc<[u8]>,
    bytes: u64,
}

impl Body {
    /// These bytes.
    pub fn new(content: Arc<[u8]>) -> Body {
        Body { bytes: content.len() as u64, block: content }
    }

    /// So many bytes that mean nothing.
    pub fn of_bytes(bytes: u64) -> Body {
        Body { block: Arc::new([b'x'; 64 << 10]), bytes }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What comes next when so much has been sent; empty at the end.
    pub(crate) fn next(&self, sent: u64) -> &[u8] {
        let left = usize::try_from(self.bytes - sent).unwrap_or(usize::MAX);
        if left == 0 {
            return &[];
        }
        let block = &self.block[(sent % self.block.len() as u64) as usize..];
        &block[..block.len().min(left).min(BODY_PIECE_BYTES)]
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a body of {} bytes", self.bytes)
    }
}

/// As much of a body as waits in a client for its socket.
const BODY_PIECE_BYTES: usize = 64 << 10;

impl fmt::Display for Load {
    /// `32 clients, closed loop, against 127.0.0.1:80`, for titles.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, group) in self.groups.iter().enumerate() {
            let files = group.workload.catalogue().files.len();
            let and = if number > 0 { "; " } else { "" };
            write!(f, "{and}{}, {files} {}", group.pace, if files == 1 { "target" } else { "targets" })?;
        }
        let tls = if self.server.tls.is_some() { ", TLS" } else { "" };
        let http2 = self.groups.iter().any(|group| group.options.protocol != Protocol::Http1);
        let protocol = if http2 { ", HTTP/2" } else { "" };
        write!(f, "; against {}{tls}{protocol}", self.server.address)
    }
}
