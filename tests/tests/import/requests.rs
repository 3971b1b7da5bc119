//! Requests about a configuration: its files and locations, and what is near them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::concerned::Asked;

/// The names below `/srv` that a configuration's first lines list.
pub(crate) fn files(conf: &str) -> Vec<String> {
    let lines = conf.lines().filter_map(|line| line.strip_prefix("# files: "));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// The configuration, and the files that follow it, each behind a line with its name.
pub(crate) fn parts(text: &str) -> (&str, Vec<(&str, String)>) {
    let mut parts = text.split("#--- ");
    let conf = parts.next().unwrap_or_default();
    (
        conf,
        parts
            .filter_map(|part| part.split_once('\n'))
            .map(|(name, text)| (name.trim(), text.into()))
            .collect(),
    )
}

/// Some of the words of directives.
fn words<'c>(conf: &'c str, name: &str) -> Vec<&'c str> {
    let lines = conf.lines().map(str::trim).filter_map(|line| line.strip_prefix(name));
    let lines = lines.filter(|rest| rest.starts_with(' '));
    lines.flat_map(|rest| rest.split([' ', ';', '{'])).filter(|word| !word.is_empty()).collect()
}

/// The folders that are served.
fn roots(conf: &str) -> Vec<&str> {
    let all = ["root", "alias", "DocumentRoot", "Alias"].map(|name| words(conf, name)).concat();
    all.into_iter().map(|root| root.trim_matches('"')).collect()
}

fn paths(conf: &str, folder: &Path) -> Vec<String> {
    let mut paths: BTreeSet<String> =
        ["/", "/missing", "/missing.html", "/missing/", "/a/b/c", "/index.html"].map(str::to_owned).into();
    let roots = roots(conf);
    let prefix = folder.to_string_lossy();
    for file in files(conf) {
        let whole = format!("{prefix}/srv/{file}");
        for root in &roots {
            let Some(name) = whole.strip_prefix(root.trim_end_matches('/')) else { continue };
            let mut name = name.to_owned();
            paths.insert(name.clone());
            while let Some((above, _)) = name.rsplit_once('/') {
                paths.extend([above.to_owned(), format!("{above}/"), format!("{above}/missing.txt")]);
                name = above.to_owned();
            }
        }
    }
    let names = [
        "location",
        "rewrite",
        "Redirect",
        "RedirectMatch",
        "RedirectPermanent",
        "RedirectTemp",
        "RewriteRule",
        "Alias",
    ];
    let sections =
        ["<Location", "<LocationMatch", "<Directory", "<FilesMatch", "ProxyPass", "FallbackResource"];
    for word in names.iter().chain(&sections).flat_map(|name| words(conf, name)) {
        let word = word.trim_matches(['"', '>']);
        let word = word
            .strip_prefix(&format!("{prefix}/srv"))
            .map_or(word, |rest| rest.find('/').filter(|at| *at > 0).map_or(rest, |at| &rest[at..]));
        let relative =
            word.strip_prefix('^').filter(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()));
        let word = &relative.map_or_else(|| word.to_owned(), |rest| format!("/{rest}"));
        let literal: String = word.trim_start_matches(['^', '~', '=']).replace("\\", "");
        let end = literal.find(['(', '[', '*', '$', '?', '+', '|']).unwrap_or(literal.len());
        let literal = &literal[..end];
        if literal.starts_with('/') {
            let plain = literal.trim_end_matches('/');
            paths.extend([plain, literal].map(str::to_owned));
            paths.extend(["/x", "/x/y.html", "x", "/", ".php"].map(|end| format!("{plain}{end}")));
        }
        if let Some((_, ends)) = word.split_once("\\.") {
            for end in ends.trim_matches(['(', ')', '$']).replace("?:", "").split('|') {
                let end = end.trim_matches(['(', ')', '$', '?']);
                paths.extend([format!("/missing.{end}"), format!("/a/missing.{end}")]);
            }
        }
    }
    paths.extend(of_caddy(conf).into_iter().flat_map(|path| {
        ["", "/", "/x", "/index.html", "/x/y.html", "x", ".php"]
            .map(|end| format!("{}{end}", path.trim_end_matches('/')))
    }));
    for prefix in words(conf, "handle_path").iter().filter_map(|word| word.strip_suffix("/*")) {
        let served: Vec<String> = paths.iter().filter(|path| path.starts_with('/')).cloned().collect();
        paths.extend(served.iter().map(|path| format!("{prefix}{path}")));
    }
    paths.retain(|path| path.starts_with('/'));
    paths.into_iter().collect()
}

/// The paths of a Caddyfile's matchers.
fn of_caddy(conf: &str) -> Vec<String> {
    let lines = conf.lines().filter(|line| conf.contains("http_port") && !line.starts_with('#'));
    let words =
        lines.flat_map(str::split_whitespace).filter(|word| word.starts_with(['/', '*']) && word.len() > 1);
    let words = words.filter(|word| !word.contains("/srv/") && !word.contains("{"));
    words
        .map(|word| {
            if word.starts_with('*') {
                format!("/a{}", word.trim_start_matches('*'))
            } else {
                word.replace('*', "")
            }
        })
        .collect()
}

/// As many requests as `count`, always the same for a configuration.
pub(crate) fn of(conf: &str, folder: &Path, count: usize) -> Vec<Asked> {
    let of_caddy = conf.split([' ', ',', '\n']).filter_map(|word| word.strip_prefix("http://"));
    let of_caddy = of_caddy.filter(|host| host.ends_with(".example")).collect();
    let names = [words(conf, "server_name"), words(conf, "ServerName"), words(conf, "ServerAlias"), of_caddy]
        .concat();
    let known: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut hosts: Vec<String> = names
        .iter()
        .map(|name| match name.strip_prefix('*').or_else(|| name.strip_prefix('.').map(|_| *name)) {
            Some(end) => format!("sub{end}"),
            None => (*name).to_owned(),
        })
        .filter(|host| !host.starts_with(['~', '_']))
        .collect();
    hosts.push("unknown.example".into());
    hosts.dedup();
    let paths = paths(conf, folder);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut all = Vec::new();
    while all.len() < count {
        let number = all.len();
        let path = match number < paths.len() {
            true => &paths[number],
            false => &paths[random.below(paths.len())],
        };
        let host = match random.below(20) {
            0 => &hosts[hosts.len() - 1],
            _ => &hosts[random.below(hosts.len().max(2) - 1)],
        };
        let method =
            ["GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE"][random.below(10)];
        let (target, canonical) =
            if number < paths.len() { (path.clone(), path.clone()) } else { written(path, &mut random) };
        let query = if random.below(5) == 0 { "?a=1&b=%20c" } else { "" };
        let method = if number < paths.len() { "GET" } else { method };
        all.push(asked(method, &format!("{target}{query}"), host, &canonical, &known, (conf, folder)));
    }
    all
}

/// A path in one of its other forms, and its decoded one.
fn written(path: &str, random: &mut Random) -> (String, String) {
    let same = |target: String| (target, path.to_owned());
    match random.below(12) {
        0 => same(format!("/{path}")),
        1 => same(format!("/.{path}")),
        2 => same(format!("/x/..{path}")),
        3 => same(
            match path
                .strip_prefix('/')
                .and_then(|rest| rest.chars().next())
                .filter(char::is_ascii_alphabetic)
            {
                Some(first) => format!("/%{:02x}{}", u32::from(first), &path[2..]),
                None => path.to_owned(),
            },
        ),
        4 => (format!("{path}/"), format!("{path}/").replace("//", "/")),
        5 => (format!("{path}x"), format!("{path}x")),
        6 => (path.to_ascii_uppercase(), path.to_ascii_uppercase()),
        7 => (format!("{path}%20"), format!("{path} ")),
        _ => same(path.to_owned()),
    }
}

fn asked(
    method: &str,
    target: &str,
    host: &str,
    path: &str,
    known: &[String],
    (conf, folder): (&str, &Path),
) -> Asked {
    let all = candidates(conf, folder, path);
    let found = |is: fn(&Path) -> bool| all.iter().any(|file| is(file));
    Asked {
        method: method.into(),
        target: target.into(),
        host: host.into(),
        path: path.into(),
        is_folder: found(Path::is_dir),
        is_missing: !found(Path::exists),
        is_below_file: found(|file| {
            file.ancestors().skip(1).any(Path::is_file)
                || file.to_string_lossy().strip_suffix('/').is_some_and(|file| Path::new(file).is_file())
        }),
        known_hosts: known.into(),
    }
}

/// The files that a path may lead to.
fn candidates(conf: &str, folder: &Path, path: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for root in roots(conf) {
        let root = root.trim_end_matches('/');
        all.push(folder.join(format!("{root}{path}").trim_start_matches('/')));
        all.push(PathBuf::from(format!("{root}{path}")));
    }
    for prefix in words(conf, "handle_path") {
        if let Some(rest) = path.strip_prefix(prefix.trim_end_matches("/*")) {
            let roots = roots(conf).into_iter().map(|root| root.trim_end_matches('/'));
            all.extend(roots.map(|root| PathBuf::from(format!("{root}{rest}"))));
        }
    }
    let aliases = words(conf, "Alias");
    for alias in aliases.chunks(2) {
        if let [url, to] = alias
            && let Some(rest) = path.strip_prefix(url.trim_end_matches('/'))
        {
            all.push(PathBuf::from(format!("{}{rest}", to.trim_matches('"').trim_end_matches('/'))));
        }
    }
    all
}

/// Numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}
