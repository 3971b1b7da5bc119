//! Responses taken apart, strictly enough to notice what a client would stumble over.

/// One response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// All responses in `bytes`. A response to HEAD is told by `head`, which is asked with its number.
pub fn all(mut bytes: &[u8], head: impl Fn(usize) -> bool) -> Vec<Reply> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        let end = find(bytes, b"\r\n\r\n").unwrap_or_else(|| panic!("no end of head: {:?}", text(bytes)));
        let (status, fields) = head_of(text(&bytes[..end]));
        bytes = &bytes[end + 4..];
        let mut reply = Reply { status, fields, body: Vec::new() };
        let bodiless = head(replies.len()) || matches!(status, 100 | 204 | 304);
        if reply.field("Transfer-Encoding") == Some("chunked") && !bodiless {
            loop {
                let line = find(bytes, b"\r\n").expect("a chunk's size");
                let size = usize::from_str_radix(text(&bytes[..line]), 16).expect("a hexadecimal size");
                let data = &bytes[line + 2..];
                reply.body.extend_from_slice(&data[..size]);
                assert_eq!(&data[size..size + 2], b"\r\n", "a chunk's end");
                bytes = &data[size + 2..];
                if size == 0 {
                    break;
                }
            }
        } else if !bodiless {
            let length =
                reply.field("Content-Length").map_or(bytes.len(), |length| length.parse().expect("a length"));
            assert!(bytes.len() >= length, "{} of {length} body bytes", bytes.len());
            reply.body = bytes[..length].to_vec();
            bytes = &bytes[length..];
        }
        replies.push(reply);
    }
    replies
}

/// The one response in `bytes`.
pub fn only(bytes: &[u8]) -> Reply {
    let mut replies = all(bytes, |_| false);
    assert_eq!(replies.len(), 1, "{replies:?}");
    replies.remove(0)
}

/// The same bytes with every date of sending blanked.
pub fn undated(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut from = 0;
    while let Some(at) = find(&bytes[from..], b"\r\nDate: ") {
        let start = from + at + 8;
        let end = (start + 29).min(bytes.len());
        bytes[start..end].fill(b'-');
        from = end;
    }
    bytes
}

fn head_of(head: &str) -> (u16, Vec<(String, String)>) {
    let mut lines = head.split("\r\n");
    let status_line = lines.next().expect("a status line");
    let status =
        status_line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).expect("HTTP/1.1 and a status");
    let fields = lines.map(|line| {
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("not a field: {line:?}"));
        assert!(!name.is_empty() && !name.contains(' '), "{line:?}");
        (name.to_owned(), value.trim().to_owned())
    });
    (status.parse().expect("three digits"), fields.collect())
}

pub fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("heads are ASCII")
}
