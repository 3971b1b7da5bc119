//! Listeners, and which server answers a name at each.

use crate::directive::Directive;
use crate::hosts::{Block, Listen};

/// All servers, with their names and listeners.
pub(super) fn blocks(http: &[Directive]) -> Vec<Block<'_>> {
    let servers = http.iter().filter(|of| of.name == "server");
    let block = |of: &'_ Directive| -> Option<()> { of.block.as_ref().map(|_| ()) };
    servers
        .filter(|of| block(of).is_some())
        .map(|of| {
            let block = of.block.as_deref().unwrap_or_default();
            let (names, strange) = names(block);
            Block { of, block, listens: of_server(block), names, strange }
        })
        .collect()
}

/// The listeners of a server, port 80 if it names none.
pub(super) fn of_server(block: &[Directive]) -> Vec<Listen> {
    let all_tls = block.iter().any(|of| of.name == "ssl" && of.words == ["on"]);
    let lines = block.iter().filter(|of| of.name == "listen");
    let mut all: Vec<Listen> = lines.filter_map(|of| one(&of.words, all_tls)).collect();
    if all.is_empty() {
        all.extend(one(&["80".to_owned()], all_tls));
    }
    all
}

fn one(words: &[String], all_tls: bool) -> Option<Listen> {
    let [at, options @ ..] = words else { return None };
    let has = |name: &str| options.iter().any(|word| word == name);
    let is_tls = all_tls || has("ssl");
    let place = match at.strip_prefix("unix:") {
        Some(path) => format!("unix:{path}"),
        None => address(at),
    };
    let is_default = has("default_server") || has("default");
    Some(Listen::new(place, is_tls, is_default, has("proxy_protocol")))
}

/// With its port.
fn address(text: &str) -> String {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("0.0.0.0:{text}");
    }
    let text = match text.strip_prefix("*:").or_else(|| text.strip_prefix("localhost:").map(|_| text)) {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("0.0.0.0:{port}"),
        Some(local) => local.replace("localhost", "127.0.0.1"),
        None => text.to_owned(),
    };
    let has_port = match text.rfind(']') {
        Some(end) => text[end..].contains(':'),
        None => text.contains(':'),
    };
    if has_port { text } else { format!("{text}:80") }
}

/// Whether a name of a server, such as `*.example.org` or `.example.org`, has this form in Flash. With its form.
pub(super) fn names(block: &[Directive]) -> (Vec<String>, Vec<&Directive>) {
    let (mut names, mut strange) = (Vec::new(), Vec::new());
    for of in block.iter().filter(|of| of.name == "server_name") {
        for word in &of.words {
            match &**word {
                "_" | "" | "*" | "-" | "--" | "!@#" => {}
                word if word.starts_with('~') || word.ends_with(".*") || word.contains('$') => {
                    strange.push(of)
                }
                word => match word.strip_prefix('.') {
                    Some(parent) => names
                        .extend([parent.to_ascii_lowercase(), format!("*.{parent}").to_ascii_lowercase()]),
                    None => names.push(word.to_ascii_lowercase()),
                },
            }
        }
    }
    names.dedup();
    (names, strange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_have_the_form_of_flash() {
        let text = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            one(&words, false).map(|listen| listen.text).unwrap_or_default()
        };
        for (words, expected) in [
            ("80", "0.0.0.0:80"),
            ("*:8080 default_server", "0.0.0.0:8080"),
            ("[::]:80 ipv6only=on", "[::]:80"),
            ("443 ssl http2", "0.0.0.0:443"),
            ("8443 ssl", "https://0.0.0.0:8443"),
            ("443", "http://0.0.0.0:443"),
            ("127.0.0.1:81 proxy_protocol", "127.0.0.1:81,proxy-protocol"),
            ("localhost:82", "127.0.0.1:82"),
            ("192.0.2.1", "192.0.2.1:80"),
            ("unix:/run/a.sock", "unix:/run/a.sock"),
        ] {
            assert_eq!(text(words), expected, "{words}");
        }
        let all: Vec<Listen> = ["80", "[::]:80", "443 ssl", "80"]
            .iter()
            .filter_map(|words| one(&words.split(' ').map(str::to_owned).collect::<Vec<_>>(), false))
            .collect();
        assert_eq!(crate::hosts::listeners(all.iter()), [":80", "0.0.0.0:443"]);
    }
}
