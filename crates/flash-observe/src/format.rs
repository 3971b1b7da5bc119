//! One access record as one line of bytes.
//!
//! *Combined* is Apache's, to the byte, so that every log analyser reads it. *Json* is one object a line.
//! Whatever a client sent is escaped: a line is always exactly one line, of printable text.

use std::sync::Arc;

use flash_core::record::{Peer, Record};

use crate::date::Utc;

mod field;
mod text;

pub use self::field::Field;
pub(crate) use self::text::json_text;
use self::text::{apache_text, client, put};

/// How a line of the access log looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `client - user [time] "request line" status bytes "referer" "user agent"`
    #[default]
    Combined,
    /// The same behind `host:port`, as Apache's `vhost_combined`: for a log of many sites.
    VhostCombined,
    /// An object with these fields, in this order. A field without a value is left out.
    Json(Arc<[Field]>),
    /// `200 GET /index.html 1.2 KB 0.3 ms`, for a person at a terminal. A client on another machine stands in front.
    Short,
}

impl Format {
    /// JSON with the fields that are written if none are chosen.
    pub fn json() -> Format {
        Format::Json(Field::USUAL.into())
    }

    /// Appends the record's line, with its newline.
    pub fn write(&self, record: &Record, line: &mut Vec<u8>) {
        match self {
            Format::Combined => combined(record, line),
            Format::VhostCombined => {
                host_and_port(record, line);
                combined(record, line);
            }
            Format::Json(fields) => json(record, fields, line),
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

/// The host that was asked, and its port, which may be that of the scheme.
fn host_and_port(record: &Record, line: &mut Vec<u8>) {
    let host = &*record.host;
    // The colons of an IPv6 address stand in brackets.
    let colon = host.iter().rposition(|byte| matches!(byte, b':' | b']')).filter(|at| host[*at] == b':');
    apache_text(&host[..colon.unwrap_or(host.len())], line);
    let usual: &[u8] = if record.scheme == "https" { b":443 " } else { b":80 " };
    match colon {
        Some(colon) => {
            apache_text(&host[colon..], line);
            line.push(b' ');
        }
        None => line.extend_from_slice(usual),
    }
}

fn json(record: &Record, fields: &[Field], line: &mut Vec<u8>) {
    line.push(b'{');
    for field in fields {
        let before = line.len();
        let mark = if before > 0 && line[before - 1] != b'{' { "," } else { "" };
        put(line, format_args!("{mark}\"{}\":", field.name()));
        if !field.write(record, line) {
            line.truncate(before);
        }
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

#[cfg(test)]
mod tests;
