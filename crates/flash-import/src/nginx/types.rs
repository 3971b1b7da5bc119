//! Media types: those that nginx gives to names and Flash does not.

use std::collections::BTreeMap;

use flash_http::media;

use crate::directive::Directive;
use crate::flash::{Setting, Settings, Value};
use crate::note::{Of, Paths};
use crate::scope::Scope;

/// Without a `types` block.
const OF_NGINX: [(&str, &str); 3] = [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")];
/// Without `charset_types`.
const WITH_CHARSET: [&str; 6] = [
    "text/html",
    "text/xml",
    "text/plain",
    "text/vnd.wap.wml",
    "application/javascript",
    "application/rss+xml",
];

/// Adds `charset`, and `types` for names whose type would be another one.
pub(super) fn settings(scope: &Scope<'_>, concerns: &Paths, settings: &mut Settings) {
    let charset = scope.last("charset");
    let name = charset.and_then(|of| of.words.first()).map_or("off", String::as_str);
    let name = if name.contains('$') { "off" } else { name };
    settings.insert("charset", Setting::new(Value::Text(name.into()), charset.map(|of| &of.source)));
    let with_charset: Vec<&str> = match scope.last("charset_types") {
        Some(of) => of.words.iter().map(String::as_str).chain(["text/html"]).collect(),
        None => WITH_CHARSET.into(),
    };
    let known = by_end(scope);
    let mut differing = BTreeMap::new();
    for (end, of_nginx) in &known {
        let of_nginx = match name != "off" && with_charset.contains(&&**of_nginx) {
            true => format!("{of_nginx}; charset={name}"),
            false => of_nginx.clone(),
        };
        if of_flash(end, name) != of_nginx {
            differing.insert(format!("*.{end}"), of_nginx);
        }
    }
    let block = scope.last("types").map(|of| &of.source);
    if !differing.is_empty() {
        settings.insert("types", Setting::new(Value::Table(differing), block));
    }
    default_type(scope, &known, concerns, settings);
}

fn default_type(
    scope: &Scope<'_>,
    known: &BTreeMap<String, String>,
    concerns: &Paths,
    settings: &mut Settings,
) {
    let of = scope.last("default_type");
    let own = scope.levels.len() > 2 && scope.own("default_type").next().is_some();
    let default = of.and_then(|of| of.words.first()).map_or("text/plain", String::as_str);
    if own || known.is_empty() {
        if let Some(of) = of {
            let header = settings
                .entry("header")
                .or_insert_with(|| Setting::new(Value::Table(BTreeMap::new()), Some(&of.source)));
            if let Value::Table(fields) = &mut header.value {
                fields.insert("Content-Type".into(), default.into());
            }
            if !known.is_empty() {
                let why = "all files here have this type, also those whose names tell another one";
                scope.differs(&of.source, why, concerns.clone(), Of::Type);
            }
        }
        return;
    }
    let others =
        Paths::Not(Box::new(Paths::Any(known.keys().map(|end| Paths::Ends(format!(".{end}"))).collect())));
    match of {
        Some(of) => {
            let why = format!(
                "Flash knows types of more names. If they are to have {default}: types = {{ \"*.ext\" = … }}"
            );
            scope.differs(&of.source, why, others, Of::Type);
        }
        None => {
            scope.everywhere("Flash knows types of more names, where nginx has text/plain", others, Of::Type)
        }
    }
}

/// What Flash says of a name with this end.
fn of_flash(end: &str, charset: &str) -> String {
    let own = media::of(format!("a.{end}").as_bytes()).content_type;
    match (own.split_once("; charset="), charset) {
        (Some((essence, _)), "off") => essence.into(),
        (Some((essence, _)), charset) => format!("{essence}; charset={charset}"),
        (None, _) => own.into(),
    }
}

fn by_end(scope: &Scope<'_>) -> BTreeMap<String, String> {
    let blocks = scope.all("types");
    if blocks.is_empty() {
        return OF_NGINX.iter().map(|(end, of)| ((*end).to_owned(), (*of).to_owned())).collect();
    }
    let see = |of: &Directive| scope.context.see(of);
    let lines =
        blocks.iter().flat_map(|block| block.block.as_deref().unwrap_or_default()).inspect(|of| see(of));
    lines.flat_map(|of| of.words.iter().map(|end| (end.to_ascii_lowercase(), of.name.clone()))).collect()
}
