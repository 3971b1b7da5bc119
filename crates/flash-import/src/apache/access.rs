//! Who gets what: `Require`, the older `Order`, `Allow` and `Deny`, and log-ins.

use std::collections::BTreeSet;

use super::at::At;
use crate::directive::Directive;
use crate::flash::{EVERYBODY, Settings, Value, forbid, set};
use crate::note::{Of, Paths};

const REQUIRE: [&str; 4] = ["require", "requireall", "requireany", "requirenone"];
const OLD: [&str; 3] = ["order", "allow", "deny"];

/// What is required of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Required {
    is_denied: bool,
    allow: Vec<String>,
    deny: Vec<String>,
    log_in: bool,
    /// One of network and log-in is enough.
    is_any: bool,
}

/// What else keeps clients out.
const GUARDS: [&str; 3] = ["authtype", "authuserfile", "authbasicprovider"];
/// Rules that Flash has for whole sites alone.
const OF_TLS: [&str; 3] = ["sslrequire", "sslrequiressl", "sslverifyclient"];

/// Whether some line keeps clients out.
pub(super) fn guards(block: &[Directive]) -> bool {
    let is_guard = |of: &Directive| {
        [&REQUIRE[..], &OLD, &GUARDS, &OF_TLS].iter().any(|names| names.contains(&&*of.name))
    };
    block.iter().any(|of| is_guard(of) || guards(of.block.as_deref().unwrap_or_default()))
}

/// The words of `AllowOverride` that the guards of an `.htaccess` file need.
pub(super) fn classes(block: &[Directive]) -> BTreeSet<&'static str> {
    let class = |of: &Directive| match &*of.name {
        name if OLD.contains(&name) => Some("limit"),
        name if REQUIRE.contains(&name) || GUARDS.contains(&name) || name == "satisfy" => Some("authconfig"),
        _ => None,
    };
    let inner = |of: &Directive| classes(of.block.as_deref().unwrap_or_default());
    block.iter().flat_map(|of| inner(of).into_iter().chain(class(of))).collect()
}

/// Adds who may come in. Where a rule is not taken, nobody may.
pub(super) fn settings(at: &At<'_, '_>, settings: &mut Settings) {
    let own = at.scope.all_of(&REQUIRE);
    let old = at.scope.all_of(&OLD);
    let inner = at.scope.levels.get(at.depth..).unwrap_or_default();
    if let Some(of) = inner.iter().copied().flatten().find(|of| OF_TLS.contains(&&*of.name)) {
        at.left(of, "Flash asks for TLS and its certificates in whole sites: nobody gets in here");
        return forbid(settings, of);
    }
    let Some(first) = own.first().or(old.first()).copied() else { return };
    if let Some(of) = merging(at) {
        at.left(of, "sections of Flash do not add up: nobody gets in until you write allow, deny or auth");
        return forbid(settings, of);
    }
    let satisfies_any = at.scope.word("satisfy").is_some_and(|word| word.eq_ignore_ascii_case("any"));
    let all = match (own.is_empty(), old.is_empty()) {
        (true, _) => order(&old),
        (false, true) => any(at, &own),
        (false, false) => any(at, &own).zip(order(&old)).and_then(|(own, old)| both(own, old)),
    };
    let all =
        all.map(|of| Required { is_any: of.is_any || satisfies_any && of.log_in && !old.is_empty(), ..of });
    match all {
        None => {
            at.left(first, "Flash has no such condition: nobody gets in until you write allow, deny or auth");
            forbid(settings, first);
        }
        Some(required) if required.is_denied && required.allow.is_empty() && !required.is_any => {
            forbid(settings, first);
        }
        Some(required) => {
            networks(&required, first, settings);
            if required.log_in {
                log_in(at, first, settings);
            }
            if required.is_any {
                set(settings, "satisfy", Value::Text("any".into()), Some(first));
            }
        }
    }
    if let Some(of) = at.scope.last("authbasicprovider").filter(|of| of.words != ["file"]) {
        at.left(of, "log-ins are those of a file: nobody gets in");
        forbid(settings, of);
    }
}

/// What has the section that counts add its rules to those of outer ones.
fn merging<'t>(at: &At<'_, 't>) -> Option<&'t Directive> {
    let is_rule = |of: &Directive| REQUIRE.contains(&&*of.name);
    let counts = |level: &&&[Directive]| level.iter().any(is_rule);
    let lines = at.scope.every("authmerging");
    let level = at.scope.levels.iter().rfind(counts)?;
    let is_off = |of: &Directive| of.words.concat().eq_ignore_ascii_case("off");
    lines.into_iter().find(|of| level.iter().any(|own| std::ptr::eq(own, *of)) && !is_off(of))
}

/// Both have to hold. `None` if no list of networks says that.
fn both(one: Required, other: Required) -> Option<Required> {
    let is_closed = |of: &Required| of.is_denied && of.allow.is_empty();
    if is_closed(&one) || is_closed(&other) {
        return Some(Required { is_denied: true, ..Required::default() });
    }
    if one.is_denied && other.is_denied || one.is_any || other.is_any {
        return None;
    }
    Some(Required {
        is_denied: one.is_denied || other.is_denied,
        allow: [one.allow, other.allow].concat(),
        deny: [one.deny, other.deny].concat(),
        log_in: one.log_in || other.log_in,
        is_any: false,
    })
}

fn networks(required: &Required, first: &Directive, settings: &mut Settings) {
    let Required { is_denied, allow, deny, .. } = required;
    let mut allow = allow.clone();
    if !deny.is_empty() {
        if !is_denied {
            allow.extend(EVERYBODY.map(Into::into));
        }
        set(settings, "deny", Value::Texts(deny.clone()), Some(first));
    }
    if !allow.is_empty() {
        set(settings, "allow", Value::Texts(allow), Some(first));
    }
}

/// `AuthType Basic` with its file.
fn log_in(at: &At<'_, '_>, first: &Directive, settings: &mut Settings) {
    let kind = at.scope.word("authtype").unwrap_or_default();
    let file = at.scope.last("authuserfile").and_then(|of| Some((of, of.words.first()?)));
    match file.filter(|_| kind.eq_ignore_ascii_case("basic")) {
        Some((of, path)) => {
            let path = if path.starts_with('/') { path.clone() } else { format!("/etc/apache2/{path}") };
            set(settings, "auth", Value::Text(path), Some(of));
            let why = "the hashes have to be bcrypt, argon2id or SHA-crypt (htpasswd -B), and the realm is the file's name";
            at.scope.differs(&of.source, why, Paths::None, Of::Everything);
        }
        None => {
            at.left(first, "log-ins are AuthType Basic with an AuthUserFile: nobody gets in");
            forbid(settings, first);
        }
    }
}

/// One of these is enough. `None` if Flash has no such rule.
fn any(at: &At<'_, '_>, rules: &[&Directive]) -> Option<Required> {
    let mut found: Option<Required> = None;
    for of in rules {
        let next = one(at, of)?;
        found = Some(match found {
            None => next,
            Some(before) if before.is_denied && before.allow.is_empty() => next,
            Some(before) if next.is_denied && next.allow.is_empty() => before,
            Some(before) if before == Required::default() => before,
            Some(_) if next == Required::default() => next,
            // What one of them refuses another may admit.
            Some(before) if !before.deny.is_empty() || !next.deny.is_empty() => return None,
            // Networks beside networks.
            Some(mut before) if before.is_denied && next.is_denied && !before.log_in && !next.log_in => {
                before.allow.extend(next.allow);
                before
            }
            Some(before) if before == next => before,
            // A network beside a log-in.
            Some(before)
                if is_network(&before) && is_log_in(&next) || is_log_in(&before) && is_network(&next) =>
            {
                let allow = [before.allow, next.allow].concat();
                Required { is_denied: true, allow, log_in: true, is_any: true, ..Required::default() }
            }
            Some(_) => return None,
        });
    }
    found
}

fn is_network(of: &Required) -> bool {
    of.is_denied && !of.allow.is_empty() && !of.log_in
}

fn is_log_in(of: &Required) -> bool {
    *of == Required { log_in: true, ..Required::default() }
}

fn one(at: &At<'_, '_>, of: &Directive) -> Option<Required> {
    at.scope.context.see(of);
    let inner: Vec<&Directive> = of.block.iter().flatten().collect();
    match &*of.name {
        "requireany" => any(at, &inner),
        "requireall" => all(at, &inner),
        "requirenone" => None,
        _ => require(&of.words),
    }
}

/// All of these have to hold.
fn all(at: &At<'_, '_>, rules: &[&Directive]) -> Option<Required> {
    let mut found = Required::default();
    for of in rules {
        at.scope.context.see(of);
        let next = match &of.words[..] {
            [not, kind, networks @ ..] if not == "not" && kind == "ip" => {
                found.deny.extend(networks.iter().map(|network| network_of(network)));
                continue;
            }
            _ => one(at, of)?,
        };
        if next.is_denied && found.is_denied {
            return None;
        }
        found.is_denied |= next.is_denied;
        found.allow.extend(next.allow);
        found.deny.extend(next.deny);
        found.log_in |= next.log_in;
        found.is_any |= next.is_any;
    }
    Some(found)
}

fn require(words: &[String]) -> Option<Required> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let denied = Required { is_denied: true, ..Required::default() };
    Some(match words[..] {
        ["all", "granted"] => Required::default(),
        ["all", "denied"] => denied,
        ["local"] => Required { allow: ["127.0.0.0/8", "::1"].map(Into::into).into(), ..denied },
        ["ip", ref networks @ ..] if !networks.is_empty() => {
            Required { allow: networks.iter().map(|network| network_of(network)).collect(), ..denied }
        }
        ["valid-user"] => Required { log_in: true, ..Required::default() },
        _ => return None,
    })
}

/// `Order`, `Allow from` and `Deny from`.
fn order(rules: &[&Directive]) -> Option<Required> {
    let networks = |name: &str| -> Option<Vec<String>> {
        let all = rules.iter().filter(|of| of.name == name);
        let words = all.flat_map(|of| of.words.iter().skip(1));
        words.map(|word| is_address(word).then(|| network_of(word))).collect()
    };
    let is_all = |name: &str| {
        let mut all = rules.iter().filter(|of| of.name == name);
        all.any(|of| of.words.iter().skip(1).any(|word| word.eq_ignore_ascii_case("all")))
    };
    let order = rules.iter().rfind(|of| of.name == "order").map(|of| of.words.join(",").to_ascii_lowercase());
    // What is said of all decides for those that no other line is about.
    let is_denied = match order.as_deref() {
        Some("allow,deny") => is_all("deny") || !is_all("allow"),
        None | Some("deny,allow") => is_all("deny") && !is_all("allow"),
        Some(_) => return None,
    };
    if is_denied && order.as_deref() == Some("allow,deny") && is_all("deny") {
        return Some(Required { is_denied, ..Required::default() });
    }
    let allow = if is_all("allow") { Vec::new() } else { networks("allow")? };
    let deny = if is_all("deny") { Vec::new() } else { networks("deny")? };
    // With `allow,deny` a refusal wins, and in Flash the longer network.
    if order.as_deref() == Some("allow,deny") && !deny.is_empty() && !allow.is_empty() {
        return None;
    }
    Some(Required {
        is_denied,
        allow: if is_denied { allow } else { Vec::new() },
        deny,
        ..Required::default()
    })
}

fn is_address(text: &str) -> bool {
    text.contains(['.', ':']) && text.bytes().all(|byte| byte.is_ascii_hexdigit() || b".:/".contains(&byte))
}

/// `10.1` is 10.1.0.0/16, and `10.0.0.0/255.0.0.0` is 10.0.0.0/8.
fn network_of(text: &str) -> String {
    let (address, mask) = text.split_once('/').map_or((text, None), |(address, mask)| (address, Some(mask)));
    let parts: Vec<&str> = address.split('.').filter(|part| !part.is_empty()).collect();
    if address.contains(':') || parts.len() > 4 {
        return text.into();
    }
    let whole = [&parts[..], &["0", "0", "0", "0"]].concat()[..4].join(".");
    let bits = match mask {
        Some(mask) => mask.parse::<std::net::Ipv4Addr>().ok().map(|mask| mask.to_bits().leading_ones()),
        None => Some(8 * parts.len() as u32).filter(|bits| *bits < 32),
    };
    match (bits, mask) {
        (Some(bits), _) => format!("{whole}/{bits}"),
        (None, Some(mask)) => format!("{whole}/{mask}"),
        (None, None) => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_the_form_of_flash() {
        for (text, expected) in [
            ("10.1", "10.1.0.0/16"),
            ("10.", "10.0.0.0/8"),
            ("192.0.2.7", "192.0.2.7"),
            ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("2001:db8::/32", "2001:db8::/32"),
        ] {
            assert_eq!(network_of(text), expected, "{text}");
        }
    }
}
