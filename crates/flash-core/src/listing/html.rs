//! The HTML of a listing: a page that works without scripts.
//!
//! This module only writes text. It does not choose the names.

use std::io::Write;

use flash_http::{date, percent};

use super::name::{Details, Name};
use super::names::Names;
use super::order::{Column, Order};
use crate::printable::is_printable;

const STYLE: &str = "\
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.3rem; overflow-wrap: anywhere } table { border-collapse: collapse; width: 100% }
th { text-align: left; border-bottom: 1px solid #8888 } th, td { padding: .2rem .6rem }
td:first-child { overflow-wrap: anywhere } td + td, th + th { text-align: right; white-space: nowrap }
td + td { font-variant-numeric: tabular-nums } tr:hover td { background: #8882 } a { text-decoration: none }
a:hover { text-decoration: underline } @media (max-width: 36rem) { tr > :nth-child(3) { display: none } }";

/// The page up to its first row. `header` is [HTML](fragment).
pub(super) fn write_start(path: &[u8], order: Order, header: &str, out: &mut Vec<u8>) {
    let title = escaped(path);
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}\n</style>\n\
         <h1>{title}</h1>\n{header}<table>\n<thead><tr>"
    );
    for (column, name, label) in [
        (Column::Name, "name", "Name"),
        (Column::Size, "size", "Size"),
        (Column::Time, "time", "Modified (UTC)"),
    ] {
        let current = order.by == column;
        let turn = if current && !order.descending { ";order=desc" } else { "" };
        let mark = match (current, order.descending) {
            (false, _) => "",
            (true, false) => " ↑",
            (true, true) => " ↓",
        };
        let _ = write!(out, "<th><a href=\"?sort={name}{turn}\">{label}</a>{mark}</th>");
    }
    out.extend_from_slice(b"</tr></thead>\n<tbody>\n");
    if path != b"/" {
        out.extend_from_slice(b"<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
}

/// One row. A folder has no size.
pub(super) fn row(name: &Name<'_>, details: Details, out: &mut Vec<u8>) {
    let slash = if name.folder { "/" } else { "" };
    out.extend_from_slice(b"<tr><td><a href=\"");
    percent::encode_name(name.name, out);
    let _ = write!(out, "{slash}\">{}{slash}</a></td><td>", escaped(name.name));
    if !name.folder {
        write_size(details.size, out);
    }
    out.extend_from_slice(b"</td><td>");
    write_time(details.modified, out);
    out.extend_from_slice(b"</td></tr>\n");
}

/// `footer` is [HTML](fragment).
pub(super) fn write_end(names: &Names, footer: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"</tbody>\n</table>\n");
    if names.left_out() > 0 {
        let _ = writeln!(out, "<p>… and {} more, which are not shown.", names.left_out());
    }
    let _ = writeln!(out, "{footer}</html>");
}

/// What a file says above or below the rows: HTML as it is, or another text in its lines.
pub(super) fn fragment(name: &[u8], text: &[u8]) -> String {
    match name.rsplit(|&byte| byte == b'.').next() {
        Some(b"html" | b"htm") => format!("{}\n", String::from_utf8_lossy(text)),
        _ => format!("<pre>{}</pre>\n", lines(text)),
    }
}

/// Escapes text, and leaves its lines and tabs.
fn lines(text: &[u8]) -> String {
    let lines = text.split(|&byte| byte == b'\n');
    let escaped_line = |line: &[u8]| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        line.split(|&byte| byte == b'\t').map(escaped).collect::<Vec<_>>().join("\t")
    };
    lines.map(escaped_line).collect::<Vec<_>>().join("\n")
}

fn write_size(bytes: u64, out: &mut Vec<u8>) {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    let mut scaled = bytes as f64;
    while scaled >= 999.5 && unit + 1 < units.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && scaled < 9.95);
    let _ = write!(out, "<span title=\"{bytes} bytes\">{scaled:.digits$} {}</span>", units[unit]);
}

/// `06 Nov 1994 08:49`: the middle of an HTTP date.
fn write_time(unix_seconds: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&date::format(unix_seconds)[5..22]);
}

/// Escapes text for HTML. Names need not be UTF-8: other bytes show as a replacement, and the link still works.
fn escaped(text: &[u8]) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Names in some scripts need the joiners, and so do pictures.
            '\u{200c}' | '\u{200d}' => safe.push(character),
            hidden if !is_printable(hidden) => safe.push('\u{fffd}'),
            plain => safe.push(plain),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out() {
        let mut out = Vec::new();
        let name = Name { name: b"a\"><script>:%\x07", details: None, folder: false };
        row(&name, Details { size: 1, modified: 0 }, &mut out);
        let html = String::from_utf8(out).unwrap();
        assert!(!html.contains("<script>"), "{html}");
        assert!(html.contains("href=\"a%22%3E%3Cscript%3E%3A%25%07\""), "{html}");
    }

    #[test]
    fn a_text_is_shown_and_html_is_taken_as_it_is() {
        let text = b"<b>a</b>\r\n\tb & \x1b[1mc\n";
        assert_eq!(fragment(b"README", text), "<pre>&lt;b&gt;a&lt;/b&gt;\n\tb &amp; \u{fffd}[1mc\n</pre>\n");
        for name in [&b"HEADER.html"[..], b"/x/a.htm"] {
            assert_eq!(fragment(name, b"<b>a</b>"), "<b>a</b>\n");
        }
        assert!(fragment(b"README.md", b"<").contains("&lt;"));
    }

    #[test]
    fn sizes_for_people() {
        for (bytes, text) in
            [(0, "0 B"), (999, "999 B"), (1536, "1.5 KiB"), (10 << 20, "10 MiB"), (1 << 40, "1.0 TiB")]
        {
            let mut out = Vec::new();
            write_size(bytes, &mut out);
            assert!(String::from_utf8(out).unwrap().contains(&format!(">{text}<")), "{bytes}");
        }
    }
}
