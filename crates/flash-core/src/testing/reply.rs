//! Responses as a client reads them: each head says how its body ends.

/// One response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The head, with its status line and its empty line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// The value of a field; panics if there are several.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().skip(1).filter_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        });
        let value = values.next();
        assert_eq!(values.next(), None, "a second {name} in {}", self.head);
        value
    }

    /// The multiple ranges of a body: the `Content-Range` of each, and its bytes.
    pub(crate) fn parts(&self) -> Vec<(String, Vec<u8>)> {
        let content_type = self.field("Content-Type").expect("a multipart body has a type");
        let boundary =
            content_type.strip_prefix("multipart/byteranges; boundary=").expect("it is a multipart body");
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        // The first delimiter's line end may be left out (RFC 2046 §5.1.1).
        let body = [b"\r\n", self.body.as_slice()].concat();
        let mut rest = body.strip_prefix(delimiter.as_slice()).expect("the body begins with its boundary");
        let mut parts = Vec::new();
        while rest != b"--\r\n" {
            let head_end = find(rest, b"\r\n\r\n").expect("a part has a head");
            let head = String::from_utf8(rest[..head_end].to_vec()).expect("a part's head is text");
            let range = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Range: "))
                .expect("a part has a range");
            rest = &rest[head_end + 4..];
            let end = find(rest, &delimiter).expect("a part ends with the boundary");
            parts.push((range.to_owned(), rest[..end].to_vec()));
            rest = &rest[end + delimiter.len()..];
        }
        parts
    }
}

/// Reads all responses in `bytes`, which must end with the last one. `heads` lists the positions of responses to HEAD,
/// which have no body.
#[track_caller]
pub(crate) fn replies(bytes: &[u8], heads: &[usize]) -> Vec<Reply> {
    let mut replies = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let head_end = find(rest, b"\r\n\r\n").expect("a head ends") + 4;
        let head = String::from_utf8(rest[..head_end].to_vec()).expect("heads are text");
        rest = &rest[head_end..];
        let status =
            head.strip_prefix("HTTP/1.1 ").and_then(|line| line.get(..3)).and_then(|code| code.parse().ok());
        let mut reply = Reply { status: status.expect("a status line"), head, body: Vec::new() };
        let bodiless = heads.contains(&replies.len()) || matches!(reply.status, 100 | 204 | 304);
        if !bodiless {
            rest = match (reply.field("Content-Length"), reply.field("Transfer-Encoding")) {
                (Some(length), None) => {
                    let (body, after) = rest.split_at(length.parse().expect("a length is a number"));
                    reply.body = body.to_vec();
                    after
                }
                (None, Some("chunked")) => {
                    let (body, after) = unframed(rest);
                    reply.body = body;
                    after
                }
                // RFC 9112 §6.3: until the connection closes.
                (None, None) => {
                    reply.body = rest.to_vec();
                    &[]
                }
                both => panic!("framed as {both:?}"),
            };
        }
        replies.push(reply);
    }
    replies
}

/// The data of a chunked body, and what follows it.
#[track_caller]
fn unframed(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut body = Vec::new();
    let mut rest = bytes;
    loop {
        let line_end = find(rest, b"\r\n").expect("a chunk has a size");
        let size =
            std::str::from_utf8(&rest[..line_end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.unwrap_or_else(|| panic!("a size: {:?}", String::from_utf8_lossy(&rest[..line_end])));
        rest = &rest[line_end + 2..];
        body.extend_from_slice(&rest[..size]);
        rest = rest[size..].strip_prefix(b"\r\n").expect("a chunk ends with its line");
        if size == 0 {
            return (body, rest);
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, what)
}
