//! What an HTTP server behind this one is told in place of what the client has said, which one is asked, and how long it may take.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use flash_http::head::Head;

use crate::clients;
use crate::path::SitePath;
use crate::record::Peer;
use crate::site::sticky::{StickyRequest, StickySessions};

/// A field's name and its value.
pub type ProxyField = (Box<[u8]>, Box<[u8]>);

/// The rules of a route to HTTP servers.
#[derive(Clone, Debug, Default)]
pub struct ProxyRules {
    /// The `Host` that is asked. `None`: the client's.
    pub host: Option<Box<[u8]>>,
    /// What stands before each path, without a slash at its end.
    pub base: Box<[u8]>,
    /// Fields that are set, or with an empty value left out.
    pub fields: Vec<ProxyField>,
    /// Requests that are equal in this go to the same server.
    pub hash: Option<HashBy>,
    /// Whether a server is told of the client by `Forwarded` (RFC 7239), and not by `X-Forwarded-…`.
    pub forwarded: bool,
    /// What becomes of the fields of responses.
    pub response: ResponseRules,
    /// Sessions that stay with their servers.
    pub sticky: Option<Arc<dyn StickySessions>>,
    pub patience: Patience,
    /// Bodies of requests pass as they come. Otherwise the server is asked once they are whole.
    pub streams_requests: bool,
    /// The server speaks HTTP/2: a stream may be silent in both directions for as long as a server before its response.
    pub is_duplex: bool,
}

/// What becomes of the fields of responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseRules {
    /// Addresses of the application in `Location` and `Refresh` become the client's.
    pub redirects: bool,
    /// The same for the paths and domains of cookies.
    pub cookies: bool,
    /// Fields that are set, or with an empty value left out.
    pub fields: Vec<ProxyField>,
    /// The servers, each with its port, by which an application may know itself.
    pub servers: Vec<Box<[u8]>>,
}

/// What tells requests apart that go to different servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashBy {
    Path,
    /// The client's address, or of an IPv6 address the first 64 bits.
    Client,
    /// The value of a cookie.
    Cookie(Box<[u8]>),
    /// The value of a field.
    Field(Box<[u8]>),
}

/// How long the servers of a route may be silent, where that is not as long as all programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// Before the first byte of a response.
    pub first_byte_ms: Option<u64>,
    /// After it.
    pub idle_ms: Option<u64>,
}

impl ResponseRules {
    pub(crate) fn is_empty(&self) -> bool {
        !self.redirects && !self.cookies && self.fields.is_empty()
    }
}

impl ProxyRules {
    /// Whether a rule says what becomes of the field.
    pub(crate) fn names(&self, name: &[u8]) -> bool {
        self.fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    }

    /// The session of a request, if those of the route stay with their servers.
    pub(crate) fn sticky(&self, head: &Head<'_>, is_tls: bool, now_s: u64) -> Option<StickyRequest> {
        let sessions = Arc::clone(self.sticky.as_ref()?);
        let asked = cookies(head, sessions.name()).find_map(|value| sessions.session(value, now_s));
        Some(StickyRequest { sessions, asked, is_tls })
    }
}

impl HashBy {
    /// The hash of a request, which is the same on all machines. `None` if the request has no such cookie, field or address.
    pub(crate) fn of(&self, path: &SitePath<'_>, head: &Head<'_>, peer: Peer) -> Option<u64> {
        let field = |wanted: &[u8]| {
            let mut fields = head.fields;
            fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
        };
        let mut hasher = DefaultHasher::new();
        match self {
            Self::Path => path.as_bytes().hash(&mut hasher),
            Self::Client if peer == Peer::Unix => return None,
            Self::Client => clients::network(peer).hash(&mut hasher),
            Self::Field(name) => field(name)?.hash(&mut hasher),
            Self::Cookie(name) => cookies(head, name).next()?.hash(&mut hasher),
        }
        Some(hasher.finish())
    }
}

/// The values of a cookie (RFC 6265 §4.2.1). HTTP/2 may bring the field in pieces (RFC 9113 §8.2.3), and a browser has a cookie for each
/// path.
fn cookies<'h>(head: &Head<'h>, wanted: &[u8]) -> impl Iterator<Item = &'h [u8]> {
    let fields = head.fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"cookie"));
    let pairs = fields.flat_map(|(_, value)| value.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
    pairs.filter_map(move |pair| pair.strip_prefix(wanted)?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use flash_http::head::{self, Limits, Parsed};

    use super::*;

    fn hash(by: &HashBy, target: &str, fields: &str, client: &str) -> Option<u64> {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let Ok(Parsed::Complete { head, .. }) = head::parse(text.as_bytes(), &Limits::NONE) else {
            panic!("{text}")
        };
        let path = SitePath::parse(target.as_bytes()).unwrap();
        by.of(&path, &head, Peer::Inet(client.parse().unwrap()))
    }

    #[test]
    fn equal_requests_have_equal_hashes_and_others_have_others() {
        let (here, there) = ("192.0.2.1:1", "192.0.2.2:1");
        let field = HashBy::Field(b"X-User"[..].into());
        let cookie = HashBy::Cookie(b"sid"[..].into());
        let of = |by: &HashBy, target, fields, client| hash(by, target, fields, client).expect("it has one");
        assert_eq!(of(&HashBy::Path, "/a", "", here), of(&HashBy::Path, "/a", "X-User: b\r\n", there));
        assert_ne!(of(&HashBy::Path, "/a", "", here), of(&HashBy::Path, "/b", "", here));
        assert_eq!(of(&HashBy::Client, "/a", "", here), of(&HashBy::Client, "/b", "", "192.0.2.1:99"));
        assert_ne!(of(&HashBy::Client, "/a", "", here), of(&HashBy::Client, "/a", "", there));
        let of_client = |client| of(&HashBy::Client, "/a", "", client);
        assert_eq!(of_client("[2001:db8::1]:1"), of_client("[2001:db8::2]:1"), "a client has all of them");
        assert_ne!(of_client("[2001:db8::1]:1"), of_client("[2001:db8:0:1::1]:1"));
        assert_eq!(of(&field, "/a", "x-user: b\r\n", here), of(&field, "/b", "X-User: b\r\n", there));
        assert_eq!(hash(&field, "/a", "", here), None);
        let of_cookie = |cookies: &str| hash(&cookie, "/a", &format!("Cookie: {cookies}\r\n"), here);
        assert_eq!(of_cookie("a=1; sid=7;b=2"), of_cookie("sid=7"));
        assert_ne!(of_cookie("sid=7"), of_cookie("sid=8"));
        assert_eq!(of_cookie("a=1\r\nCookie: sid=7"), of_cookie("sid=7"), "in pieces");
        assert_eq!((of_cookie("xsid=7; sidx=7; b=sid=7"), hash(&cookie, "/a", "", here)), (None, None));
    }
}
