//! The table of keys, made of the flags of `flash serve`.

use std::any::TypeId;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ValueHint};
use flash_auth::SameSite;
use flash_config::{Key, Keys, Kind, Named, Stands, Validate};
use flash_core::clients::{ByteRate, Rate};
use flash_core::path::SitePath;
use flash_core::record::log_choice::Statuses;
use flash_core::site::hosts::HostName;
use flash_core::site::methods::Method;
use flash_core::site::network::Network;
use flash_core::site::path_rules::PathRule;
use flash_core::site::redirect::Redirect;
use flash_http::negotiate::CodingSet;
use flash_os::system_calls::Calls;

use super::directives;
use crate::flags::{
    self, AdminAt, Auth, CacheControl, Denial, ErrorLogTo, FastCgiParam, Field, FieldFile, FileType, Hsts,
    LinkForm, Listen, LogTo, NamedUpstream, ProxyField, ProxyTo, Respond, RouteFlag, Signed, Upstream, Words,
};

mod example;

/// The positional argument that the key `root` stands for.
const DIR: &str = "dir";
pub(super) const ROOT: &str = "root";
/// Keys that may stand in a site, too.
const IN_SITES: [&str; 12] = [
    "upstream",
    "user-dirs",
    "rate-total",
    "files",
    "cgi",
    "cgi-direct",
    "app",
    "tls",
    "client-ca",
    "client-certificate",
    "https",
    "hsts",
];
/// Keys that may stand in a site and in a place, too.
const IN_PLACES: [&str; 56] = [
    ROOT,
    "security-headers",
    "fallback-root",
    "field-rules",
    "list",
    "list-header",
    "list-footer",
    "index",
    "extensions",
    "spa",
    "fallback",
    "error-pages",
    "dotfiles",
    "deny",
    "allow",
    "auth",
    "satisfy",
    "signed",
    "limit",
    "rate",
    "follow-links",
    "cache-control",
    "etag",
    "digests",
    "types",
    "header",
    "no-precompressed",
    "compress",
    "compress-programs",
    "fastcgi",
    "fastcgi-param",
    "no-programs",
    "serve-backups",
    "body-bytes-max",
    "respond",
    "redirects",
    "redirect",
    "gone",
    "methods",
    "no-header",
    "access-log",
    "log-status",
    "request-id",
    "charset",
    "strip-prefix",
    "internal",
    "proxy",
    "balance",
    "proxy-host",
    "proxy-ca",
    "proxy-header",
    "stream-requests",
    "proxy-forwarded",
    "proxy-redirect",
    "proxy-cookies",
    "proxy-response-header",
];
/// Keys that make no difference to how names lead to files, and to the fields that are kept with a file. Sites and places that
/// differ in nothing else share what is cached.
const NOT_OF_FILES: [&str; 27] = [
    "fallback-root",
    "field-rules",
    "upstream",
    "files",
    "internal",
    "compress-programs",
    "access-log",
    "log-status",
    "request-id",
    "list",
    "spa",
    "fallback",
    "error-pages",
    "body-bytes-max",
    "respond",
    "redirects",
    "redirect",
    "gone",
    "methods",
    "allow",
    "limit",
    "rate",
    "rate-total",
    "tls",
    "client-ca",
    "client-certificate",
    "https",
];
/// Keys that are about the folder. A place with a folder of its own does not inherit them.
const OF_THE_FOLDER: [&str; 5] = ["fallback-root", "spa", "fallback", "strip-prefix", "proxy"];
/// Keys that keep requests away. A place of all sites takes none of them back that a site sets for the end of a name.
const GUARDS: [&str; 10] = [
    "allow",
    "deny",
    "auth",
    "satisfy",
    "signed",
    "methods",
    "limit",
    "field-rules",
    "internal",
    "no-programs",
];
/// Keys by which a site or a place answers without looking for anything. A place below it does not inherit them.
const ANSWERS: [&str; 2] = ["redirect", "gone"];
/// These answer everything, too, and a place below inherits them.
const ANSWERS_BELOW: [&str; 2] = ["proxy", "respond"];
/// Flags that are about the file itself, or that have a table of their own in the file.
const NO_KEYS: [&str; 4] = ["config", ACME, "tls_certificate", "tls_key"];
/// What requests are passed on to, and what its names stand for.
pub(super) const PROXY: &str = "proxy";
pub(super) const UPSTREAM: &str = "upstream";
/// A switch, or the certificates in place of two flags.
pub(super) const TLS: &str = "tls";
/// A value of it, and the flag that has the hosts of a certificate.
pub(super) const ACME: &str = "acme";

/// A key for each flag of `flash serve`, and `root` for DIR.
pub(crate) fn of_flags() -> Keys {
    let flash = flags::command();
    let serve = flash.find_subcommand("serve").expect("there is flash serve");
    let arguments = serve.get_arguments().filter(|arg| !NO_KEYS.contains(&arg.get_id().as_str()));
    let key = |arg: &Arg| {
        // Each conflict is declared at one of its two flags.
        let is_between = |one: &Arg, other: &Arg| {
            serve.get_arg_conflicts_with(one).into_iter().any(|with| with.get_id() == other.get_id())
        };
        let conflicts =
            serve.get_arguments().filter(|other| is_between(arg, other) || is_between(other, arg));
        key(arg, conflicts.map(name).collect())
    };
    Keys::new(arguments.map(key).collect(), |name| {
        directives::instead(name).or_else(|| flags::instead(&format!("--{name}")))
    })
}

fn key(arg: &Arg, conflicts: Vec<String>) -> Key {
    let kind = kind(arg).unwrap_or_else(|| panic!("the type of {} has no form in the file", arg.get_id()));
    let default = arg.get_default_values().first().and_then(|value| value.to_str()).map(str::to_owned);
    Key {
        name: name(arg),
        aliases: arg.get_visible_aliases().unwrap_or_default().into_iter().map(str::to_owned).collect(),
        is_list: matches!(arg.get_action(), ArgAction::Append),
        answers: is_answer(&name(arg)) || ANSWERS_BELOW.contains(&&*name(arg)),
        answers_below: ANSWERS_BELOW.contains(&&*name(arg)),
        stands: stands(&name(arg)),
        heading: arg.get_help_heading().unwrap_or("Content").into(),
        help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
        example: example::line(&name(arg), &kind, default.as_deref()),
        default: default.filter(|_| !matches!(kind, Kind::Switch | Kind::SwitchOr { .. })),
        conflicts,
        validate: validate(arg),
        kind,
    }
}

fn stands(key: &str) -> Stands {
    match key {
        _ if IN_PLACES.contains(&key) => Stands::Place,
        _ if IN_SITES.contains(&key) => Stands::Site,
        _ => Stands::Server,
    }
}

/// Whether a key makes a difference to how names lead to files.
pub(super) fn is_of_files(key: &str) -> bool {
    !NOT_OF_FILES.contains(&key)
}

/// Whether a key is about the folder that is served.
pub(super) fn is_of_folder(key: &str) -> bool {
    OF_THE_FOLDER.contains(&key)
}

/// Whether a key keeps requests away.
pub(super) fn is_guard(key: &str) -> bool {
    GUARDS.contains(&key)
}

/// Whether a site or a place with this key answers without looking for anything.
pub(super) fn is_answer(key: &str) -> bool {
    ANSWERS.contains(&key)
}

fn name(arg: &Arg) -> String {
    match arg.get_id().as_str() {
        DIR => ROOT.into(),
        _ => arg.get_long().unwrap_or_default().into(),
    }
}

/// clap's name for a key.
pub(super) fn id(key: &str) -> String {
    if key == ROOT { DIR.into() } else { key.replace('-', "_") }
}

/// The form that the type of a flag's value has in the file.
fn kind(arg: &Arg) -> Option<Kind> {
    let is = |types: &[TypeId]| types.iter().any(|of| arg.get_value_parser().type_id() == *of);
    let table = |separator, value, is_list| Kind::Table { separator, value: Box::new(value), is_list };
    let choices: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    Some(match arg.get_action() {
        ArgAction::SetTrue if arg.get_id() == TLS => {
            Kind::SwitchOr { words: vec![ACME.into()], names: vec!["certificate".into(), "key".into()] }
        }
        ArgAction::SetTrue => Kind::Switch,
        _ if !choices.is_empty() => Kind::Choice(choices),
        _ if is(&[TypeId::of::<u8>(), TypeId::of::<u16>(), TypeId::of::<usize>()]) => Kind::Number,
        _ if is(&[TypeId::of::<u64>()]) => Kind::Bytes,
        _ if is(&[TypeId::of::<Duration>()]) => Kind::Duration,
        _ if is(&[TypeId::of::<PathBuf>()]) && arg.get_value_hint() == ValueHint::DirPath => Kind::Folder,
        _ if is(&[TypeId::of::<PathBuf>()]) => Kind::File,
        _ if is(&[TypeId::of::<Redirect>()]) => Kind::Redirect,
        _ if is(&[TypeId::of::<LogTo>()]) => Kind::Log,
        _ if is(&[TypeId::of::<ErrorLogTo>()]) => Kind::ErrorLog,
        _ if is(&[TypeId::of::<Auth>()]) => Kind::FileOrOff,
        _ if is(&[TypeId::of::<Signed>()]) => Kind::Names(signed()),
        _ if is(&[TypeId::of::<NamedUpstream>()]) => Kind::Tables(upstream()),
        _ if is(&[TypeId::of::<Respond>()]) => Kind::Names(respond()),
        _ if is(&[TypeId::of::<Listen>(), TypeId::of::<AdminAt>(), TypeId::of::<SocketAddr>()]) => {
            Kind::Address
        }
        _ if is(&[TypeId::of::<RouteFlag<PathBuf>>()]) => table("=", Kind::Folder, false),
        _ if is(&[TypeId::of::<RouteFlag<Upstream>>()]) => table("=", Kind::Address, false),
        _ if is(&[TypeId::of::<RouteFlag<Words>>()]) => table("=", Kind::Text, false),
        _ if is(&[TypeId::of::<Field>()]) => table(": ", Kind::Text, true),
        _ if is(&[TypeId::of::<ProxyField>()]) => table(": ", Kind::Text, false),
        _ if is(&[TypeId::of::<FieldFile>()]) => table("=", Kind::FileOrLines, false),
        _ if is(&[TypeId::of::<FastCgiParam>()]) => table("=", Kind::Text, false),
        _ if is(&[TypeId::of::<FileType>()]) => table("=", Kind::Text, false),
        _ if is(&[
            TypeId::of::<String>(),
            TypeId::of::<IpAddr>(),
            TypeId::of::<SitePath<'static>>(),
            TypeId::of::<PathRule>(),
            TypeId::of::<Denial>(),
            TypeId::of::<Rate>(),
            TypeId::of::<ProxyTo>(),
            TypeId::of::<ByteRate>(),
            TypeId::of::<Network>(),
            TypeId::of::<HostName>(),
            TypeId::of::<CacheControl>(),
            TypeId::of::<Method>(),
            TypeId::of::<CodingSet>(),
            TypeId::of::<Calls>(),
            TypeId::of::<Hsts>(),
            TypeId::of::<Statuses>(),
        ]) =>
        {
            Kind::Text
        }
        _ => return None,
    })
}

/// What a table in place of `--signed` has.
fn signed() -> Vec<Named> {
    let forms = LinkForm::NAMES.map(|(name, _)| name.to_owned());
    let named = |name, kind, is_list| Named { name, kind, is_list };
    vec![
        named(Signed::KEY, Kind::SecretFile, true),
        named(Signed::FORM, Kind::Choice(forms.into()), false),
        named(Signed::MD5, Kind::Text, false),
        named(Signed::LINK, Kind::Text, false),
    ]
}

/// What an upstream has.
fn upstream() -> Vec<Named> {
    let named = |name, kind| Named { name, kind, is_list: false };
    let server = vec![
        named(NamedUpstream::WEIGHT, Kind::Number),
        named(NamedUpstream::BACKUP, Kind::Switch),
        named(NamedUpstream::REQUESTS_MAX, Kind::Number),
    ];
    let check = vec![named(NamedUpstream::PATH, Kind::Text), named(NamedUpstream::EVERY, Kind::Duration)];
    let on_or_off = || Kind::Choice(["on", "off"].map(Into::into).into());
    let same_site = SameSite::NAMES.map(|(name, _)| name.to_owned());
    let sticky = vec![
        named(NamedUpstream::COOKIE, Kind::Text),
        named(NamedUpstream::KEY, Kind::SecretFile),
        named(NamedUpstream::LIFE, Kind::Duration),
        named(NamedUpstream::SECURE, on_or_off()),
        named(NamedUpstream::HTTP_ONLY, on_or_off()),
        named(NamedUpstream::SAME_SITE, Kind::Choice(same_site.into())),
    ];
    vec![
        named(NamedUpstream::SERVERS, Kind::Tables(server)),
        named(NamedUpstream::BALANCE, Kind::Text),
        named(NamedUpstream::HASH, Kind::Text),
        named(NamedUpstream::STICKY, Kind::Names(sticky)),
        named(NamedUpstream::CONNECT, Kind::Duration),
        named(NamedUpstream::FIRST_BYTE, Kind::Duration),
        named(NamedUpstream::IDLE, Kind::Duration),
        named(NamedUpstream::CHECK, Kind::Names(check)),
        named(NamedUpstream::SLOW_START, Kind::Duration),
        named(NamedUpstream::QUEUE_MAX, Kind::Number),
        named(NamedUpstream::QUEUE_WAIT, Kind::Duration),
    ]
}

/// The same of `--respond`.
fn respond() -> Vec<Named> {
    let named = |name, kind, is_list| Named { name, kind, is_list };
    vec![
        named(Respond::STATUS, Kind::Number, false),
        named(Respond::BODY, Kind::Text, false),
        named(Respond::TYPE, Kind::Text, false),
        named(Respond::RETRY_AFTER, Kind::Duration, false),
        named(Respond::EXCEPT, Kind::Text, true),
    ]
}

/// The flag's own parser, on one value.
fn validate(arg: &Arg) -> Validate {
    let value = Arg::new("value").value_parser(arg.get_value_parser().clone()).allow_hyphen_values(true);
    let command = clap::Command::new("value").no_binary_name(true).arg(value);
    Box::new(move |text| match command.clone().try_get_matches_from([text]) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.source().map_or_else(|| flash_cli::one_line(&error), ToString::to_string)),
    })
}
