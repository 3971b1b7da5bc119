//! Where a redirection sends a client, with nginx's variables or with the gaps that Flash fills in.

use crate::pattern::Tail;

/// What is known of a request that is redirected.
pub(crate) struct Known<'k> {
    /// The first name of the server.
    pub(crate) server_name: &'k str,
    /// `https` or `http`.
    pub(crate) scheme: &'static str,
    /// What a group of the regular expression holds.
    pub(crate) tail: Option<&'k Tail>,
    /// Whether the query is added by itself, as nginx's `rewrite` does.
    pub(crate) adds_query: bool,
}

/// The target in Flash's words.
///
/// # Errors
/// What it has that Flash cannot fill in.
pub(crate) fn target(text: &str, known: &Known<'_>) -> Result<String, String> {
    let (mut rest, mut to) = (text, String::new());
    // A `?` at the end of a rewrite's target drops the query.
    let mut keeps_query = known.adds_query && !rest.ends_with('?');
    if known.adds_query {
        rest = rest.strip_suffix('?').unwrap_or(rest);
    }
    for end in ["$is_args$args", "$is_args$query_string", "?$args", "?$query_string"] {
        if let Some(before) = rest.strip_suffix(end) {
            (rest, keeps_query) = (before, true);
        }
    }
    while let Some(at) = rest.find('$') {
        let (before, variable) = rest.split_at(at);
        to.push_str(&literal(before));
        let (name, after) = name(&variable[1..]);
        match name {
            "request_uri" if after.is_empty() => {
                to.push_str("{path}");
                keeps_query = true;
            }
            "uri" | "document_uri" => to.push_str("{path}"),
            "host" | "http_host" => to.push_str("{host}"),
            "server_name" => to.push_str(known.server_name),
            "scheme" => to.push_str(known.scheme),
            _ => {
                let (kept, gap) = group(name, known.tail, &to)?;
                to.truncate(kept);
                to.push_str(gap);
            }
        }
        rest = after;
    }
    to.push_str(&literal(rest));
    if !keeps_query {
        // In front of a fragment.
        let end = to.find('#').unwrap_or(to.len());
        to.insert(end, '?');
    }
    Ok(to)
}

/// How much is kept of what stands before a group of the regular expression, and what the group becomes.
fn group(name: &str, tail: Option<&Tail>, before: &str) -> Result<(usize, &'static str), String> {
    let tail = tail.filter(|tail| tail.group.map(|group| group.to_string()).as_deref() == Some(name));
    let Some(tail) = tail else { return Err(format!("Flash does not fill in ${name}")) };
    let gap = if tail.prefix.len() <= 1 { "{path}" } else { "{rest}" };
    // Both gaps begin with the slash that ends the prefix.
    match (tail.prefix.ends_with('/'), before.strip_suffix('/')) {
        (false, _) => Ok((before.len(), gap)),
        (true, Some(kept)) => Ok((kept.len(), gap)),
        (true, None) => Err("the rest of the path would gain a slash".into()),
    }
}

/// The name of a variable, and what follows.
fn name(text: &str) -> (&str, &str) {
    if let Some((name, after)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) {
        return (name, after);
    }
    let end = match text.starts_with(|c: char| c.is_ascii_digit()) {
        true => 1,
        false => text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len()),
    };
    text.split_at(end)
}

/// A text as it stands in a URL, without what Flash would fill in.
fn literal(text: &str) -> String {
    let mut all = String::new();
    for c in text.chars() {
        match c {
            '{' => all.push_str("%7B"),
            '}' => all.push_str("%7D"),
            c if c.is_ascii_graphic() && !"\"<>\\^`|".contains(c) => all.push(c),
            c => {
                let mut bytes = [0; 4];
                c.encode_utf8(&mut bytes).bytes().for_each(|byte| all.push_str(&format!("%{byte:02X}")));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_keep_and_drop_queries_as_nginx_does() {
        let known = Known { server_name: "a.example", scheme: "https", tail: None, adds_query: false };
        for (text, expected) in [
            ("https://b.example$request_uri", "https://b.example{path}"),
            ("https://$host$request_uri", "https://{host}{path}"),
            ("$scheme://$server_name$uri", "https://a.example{path}?"),
            ("/new", "/new?"),
            ("/new?a=1", "/new?a=1?"),
            ("/new$is_args$args", "/new"),
            ("/new?$args", "/new"),
            ("/new#part", "/new?#part"),
            ("/a b", "/a%20b?"),
            ("https://${host}/x", "https://{host}/x?"),
        ] {
            assert_eq!(target(text, &known).as_deref(), Ok(expected), "{text}");
        }
        for (text, prefix, expected) in [
            ("/new/$1", "/old/", Ok("/new{rest}")),
            ("/new/$1?", "/old/", Ok("/new{rest}?")),
            ("/new$1", "/old", Ok("/new{rest}")),
            ("https://b.example$1", "", Ok("https://b.example{path}")),
            ("https://b.example/$1", "/", Ok("https://b.example{path}")),
            ("https://b.example/x/$1", "/", Ok("https://b.example/x{path}")),
            ("/new-$1", "/old/", Err("the rest of the path would gain a slash")),
            ("/new/$2", "/old/", Err("Flash does not fill in $2")),
            ("/new/$cookie_a", "/old/", Err("Flash does not fill in $cookie_a")),
        ] {
            let tail = Tail { prefix: prefix.into(), group: Some(1) };
            let known = Known { server_name: "", scheme: "https", tail: Some(&tail), adds_query: true };
            let found = target(text, &known);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
