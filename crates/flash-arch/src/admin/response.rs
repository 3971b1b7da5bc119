//! A response of the admin socket.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_http::status::Status;

pub(super) struct Response {
    pub(super) status: u16,
    pub(super) media: &'static str,
    /// More fields, each with its line's end.
    pub(super) fields: String,
    /// `None` if events follow, for as long as the client takes them.
    pub(super) body: Option<String>,
    /// Goes with it.
    pub(super) descriptor: Option<Arc<OwnedFd>>,
}

impl Response {
    pub(super) fn text(status: u16, body: impl Into<String>) -> Self {
        let media = "text/plain; charset=utf-8";
        Self { status, media, fields: String::new(), body: Some(body.into()), descriptor: None }
    }

    /// The method is not among these.
    pub(super) fn only(methods: &str, text: &str) -> Self {
        Self { fields: format!("Allow: {methods}\r\n"), ..Self::text(405, text) }
    }

    /// Whether events follow.
    pub(super) fn is_stream(&self) -> bool {
        self.body.is_none()
    }

    /// The whole response, or the part of it before the events. The connection closes after it.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let Self { status, media, fields, body, descriptor: _ } = self;
        let reason = Status(*status).reason();
        let length =
            body.as_ref().map_or(String::new(), |body| format!("Content-Length: {}\r\n", body.len()));
        let body = body.as_deref().unwrap_or_default();
        format!(
            "HTTP/1.1 {status} {reason}\r\nServer: Flash\r\nContent-Type: {media}\r\n{length}{fields}\
             X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
        )
        .into_bytes()
    }
}
