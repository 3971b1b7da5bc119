//! `access_log`, of the server and of its sites and locations.

use crate::directive::Directive;
use crate::flash::{Setting, Settings, Value, set};
use crate::note::{Of, Paths};
use crate::scope::Scope;

/// What a block says of its access log.
pub(super) fn settings(scope: &Scope<'_>, settings: &mut Settings) {
    let mut all = scope.all("access_log").into_iter();
    let Some(of) = all.next() else { return };
    for more in all {
        scope.left(more, "a request has a line in one log", Paths::None);
    }
    let path = of.words.first().map_or("", String::as_str);
    if path.contains('$') || !(path == "off" || path.starts_with('/') || path.starts_with("syslog:")) {
        return scope.left(
            of,
            "a log is a file or syslog, without variables: write a site for each",
            Paths::None,
        );
    }
    set(settings, "access-log", Value::Text(path.replace("syslog:server=", "syslog:")), Some(of));
    let format = of.words.get(1).map_or("combined", String::as_str);
    if path != "off" && !["combined", "main"].contains(&format) && !format.contains('=') {
        scope.left(of, "a log has one of Flash's formats: log-format, log-fields", Paths::None);
    }
    if let Some(condition) = of.words.iter().find_map(|word| word.strip_prefix("if=")) {
        match statuses(scope, condition) {
            Some(statuses) => set(settings, "log-status", Value::Texts(statuses), Some(of)),
            None => scope.differs(
                &of.source,
                "all requests have lines: a condition is log-status, or access-log in a place",
                Paths::None,
                Of::Everything,
            ),
        }
    }
}

/// The statuses with lines, where `map $status` says so: `~^[23] 0; default 1;`.
fn statuses(scope: &Scope<'_>, variable: &str) -> Option<Vec<String>> {
    let mut maps = scope.levels.first()?.iter().filter(|of| of.name == "map");
    let map = maps.find(|of| of.words.len() == 2 && of.words[0] == "$status" && of.words[1] == variable)?;
    let (mut classes, mut single) = ([None; 5], Vec::new());
    let mut others = false;
    for of in map.block.iter().flatten() {
        let is_logged = of.words.first().is_some_and(|value| !value.is_empty() && value != "0");
        match classes_of(of) {
            _ if of.name == "default" => others = is_logged,
            Some(named) => {
                named.for_each(|class| _ = classes[class - 1].get_or_insert(is_logged));
            }
            None if is_logged && of.name.parse::<u16>().is_ok() => single.push(of.name.clone()),
            None => return None,
        }
    }
    scope.see_all(map);
    let logged = (1..).zip(classes).filter(|(_, class)| class.unwrap_or(others));
    Some(logged.map(|(class, _)| format!("{class}xx")).chain(single).collect())
}

/// `~^[23]` and `~^5`.
fn classes_of(of: &Directive) -> Option<impl Iterator<Item = usize>> {
    let digits = of.name.strip_prefix("~^")?.trim_start_matches('[').trim_end_matches(']');
    let digit = |digit: char| digit.to_digit(10).filter(|class| (1..=5).contains(class));
    let classes: Option<Vec<usize>> = digits.chars().map(|of| Some(digit(of)? as usize)).collect();
    Some(classes.filter(|classes| !classes.is_empty())?.into_iter())
}

/// The log of requests that belong to no site, and how all lines look.
pub(super) fn of_server(http: &Scope<'_>, scopes: &[Scope<'_>], all: &mut Settings) {
    if http.own("access_log").next().is_some() {
        settings(http, all);
        all.retain(|key, setting| *key != "access-log" || setting.value != Value::Text("off".into()));
    }
    if [http].into_iter().chain(scopes).any(|scope| scope.own("access_log").next().is_some()) {
        all.insert("log-format", Setting::new(Value::Text("combined".into()), None));
    }
    for of in http.all("log_format") {
        http.left(of, "a log has one of Flash's formats: log-format, log-fields", Paths::None);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::nginx::import;

    const CONFIGURATION: &str = "http {
        map $status $loggable { ~^[23] 0; 404 1; ~^4 0; default 1; }
        access_log /var/log/nginx/access.log;
        server { server_name a.example; root /srv/a; access_log /var/log/nginx/a.log combined if=$loggable;
            location /health { access_log off; } location /all { access_log /var/log/nginx/a.log; } }
        server { server_name b.example; root /srv/b; }
        server { server_name c.example; root /srv/c; access_log /var/log/$host.log; }
    }";

    #[test]
    fn each_site_and_location_has_its_log() {
        let imported = import(Path::new("nginx.conf"), CONFIGURATION, &|_| Ok(Vec::new())).unwrap();
        let lines: Vec<&str> = imported
            .text
            .lines()
            .map(|line| line.split("  #").next().unwrap_or_default())
            .filter(|line| {
                line.starts_with("[site") || line.contains("access-log") || line.contains("log-status")
            })
            .collect();
        let expected = [
            "access-log = \"/var/log/nginx/access.log\"",
            "[site.\"a.example\"]",
            "access-log = \"/var/log/nginx/a.log\"",
            "log-status = [\"1xx\", \"5xx\", \"404\"]",
            "[site.\"a.example\".\"/health\"]",
            "access-log = \"off\"",
            "[site.\"a.example\".\"/all\"]",
            "log-status = false",
            "[site.\"b.example\"]",
            "[site.\"c.example\"]",
        ];
        let found = |line: &str| lines.iter().filter(|known| **known == line).count();
        for line in expected {
            assert!(found(line) > 0, "{line} in {}", imported.text);
        }
        assert_eq!(found(expected[0]), 1, "b.example inherits it: {}", imported.text);
        assert!(imported.notes.iter().any(|note| note.is_left && note.text.contains("without variables")));
    }
}
