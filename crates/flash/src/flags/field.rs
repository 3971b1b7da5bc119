//! Header fields that the operator adds to responses.

use std::str::FromStr;

use flash_core::path_rules::PathRule;

/// A field for every response, as `--header "Name: value"` gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub name: String,
    pub value: String,
}

impl FromStr for Field {
    type Err = String;

    fn from_str(text: &str) -> Result<Field, String> {
        let (name, value) = text.split_once(':').ok_or("write it as \"Name: value\"")?;
        Ok(Field { name: checked(name)?, value: parse_value(value)? })
    }
}

/// The name of a field that responses do without.
pub(super) fn parse_name(name: &str) -> Result<String, String> {
    match name.eq_ignore_ascii_case("Server") {
        true => Err("every response has it: it says Flash, and no version".into()),
        false => checked(name),
    }
}

/// The name of a field.
pub(super) fn token(name: &str) -> Result<&str, String> {
    match !name.is_empty() && name.bytes().all(is_token_byte) {
        true => Ok(name),
        false => Err(format!("'{}' is not a field name", name.escape_debug())),
    }
}

fn checked(name: &str) -> Result<String, String> {
    token(name)?;
    match OURS.iter().find(|(ours, _)| name.eq_ignore_ascii_case(ours)) {
        Some((_, instead)) => Err(format!("{name} is not yours to set: {instead}")),
        None => Ok(name.into()),
    }
}

/// A value of Cache-Control, and which files have it: all, without a rule.
pub(crate) type CacheControl = (Option<PathRule>, Vec<u8>);

/// `VALUE`, `*.js=VALUE` or `/assets=VALUE`. No value begins as a rule does.
pub(crate) fn parse_cache_control(text: &str) -> Result<CacheControl, String> {
    let (rule, value) = match text.split_once('=') {
        Some((rule, value)) if rule.starts_with(['*', '/']) => (Some(PathRule::parse(rule)?), value),
        _ if text.starts_with(['*', '/']) => return Err(format!("add the value, as in {text}=no-cache")),
        _ => (None, text),
    };
    Ok((rule, parse_value(value)?.into_bytes()))
}

/// A field value without the white space around it (RFC 9110 §5.5).
pub(crate) fn parse_value(text: &str) -> Result<String, String> {
    let value = text.trim_matches([' ', '\t']);
    // A line break here would let a value begin another field, or another response.
    match value.chars().any(|c| c.is_ascii_control() && c != '\t') {
        true => Err("a field value holds no control characters".into()),
        false => Ok(value.into()),
    }
}

/// RFC 9110 §5.6.2.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What says how a message is framed, what it holds or when it was made, only the server can know.
const OURS: [(&str, &str); 17] = [
    ("Accept-Ranges", CONTENT),
    ("Allow", CONTENT),
    ("Cache-Control", "use --cache-control"),
    ("Connection", FRAMING),
    ("Content-Encoding", CONTENT),
    ("Content-Length", FRAMING),
    ("Content-Range", CONTENT),
    ("Content-Type", CONTENT),
    ("Date", CONTENT),
    ("ETag", CONTENT),
    ("Keep-Alive", FRAMING),
    ("Last-Modified", CONTENT),
    ("Location", CONTENT),
    ("Proxy-Connection", FRAMING),
    ("Trailer", FRAMING),
    ("Transfer-Encoding", FRAMING),
    ("Upgrade", FRAMING),
];
const FRAMING: &str = "it belongs to the connection";
const CONTENT: &str = "the server derives it from what it sends";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let field = |text: &str| text.parse::<Field>();
        let good = field("X-Frame-Options:  DENY\t").unwrap();
        assert_eq!((good.name.as_str(), good.value.as_str()), ("X-Frame-Options", "DENY"));
        assert_eq!(field("Link: <https://a/>; rel=x").unwrap().value, "<https://a/>; rel=x");
        assert_eq!(field("X-Empty:").unwrap().value, "");
        for text in
            ["", "X-A", ": x", "X A: x", "X-A : x", "é: x", "X: a\r\nY: b", "X: a\0", "X: a\x7f", "X\n: a"]
        {
            assert!(field(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn values_of_cache_control() {
        let value = |text: &str| parse_cache_control(text).map(|(rule, value)| (rule.is_some(), value));
        assert_eq!(value("max-age=60, public"), Ok((false, b"max-age=60, public".to_vec())));
        assert_eq!(value("*.js=max-age=60"), Ok((true, b"max-age=60".to_vec())));
        assert_eq!(value("/assets/=no-cache"), Ok((true, b"no-cache".to_vec())));
        for text in ["*.js", "/assets", "*=x", "*.a/b=x", "/a//b=x", "*.js=a\nb"] {
            assert!(parse_cache_control(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_the_server_says_itself_is_refused() {
        for name in ["Content-Length", "transfer-encoding", "CONNECTION", "Date", "ETag", "Cache-Control"] {
            let error = format!("{name}: 1").parse::<Field>().expect_err(name);
            assert!(error.contains("not yours to set"), "{error}");
        }
    }
}
