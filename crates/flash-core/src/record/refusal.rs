//! Why requests are refused, for the error log. The client is not told: its page says the status alone.

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 403: a symbolic link leads out of the folder that is served.
    LinkOutside,
    /// 403: a user's folder leads to it, and it is not that user's.
    NotTheUsers,
    /// 403: the server's user may not read it.
    Permission,
    /// 403: a program, where none runs.
    Program,
    /// 403: a folder without an index file, and without a listing.
    FolderWithoutIndex,
    /// 413.
    BodyTooLarge,
    /// 403: the networks of the site or place do not admit the client.
    Network,
    /// 403: a field has a word that is refused.
    Field,
    /// 429: a field has a word whose limit is used up.
    FieldLimit,
    /// 429.
    Limit,
    /// 403: no signed link, or a wrong one.
    WrongLink,
    /// 410: a signed link that was right.
    ExpiredLink,
    /// 401: a name or a password is wrong.
    WrongLogin,
    /// 503: too many log-ins wait for their check.
    LoginsBusy,
    /// 429: a new connection is one too many.
    Connections,
    /// A connection does not begin as its listener requires.
    NoProxyHeader,
    /// A connection that begins with a header of the PROXY protocol is from nobody who is believed.
    UntrustedProxy,
    /// A client's TLS handshake fails, because its site requires a certificate of it.
    NoClientCertificate,
    /// A client's TLS handshake fails, because its certificate is not accepted.
    BadClientCertificate,
    /// 403: the site requires a certificate of its clients, and a proxy has ended this one's TLS.
    NoCertificate,
}

impl Refusal {
    pub(super) const ALL: [Self; 20] = [
        Self::LinkOutside,
        Self::NotTheUsers,
        Self::Permission,
        Self::Program,
        Self::FolderWithoutIndex,
        Self::BodyTooLarge,
        Self::Network,
        Self::Field,
        Self::FieldLimit,
        Self::Limit,
        Self::WrongLink,
        Self::ExpiredLink,
        Self::WrongLogin,
        Self::LoginsBusy,
        Self::Connections,
        Self::NoProxyHeader,
        Self::UntrustedProxy,
        Self::NoClientCertificate,
        Self::BadClientCertificate,
        Self::NoCertificate,
    ];

    /// The refusal with this number, as another process sent it.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::LinkOutside => {
                "403: a symbolic link leads out of the folder that is served; --follow-links anywhere allows it"
            }
            Self::NotTheUsers => {
                "403: a user's folder leads to what belongs to another user, and is not for everyone to read there"
            }
            Self::Permission => "403: the server's user has no permission to read it",
            Self::Program => "403: it is a program, and no program runs there",
            Self::FolderWithoutIndex => "403: the folder has no index file; --list would list it",
            Self::BodyTooLarge => "413: the request's body is larger than --body-bytes-max",
            Self::Network => "403: --allow and --deny do not admit the client's address",
            Self::Field => "403: a field of the request has a word that --field-rules refuses",
            Self::FieldLimit => "429: requests with a word of --field-rules have used up its limit",
            Self::Limit => "429: the client has used up its --limit",
            Self::WrongLink => "403: the link has no signature by a key of --signed",
            Self::ExpiredLink => "410: the signed link has expired",
            Self::WrongLogin => "401: the user name or the password is not one of --auth",
            Self::LoginsBusy => "503: too many log-ins wait for the check of their passwords",
            Self::Connections => "429: the client has as many connections as --connections-per-client says",
            Self::NoProxyHeader => {
                "closed: the connection did not begin with a header of the PROXY protocol, which its listener requires"
            }
            Self::NoClientCertificate => {
                "closed: the client has shown no certificate, and --client-certificate requires one"
            }
            Self::BadClientCertificate => "closed: --client-ca does not accept the client's certificate",
            Self::NoCertificate => {
                "403: --client-certificate requires a certificate, and a proxy cannot show its client's"
            }
            Self::UntrustedProxy => {
                "closed: the listener requires a header of the PROXY protocol, and --trusted-proxies does not name this peer"
            }
        }
    }
}
