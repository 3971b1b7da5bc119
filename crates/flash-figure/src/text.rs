//! Text without a font at hand: how wide it is at most, where it breaks, how it is escaped.

use std::borrow::Cow;

/// A width that the text does not exceed in the usual sans-serif fonts; the measure is DejaVu Sans, the widest of them.
pub(crate) fn width_px(text: &str, size_px: f64) -> f64 {
    text.chars().map(em).sum::<f64>() * size_px
}

fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '\'' | '|' => 0.30,
        ' ' | '.' | ',' | ':' | ';' | '!' | '/' | '\\' | 'I' | 'f' | 't' | 'r' | '(' | ')' | '[' | ']'
        | '-' => 0.42,
        'm' | 'M' | 'W' | '%' | '@' | '–' | '—' | '…' => 1.0,
        'w' | '+' | '=' | '<' | '>' | '~' | 'G' | 'O' | 'Q' | 'D' | 'H' | 'N' | 'U' | '&' => 0.84,
        'A'..='Z' => 0.70,
        _ if (c as u32) < 0x2000 && in_xml(c) => 0.64,
        // Wide scripts take a square, and so does what stands for a character that XML does not have.
        _ => 1.0,
    }
}

/// Lines no wider than this, broken between words. A word that is wider than that is cut short.
pub(crate) fn lines(text: &str, size_px: f64, wide_px: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width_px(line, size_px) + width_px(word, size_px) + 0.42 * size_px <= wide_px => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(shortened(word, size_px, wide_px)),
        }
    }
    lines
}

/// The text, or as much of it as there is room for.
pub(crate) fn shortened(text: &str, size_px: f64, wide_px: f64) -> String {
    if width_px(text, size_px) <= wide_px {
        return text.to_owned();
    }
    let mut left_px = wide_px - em('…') * size_px;
    let fits = |c: &char| {
        left_px -= em(*c) * size_px;
        left_px >= 0.0
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// As text or attribute of XML, on one line. Characters that XML does not have, escaped or not, are replaced (XML 1.0
/// §2.2).
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let odd = |c: char| matches!(c, '<' | '>' | '&' | '"') || !in_xml(c);
    if !text.contains(odd) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if in_xml(c) => out.push(c),
            _ => out.push(char::REPLACEMENT_CHARACTER),
        }
    }
    Cow::Owned(out)
}

fn in_xml(c: char) -> bool {
    matches!(c, ' '..='\u{fffd}' | '\u{10000}'..)
}
