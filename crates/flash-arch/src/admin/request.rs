//! What a request at the admin socket asks for.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use flash_http::Fields;
use flash_http::head::{self, Head, Limits, Parsed, Target};
use flash_http::method::Method;

use flash_os::waker::Waker;
use flash_process::UpgradeRequest;

use super::administered::Administered;
use super::history::History;
use super::host::{Access, Policy};
use super::open_metrics;
use super::page::{self, Page};
use super::response::Response;
use crate::service::reply::{Outcome, Reply, STOPPING};

/// Narrower terminals are scrolled.
const COLUMNS_MIN: usize = 40;
/// Requests here are short.
pub(super) const HEAD_BYTES_MAX: usize = 16 << 10;

/// What requests are about.
pub(super) struct Subject<'a> {
    pub(super) server: &'a mut dyn Administered,
    pub(super) history: &'a History,
    /// Readable when an outcome is there.
    pub(super) waker: &'a Arc<Waker>,
    /// A client waits for another reload.
    pub(super) is_reloading: bool,
}

pub(super) enum Answer {
    Now(Response),
    Later(Pending),
}

/// The outcome of a request that the server fulfils in its own time.
pub(super) struct Pending {
    /// What serves then.
    what: &'static str,
    outcome: Receiver<Outcome>,
}

const CONFIGURATION: &str = "configuration";
const PROCESS: &str = "process";
const LOGS: &str = "logs";
const FOUND: &str = "findings";

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Self::Now(response)
    }
}

impl Subject<'_> {
    pub(super) fn page(&self) -> Page {
        Page::new(&self.server.snapshot(), self.history)
    }

    fn later(&mut self, what: &'static str, begin: impl FnOnce(&mut dyn Administered, Reply)) -> Answer {
        let (reply, outcome) = Reply::new(self.waker);
        begin(self.server, reply);
        Answer::Later(Pending { what, outcome })
    }
}

impl Pending {
    pub(super) fn is_reload(&self) -> bool {
        self.what == CONFIGURATION
    }

    /// The response, once the outcome is known.
    pub(super) fn response(&self) -> Option<Response> {
        let outcome = match self.outcome.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(STOPPING.into()),
            Ok(outcome) => outcome,
        };
        Some(match outcome {
            // What rotates logs sends a mail about each line that is printed.
            Ok(_) if matches!(self.what, LOGS | FOUND) => Response::text(200, ""),
            Ok(number) => Response::text(200, format!("{} {number} serves from now on\n", self.what)),
            Err(why) => Response::text(422, format!("{}\n", why.trim_end())),
        })
    }
}

/// Does what a request asks for.
pub(super) fn respond(request: &[u8], policy: &Policy, mut subject: Subject<'_>) -> Answer {
    let head = match read(request) {
        Ok(head) => head,
        Err(refusal) => return refusal.into(),
    };
    if let Some(host) = head.host.filter(|host| !policy.covers(host)) {
        let host = host.escape_ascii();
        let why = format!("{host} is not among admin-hosts, nor an IP address or localhost\n");
        return Response::text(421, why).into();
    }
    let Target::Origin { path, query } = head.target else {
        return Response::text(400, "this is no path\n").into();
    };
    let is_read = matches!(head.method, Method::Get | Method::Head);
    let is_post = head.method == Method::Known("POST");
    if is_post && is_of_another_page(head.fields) {
        return Response::text(403, "another site's page may not ask for that\n").into();
    }
    let server = &mut *subject.server;
    let response = match path {
        b"/healthz" if is_read && server.is_draining() => Response::text(503, "draining\n"),
        b"/healthz" if is_read => Response::text(200, "serving\n"),
        b"/status.json" if is_read => {
            Response { media: "application/json", ..Response::text(200, server.snapshot().json()) }
        }
        b"/metrics" if is_read => Response {
            media: open_metrics::MEDIA,
            ..Response::text(200, open_metrics::text(&server.snapshot()))
        },
        b"/" | b"/status" if is_read => page(&subject),
        b"/status.txt" if is_read => {
            Response::text(200, subject.page().text(query.map_or(usize::MAX, columns)))
        }
        b"/events" if head.method == Method::Get => {
            Response { media: "text/event-stream", body: None, ..Response::text(200, "") }
        }
        b"/reload" | b"/check" | b"/reopen" | b"/counters" | b"/upgrade"
            if policy.access == Access::ReadOnly =>
        {
            Response::text(403, "only the admin socket takes this\n")
        }
        b"/upgrade" if head.method == Method::Get => socket_of_upgrader(policy),
        b"/reload" if is_post && subject.is_reloading => Response::text(503, "another reload is under way\n"),
        b"/reload" if is_post => return subject.later(CONFIGURATION, |server, reply| server.reload(reply)),
        b"/check" if is_post => match query.and_then(file_of_check) {
            Some(file) => return subject.later(FOUND, |server, reply| server.check(file, reply)),
            None => Response::text(400, "a check takes file=PATH\n"),
        },
        b"/reopen" if is_post => return subject.later(LOGS, |server, reply| server.reopen_logs(reply)),
        b"/counters" if is_post => {
            server.log_counters();
            Response::text(200, "the error log has the counters\n")
        }
        b"/upgrade" if is_post => match upgrade_request(query.unwrap_or_default()) {
            Some(request) => {
                return subject.later(PROCESS, |server, reply| server.upgrade(request, reply));
            }
            None => Response::text(400, "an upgrade takes ms=NUMBER and binary=PATH\n"),
        },
        b"/healthz" | b"/" | b"/status" | b"/status.json" | b"/status.txt" | b"/metrics" => {
            Response::only("GET, HEAD", "ask with GET\n")
        }
        b"/events" => Response::only("GET", "ask with GET\n"),
        b"/upgrade" => Response::only("GET, POST", "ask with POST\n"),
        b"/reload" | b"/check" | b"/reopen" | b"/counters" => Response::only("POST", "ask with POST\n"),
        _ => Response::text(
            404,
            "there is /status, /status.txt, /status.json, /events, /metrics, /healthz, /reload, /check, /reopen, /counters and /upgrade\n",
        ),
    };
    response.into()
}

fn read(request: &[u8]) -> Result<Head<'_>, Response> {
    let limits =
        Limits { head_bytes_max: HEAD_BYTES_MAX, target_bytes_max: HEAD_BYTES_MAX, ..Limits::default() };
    match head::parse(request, &limits) {
        Ok(Parsed::Complete { head, .. }) => Ok(head),
        Ok(Parsed::Incomplete) => Err(Response::text(400, "the request is not complete\n")),
        Err(reject) => Err(Response::text(reject.status.0, "this is no request\n")),
    }
}

/// Whether a browser sends it for a page of another origin. The socket may be forwarded to a port of the browser's machine, and
/// any page may send requests there.
fn is_of_another_page(mut fields: Fields<'_>) -> bool {
    fields.any(|(name, value)| {
        name.eq_ignore_ascii_case(b"origin")
            || name.eq_ignore_ascii_case(b"sec-fetch-site") && !matches!(value, b"none" | b"same-origin")
    })
}

/// How wide the reader's terminal is: `columns=NUMBER`.
fn columns(query: &[u8]) -> usize {
    let columns =
        query.strip_prefix(b"columns=").and_then(|number| str::from_utf8(number).ok()?.parse().ok());
    columns.map_or(usize::MAX, |columns: usize| columns.max(COLUMNS_MIN))
}

fn page(subject: &Subject<'_>) -> Response {
    let Ok(nonce) = page::nonce() else { return Response::text(500, "there are no random bytes\n") };
    let policy = page::content_security_policy(&nonce);
    Response {
        media: "text/html; charset=utf-8",
        fields: format!("Content-Security-Policy: {policy}\r\nReferrer-Policy: no-referrer\r\n"),
        ..Response::text(200, subject.page().html(&nonce))
    }
}

/// `ms=NUMBER`, the time until the new server has to be ready, and `binary=PATH` in percent-encoding. Both may be missing.
fn upgrade_request(query: &[u8]) -> Option<UpgradeRequest> {
    let mut request = UpgradeRequest::default();
    let mut rest = query;
    if let Some(after) = rest.strip_prefix(b"ms=") {
        let end = after.iter().position(|byte| *byte == b'&').unwrap_or(after.len());
        request.ready_within = Duration::from_millis(std::str::from_utf8(&after[..end]).ok()?.parse().ok()?);
        rest = after.get(end + 1..).unwrap_or_default();
    }
    if let Some(path) = rest.strip_prefix(b"binary=") {
        request.binary = Some(OsString::from_vec(decoded(path)?).into());
        rest = b"";
    }
    rest.is_empty().then_some(request)
}

/// `file=PATH` in percent-encoding.
fn file_of_check(query: &[u8]) -> Option<PathBuf> {
    Some(OsString::from_vec(decoded(query.strip_prefix(b"file=")?)?).into())
}

/// The bytes that percent-encoding stands for.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((first, after)) = rest.split_first() {
        match first {
            b'%' => {
                let digits = std::str::from_utf8(after.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &after[2..];
            }
            byte => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    Some(bytes)
}

/// Where root names another program. What the server itself is told of it does not count.
fn socket_of_upgrader(policy: &Policy) -> Response {
    match &policy.upgrader {
        Some(socket) => Response {
            descriptor: Some(Arc::clone(socket)),
            ..Response::text(200, "the upgrader's socket comes with this\n")
        },
        None => Response::text(503, "the upgrader could make no socket at its start\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_to_upgrade_name_a_time_and_a_program() {
        let request = |ready_ms, binary: Option<&str>| {
            let ready_within = Duration::from_millis(ready_ms);
            Some(UpgradeRequest { binary: binary.map(Into::into), ready_within })
        };
        assert_eq!(upgrade_request(b""), request(30_000, None));
        assert_eq!(upgrade_request(b"ms=5"), request(5, None));
        assert_eq!(upgrade_request(b"binary=/a%20b&c=%25"), request(30_000, Some("/a b&c=%")));
        assert_eq!(upgrade_request(b"ms=70&binary=/flash"), request(70, Some("/flash")));
        for wrong in [&b"ms="[..], b"ms=x", b"binary=%", b"binary=%zz", b"other=1"] {
            let taken = upgrade_request(wrong);
            assert!(taken.is_none(), "{wrong:?}: {taken:?}");
        }
    }
}
