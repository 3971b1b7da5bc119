//! One access record as one line of bytes.
//!
//! *Combined* is Apache's, to the byte, so that every log analyser reads it. *Json* is one object a line.
//! Whatever a client sent is escaped: a line is always exactly one line, of printable text.

use std::io::Write;

use flash_core::job::Spent;
use flash_core::record::{Peer, Record};

use crate::date::Utc;

/// How a line of the access log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `client - user [time] "request line" status bytes "referer" "user agent"`
    #[default]
    Combined,
    /// An object with `time`, `client`, `request`, `host`, `status`, `bytes`, `duration_us`, `referer` and `user_agent`. It
    /// also has parts of the duration in microseconds: the time of jobs to `walk`, `open` and `read`, and in the helpers'
    /// `queue`. `help` is the time of helpers in all, and `send` that of sending the response. If Flash refused bytes that were
    /// no request, or came too slowly, the object has the `reason`. If a user has logged in, the object has the `user`.
    /// A response that ended before its last byte left has `"cut":true`; `bytes` are those that left.
    Json,
    /// `200 GET /index.html 1.2 KB 0.3 ms`, for a person at a terminal. A client on another machine stands in front.
    Short,
}

impl Format {
    /// Appends the record's line, with its newline.
    pub fn write(self, record: &Record, line: &mut Vec<u8>) {
        match self {
            Format::Combined => combined(record, line),
            Format::Json => json(record, line),
            Format::Short => short(record, line),
        }
    }
}

fn combined(record: &Record, line: &mut Vec<u8>) {
    client(record.peer, line);
    line.extend_from_slice(b" - ");
    apache_text(&record.user, line);
    put(line, format_args!(" [{}] \"", Utc::from_unix_ms(record.unix_ms).common_log()));
    apache_text(&record.request_line, line);
    // Apache's %b: no bytes are a dash.
    match record.body_bytes {
        0 => put(line, format_args!("\" {} - \"", record.status)),
        bytes => put(line, format_args!("\" {} {bytes} \"", record.status)),
    }
    apache_text(&record.referer, line);
    line.extend_from_slice(b"\" \"");
    apache_text(&record.user_agent, line);
    line.extend_from_slice(b"\"\n");
}

fn json(record: &Record, line: &mut Vec<u8>) {
    put(line, format_args!("{{\"time\":\"{}\",\"client\":\"", Utc::from_unix_ms(record.unix_ms).rfc3339()));
    client(record.peer, line);
    if !record.user.is_empty() {
        line.extend_from_slice(b"\",\"user\":\"");
        json_text(&record.user, line);
    }
    line.extend_from_slice(b"\",\"request\":\"");
    json_text(&record.request_line, line);
    line.extend_from_slice(b"\",\"host\":\"");
    json_text(&record.host, line);
    put(
        line,
        format_args!(
            "\",\"status\":{},\"bytes\":{},\"duration_us\":{},",
            record.status, record.body_bytes, record.duration_us
        ),
    );
    let Spent { walk_ns, open_ns, read_ns, queue_ns, help_ns } = record.spent;
    put(
        line,
        format_args!(
            "\"walk_us\":{},\"open_us\":{},\"read_us\":{},\"queue_us\":{},\"help_us\":{},\"send_us\":{},",
            walk_ns / 1000,
            open_ns / 1000,
            read_ns / 1000,
            queue_ns / 1000,
            help_ns / 1000,
            record.send_us
        ),
    );
    line.extend_from_slice(b"\"referer\":\"");
    json_text(&record.referer, line);
    line.extend_from_slice(b"\",\"user_agent\":\"");
    json_text(&record.user_agent, line);
    if !record.reason.is_empty() {
        line.extend_from_slice(b"\",\"reason\":\"");
        json_text(record.reason.as_bytes(), line);
    }
    line.push(b'"');
    if record.cut {
        line.extend_from_slice(b",\"cut\":true");
    }
    line.extend_from_slice(b"}\n");
}

fn short(record: &Record, line: &mut Vec<u8>) {
    if matches!(record.peer, Peer::Inet(address) if !address.ip().to_canonical().is_loopback()) {
        client(record.peer, line);
        line.push(b' ');
    }
    put(line, format_args!("{} ", record.status));
    let request = &*record.request_line;
    let end = request.windows(6).rposition(|part| part == b" HTTP/").unwrap_or(request.len());
    apache_text(&request[..end], line);
    put(line, format_args!(" {} {}", shown_bytes(record.body_bytes), shown_us(record.duration_us)));
    if !record.reason.is_empty() {
        put(line, format_args!(" ({})", record.reason));
    }
    line.extend_from_slice(if record.cut { b", cut\n" } else { b"\n" });
}

/// A number of bytes as people say it: three digits at most, with units of a thousand.
pub(crate) fn shown_bytes(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")];
    let bytes_f64 = bytes as f64;
    match units.into_iter().find(|(size, _)| bytes_f64 >= *size) {
        None => format!("{bytes} B"),
        Some((size, name)) if bytes_f64 < 10.0 * size => format!("{:.1} {name}", bytes_f64 / size),
        Some((size, name)) => format!("{:.0} {name}", bytes_f64 / size),
    }
}

fn shown_us(us: u64) -> String {
    match us as f64 / 1e3 {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1e4 => format!("{ms:.0} ms"),
        ms => format!("{:.0} s", ms / 1e3),
    }
}

/// The client's address without its port; `unix:` for a client on a Unix socket.
fn client(peer: Peer, line: &mut Vec<u8>) {
    match peer {
        // An IPv4 client of a socket for both families looks as it does anywhere else.
        Peer::Inet(address) => put(line, format_args!("{}", address.ip().to_canonical())),
        Peer::Unix => line.extend_from_slice(b"unix:"),
    }
}

/// As Apache's `ap_escape_logitem`: a backslash before quote and backslash, and five controls by letter. Every other byte that
/// is not printable ASCII becomes `\xhh`. An empty text is a dash.
fn apache_text(text: &[u8], line: &mut Vec<u8>) {
    if text.is_empty() {
        return line.push(b'-');
    }
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| !plain(byte)) {
        line.extend_from_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => line.extend_from_slice(&[b'\\', byte]),
            0x08 => line.extend_from_slice(b"\\b"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            0x0b => line.extend_from_slice(b"\\v"),
            byte => put(line, format_args!("\\x{byte:02x}")),
        }
        rest = &rest[at + 1..];
    }
    line.extend_from_slice(rest);
}

/// The inside of a JSON string (RFC 8259 §7). Control characters are escaped beyond ASCII too, since a terminal
/// might obey them. Bytes that are not UTF-8, which JSON cannot hold, become the text `\xhh`.
fn json_text(text: &[u8], line: &mut Vec<u8>) {
    for chunk in text.utf8_chunks() {
        let unusual = |c: char| c.is_control() || matches!(c, '"' | '\\');
        let mut rest = chunk.valid();
        while let Some(at) = rest.find(unusual) {
            let (plain, tail) = rest.split_at(at);
            line.extend_from_slice(plain.as_bytes());
            let c = tail.chars().next().expect("find() points at a character");
            match c {
                '"' | '\\' => line.extend_from_slice(&[b'\\', c as u8]),
                _ => put(line, format_args!("\\u{:04x}", u32::from(c))),
            }
            rest = &tail[c.len_utf8()..];
        }
        line.extend_from_slice(rest.as_bytes());
        for byte in chunk.invalid() {
            put(line, format_args!("\\\\x{byte:02x}"));
        }
    }
}

fn put(line: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("writing to a Vec cannot fail");
}

#[cfg(test)]
mod tests;
