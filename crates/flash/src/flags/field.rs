//! Header fields that the operator adds to responses.

use std::str::FromStr;

use flash_core::site::path_rules::PathRule;
use flash_http::negotiate::Coding;

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
        let value = parse_value(value)?;
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match () {
            () if is(CONTENT_TYPE) => Ok(Field { name: name.into(), value: media_type(&value)?.into() }),
            () if is(CONTENT_ENCODING) => match Coding::of_name(&value) {
                Some(_) => Ok(Field { name: name.into(), value }),
                None => Err("files may be in gzip, br or zstd".into()),
            },
            () => Ok(Field { name: checked(name)?, value }),
        }
    }
}

impl Field {
    /// Whether it is about the files themselves, and not about every response.
    pub(crate) fn is_of_files(&self) -> bool {
        [CONTENT_TYPE, CONTENT_ENCODING].iter().any(|of_files| self.name.eq_ignore_ascii_case(of_files))
    }
}

pub(crate) const CONTENT_TYPE: &str = "Content-Type";
pub(crate) const CONTENT_ENCODING: &str = "Content-Encoding";

/// A media type, and the files that have it.
pub(crate) type FileType = (PathRule, MediaType);

/// The value of Content-Type, as in `text/css; charset=utf-8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MediaType(pub String);

/// `*.js=TYPE`, `NAME=TYPE` or `/assets=TYPE`.
pub(crate) fn parse_file_type(text: &str) -> Result<FileType, String> {
    let (rule, value) = text.split_once('=').ok_or("write RULE=TYPE, such as *.wasm=application/wasm")?;
    Ok((PathRule::parse(rule.trim())?, MediaType(parse_type(value)?)))
}

/// A media type, such as `text/plain; charset=utf-8`.
pub(super) fn parse_type(text: &str) -> Result<String, String> {
    media_type(&parse_value(text)?).map(str::to_owned)
}

/// RFC 9110 §8.3.1.
fn media_type(text: &str) -> Result<&str, String> {
    let essence = text.split(';').next().unwrap_or_default().trim_end();
    let is_one = essence.split_once('/').is_some_and(|(one, other)| token(one).and(token(other)).is_ok());
    match is_one {
        true => Ok(text),
        false => Err(format!(
            "'{}' is no media type: write one such as text/plain; charset=utf-8",
            text.escape_debug()
        )),
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
    fn types_of_files() {
        let (rule, of) = parse_file_type("*.br.js = text/javascript; charset=utf-8").unwrap();
        assert_eq!((rule, &*of.0), (PathRule::parse("*.br.js").unwrap(), "text/javascript; charset=utf-8"));
        for text in ["*.js", "*.js=", "*.js=text", "*.js=/", "*=text/css", "*.js=text/a b", "a=t/x\ny"] {
            assert!(parse_file_type(text).is_err(), "{text}");
        }
        let field = |text: &str| text.parse::<Field>();
        assert!(field("content-type: text/css").unwrap().is_of_files());
        assert!(field("Content-Encoding: gzip").unwrap().is_of_files());
        for text in
            ["Content-Type: css", "Content-Encoding: gzip, br", "Content-Encoding: xz", "Content-Encoding:"]
        {
            assert!(field(text).is_err(), "{text}");
        }
        assert!(parse_name(CONTENT_TYPE).is_err());
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
