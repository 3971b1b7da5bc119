//! The flags for rules: what a request gets instead of a file, and how it is changed. In the configuration file they stand in
//! sites and places, too.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};
use flash_core::path::SitePath;
use flash_core::record::log_choice::Statuses;
use flash_core::site::methods::{Method, Methods};
use flash_core::site::redirect::Redirect;

use super::{Auth, FieldFile, Respond, Signed, field, name};

const HEADING: &str = "Rules";

/// Which of networks and log-ins a client needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Satisfy {
    All,
    Any,
}

#[derive(Debug, Args)]
pub(crate) struct Rules {
    /// Look in FILE for words that a request has in this field, such as the names of crawlers in User-Agent. A line of it is a word, whose
    /// requests get 403, or a word and a limit, as in 'Bytespider 10/m', which all of them have together. May be given repeatedly
    #[arg(long, value_name = "FIELD=FILE", value_parser = FieldFile::parse, help_heading = HEADING)]
    pub field_rules: Vec<FieldFile>,

    /// Redirect every request to TO, with 308: a path such as /new, or a URL such as https://example.org{path}. {path} is the
    /// request's path, {rest} what follows the prefix of its place, {host} its host without the port. The query is kept, unless TO
    /// ends in ?. Another status stands before TO, as in '301 /new'
    #[arg(long, value_name = "[STATUS ]TO", value_parser = Redirect::parse, help_heading = HEADING)]
    pub redirect: Option<Redirect>,

    /// Answer every request with this, in place of files and programs: status=503 (200 without it), body=TEXT (without it, the page of
    /// an error), type=TYPE of the body, retry-after=TIME, and except=NETWORK for clients who get what is there. In a place, off takes
    /// it back. May be given repeatedly
    #[arg(long, value_name = "NAME=VALUE|off", value_parser = Respond::from_str, help_heading = HEADING)]
    pub respond: Vec<Respond>,

    /// Redirect the paths that FILE lists, before all else. A line has the old path, perhaps with its query, the new path or URL, and
    /// perhaps a status in place of 301. Tables of nginx's map and Apache's RewriteMap are read, too. A reload reads the file again
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = HEADING)]
    pub redirects: Option<PathBuf>,

    /// Answer every request with 410
    #[arg(long, conflicts_with = "redirect", help_heading = HEADING)]
    pub gone: bool,

    /// Answer these methods only, such as GET. GET includes HEAD. Others get 405. May be given repeatedly
    #[arg(long, value_name = "METHOD", value_parser = Methods::parse, help_heading = HEADING)]
    pub methods: Vec<Method>,

    /// Answer only clients that log in with a name and password of this file, and 401 to others (HTTP Basic). htpasswd -B writes
    /// such files. Hashes are bcrypt, argon2id or SHA-crypt ($5$, $6$). In a place, off asks for no log-in although its site does. A
    /// reload reads the file again. Use it with TLS: clients send the password with each request
    #[arg(long, value_name = "FILE|off", value_hint = ValueHint::FilePath,
        value_parser = OsStringValueParser::new().map(Auth::from), help_heading = HEADING)]
    pub auth: Option<Auth>,

    /// Whether clients need both, an allowed network and a log-in, or any of the two. With any, clients of other networks log in
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Satisfy::All, help_heading = HEADING)]
    pub satisfy: Satisfy,

    /// Answer only signed links: 403 without a right signature, and 410 once it has expired. key=FILE names the file of a key. Links by
    /// each of several are right, and flash sign makes them with the first. With form=nginx, links have the hash of secure_link:
    /// md5=EXPRESSION is its secure_link_md5 with $secret for the secret, and link=ARGUMENTS its secure_link if that is not
    /// $arg_md5,$arg_expires. In a place, off answers every link although its site does not. A reload reads the keys again. May be
    /// given repeatedly
    #[arg(long, value_name = "NAME=VALUE|off", value_parser = Signed::from_str, help_heading = HEADING)]
    pub signed: Vec<Signed>,

    /// Tell clients and programs the id of each request, in X-Request-Id. One that a trusted proxy has sent is kept
    #[arg(long, help_heading = HEADING)]
    pub request_id: bool,

    /// Write lines of the access log only for responses with this status, such as 404, or with one of a class, such as 5xx. May be
    /// given repeatedly
    #[arg(long, value_name = "STATUS", value_parser = Statuses::from_str, help_heading = HEADING)]
    pub log_status: Vec<Statuses>,

    /// Send X-Content-Type-Options: nosniff, Referrer-Policy: strict-origin-when-cross-origin, X-Frame-Options: SAMEORIGIN, and a
    /// Permissions-Policy without camera, geolocation and microphone. One that --header or a program sets takes the place of Flash's, and
    /// --no-header leaves one out
    #[arg(long, help_heading = HEADING)]
    pub security_headers: bool,

    /// Leave this field out of every response, be it one of --header or a program's. May be given repeatedly
    #[arg(long, value_name = "NAME", value_parser = field::parse_name, help_heading = HEADING)]
    pub no_header: Vec<String>,

    /// The charset of text: utf-8, another one, or off for none
    #[arg(long, value_name = "NAME", value_parser = parse_charset, default_value = UTF_8, help_heading = HEADING)]
    pub charset: String,

    /// Leave this prefix out when a path is looked for: with /docs, /docs/a is the file a of DIR. Other paths are looked for as
    /// they are
    #[arg(long, value_name = "PREFIX", value_parser = name::parse_prefix, help_heading = HEADING)]
    pub strip_prefix: Option<SitePath<'static>>,

    /// Answer with files only if a program hands them on, by X-Accel-Redirect or X-Sendfile. Others get 404. No program answers
    /// here. For a place with a folder of its own
    #[arg(long, help_heading = HEADING)]
    pub internal: bool,
}

/// The charset of the files' types, if no other one is asked for.
pub(crate) const UTF_8: &str = "utf-8";
const OFF: &str = "off";

impl Rules {
    /// The file of those who may log in.
    pub(crate) fn users(&self) -> Option<&Path> {
        self.auth.as_ref().and_then(Auth::file)
    }

    /// The files of those who may log in, and of the keys of links.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.users().into_iter().chain(self.signed.iter().filter_map(Signed::key))
    }

    /// Whether only some clients get what is there.
    pub(crate) fn are_private(&self) -> bool {
        self.files().next().is_some()
    }

    /// The charset that takes the place of UTF-8. An empty one stands for none.
    pub(crate) fn other_charset(&self) -> Option<&str> {
        match &*self.charset {
            UTF_8 => None,
            OFF => Some(""),
            other => Some(other),
        }
    }
}

/// RFC 9110 §8.3.2: a token.
fn parse_charset(text: &str) -> Result<String, String> {
    let is_right =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+".contains(&byte));
    match is_right {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("write the name of a charset, such as iso-8859-1, or off".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets() {
        assert_eq!(parse_charset("UTF-8").as_deref(), Ok(UTF_8));
        assert_eq!(parse_charset("Shift_JIS").as_deref(), Ok("shift_jis"));
        for wrong in ["", "a b", "a;b", "\"a\"", "a\r\n"] {
            assert!(parse_charset(wrong).is_err(), "{wrong}");
        }
    }
}
