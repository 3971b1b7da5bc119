//! A request's bytes. Everything that all requests of a group have in common is written once.

use flash_h2::hpack::encoder;
use flash_h2::request::is_of_connection;
use flash_h2::{Client, CommonFields};
use flash_traffic::Message;

use crate::Server;
use crate::load::{ClientOptions, Method};

pub(crate) struct RequestTemplate {
    method: Method,
    /// The same for HTTP/2.
    fields: CommonFields,
    /// From behind the target to the last field that all requests have.
    common: Vec<u8>,
    /// Values of Accept-Encoding, of which a request has one or none.
    encodings: Vec<String>,
    /// Names of the fields that take the place of what a request would have otherwise.
    given: Vec<String>,
}

/// What one request has besides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras<'a> {
    /// First and last byte.
    pub(crate) range: Option<(u64, u64)>,
    /// What the workload has it say.
    pub(crate) message: Option<&'a Message>,
    /// How long its body is, if it has one.
    pub(crate) body_bytes: Option<u64>,
    /// A conditional request's field, with its line's end.
    pub(crate) condition: Option<&'a str>,
    /// The place of an Accept-Encoding among those of the options.
    pub(crate) encoding: Option<u8>,
    /// The connection ends after the answer.
    pub(crate) last: bool,
}

/// The method of a request with this message in a group with that method.
pub(crate) fn method(usual: Method, message: Option<&Message>) -> Method {
    if message.is_some_and(|message| message.body.is_some()) { Method::Post } else { usual }
}

impl RequestTemplate {
    pub(crate) fn new(server: &Server, options: &ClientOptions) -> RequestTemplate {
        let agent = concat!("flash-load/", env!("CARGO_PKG_VERSION"));
        let own: Vec<(&str, &str)> =
            options.fields.iter().filter_map(|field| name_and_value(field)).collect();
        let is_own = |name: &str| own.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let usual = [("Host", &*server.authority), ("User-Agent", agent)];
        let fields: Vec<(&str, &str)> =
            usual.into_iter().filter(|(name, _)| !is_own(name)).chain(own.iter().copied()).collect();
        let mut common = b" HTTP/1.1\r\n".to_vec();
        fields.iter().for_each(|(name, value)| line(name, value, &mut common));

        let lower = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value));
        let (hosts, others): (Vec<_>, Vec<_>) = lower.partition(|(name, _)| name == "host");
        let others = others.iter().map(|(name, value)| (&**name, *value));
        let mut given: Vec<String> = own.iter().map(|(name, _)| (*name).to_owned()).collect();
        if is_own("Transfer-Encoding") {
            // It says where the body ends (RFC 9112 §6.2).
            given.push("Content-Length".into());
        }
        RequestTemplate {
            method: options.method,
            fields: CommonFields::new(
                server.scheme(),
                hosts[0].1,
                others.filter(|(name, _)| !is_left_out(name)),
            ),
            common,
            encodings: options.encodings.iter().map(|(value, _)| value.clone()).collect(),
            given,
        }
    }

    pub(crate) fn write(&self, target: &str, extras: Extras, out: &mut Vec<u8>) {
        out.extend_from_slice(method(self.method, extras.message).name().as_bytes());
        out.push(b' ');
        out.extend_from_slice(target.as_bytes());
        out.extend_from_slice(&self.common);
        self.others(extras, |name, value| line(name, value, out));
        out.extend_from_slice(b"\r\n");
    }

    /// The same as a request of HTTP/2. Returns its stream.
    pub(crate) fn open(&self, target: &str, extras: Extras, client: &mut Client, out: &mut Vec<u8>) -> u32 {
        let method = method(self.method, extras.message).name();
        let others = |out: &mut Vec<u8>| {
            self.others(extras, |name, value| {
                let name = name.to_ascii_lowercase();
                if !is_left_out(&name) {
                    encoder::field(out, name.as_bytes(), value.as_bytes());
                }
            });
        };
        let ends = extras.body_bytes.is_none_or(|bytes| bytes == 0);
        client.open((method, target), &self.fields, others, ends, out)
    }

    /// The fields that not all requests have.
    fn others(&self, extras: Extras, mut write: impl FnMut(&str, &str)) {
        let mut add = |name: &str, value: &str| {
            if !self.given.iter().any(|given| given.eq_ignore_ascii_case(name)) {
                write(name, value);
            }
        };
        let lines = [extras.message.map(|message| &*message.fields), extras.condition].into_iter().flatten();
        for (name, value) in lines.flat_map(str::lines).filter_map(name_and_value) {
            add(name, value);
        }
        if let Some(bytes) = extras.body_bytes {
            add("Content-Length", &bytes.to_string());
        }
        if let Some((first, last)) = extras.range {
            add("Range", &format!("bytes={first}-{last}"));
        }
        if let Some(encoding) = extras.encoding {
            add("Accept-Encoding", &self.encodings[usize::from(encoding)]);
        }
        if extras.last {
            add("Connection", "close");
        }
    }
}

fn line(name: &str, value: &str, out: &mut Vec<u8>) {
    for part in [name, ": ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn name_and_value(line: &str) -> Option<(&str, &str)> {
    line.split_once(':').map(|(name, value)| (name, value.trim()))
}

/// Whether HTTP/2 has no such field, or another in its place.
fn is_left_out(name: &str) -> bool {
    name == "host" || is_of_connection(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    fn server() -> Server {
        let address = Address::Tcp(([127, 0, 0, 1], 80).into());
        Server { address, authority: "usual".into(), tls: None }
    }

    fn options(fields: &[&str]) -> ClientOptions {
        ClientOptions {
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            encodings: vec![("gzip".into(), 1.0)],
            ..ClientOptions::default()
        }
    }

    /// A request with a body, a range, a condition and a coding, on a connection that ends. The options give these fields.
    fn written(fields: &[&str]) -> String {
        let message = Message { fields: "Cookie: a=1\r\n".into(), body: None };
        let extras = Extras {
            range: Some((0, 1)),
            message: Some(&message),
            body_bytes: Some(3),
            condition: Some("If-None-Match: \"x\"\r\n"),
            encoding: Some(0),
            last: true,
        };
        let mut out = Vec::new();
        RequestTemplate::new(&server(), &options(fields)).write("/", extras, &mut out);
        String::from_utf8(out).expect("a head is text")
    }

    #[test]
    fn over_http2_a_host_is_the_authority() {
        use flash_h2::request::HeadLimits;
        use flash_h2::session::Limits;
        use flash_h2::{Scratch, Session};

        let (server, options) = (server(), options(&["Host: mine", "User-Agent: me", "Connection: close"]));
        let (mut client, mut out) = (Client::default(), Vec::new());
        client.take_control(&mut out);
        RequestTemplate::new(&server, &options).open("/", Extras::default(), &mut client, &mut out);
        let limits = Limits {
            streams_max: 1,
            head: HeadLimits { bytes_max: 8_000, fields_max: 40 },
            resets: (1, 1),
            idle_frames: (100, 1),
        };
        let (mut session, mut scratch, mut input) = (Session::<()>::new(limits), Scratch::default(), &*out);
        while session.next(&mut input, &mut scratch, 0).expect("a right client").is_some() {}
        let head = String::from_utf8(scratch.text).expect("a head is text").to_lowercase();
        assert!(head.contains("host: mine\r\n") && head.contains("user-agent: me\r\n"), "{head}");
        assert_eq!(head.matches("host").count() + head.matches("user-agent").count(), 2, "{head}");
    }

    #[test]
    fn a_field_that_is_given_replaces_the_usual_one() {
        let usual = written(&[]);
        assert!(usual.starts_with("GET / HTTP/1.1\r\nHost: usual\r\nUser-Agent: flash-load/"), "{usual}");
        for line in usual.trim_end().lines().skip(1) {
            let (name, _) = line.split_once(": ").expect("a field");
            let given = format!("{}: mine", name.to_uppercase());
            let head = written(&[&given]);
            let of_name = |line: &&str| line.to_uppercase().starts_with(&format!("{}:", name.to_uppercase()));
            assert_eq!(head.lines().filter(of_name).collect::<Vec<_>>(), [&given], "{head}");
            assert_eq!(head.lines().count(), usual.lines().count(), "the others stay: {head}");
        }
        let chunked = written(&["Transfer-Encoding: chunked"]);
        assert!(!chunked.contains("Content-Length"), "{chunked}");
        let twice = written(&["Cookie: b", "Cookie: c"]);
        assert!(twice.contains("Cookie: b\r\nCookie: c\r\n") && !twice.contains("a=1"), "{twice}");
    }
}
