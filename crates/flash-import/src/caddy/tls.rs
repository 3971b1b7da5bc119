//! The certificates of a site, and those that its clients show.

use std::net::IpAddr;

use crate::directive::Directive;
use crate::flash::{Settings, Value, set};
use crate::hosts::Block;
use crate::note::Paths;
use crate::scope::Scope;

/// Lines below `tls` that keep nobody out.
const OPENS_NOTHING: [&str; 18] = [
    "protocols",
    "ciphers",
    "curves",
    "alpn",
    "load",
    "ca",
    "ca_root",
    "key_type",
    "dns",
    "dns_ttl",
    "dns_challenge_override_domain",
    "propagation_delay",
    "propagation_timeout",
    "resolvers",
    "eab",
    "on_demand",
    "issuer",
    "get_certificate",
];

/// `tls`, or what Caddy does without it, beside what [`clients`] have to show.
pub(super) fn settings(
    scope: &Scope<'_>,
    block: &Block<'_>,
    has_acme: bool,
    mut settings: Settings,
) -> Settings {
    // No authority issues certificates for these by itself.
    let is_local = |name: &String| {
        name == "localhost"
            || name.ends_with(".localhost")
            || name.ends_with(".local")
            || name.ends_with(".internal")
            || name.ends_with(".home.arpa")
            || name.parse::<IpAddr>().is_ok()
    };
    let of = scope.last("tls");
    let words: Vec<&str> = of.iter().flat_map(|of| of.words.iter().map(String::as_str)).collect();
    let value = match words[..] {
        [certificate, key] => Value::Named(vec![
            ("certificate", Value::Text(certificate.into())),
            ("key", Value::Text(key.into())),
        ]),
        ["internal"] => Value::Flag(true),
        [] if block.names.iter().any(is_local) => Value::Flag(true),
        _ if has_acme && !block.names.is_empty() => Value::Text("acme".into()),
        _ => return settings,
    };
    set(&mut settings, "tls", value, of);
    if let Some(of) = of
        && words.len() == 1
        && words[0].contains('@')
    {
        scope.left(of, format!("write acme-email = \"{}\" above the sites", words[0]), Paths::None);
    }
    for line in of.iter().flat_map(|of| of.block.iter().flatten()) {
        if OPENS_NOTHING.contains(&&*line.name) {
            scope.see_all(line);
            let why = "certificates have their settings above the sites (acme-…), and Flash's own versions and ciphers";
            scope.left(line, why, Paths::None);
        }
    }
    settings
}

/// The line that has even sites without names speak TLS: one with a certificate or settings.
pub(super) fn policy(block: &[Directive]) -> Option<&Directive> {
    let has_policy =
        |of: &&Directive| of.words.len() == 2 || of.block.as_ref().is_some_and(|block| !block.is_empty());
    block.iter().filter(|of| of.name == "tls").find(has_policy)
}

/// What clients have to show, or the line that Flash does not follow, which may keep some of them out, and why.
pub(super) fn clients<'t>(scope: &Scope<'t>) -> Result<Settings, (&'t Directive, &'static str)> {
    let mut settings = Settings::new();
    for of in scope.all("tls") {
        for line in of.block.iter().flatten().filter(|line| !OPENS_NOTHING.contains(&&*line.name)) {
            match &*line.name {
                "client_auth" if settings.is_empty() => settings = client_auth(scope, line)?,
                _ => return Err((line, "Flash has nothing like it")),
            }
        }
    }
    Ok(settings)
}

fn client_auth<'t>(scope: &Scope<'t>, of: &'t Directive) -> Result<Settings, (&'t Directive, &'static str)> {
    let one_file = "write client-ca = \"FILE\", with all authorities in one file of PEM";
    let mut settings = Settings::new();
    set(&mut settings, "client-certificate", Value::Text("required".into()), Some(of));
    scope.see_all(of);
    for line in of.block.iter().flatten() {
        let file = match (&*line.name, &line.words[..], line.block.as_deref()) {
            ("mode", [mode], None) => {
                let how = match &**mode {
                    "require_and_verify" => "required",
                    "verify_if_given" => "asked",
                    _ => return Err((line, "Flash verifies the certificates of clients")),
                };
                set(&mut settings, "client-certificate", Value::Text(how.into()), Some(line));
                continue;
            }
            ("trusted_ca_cert_file", [file], None) => file,
            ("trust_pool", [kind, file], None) if kind == "file" => file,
            ("trust_pool", [kind], Some([only]))
                if kind == "file" && only.name == "pem_file" && only.words.len() == 1 =>
            {
                &only.words[0]
            }
            _ => return Err((line, one_file)),
        };
        if file.contains('{') || settings.contains_key("client-ca") {
            return Err((line, one_file));
        }
        set(&mut settings, "client-ca", Value::Text(file.clone()), Some(line));
    }
    if !settings.contains_key("client-ca") {
        return Err((of, one_file));
    }
    Ok(settings)
}
