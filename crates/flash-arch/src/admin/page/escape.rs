//! Texts of clients in HTML: they mean themselves, and nothing else.

use flash_core::printable::is_printable;

/// A text that means itself between tags and in quoted attributes. What would not be seen, or would turn the text around, is
/// written as its number.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ if !is_printable(char) => escaped.extend(char.escape_default()),
            _ => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_sends_is_text() {
        assert_eq!(
            escape("/<script>alert('x\"&')</script>\u{202e}\n"),
            "/&lt;script&gt;alert(&#39;x&quot;&amp;&#39;)&lt;/script&gt;\\u{202e}\\n"
        );
    }
}
