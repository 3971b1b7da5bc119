//! Status codes: the numbers that open a response, and the phrases beside them.
//!
//! Only codes this server can send have a name here.

/// A status code (RFC 9110 §15), between 100 and 599.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub u16);

macro_rules! statuses {
    ($($code:literal $name:ident $reason:literal)*) => {
        impl Status {
            $(pub const $name: Status = Status($code);)*

            /// The phrase after the code; empty, as RFC 9112 §4 allows, for a code that has no name here.
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }
        }
    };
}

statuses! {
    100 CONTINUE "Continue"
    200 OK "OK"
    204 NO_CONTENT "No Content"
    206 PARTIAL_CONTENT "Partial Content"
    301 MOVED_PERMANENTLY "Moved Permanently"
    302 FOUND "Found"
    303 SEE_OTHER "See Other"
    304 NOT_MODIFIED "Not Modified"
    307 TEMPORARY_REDIRECT "Temporary Redirect"
    308 PERMANENT_REDIRECT "Permanent Redirect"
    400 BAD_REQUEST "Bad Request"
    401 UNAUTHORIZED "Unauthorized"
    403 FORBIDDEN "Forbidden"
    404 NOT_FOUND "Not Found"
    405 METHOD_NOT_ALLOWED "Method Not Allowed"
    406 NOT_ACCEPTABLE "Not Acceptable"
    408 REQUEST_TIMEOUT "Request Timeout"
    409 CONFLICT "Conflict"
    410 GONE "Gone"
    411 LENGTH_REQUIRED "Length Required"
    412 PRECONDITION_FAILED "Precondition Failed"
    413 CONTENT_TOO_LARGE "Content Too Large"
    414 URI_TOO_LONG "URI Too Long"
    415 UNSUPPORTED_MEDIA_TYPE "Unsupported Media Type"
    416 RANGE_NOT_SATISFIABLE "Range Not Satisfiable"
    417 EXPECTATION_FAILED "Expectation Failed"
    421 MISDIRECTED_REQUEST "Misdirected Request"
    422 UNPROCESSABLE_CONTENT "Unprocessable Content"
    425 TOO_EARLY "Too Early"
    429 TOO_MANY_REQUESTS "Too Many Requests"
    431 FIELDS_TOO_LARGE "Request Header Fields Too Large"
    500 INTERNAL_SERVER_ERROR "Internal Server Error"
    501 NOT_IMPLEMENTED "Not Implemented"
    502 BAD_GATEWAY "Bad Gateway"
    503 SERVICE_UNAVAILABLE "Service Unavailable"
    504 GATEWAY_TIMEOUT "Gateway Timeout"
    505 VERSION_NOT_SUPPORTED "HTTP Version Not Supported"
    507 INSUFFICIENT_STORAGE "Insufficient Storage"
}

impl Status {
    /// True for the codes whose responses never have a body (RFC 9112 §6.3).
    pub const fn is_bodiless(self) -> bool {
        matches!(self.0, 100..=199 | 204 | 304)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9110_15_codes_have_their_phrases() {
        assert_eq!(Status::NOT_MODIFIED, Status(304));
        assert_eq!(Status::CONTENT_TOO_LARGE.reason(), "Content Too Large");
        assert_eq!(Status(299).reason(), "");
    }

    #[test]
    fn rfc9112_6_3_bodiless_codes() {
        assert!(Status::CONTINUE.is_bodiless() && Status::NOT_MODIFIED.is_bodiless());
        assert!(!Status::OK.is_bodiless());
    }
}
