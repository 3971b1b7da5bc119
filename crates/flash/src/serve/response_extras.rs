//! What the operator adds to responses: fields for all of them, and pages for errors.

use flash_core::file::header::HeaderTemplate;
use flash_core::site::media_types::MediaTypes;
use flash_core::site::page::Pages;
use flash_http::negotiate::Coding;

use crate::failure::{Failure, cannot};
use crate::flags::{self, CONTENT_ENCODING, CONTENT_TYPE};

/// Fields that say more when there are several of them. A program's own are sent, too.
const ADDED: [&str; 3] = ["Link", "Set-Cookie", "Vary"];

/// What `--security-headers` sets: no guessing of types, no path of a page for other sites, no frames of other sites, and no camera, microphone
/// or place of the user.
const SECURITY: [(&str, &str); 4] = [
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "strict-origin-when-cross-origin"),
    ("X-Frame-Options", "SAMEORIGIN"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
];

const HSTS: &str = "Strict-Transport-Security";

pub(super) fn template(flags: &flags::Serve) -> HeaderTemplate {
    let line = |field: &flags::Field| format!("{}: {}\r\n", field.name, field.value).into_bytes();
    let is_left_out = |name: &str| flags.rules.no_header.iter().any(|other| other.eq_ignore_ascii_case(name));
    let set = || flags.header.iter().filter(|field| !field.is_of_files() && !is_left_out(&field.name));
    let replaces = |name: &&str| !ADDED.iter().any(|added| name.eq_ignore_ascii_case(added));
    let replaced = set().map(|field| &*field.name).filter(replaces);
    let replaced = replaced.chain(flags.rules.no_header.iter().map(String::as_str));
    // A client without TLS ignores it (RFC 6797 §8.1), and gets nothing but redirections.
    let hsts = flags.tls.hsts.map(|hsts| format!("{HSTS}: {hsts}\r\n")).unwrap_or_default().into_bytes();
    let replaced = replaced.chain(flags.tls.hsts.map(|_| HSTS));
    let is_set = |name: &str| set().any(|field| field.name.eq_ignore_ascii_case(name)) || is_left_out(name);
    let security = SECURITY.iter().filter(|(name, _)| flags.rules.security_headers && !is_set(name));
    let of_security = security.clone().flat_map(|(name, value)| format!("{name}: {value}\r\n").into_bytes());
    let template = HeaderTemplate {
        fields: set().flat_map(line).chain(hsts).chain(of_security).collect(),
        yielding: security.map(|(name, _)| name.as_bytes().into()).collect(),
        replaced: replaced.map(|name| name.to_ascii_lowercase().into_bytes().into()).collect(),
        content_type: None,
        charset: flags.rules.other_charset().map(Into::into),
        cache_control: flags.cache_rules(),
        experiments: flags.experiments.settings(),
    };
    if flags.rules.are_private() { template.private() } else { template }
}

/// The types of files, and the coding that they are in.
pub(super) fn media_types(flags: &flags::Serve) -> MediaTypes {
    let set = |name: &str| flags.header.iter().find(|field| field.name.eq_ignore_ascii_case(name));
    let [of_all, coding] = [CONTENT_TYPE, CONTENT_ENCODING].map(|name| Some(&*set(name)?.value));
    let types = flags.types.iter().map(|(rule, of)| (rule.clone(), of.0.clone()));
    MediaTypes::new(types, of_all, coding.and_then(Coding::of_name))
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
    if flags.tls.hsts.is_some() && flags.header.iter().any(|field| field.name.eq_ignore_ascii_case(HSTS)) {
        return Err(Failure::Usage(format!("hsts sets {HSTS}: leave it out of header, or leave hsts out")));
    }
    let what = "bytes of --header and --cache-control for every response";
    match bytes > most {
        true => Err(Failure::Usage(format!("{bytes} {what}: {most} are the most (see flash serve --help)"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Command, Flags};

    fn fields(more: &[&str]) -> String {
        let words = ["flash", "serve", "/"].iter().chain(more).map(Into::into);
        match Flags::read(words).map(|flags| flags.command) {
            Ok(Some(Command::Serve(flags))) => String::from_utf8(template(&flags).fields).unwrap(),
            _ => panic!("{more:?}"),
        }
    }

    #[test]
    fn security_headers_are_off_by_default_and_each_may_be_replaced_or_left_out() {
        assert_eq!(fields(&[]), "");
        let all = fields(&["--security-headers"]);
        for (name, value) in SECURITY {
            assert_eq!(all.matches(&format!("{name}: {value}\r\n")).count(), 1, "{all}");
        }
        let more =
            ["--security-headers", "--header", "x-frame-options: DENY", "--no-header", "Referrer-Policy"];
        let some = fields(&more);
        assert!(some.contains("x-frame-options: DENY\r\n") && !some.contains("SAMEORIGIN"), "{some}");
        assert!(some.contains("nosniff") && !some.contains("Referrer-Policy"), "{some}");
    }
}
