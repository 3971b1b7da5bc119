//! A request at the admin socket, and its response.

use std::sync::atomic::{AtomicBool, Ordering};

use flash_http::head::{self, Limits, Parsed, Target};
use flash_http::method::Method;
use flash_http::status::Status as HttpStatus;

use super::administered::Administered;

/// Requests here are short.
pub(super) const HEAD_BYTES_MAX: usize = 16 << 10;

pub(super) struct Response {
    status: u16,
    media: &'static str,
    /// The methods that there are, with 405.
    allow: Option<&'static str>,
    body: String,
}

/// Another reload is under way.
static RELOADS: AtomicBool = AtomicBool::new(false);

impl Response {
    pub(super) fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, media: "text/plain; charset=utf-8", allow: None, body: body.into() }
    }

    /// The whole response. The connection closes after it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let Self { status, media, allow, body } = self;
        let reason = HttpStatus(*status).reason();
        let allow = allow.map_or(String::new(), |methods| format!("Allow: {methods}\r\n"));
        let length = body.len();
        format!(
            "HTTP/1.1 {status} {reason}\r\nServer: Flash\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n{allow}\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

/// Does what a request asks for.
pub(super) fn respond(request: &[u8], server: &dyn Administered) -> Response {
    let limits =
        Limits { head_bytes_max: HEAD_BYTES_MAX, target_bytes_max: HEAD_BYTES_MAX, ..Limits::default() };
    let head = match head::parse(request, &limits) {
        Ok(Parsed::Complete { head, .. }) => head,
        Ok(Parsed::Incomplete) => return Response::text(400, "the request is not complete\n"),
        Err(reject) => return Response::text(reject.status.0, "this is no request\n"),
    };
    let Target::Origin { path, .. } = head.target else { return Response::text(400, "this is no path\n") };
    let is_read = matches!(head.method, Method::Get | Method::Head);
    let is_post = head.method == Method::Known("POST");
    match path {
        b"/healthz" if is_read && server.is_draining() => Response::text(503, "draining\n"),
        b"/healthz" if is_read => Response::text(200, "serving\n"),
        b"/status.json" if is_read => {
            Response { media: "application/json", ..Response::text(200, server.status().json()) }
        }
        b"/reload" if is_post => reload(server),
        b"/reopen" if is_post => {
            server.reopen_logs();
            Response::text(200, "the logs are opened again\n")
        }
        b"/healthz" | b"/status.json" => {
            Response { allow: Some("GET, HEAD"), ..Response::text(405, "ask with GET\n") }
        }
        b"/reload" | b"/reopen" => Response { allow: Some("POST"), ..Response::text(405, "ask with POST\n") },
        _ => Response::text(404, "there is /healthz, /status.json, /reload and /reopen\n"),
    }
}

fn reload(server: &dyn Administered) -> Response {
    if RELOADS.swap(true, Ordering::Acquire) {
        return Response::text(503, "another reload is under way\n");
    }
    let reloaded = server.reload();
    RELOADS.store(false, Ordering::Release);
    match reloaded {
        Ok(number) => Response::text(200, format!("configuration {number} serves from now on\n")),
        Err(why) => Response::text(422, format!("{}\n", why.trim_end())),
    }
}
