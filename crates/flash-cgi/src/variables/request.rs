//! The variables that follow from a request's head and its connection, with the reason for each choice.
//!
//! REMOTE_IDENT is left out, because Flash does not ask for it (§4.1.10). Variables of one server alone are left out too, such as nginx's DOCUMENT_URI and Apache's SERVER_SIGNATURE.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

use flash_http::head::{Body, Target};
use flash_http::{RequestHead, Scheme};

use super::pairs::{self, Pairs};
use super::{Ends, Server, Variables};

/// Most requests fit without the buffer growing.
const USUAL_BYTES: usize = 2048;
/// The longest IPv6 address.
const TEXT_BYTES_MAX: usize = 45;

impl Variables {
    /// All but those that [`Variables::add_script`] adds.
    pub fn of_request(
        head: &RequestHead<'_>,
        protocol: &str,
        scheme: Scheme,
        server: &Server,
        ends: &Ends,
    ) -> Variables {
        let mut variables = Variables { pairs: Vec::with_capacity(USUAL_BYTES) };
        variables.pairs.extend_from_slice(server.variables.as_pairs());
        // Apache's and nginx's.
        variables.push(b"REQUEST_SCHEME", scheme.name().as_bytes());
        if scheme == Scheme::Https {
            // Absent without TLS, as it is there: programs take any value for yes.
            variables.push(b"HTTPS", b"on");
        }
        // php-cgi refuses a request unless the server says that it has looked at it (cgi.force_redirect).
        variables.push(b"REDIRECT_STATUS", b"200");
        variables.add_request_line(head, protocol);
        variables.add_ends(head.host, scheme, ends);
        variables.add_fields(head);
        variables
    }

    /// What the client's connection speaks, in mod_ssl's names.
    pub fn add_tls(&mut self, version: &str, (cipher, key_bits): (&str, u16)) {
        self.push(b"SSL_PROTOCOL", version.as_bytes());
        self.push(b"SSL_CIPHER", cipher.as_bytes());
        self.push_number(b"SSL_CIPHER_USEKEYSIZE", key_bits.into());
    }

    /// §4.1.1, §4.1.11: Flash has checked the user's password, which is no matter of the program.
    pub fn log_in(&mut self, user: &[u8]) {
        self.remove(&[b"HTTP_AUTHORIZATION"]);
        self.push(b"AUTH_TYPE", b"Basic");
        self.push(b"REMOTE_USER", user);
    }

    /// Whether the client has shown a certificate that was verified, and what is in it, in mod_ssl's names.
    pub fn add_client(&mut self, certificate: Option<&[(&str, &str)]>) {
        self.push(b"SSL_CLIENT_VERIFY", if certificate.is_some() { b"SUCCESS" } else { b"NONE" });
        for (name, value) in certificate.unwrap_or_default() {
            self.push(name.as_bytes(), value.as_bytes());
        }
    }

    fn add_request_line(&mut self, head: &RequestHead<'_>, protocol: &str) {
        // §4.1.12. The method may be one that the head's parser does not know.
        self.push(b"REQUEST_METHOD", head.method_name);
        // §4.1.16: the version of the client's message.
        self.push(b"SERVER_PROTOCOL", protocol.as_bytes());
        let (path, query) = match head.target {
            Target::Origin { path, query } => (path, query),
            Target::Asterisk => (&b"*"[..], None),
            Target::Authority(authority) => (authority, None),
        };
        // §4.1.7: there even when there is none.
        self.push(b"QUERY_STRING", query.unwrap_or_default());
        // Not in the RFC, and in every server: as the client encoded it, and without the host of an absolute target.
        let mark: &[u8] = if query.is_some() { b"?" } else { b"" };
        pairs::push_joined(&mut self.pairs, b"REQUEST_URI", [path, mark, query.unwrap_or_default()]);
    }

    fn add_ends(&mut self, host: Option<&[u8]>, scheme: Scheme, ends: &Ends) {
        // §4.1.14: the name that the client asked for; one site has them all.
        let name = host.map(without_port).filter(|name| !name.is_empty());
        if let Some(name) = name {
            self.push(b"SERVER_NAME", name);
        }
        match ends {
            Ends::Inet { local, peer } => {
                let address = Text::ip(local.ip());
                if name.is_none() {
                    // A literal IPv6 address stands in brackets, as it does in Host.
                    let [open, close]: [&[u8]; 2] =
                        if address.as_bytes().contains(&b':') { [b"[", b"]"] } else { [b"", b""] };
                    pairs::push_joined(&mut self.pairs, b"SERVER_NAME", [open, address.as_bytes(), close]);
                }
                self.push(b"SERVER_ADDR", address.as_bytes());
                // §4.1.15: where the request came in, whatever Host says.
                self.push_number(b"SERVER_PORT", local.port().into());
                // §4.1.8, §4.1.9: a look-up would wait for another server, so the address stands for the host's name.
                let address = Text::ip(peer.ip());
                self.push(b"REMOTE_ADDR", address.as_bytes());
                self.push(b"REMOTE_HOST", address.as_bytes());
                // A proxy names the client's address without its port.
                if peer.port() > 0 {
                    self.push_number(b"REMOTE_PORT", peer.port().into());
                }
            }
            // §4.1.8 and §4.1.15 demand an address and a port. Who connects to a Unix socket is on this machine, most
            // likely a proxy, and 80 is where an http URI without a port leads.
            Ends::Unix | Ends::Proxied { .. } => {
                if name.is_none() {
                    self.push(b"SERVER_NAME", b"localhost");
                }
                self.push(b"SERVER_PORT", if scheme == Scheme::Https { b"443" } else { b"80" });
                let client = match ends {
                    Ends::Proxied { client } => *client,
                    Ends::Inet { .. } | Ends::Unix => Ipv4Addr::LOCALHOST.into(),
                };
                let address = Text::ip(client);
                self.push(b"REMOTE_ADDR", address.as_bytes());
                self.push(b"REMOTE_HOST", address.as_bytes());
            }
        }
    }

    /// §4.1.2: of a body whose length the head does not say, as one in chunks, once it is known.
    pub fn add_content_length(&mut self, bytes: u64) {
        self.push_number(b"CONTENT_LENGTH", bytes);
    }

    fn push_number(&mut self, name: &[u8], number: u64) {
        self.push(name, itoa::Buffer::new().format(number).as_bytes());
    }

    /// The header fields (§4.1.18), and the two that have names of their own.
    fn add_fields(&mut self, head: &RequestHead<'_>) {
        let start = self.pairs.len();
        // An absolute target's host takes the place of the field (RFC 9112 §3.2.2), here too.
        if let Some(host) = head.host {
            self.push(b"HTTP_HOST", host);
        }
        let mut seen = 0u64;
        for (name, value) in head.fields {
            // §4.1.2. A client that says 0 is told on, since a program that wants a form rather reads an empty one than none.
            if name.eq_ignore_ascii_case(b"content-length") {
                let length = if let Body::Length(length) = head.body { length } else { 0 };
                self.push_number(b"CONTENT_LENGTH", length);
                continue;
            }
            let Some(prefix) = prefix(name) else { continue };
            // Two fields of one name set the same bit, and few others share one.
            let bit = 1 << ((name.len() * 5 + usize::from(name[name.len() - 1] & 0x1f)) % 64);
            if seen & bit == 0 || !self.join(start, prefix, name, value) {
                pairs::push_spelt(&mut self.pairs, prefix, name, spell, value);
            }
            seen |= bit;
        }
    }

    /// A field that came before, from `start` on, gets another value (RFC 9110 §5.3). False if it did not come before.
    #[cold]
    fn join(&mut self, start: usize, prefix: &[u8], name: &[u8], value: &[u8]) -> bool {
        let is_same = |variable: &[u8]| {
            let rest = variable.strip_prefix(prefix).filter(|rest| rest.len() == name.len());
            rest.is_some_and(|rest| rest.iter().zip(name).all(|(&spelt, &byte)| spelt == spell(byte)))
        };
        let mut pairs = Pairs::of(&self.pairs[start..]);
        let mut at = start;
        while let Some((variable, old)) = pairs.next() {
            let end = self.pairs.len() - pairs.rest().len();
            if is_same(variable) {
                // Cookies are apart by semicolons, the values of all lists by commas (RFC 9113 §8.2.3).
                let mark: &[u8] = if variable == b"HTTP_COOKIE" { b"; " } else { b", " };
                let (variable, joined) = (variable.to_vec(), [old, mark, value].concat());
                self.pairs.drain(at..end);
                self.push(&variable, &joined);
                return true;
            }
            at = end;
        }
        false
    }
}

/// What stands before a field's name in its variable's; `None` for a field that is not passed on.
fn prefix(name: &[u8]) -> Option<&'static [u8]> {
    // Only what can be told back from the variable's name: `X_A` and `X.A` would both be taken for `X-A`, past a proxy
    // that cares about that one. Apache and nginx drop them too.
    if !name.iter().fold(true, |all, byte| all & (byte.is_ascii_alphanumeric() | (*byte == b'-'))) {
        return None;
    }
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    // Authorization is passed on, where §4.1.18 would rather not: unless Flash itself asks for a password, it is meant for
    // the program, and Basic and Bearer work without a trick. Fields that Connection names are passed on too:
    // else a client could strike out what a proxy has added.
    let dropped = match name.len() {
        // Has been seen to.
        4 => is(b"host"),
        // HTTP_PROXY is where many programs look for their own proxy (CVE-2016-5385).
        5 => is(b"proxy"),
        // Met by the server: the program need not know.
        6 => is(b"expect"),
        // A password, but not one for here (§4.1.18).
        19 => is(b"proxy-authorization"),
        // What is between the client and the server alone (§4.1.18, RFC 9110 §7.6.1). The body comes without its chunks.
        2 => is(b"te"),
        7 => is(b"trailer") || is(b"upgrade"),
        10 => is(b"connection") || is(b"keep-alive"),
        16 => is(b"proxy-connection"),
        17 => is(b"transfer-encoding"),
        _ => false,
    };
    match dropped {
        true => None,
        // §4.1.3.
        false if is(b"content-type") => Some(b""),
        false => Some(b"HTTP_"),
    }
}

/// §4.1.18: in capitals, and with `_` for `-`.
const fn spell(byte: u8) -> u8 {
    match byte {
        b'-' => b'_',
        _ => byte.to_ascii_uppercase(),
    }
}

/// A Host field's value without its port.
fn without_port(host: &[u8]) -> &[u8] {
    // In brackets there are other colons.
    let name = host.iter().position(|&byte| byte == b']').unwrap_or(0);
    let colon = memchr::memchr(b':', &host[name..]).map_or(host.len(), |colon| name + colon);
    &host[..colon]
}

/// An address as text. Most are IPv4 and written for every request, so those do without the standard formatting.
struct Text {
    bytes: [u8; TEXT_BYTES_MAX],
    length: usize,
}

impl Text {
    fn ip(ip: IpAddr) -> Text {
        let mut text = Text { bytes: [0; TEXT_BYTES_MAX], length: 0 };
        // A socket of both families shows IPv4 clients in IPv6 clothes; programs compare with what people write.
        match ip.to_canonical() {
            IpAddr::V4(ip) => {
                for (index, octet) in ip.octets().into_iter().enumerate() {
                    if index > 0 {
                        text.add(b".");
                    }
                    text.add(itoa::Buffer::new().format(octet).as_bytes());
                }
            }
            IpAddr::V6(ip) => {
                let mut rest = &mut text.bytes[..];
                write!(rest, "{ip}").expect("an address is shorter");
                text.length = TEXT_BYTES_MAX - rest.len();
            }
        }
        text
    }

    fn add(&mut self, bytes: &[u8]) {
        self.bytes[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
