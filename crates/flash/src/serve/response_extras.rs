//! What the operator adds to responses: fields for all of them, and pages for errors.

use flash_core::header::HeaderTemplate;
use flash_core::page::Pages;

use crate::failure::{Failure, cannot};
use crate::flags;

/// Fields that say more when there are several of them. A program's own are sent, too.
const ADDED: [&str; 3] = ["Link", "Set-Cookie", "Vary"];

pub(super) fn template(flags: &flags::Serve) -> HeaderTemplate {
    let is_private = flags.rules.users().is_some();
    let line = |field: &flags::Field| {
        let is_for_caches = field.name.eq_ignore_ascii_case("cache-control");
        let value = if is_private && is_for_caches { private(&field.value) } else { field.value.clone() };
        format!("{}: {value}\r\n", field.name).into_bytes()
    };
    let is_left_out = |name: &str| flags.rules.no_header.iter().any(|other| other.eq_ignore_ascii_case(name));
    let set = || flags.header.iter().filter(|field| !is_left_out(&field.name));
    let replaces = |name: &&str| !ADDED.iter().any(|added| name.eq_ignore_ascii_case(added));
    let replaced = set().map(|field| &*field.name).filter(replaces);
    let replaced = replaced.chain(flags.rules.no_header.iter().map(String::as_str));
    // A client without TLS ignores it (RFC 6797 §8.1), and gets nothing but redirections.
    let hsts =
        |time: std::time::Duration| format!("Strict-Transport-Security: max-age={}\r\n", time.as_secs());
    let hsts = flags.tls.hsts.map(hsts).unwrap_or_default().into_bytes();
    HeaderTemplate {
        fields: set().flat_map(line).chain(hsts).collect(),
        replaced: replaced.map(|name| name.to_ascii_lowercase().into_bytes().into()).collect(),
        charset: flags.rules.other_charset().map(Into::into),
        cache_control: if is_private { private_rules(flags) } else { flags.cache_rules() },
        padding: flags.experiments.header_padding == flags::Switch::On,
        uncached: flags.experiments.header_cache == flags::Switch::Off,
    }
}

/// Only the client itself may keep what needs a log-in (RFC 9111 §3.5).
fn private_rules(flags: &flags::Serve) -> Vec<flags::CacheControl> {
    let mut rules = flags.cache_rules();
    if rules.iter().all(|(rule, _)| rule.is_some()) {
        rules.push((None, Vec::new()));
    }
    let value = |value: &[u8]| private(&String::from_utf8_lossy(value)).into_bytes();
    rules.into_iter().map(|(rule, of_rule)| (rule, value(&of_rule))).collect()
}

/// The value without what would let shared caches keep a response.
fn private(value: &str) -> String {
    let name = |directive: &str| directive.split('=').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_left = |directive: &&str| {
        !matches!(&*name(directive), "" | "public" | "private" | "s-maxage" | "proxy-revalidate")
    };
    let left = value.split(',').map(str::trim).filter(is_left);
    ["private"].into_iter().chain(left).collect::<Vec<_>>().join(", ")
}

pub(super) fn pages(flags: &flags::Serve) -> Result<Pages, Failure> {
    let Some(folder) = &flags.error_pages else { return Ok(Pages::default()) };
    let own = flash_disk::error_pages(folder)
        .map_err(|error| cannot(format_args!("read error pages from {}", folder.display()), &error))?;
    Ok(Pages::new(own))
}

/// Whether the operator's fields fit into a response's head.
pub(super) fn check_fields(flags: &flags::Serve) -> Result<(), Failure> {
    let (bytes, most) = (template(flags).bytes(), HeaderTemplate::BYTES_MAX);
    let what = "bytes of --header and --cache-control for every response";
    match bytes > most {
        true => Err(Failure::Usage(format!("{bytes} {what}: {most} are the most (see flash serve --help)"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_caches_may_not_keep_what_needs_a_log_in() {
        for (value, expected) in [
            ("", "private"),
            ("public", "private"),
            ("max-age=60, PUBLIC ,s-maxage=5", "private, max-age=60"),
            ("no-store", "private, no-store"),
            ("private, must-revalidate", "private, must-revalidate"),
        ] {
            assert_eq!(private(value), expected, "{value}");
        }
    }
}
