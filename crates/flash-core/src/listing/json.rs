//! The JSON of a listing, for programs: what nginx writes (`autoindex_format json`), and for each name a reference as in HTML.
//!
//! This module only writes text. It does not choose the names.

use std::io::Write;

use flash_http::{date, digest, percent};

use super::name::{Details, Name};
use super::names::Names;
use crate::file::validators::ContentDigest;

pub(super) fn write_start(out: &mut Vec<u8>) {
    out.push(b'[');
}

/// One element; `is_first` if none is before it. Names need not be UTF-8: other bytes show as a replacement, and `href` has them.
pub(super) fn row(
    name: &Name<'_>,
    (details, digest): (Details, Option<&ContentDigest>),
    is_first: bool,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(if is_first { b"\n{\"name\":" } else { b",\n{\"name\":" });
    write_text(name.name, out);
    let (kind, slash) = if name.folder { ("directory", "/") } else { ("file", "") };
    let _ = write!(out, ",\"type\":\"{kind}\",\"href\":\"");
    percent::encode_name(name.name, out);
    let _ = write!(out, "{slash}\",\"mtime\":\"");
    out.extend_from_slice(&date::format(details.modified));
    out.push(b'"');
    if !name.folder {
        let _ = write!(out, ",\"size\":{}", details.size);
    }
    if let Some(digest) = digest {
        let _ = write!(out, ",\"sha256\":\"{}\"", digest::hex(digest));
    }
    out.push(b'}');
}

pub(super) fn write_end(names: &Names, is_empty: bool, out: &mut Vec<u8>) {
    if names.left_out() > 0 {
        let comma = if is_empty { "" } else { "," };
        let _ = write!(out, "{comma}\n{{\"left_out\":{}}}", names.left_out());
    }
    out.extend_from_slice(b"\n]\n");
}

/// What stands for the rows of a first page that have all vanished, so that the next page can begin with a comma.
pub(super) fn write_nothing(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\n{}");
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '"' | '\\' => out.extend([b'\\', character as u8]),
            '\0'..='\x1f' | '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out() {
        let mut out = Vec::new();
        let name = Name { name: b"a\"\\\x07\n\xc2\x9b\xff:%", details: None, folder: false };
        row(&name, (Details { size: 7, modified: 784_111_777 }, Some(&[0x0a; 32])), true, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "\n{\"name\":\"a\\\"\\\\\\u0007\\u000a\\u009b\u{fffd}:%\",\"type\":\"file\",\"href\":\"a%22%5C%07%0A%C2%9B%FF%3A%25\",\
             \"mtime\":\"Sun, 06 Nov 1994 08:49:37 GMT\",\"size\":7,\"sha256\":\"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a\"}"
        );
    }
}
