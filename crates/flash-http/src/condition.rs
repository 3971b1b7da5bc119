//! Conditional requests (RFC 9110 §13): does the client's copy still hold?
//!
//! Asked between finding the file and sending its header. Only for retrieval: a server that changes nothing has
//! no lost updates to prevent.

use crate::etag::{self, Comparison};
use crate::{RequestHead, date};

/// What a representation is known by. One that has neither exists, like a folder's listing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validators<'a> {
    /// Strong, with its quotes.
    pub etag: Option<&'a [u8]>,
    /// Unix seconds, as in Last-Modified: never later than now.
    pub modified: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Proceed,
    /// 304
    NotModified,
    /// 412
    PreconditionFailed,
}

/// Evaluates the preconditions of a GET or HEAD in the order of RFC 9110 §13.2.2.
///
/// Ask only where the answer would be 200 otherwise (§13.2.1).
pub fn evaluate(head: &RequestHead<'_>, validators: &Validators<'_>) -> Outcome {
    // RFC 9110 §13.2.1: conditions on methods that select no representation are ignored.
    if !head.method.is_retrieval() {
        return Outcome::Proceed;
    }
    let in_list = |list, comparison| match validators.etag {
        Some(etag) => etag::list_matches(list, etag, comparison),
        None => etag::list_is_any(list),
    };
    // Malformed dates are ignored (§13.1.3, §13.1.4), and so is any date where there is none to compare with.
    let changed_since = |text: Option<&[u8]>| Some(validators.modified? > date::parse(text?)?);

    if head.if_match.is_present() {
        if !in_list(head.if_match, Comparison::Strong) {
            return Outcome::PreconditionFailed;
        }
    } else if changed_since(head.if_unmodified_since) == Some(true) {
        return Outcome::PreconditionFailed;
    }
    if head.if_none_match.is_present() {
        if in_list(head.if_none_match, Comparison::Weak) {
            return Outcome::NotModified;
        }
    } else if changed_since(head.if_modified_since) == Some(false) {
        return Outcome::NotModified;
    }
    Outcome::Proceed
}

/// What an If-Range has matched by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Tag,
    Date,
}

/// Whether the value of If-Range matches this representation exactly, so that Flash may send a part of it (RFC 9110 §13.1.5), and by
/// what. `now` is in Unix seconds. A date must equal Last-Modified; a later date is not enough. It must also be strong: a file may
/// change twice in a second and keep its date (§8.8.2.2).
pub fn if_range_holds(value: &[u8], validators: &Validators<'_>, now: i64) -> Option<By> {
    match value {
        [b'"', ..] => etag::matches(value, validators.etag?, Comparison::Strong).then_some(By::Tag),
        [b'W', b'/', ..] => None,
        _ => {
            let modified = validators.modified?;
            let holds = modified < now && date::parse(value) == Some(modified);
            holds.then_some(By::Date)
        }
    }
}

/// Whether a condition names this tag (strong, quoted) as that of the representation which the client has a part of.
pub fn names(head: &RequestHead<'_>, tag: &[u8]) -> bool {
    head.if_range == Some(tag) || etag::list_names(head.if_match, tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Parsed, head};

    const MODIFIED: i64 = 784_111_777;
    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    fn outcome(method: &str, fields: &[(&str, &str)], validators: Validators<'_>) -> Outcome {
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let text = format!("{method} / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        match head::parse(text.as_bytes(), &Limits::default()) {
            Ok(Parsed::Complete { head, .. }) => evaluate(&head, &validators),
            other => panic!("{other:?}"),
        }
    }

    const BOTH: Validators<'_> = Validators { etag: Some(b"\"v\""), modified: Some(MODIFIED) };

    fn get(fields: &[(&str, &str)]) -> Outcome {
        outcome("GET", fields, BOTH)
    }

    #[test]
    fn rfc9110_13_1_1_if_match() {
        assert_eq!(get(&[("If-Match", "*")]), Outcome::Proceed);
        assert_eq!(get(&[("If-Match", "\"u\", \"v\"")]), Outcome::Proceed);
        assert_eq!(get(&[("If-Match", "\"u\""), ("If-Match", "\"v\"")]), Outcome::Proceed);
        assert_eq!(get(&[("If-Match", "W/\"v\"")]), Outcome::PreconditionFailed);
        assert_eq!(get(&[("If-Match", "")]), Outcome::PreconditionFailed);
    }

    #[test]
    fn rfc9110_13_1_2_if_none_match() {
        assert_eq!(get(&[("If-None-Match", "*")]), Outcome::NotModified);
        assert_eq!(get(&[("If-None-Match", "W/\"v\"")]), Outcome::NotModified);
        assert_eq!(get(&[("If-None-Match", "\"u\"")]), Outcome::Proceed);
    }

    #[test]
    fn rfc9110_13_1_3_if_modified_since() {
        assert_eq!(get(&[("If-Modified-Since", AT)]), Outcome::NotModified);
        assert_eq!(get(&[("If-Modified-Since", BEFORE)]), Outcome::Proceed);
        assert_eq!(get(&[("If-Modified-Since", "yesterday")]), Outcome::Proceed);
        // Twice is as good as malformed.
        assert_eq!(get(&[("If-Modified-Since", AT), ("If-Modified-Since", AT)]), Outcome::Proceed);
    }

    #[test]
    fn rfc9110_13_1_4_if_unmodified_since() {
        assert_eq!(get(&[("If-Unmodified-Since", AT)]), Outcome::Proceed);
        assert_eq!(get(&[("If-Unmodified-Since", BEFORE)]), Outcome::PreconditionFailed);
        assert_eq!(get(&[("If-Unmodified-Since", "0")]), Outcome::Proceed);
    }

    #[test]
    fn rfc9110_13_2_2_tags_win_over_dates() {
        assert_eq!(get(&[("If-Match", "\"v\""), ("If-Unmodified-Since", BEFORE)]), Outcome::Proceed);
        assert_eq!(get(&[("If-None-Match", "\"u\""), ("If-Modified-Since", AT)]), Outcome::Proceed);
        assert_eq!(get(&[("If-Match", "\"u\""), ("If-None-Match", "\"v\"")]), Outcome::PreconditionFailed);
        assert_eq!(get(&[("If-Match", "\"v\""), ("If-None-Match", "\"v\"")]), Outcome::NotModified);
    }

    #[test]
    fn rfc9110_13_2_1_other_methods_are_unconditional() {
        assert_eq!(outcome("OPTIONS", &[("If-Match", "\"u\"")], Validators::default()), Outcome::Proceed);
    }

    #[test]
    fn without_validators_only_existence_counts() {
        let get = |fields: &[(&str, &str)]| outcome("GET", fields, Validators::default());
        assert_eq!(get(&[("If-Match", "*")]), Outcome::Proceed);
        assert_eq!(get(&[("If-Match", "\"v\"")]), Outcome::PreconditionFailed);
        assert_eq!(get(&[("If-None-Match", "\"v\"")]), Outcome::Proceed);
        assert_eq!(get(&[("If-Modified-Since", AT)]), Outcome::Proceed);
        assert_eq!(get(&[("If-Unmodified-Since", BEFORE)]), Outcome::Proceed);
        for value in ["\"v\"", AT] {
            assert_eq!(if_range_holds(value.as_bytes(), &Validators::default(), MODIFIED + 1), None);
        }
    }

    #[test]
    fn a_tag_or_a_date_alone_is_compared_alone() {
        let of_tag = Validators { modified: None, ..BOTH };
        assert_eq!(outcome("GET", &[("If-None-Match", "\"v\"")], of_tag), Outcome::NotModified);
        assert_eq!(outcome("GET", &[("If-Modified-Since", AT)], of_tag), Outcome::Proceed);
        assert_eq!(if_range_holds(AT.as_bytes(), &of_tag, MODIFIED + 1), None);
        let of_date = Validators { etag: None, ..BOTH };
        assert_eq!(outcome("GET", &[("If-None-Match", "\"v\"")], of_date), Outcome::Proceed);
        assert_eq!(outcome("GET", &[("If-Modified-Since", AT)], of_date), Outcome::NotModified);
        assert_eq!(if_range_holds(b"\"v\"", &of_date, MODIFIED + 1), None);
        assert_eq!(if_range_holds(AT.as_bytes(), &of_date, MODIFIED + 1), Some(By::Date));
    }

    #[test]
    fn rfc9110_13_1_5_if_range() {
        let holds_at = |value: &str, now| if_range_holds(value.as_bytes(), &BOTH, now).is_some();
        let holds = |value| holds_at(value, MODIFIED + 1);
        assert!(holds("\"v\"") && holds(AT));
        assert!(!holds("W/\"v\"") && !holds("\"u\"") && !holds(BEFORE) && !holds("") && !holds("v"));
        assert!(!holds("Sun, 06 Nov 1994 08:49:38 GMT"));
        assert!(
            !holds_at(AT, MODIFIED) && holds_at("\"v\"", MODIFIED),
            "the second of its change is not over"
        );
    }
}
