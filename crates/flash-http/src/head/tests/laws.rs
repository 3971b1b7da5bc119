//! What holds for every input, however wild.

use super::*;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Small enough for generated heads to run into them.
const LIMITS: Limits = Limits { target_bytes_max: 24, head_bytes_max: 160, fields_max: 6 };

/// Heads that are right, or nearly.
fn heads() -> impl Strategy<Value = Vec<u8>> {
    let method = select(vec!["GET", "HEAD", "OPTIONS", "CONNECT", "BREW", ""]);
    let target =
        select(vec!["/", "/a?b", "*", "http://h/a", "h:1", "/aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "/#", ""]);
    let version = select(vec!["HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.7", "HTTP/2.0", "HTTP/1", ""]);
    let line = select(vec![
        "Host: h",
        "Host: h",
        "Host: a b",
        "Connection: close",
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
        "If-None-Match: \"a\"",
        "if-none-match:\t\"b\" ",
        "Range: bytes=0-1",
        "Expect: 100-continue",
        "X-Long: 0123456789012345678901234567890123456789",
        " folded",
        "Bad : blank",
        "",
    ]);
    let line_end = select(vec!["\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", "\r\n\r\n"]);
    let lines = prop::collection::vec((line, line_end), 0..9);
    (any::<bool>(), method, target, version, lines).prop_map(
        |(empty_line, method, target, version, lines)| {
            let mut text = if empty_line { "\r\n".to_owned() } else { String::new() };
            text.push_str(&format!("{method} {target} {version}\r\n"));
            lines.iter().for_each(|(line, end)| text.extend([*line, *end]));
            text.push_str("\r\n");
            text.into_bytes()
        },
    )
}

/// The same with a few bytes replaced by ones that matter.
fn spoilt_heads() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![select(b"\r\n \t:\0\x7f\x80/?#*".to_vec()), any::<u8>()];
    (heads(), prop::collection::vec((any::<Index>(), byte), 0..3)).prop_map(|(mut head, spots)| {
        for (index, byte) in spots {
            *index.get_mut(&mut head) = byte;
        }
        head
    })
}

/// A verdict, in a form that can be compared.
fn verdict(input: &[u8]) -> Option<Result<(usize, String), Reject>> {
    match parse(input, &LIMITS) {
        Ok(Parsed::Incomplete) => None,
        Ok(Parsed::Complete { head, bytes }) => Some(Ok((bytes, seen(&head)))),
        Err(reject) => Some(Err(reject)),
    }
}

/// All that a head says.
fn seen(head: &Head<'_>) -> String {
    let lists = [head.if_match, head.if_none_match, head.accept_encoding]
        .map(|list| list.lines().collect::<Vec<_>>());
    let line = head.framing.request_line.escape_ascii();
    let RequestHead { method, target, host, body, expect, range, if_range, .. } = head.request;
    let Framing { version, keep_alive, .. } = head.framing;
    format!(
        "{line} {method:?} {version:?} {target:?} {host:?} {keep_alive} {body:?} {expect:?} {range:?} {if_range:?} {lists:?}"
    )
}

proptest! {
    /// RFC 9112 §2.2 knows no packets: where the input is cut must not matter.
    #[test]
    fn a_head_in_pieces_gets_the_verdict_of_the_whole(input in spoilt_heads()) {
        let whole = verdict(&input);
        let first = (0..=input.len()).find_map(|end| verdict(&input[..end]));
        prop_assert_eq!(first, whole);
    }

    #[test]
    fn a_verdict_stands_whatever_follows(input in spoilt_heads(), more in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Some(before) = verdict(&input) {
            prop_assert_eq!(verdict(&[input, more].concat()), Some(before));
        }
    }

    /// A caller that parses only when there is reason to gets the verdict too, at the latest with the last line.
    #[test]
    fn nothing_is_missed_by_asking_first(input in spoilt_heads(), pieces in prop::collection::vec(1..30usize, 1..9)) {
        let (mut seen, mut last, mut found) = (0, 0, None);
        let mut pieces = pieces.into_iter().cycle();
        while found.is_none() && seen < input.len() {
            let end = input.len().min(seen + pieces.next().expect("it goes round"));
            if may_progress(&input[..end], seen, &LIMITS) {
                found = verdict(&input[..end]);
                last = end;
            }
            seen = end;
        }
        let whole = verdict(&input);
        prop_assert!(found == whole || (found.is_none() && !input[last..].contains(&b'\n')));
        prop_assert!(found.is_some() || !matches!(whole, Some(Ok(_))));
    }

    /// What is accepted obeys the rules as somebody would state them who looks at lines, not at bytes in turn.
    #[test]
    fn what_is_accepted_is_well_formed(input in spoilt_heads()) {
        let Ok(Parsed::Complete { head, bytes }) = parse(&input, &LIMITS) else { return Ok(()) };
        prop_assert!(bytes <= LIMITS.head_bytes_max);
        let text = &input[..bytes];
        let text = text.strip_prefix(b"\r\n").unwrap_or(text);
        let text = text.strip_suffix(b"\r\n\r\n").expect("an empty line ends a head");
        let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        let (last, others) = lines.split_last().expect("split yields at least one");
        prop_assert!(others.iter().all(|line| line.ends_with(b"\r")), "a bare LF");
        let lines: Vec<&[u8]> = others.iter().map(|line| &line[..line.len() - 1]).chain([*last]).collect();
        prop_assert!(lines.iter().all(|line| !line.is_empty() && !line.contains(&b'\r')));
        prop_assert_eq!(lines[0], head.framing.request_line);
        prop_assert_eq!(lines[0].split(|&byte| byte == b' ').count(), 3);
        prop_assert!(lines.len() - 1 <= LIMITS.fields_max);
        let count = |name: &str| {
            let is = |line: &&&[u8]| line.to_ascii_lowercase().starts_with(format!("{name}:").as_bytes());
            lines.iter().filter(is).count()
        };
        for line in &lines[1..] {
            let colon = line.iter().position(|&byte| byte == b':').expect("a field has a colon");
            prop_assert!(colon > 0 && line[..colon].iter().all(|&byte| crate::scan::is_token(byte)));
            prop_assert!(line.iter().all(|&byte| byte == b'\t' || (byte >= 32 && byte != 127)));
        }
        prop_assert!(count("host") <= 1 && (count("host") == 1 || head.framing.version == Version::Http10));
        prop_assert!(count("content-length") + count("transfer-encoding") <= 1);
        prop_assert_eq!(head.if_none_match.lines().count(), count("if-none-match"));
    }

    #[test]
    fn any_bytes_may_be_read(input in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&input, &LIMITS);
        let _ = parse(&input, &Limits { target_bytes_max: 0, head_bytes_max: 0, fields_max: 0 });
    }
}
