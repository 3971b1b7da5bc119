//! A URI's scheme (RFC 9110 §4.2).

/// How a request came. A connection's transport decides it, or a trusted proxy: what a client claims is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}
