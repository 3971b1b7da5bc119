//! Which server answers a name, with TLS and without, and so which sites there are.

use crate::directive::Directive;
use crate::flash::finish::finish;
use crate::flash::{Flash, PlaceName, Setting, Settings, Site, Value};
use crate::note::{Of, Paths};
use crate::scope::{Context, Scope};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    /// As it is compared: the address with its port.
    pub(crate) at: String,
    /// As Flash has it.
    pub(crate) text: String,
    pub(crate) is_tls: bool,
    pub(crate) is_default: bool,
}

impl Listen {
    /// `at` is an address with its port, or a socket.
    pub(crate) fn new(at: String, is_tls: bool, is_default: bool, has_proxy_header: bool) -> Self {
        let scheme = match (is_tls, at.ends_with(":443")) {
            (true, false) => "https://",
            (false, true) => "http://",
            _ => "",
        };
        let proxied = if has_proxy_header { ",proxy-protocol" } else { "" };
        Self { text: format!("{scheme}{at}{proxied}"), at, is_tls, is_default }
    }
}

/// A server, or virtual host.
pub(crate) struct Block<'t> {
    pub(crate) of: &'t Directive,
    pub(crate) block: &'t [Directive],
    pub(crate) listens: Vec<Listen>,
    pub(crate) names: Vec<String>,
    /// Lines with names that Flash does not have.
    pub(crate) strange: Vec<&'t Directive>,
}

/// Names that the same servers answer.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    names: Vec<String>,
    /// The servers at listeners without TLS: the one at the first of them, and others.
    plain: Option<usize>,
    tls: Option<usize>,
    /// Servers for the same names at other ports.
    others: Vec<usize>,
}

fn groups(blocks: &[Block<'_>]) -> Vec<Group> {
    let mut names: Vec<&str> = Vec::new();
    for block in blocks {
        for name in &block.names {
            if !names.contains(&&**name) {
                names.push(name);
            }
        }
    }
    names.push("*");
    let mut groups: Vec<Group> = Vec::new();
    for name in names {
        let [plain, tls] = [false, true].map(|is_tls| answering(blocks, name, is_tls));
        let mut others: Vec<usize> = plain.iter().skip(1).chain(tls.iter().skip(1)).copied().collect();
        others.retain(|other| Some(other) != plain.first() && Some(other) != tls.first());
        let (plain, tls) = (plain.first().copied(), tls.first().copied());
        let same = |group: &&mut Group| (group.plain, group.tls, &group.others) == (plain, tls, &others);
        match groups.iter_mut().find(same) {
            Some(group) => group.names.push(name.into()),
            None => groups.push(Group { names: vec![name.into()], plain, tls, others }),
        }
    }
    groups
}

/// The servers that answer a name at the listeners of one kind, each once.
fn answering(blocks: &[Block<'_>], name: &str, is_tls: bool) -> Vec<usize> {
    let mut found: Vec<(bool, usize)> = Vec::new();
    let mut ports: Vec<&str> = Vec::new();
    for listen in blocks.iter().flat_map(|block| &block.listens).filter(|listen| listen.is_tls == is_tls) {
        if !ports.contains(&&*listen.at) {
            ports.push(&listen.at);
        }
    }
    for port in ports {
        let there = |block: &&(usize, &Block<'_>)| block.1.listens.iter().any(|listen| listen.at == port);
        let all: Vec<(usize, &Block<'_>)> = blocks.iter().enumerate().collect();
        let at_port: Vec<_> = all.iter().filter(there).collect();
        let by_name = at_port.iter().find(|(_, block)| block.names.iter().any(|own| own == name));
        let wild = |own: &str| own.strip_prefix('*').is_some_and(|end| name.ends_with(end));
        let by_wildcard = at_port
            .iter()
            .filter_map(|(at, block)| {
                Some((at, block.names.iter().filter(|own| wild(own)).map(String::len).max()?))
            })
            .max_by_key(|(at, length)| (*length, usize::MAX - **at))
            .map(|(at, _)| *at);
        let is_default =
            |block: &Block<'_>| block.listens.iter().any(|listen| listen.at == port && listen.is_default);
        let default = at_port.iter().find(|(_, block)| is_default(block)).or(at_port.first());
        let named = by_name.map(|(at, _)| *at).or(by_wildcard);
        let server = named.or(default.map(|(at, _)| *at));
        found.extend(server.map(|server| (named.is_none(), server)));
    }
    // A server that has the name comes before one that answers unknown hosts at another address.
    found.sort_by_key(|(is_default, _)| *is_default);
    let mut known = Vec::new();
    for (_, server) in found {
        if !known.contains(&server) {
            known.push(server);
        }
    }
    known
}

/// All of them as Flash has them: one for each port that both kinds of addresses have.
pub(crate) fn listeners<'l>(all: impl Iterator<Item = &'l Listen>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for listen in all {
        if !texts.contains(&listen.text) {
            texts.push(listen.text.clone());
        }
    }
    let both: Vec<String> = texts
        .iter()
        .filter_map(|text| {
            let six = text.replace("0.0.0.0:", "[::]:");
            (six != *text && texts.contains(&six)).then_some(text.clone())
        })
        .collect();
    for four in both {
        let six = four.replace("0.0.0.0:", "[::]:");
        texts.retain(|text| *text != six);
        if let Some(text) = texts.iter_mut().find(|text| **text == four) {
            *text = four.replace("0.0.0.0:", ":");
        }
    }
    texts
}

/// Requests for some hosts are sent elsewhere.
pub(crate) struct HostRedirect {
    pub(crate) hosts: Vec<String>,
    /// All other hosts are meant.
    pub(crate) is_except: bool,
    pub(crate) redirect: Setting,
}

#[derive(Default)]
pub(crate) struct Answers {
    /// For parts below.
    pub(crate) parts: Vec<(PlaceName, Settings)>,
    pub(crate) hosts: Vec<HostRedirect>,
    /// Requests without TLS are redirected.
    pub(crate) https: Option<Setting>,
    /// All is 404.
    pub(crate) is_missing: bool,
}

/// A server that is worked out as a site, before it is known which names it answers.
pub(crate) struct Draft<'d, 't> {
    pub(crate) block: &'d Block<'t>,
    pub(crate) scope: &'d Scope<'t>,
    pub(crate) site: &'d Site,
    pub(crate) answers: &'d Answers,
    /// The keys of its certificates.
    pub(crate) tls: Settings,
    /// Prefixes that win over ends of names.
    pub(crate) strong: &'d [String],
}

/// The names of each server, with `*` if it answers unknown hosts.
pub(crate) fn names(blocks: &[Block<'_>]) -> Vec<Vec<String>> {
    let groups = groups(blocks);
    let unknown = groups.iter().find(|group| group.names.iter().any(|name| name == "*"));
    let answers_unknown =
        |at: usize| unknown.is_some_and(|group| group.plain == Some(at) || group.tls == Some(at));
    let names = |(at, block): (usize, &Block<'_>)| {
        block.names.iter().cloned().chain(answers_unknown(at).then(|| "*".to_owned())).collect()
    };
    blocks.iter().enumerate().map(names).collect()
}

/// All of it, made of the drafts of the servers. `merged` are the keys that ends of names have of the place that they are in.
pub(crate) fn flash(
    server: Settings,
    blocks: &[Block<'_>],
    drafts: &[Draft<'_, '_>],
    merged: &[&'static str],
    context: &Context,
) -> Flash {
    let (sites, strong): (_, Vec<_>) = sites(blocks, drafts).into_iter().unzip();
    let mut flash = Flash { server, upstreams: context.upstreams(), sites };
    finish(&mut flash, &strong, merged, context);
    flash
}

/// The sites of all servers, each with its strong prefixes.
fn sites(blocks: &[Block<'_>], drafts: &[Draft<'_, '_>]) -> Vec<(Site, Vec<String>)> {
    let (mut sites, mut answering) = (Vec::new(), Vec::new());
    for group in groups(blocks) {
        for other in &group.others {
            let names = group.names.join(", ");
            let why = format!("a site answers alike at all listeners: this server is left out for {names}");
            let scope = Scope { hosts: group.names.clone(), ..drafts[*other].scope.clone() };
            scope.left(drafts[*other].block.of, why, Paths::All);
        }
        answering.extend(group.plain.into_iter().chain(group.tls).chain(group.others.iter().copied()));
        sites.extend(of_group(&group, drafts));
    }
    for (_, draft) in drafts.iter().enumerate().filter(|(at, _)| !answering.contains(at)) {
        draft.scope.left(
            draft.block.of,
            "another server has its names and listeners: this one is left out",
            Paths::None,
        );
    }
    sites
}

/// The sites of names that the same servers answer.
fn of_group(group: &Group, drafts: &[Draft<'_, '_>]) -> Vec<(Site, Vec<String>)> {
    let Some(main) = group.tls.or(group.plain).map(|main| &drafts[main]) else { return Vec::new() };
    let mut found: Vec<(Site, Vec<String>)> = Vec::new();
    for name in &group.names {
        let mut site = face(main, name);
        if let (Some(plain), true) = (group.plain, group.plain != group.tls && group.tls.is_some()) {
            insecure(&mut site, &drafts[plain], name);
        }
        if let Some(https) = &main.answers.https {
            site.own.insert("https", https.clone());
        }
        if main.block.listens.iter().any(|listen| listen.is_tls) {
            site.own.extend(main.tls.clone());
        }
        if main.answers.is_missing && !site.own.contains_key("redirect") {
            let of = main.block.of;
            match &**name {
                "*" => main.scope.differs(&of.source, "unknown hosts get 421", Paths::All, Of::Everything),
                _ => main.scope.left(of, "the site is left out, so that its hosts get 421", Paths::All),
            }
            continue;
        }
        site.names = vec![name.clone()];
        let same = found.iter_mut().find(|(known, _)| known.text_of_rules() == site.text_of_rules());
        match same {
            Some((known, _)) => known.names.push(name.clone()),
            None => found.push((site, main.strong.to_vec())),
        }
    }
    found
}

/// What a server answers under one name.
fn face(draft: &Draft<'_, '_>, name: &str) -> Site {
    let mut site = draft.site.clone();
    let holds = |of: &&HostRedirect| of.hosts.iter().any(|host| host == name) != of.is_except;
    if let Some(HostRedirect { redirect, .. }) = draft.answers.hosts.iter().find(holds) {
        site.own = Settings::from([("redirect", redirect.clone())]);
        site.places.clear();
    }
    site
}

fn target(site: &Site) -> Option<&str> {
    let Value::Named(named) = &site.own.get("redirect")?.value else { return None };
    named.iter().find_map(|(key, value)| match value {
        Value::Text(to) if *key == "to" => Some(to.as_str()),
        _ => None,
    })
}

/// Requests without TLS, which another server answers.
fn insecure(site: &mut Site, draft: &Draft<'_, '_>, name: &str) {
    let (plain, scope, of) = (face(draft, name), draft.scope, draft.block.of);
    let redirect = plain.own.get("redirect").and_then(|redirect| redirect.source.as_ref());
    let is_https = draft.answers.https.as_ref();
    match target(&plain) {
        Some(to) if target(site) == Some(to) => {}
        Some(to) if to.starts_with("https://") => {
            site.own.insert("https", Setting::new(Value::Text("required".into()), redirect));
            let why = "requests without TLS are sent to the same host and path with TLS, with 308";
            scope.differs(redirect.unwrap_or(&of.source), why, Paths::Insecure, Of::Everything);
        }
        // A note says so where the condition stands.
        _ if is_https.is_some() => site.own.extend(is_https.map(|https| ("https", https.clone()))),
        _ if draft.answers.is_missing => {
            let why = "requests without TLS have the answers of those with TLS";
            scope.differs(&of.source, why, Paths::Insecure, Of::Everything);
        }
        _ => scope.left(
            of,
            "a site answers alike with and without TLS: the server with TLS is taken",
            Paths::Insecure,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::blocks_of;

    #[test]
    fn names_with_the_same_servers_are_one_group() {
        let text = "server { listen 80 default_server; return 301 https://$host$request_uri; }
            server { listen 443 ssl; server_name a.example www.a.example; }
            server { listen 443 ssl; server_name *.b.example; listen 80; }";
        let shown = blocks_of(text, |blocks| {
            let shown = |group: Group| (group.names.join(" "), group.plain, group.tls);
            groups(blocks).into_iter().map(shown).collect::<Vec<_>>()
        });
        assert_eq!(
            shown,
            [
                ("a.example www.a.example *".into(), Some(0), Some(1)),
                ("*.b.example".into(), Some(2), Some(2)),
            ]
        );
    }
}
