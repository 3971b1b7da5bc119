//! Who gets what, and how much of it: networks, log-ins, signed links, limits, methods.

use std::net::IpAddr;

use crate::directive::Directive;
use crate::flash::{EVERYBODY, Settings, Value, forbid, set};
use crate::note::{Of, Paths};
use crate::scope::Scope;

/// Returns whether something that keeps clients out is not taken: then nobody may come in.
pub(super) fn settings(scope: &Scope<'_>, concerns: &Paths, settings: &mut Settings) -> bool {
    networks(scope, concerns, settings);
    let is_left = [log_ins(scope, concerns, settings), signed(scope, concerns, settings)];
    limits(scope, concerns, settings);
    rates(scope, settings);
    methods(scope, concerns, settings);
    is_left.contains(&true)
}

/// A network, as the bits of its address and how many of them count.
type Network = (u128, u8);

/// The first line that covers a client decides in nginx, and the longest network in Flash.
fn networks(scope: &Scope<'_>, concerns: &Paths, settings: &mut Settings) {
    let own = scope.all_of(&["allow", "deny"]);
    let Some(first) = own.first() else { return };
    let mut known: Vec<(Network, bool)> = Vec::new();
    let (mut allow, mut deny, mut is_closed) = (Vec::new(), Vec::new(), false);
    for of in &own {
        let is_allowed = of.name == "allow";
        let word = of.words.first().map_or("", String::as_str);
        if word == "all" {
            is_closed = !is_allowed;
            break;
        }
        if word == "unix:" {
            if is_allowed {
                allow.push("unix".to_owned())
            }
            continue;
        }
        let Some(network) = network(word) else {
            scope.left(of, "this is not a network", concerns.clone());
            continue;
        };
        let is_before = known.iter().any(|((bits, length), before)| {
            *before != is_allowed && *length <= network.1 && masked(network.0, *length) == *bits
        });
        if is_before {
            scope.differs(
                &of.source,
                "the longest network that has an address decides, and not the first line",
                concerns.clone(),
                Of::Everything,
            );
        }
        known.push((network, is_allowed));
        if is_allowed { allow.push(word.into()) } else { deny.push(word.into()) }
    }
    if let Some(of) =
        scope.last("satisfy").filter(|of| of.words == ["any"] && scope.last("auth_basic").is_some())
    {
        set(settings, "satisfy", Value::Text("any".into()), Some(of));
    }
    match (is_closed, allow.is_empty()) {
        (true, true) => forbid(settings, first),
        (true, false) => set(settings, "allow", Value::Texts(allow), Some(first)),
        (false, true) => {}
        // The others are allowed, too.
        (false, false) if !deny.is_empty() => {
            allow.extend(EVERYBODY.into_iter().chain(["unix"]).map(Into::into));
            set(settings, "allow", Value::Texts(allow), Some(first));
        }
        (false, false) => {}
    }
    if !deny.is_empty() {
        set(settings, "deny", Value::Texts(deny), Some(first));
    }
}

fn network(text: &str) -> Option<Network> {
    let (address, length) =
        text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let (bits, all, most) = match address.parse().ok()? {
        IpAddr::V4(address) => (address.to_ipv6_mapped().to_bits(), 32, 96),
        IpAddr::V6(address) => (address.to_bits(), 128, 0),
    };
    let length: u8 =
        length.map_or(Some(all), |length| length.parse().ok().filter(|length| *length <= all))?;
    Some((masked(bits, length + most), length + most))
}

fn masked(bits: u128, length: u8) -> u128 {
    bits & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

/// Returns whether a log-in is not taken.
fn log_ins(scope: &Scope<'_>, concerns: &Paths, settings: &mut Settings) -> bool {
    let mut is_left = false;
    let file = scope.last("auth_basic_user_file");
    match (scope.last("auth_basic"), file.and_then(|of| of.words.first())) {
        (Some(realm), Some(path)) if realm.words.first().is_some_and(|word| word != "off") => {
            let path = if path.starts_with('/') { path.clone() } else { format!("/etc/nginx/{path}") };
            set(settings, "auth", Value::Text(path), Some(realm));
            scope.differs(
                &realm.source,
                "the hashes have to be bcrypt, argon2id or SHA-crypt (htpasswd -B), and the realm is the file's name",
                Paths::None,
                Of::Everything,
            );
        }
        (Some(realm), None) if realm.words.first().is_some_and(|word| word != "off") => {
            scope.left(realm, "there is no auth_basic_user_file", concerns.clone());
            is_left = true;
        }
        _ => {}
    }
    if let Some(of) = scope.last("auth_request").filter(|of| of.words != ["off"]) {
        scope.left(of, "Flash asks no other server: let the program decide", concerns.clone());
        is_left = true;
    }
    is_left
}

/// `secure_link` with `secure_link_md5`, and the `if` that goes with them. Returns whether they are not taken.
fn signed(scope: &Scope<'_>, concerns: &Paths, settings: &mut Settings) -> bool {
    let (Some(link), Some(md5)) = (scope.last("secure_link"), scope.last("secure_link_md5")) else {
        return false;
    };
    let (arguments, expression) = (link.words.join(""), md5.words.first().map_or("", String::as_str));
    // The secret is the text without variables.
    let secret = expression.rsplit(' ').next().unwrap_or_default();
    if secret.is_empty() || secret.contains('$') {
        scope.left(md5, "Flash needs the secret behind a space at the end: write signed = { form = \"nginx\", … } by hand", concerns.clone());
        return true;
    }
    let expression = format!("{}$secret", &expression[..expression.len() - secret.len()]);
    let file = "/etc/flash/links.key";
    let mut named = vec![
        ("form", Value::Text("nginx".into())),
        ("md5", Value::Text(expression)),
        ("key", Value::Named(vec![("file", Value::Text(file.into()))])),
    ];
    if arguments != "$arg_md5,$arg_expires" {
        named.push(("link", Value::Text(arguments)));
    }
    set(settings, "signed", Value::Named(named), Some(link));
    scope.differs(
        &md5.source,
        format!("write the secret, the last word of this line, into {file}, for root alone"),
        Paths::None,
        Of::Everything,
    );
    false
}

fn limits(scope: &Scope<'_>, concerns: &Paths, settings: &mut Settings) {
    let zones = scope.all("limit_req_zone");
    for of in scope.all("limit_req") {
        let named = |name: &str| of.words.iter().find_map(|word| word.strip_prefix(name));
        let zone = zones.iter().find(|zone| {
            zone.words.iter().any(|word| {
                word.strip_prefix("zone=").is_some_and(|word| word.split(':').next() == named("zone="))
            })
        });
        let by_client = |zone: &Directive| {
            zone.words.first().is_some_and(|key| key == "$binary_remote_addr" || key == "$remote_addr")
        };
        let Some(zone) = zone.filter(|zone| by_client(zone)) else {
            scope.left(
                of,
                "Flash counts the requests of a client, and of nothing else: write limit",
                concerns.clone(),
            );
            continue;
        };
        let rate = zone.words.iter().find_map(|word| word.strip_prefix("rate=")).unwrap_or("1r/s");
        let rate = rate.replace("r/", "/");
        // One more than waits.
        let burst = named("burst=").and_then(|burst| burst.parse::<u64>().ok()).unwrap_or(0) + 1;
        set(settings, "limit", Value::Text(format!("{rate} burst {burst}")), Some(of));
        let status = scope.word("limit_req_status").unwrap_or("503");
        if status != "429" {
            scope.differs(
                &of.source,
                format!("429 takes the place of {status}, and nothing is delayed"),
                concerns.clone(),
                Of::Everything,
            );
        }
    }
    _ = (scope.last("limit_req_log_level"), scope.last("limit_req_dry_run"), scope.last("limit_req_status"));
    for of in scope.all("limit_conn") {
        scope.left(
            of,
            "connections-per-client holds for the whole server: write it above the sites",
            Paths::None,
        );
    }
    _ = (scope.all("limit_conn_zone"), scope.last("limit_conn_status"), scope.last("limit_conn_log_level"));
}

fn rates(scope: &Scope<'_>, settings: &mut Settings) {
    let Some(rate) = scope.last("limit_rate") else { return };
    let upper = |word: &str| word.to_ascii_uppercase();
    let Some(each) = rate.words.first().filter(|word| !word.contains('$') && *word != "0") else { return };
    let after = scope.word("limit_rate_after").map(upper).filter(|after| after != "0");
    let burst = after.map(|after| format!(" burst {after}")).unwrap_or_default();
    set(settings, "rate", Value::Text(format!("{}/s{burst}", upper(each))), Some(rate));
    scope.differs(
        &rate.source,
        "the rate is a client's, over all its connections",
        Paths::None,
        Of::Everything,
    );
}

fn methods(scope: &Scope<'_>, concerns: &Paths, settings: &mut Settings) {
    for of in scope.own("limit_except") {
        let block = of.block.as_deref().unwrap_or_default();
        block.iter().for_each(|of| scope.context.see(of));
        match block {
            [deny] if deny.name == "deny" && deny.words == ["all"] => {
                set(settings, "methods", Value::Texts(of.words.clone()), Some(of));
                scope.differs(&of.source, "405 takes the place of 403", concerns.clone(), Of::Status);
            }
            _ => scope.left(of, "Flash has no rules for some methods alone", concerns.clone()),
        }
    }
}
