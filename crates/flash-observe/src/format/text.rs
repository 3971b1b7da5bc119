//! Text in a line: whatever a client sent is escaped, as the line's format wants it.

use std::io::Write;

use flash_core::printable::is_printable;
use flash_core::record::Peer;

/// The client's address without its port; `unix:` for a client on a Unix socket.
pub(super) fn client(peer: Peer, line: &mut Vec<u8>) {
    match peer {
        // An IPv4 client of a socket for both families looks as it does anywhere else.
        Peer::Inet(address) => put(line, format_args!("{}", address.ip().to_canonical())),
        Peer::Unix => line.extend_from_slice(b"unix:"),
    }
}

/// As Apache's `ap_escape_logitem`: a backslash before quote and backslash, and five controls by letter. Every other byte that
/// is not printable ASCII becomes `\xhh`. An empty text is a dash.
pub(super) fn apache_text(text: &[u8], line: &mut Vec<u8>) {
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

/// The inside of a JSON string (RFC 8259 §7). What is not printable is escaped beyond ASCII too, since a terminal might obey it. Bytes that are not UTF-8, which JSON cannot hold, become the text `\xhh`.
pub(crate) fn json_text(text: &[u8], line: &mut Vec<u8>) {
    for chunk in text.utf8_chunks() {
        let unusual = |c: char| !is_printable(c) || matches!(c, '"' | '\\');
        let mut rest = chunk.valid();
        while let Some(at) = rest.find(unusual) {
            let (plain, tail) = rest.split_at(at);
            line.extend_from_slice(plain.as_bytes());
            let c = tail.chars().next().expect("find() points at a character");
            match c {
                '"' | '\\' => line.extend_from_slice(&[b'\\', c as u8]),
                _ => c
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .for_each(|unit| put(line, format_args!("\\u{unit:04x}"))),
            }
            rest = &tail[c.len_utf8()..];
        }
        line.extend_from_slice(rest.as_bytes());
        for byte in chunk.invalid() {
            put(line, format_args!("\\\\x{byte:02x}"));
        }
    }
}

pub(super) fn put(line: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("writing to a Vec cannot fail");
}
