//! Request methods: the three that are answered, those that are known, and the rest.

/// What the client wants done (RFC 9110 §9). Names are case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Options,
    /// Registered, but nothing that a server of files does: 405.
    Known(&'static str),
    /// Not in our list: 501, unless a program answers.
    Unknown,
}

impl Method {
    /// The method of this name.
    pub fn named(name: &str) -> Method {
        Method::of(name.as_bytes())
    }

    /// Its name. One that is not in our list has none.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Options => "OPTIONS",
            Method::Known(name) => name,
            Method::Unknown => "",
        }
    }

    pub(crate) fn of(token: &[u8]) -> Method {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            _ => KNOWN
                .iter()
                .find(|known| known.as_bytes() == token)
                .map_or(Method::Unknown, |known| Method::Known(known)),
        }
    }

    /// Methods that ask for the content of a resource, whose conditions and ranges we evaluate.
    pub const fn is_retrieval(self) -> bool {
        matches!(self, Method::Get | Method::Head)
    }
}

/// RFC 9110 §9.3, RFC 5789, and WebDAV's methods (RFC 4918, 3253, 3648, 3744, 5323).
const KNOWN: [&str; 33] = [
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "CONNECT",
    "TRACE",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "SEARCH",
    "REPORT",
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "LABEL",
    "LINK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKWORKSPACE",
    "ORDERPATCH",
    "QUERY",
    "REBIND",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "VERSION-CONTROL",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9110_9_1_names_are_case_sensitive() {
        assert_eq!(Method::of(b"GET"), Method::Get);
        assert_eq!(Method::of(b"get"), Method::Unknown);
        assert_eq!(Method::of(b"PROPFIND"), Method::Known("PROPFIND"));
        assert_eq!(Method::of(b"BREW"), Method::Unknown);
    }
}
