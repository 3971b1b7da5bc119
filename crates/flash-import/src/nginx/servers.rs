//! Which server answers a name, with TLS and without, and so which sites there are.

use super::listen::{self, Listen};
use super::read::Directive;

/// A `server`.
pub(super) struct Block<'t> {
    pub(super) of: &'t Directive,
    pub(super) block: &'t [Directive],
    pub(super) listens: Vec<Listen>,
    pub(super) names: Vec<String>,
    /// Lines with names that Flash does not have.
    pub(super) strange: Vec<&'t Directive>,
}

/// Names that the same servers answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) names: Vec<String>,
    /// The servers at listeners without TLS: the one at the first of them, and others.
    pub(super) plain: Option<usize>,
    pub(super) tls: Option<usize>,
    /// Servers for the same names at other ports.
    pub(super) others: Vec<usize>,
}

pub(super) fn blocks(http: &[Directive]) -> Vec<Block<'_>> {
    let servers = http.iter().filter(|of| of.name == "server");
    let block = |of: &'_ Directive| -> Option<()> { of.block.as_ref().map(|_| ()) };
    servers
        .filter(|of| block(of).is_some())
        .map(|of| {
            let block = of.block.as_deref().unwrap_or_default();
            let (names, strange) = listen::names(block);
            Block { of, block, listens: listen::of_server(block), names, strange }
        })
        .collect()
}

pub(super) fn groups(blocks: &[Block<'_>]) -> Vec<Group> {
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
        match groups.iter_mut().find(|group| (group.plain, group.tls) == (plain, tls)) {
            Some(group) => group.names.push(name.into()),
            None => groups.push(Group { names: vec![name.into()], plain, tls, others }),
        }
    }
    groups
}

/// The servers that answer a name at the listeners of one kind, each once.
fn answering(blocks: &[Block<'_>], name: &str, is_tls: bool) -> Vec<usize> {
    let mut found = Vec::new();
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
        let server = by_name.map(|(at, _)| *at).or(by_wildcard).or(default.map(|(at, _)| *at));
        found.extend(server.filter(|server| !found.contains(server)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nginx::read;
    use std::path::Path;

    #[test]
    fn names_with_the_same_servers_are_one_group() {
        let text = "server { listen 80 default_server; return 301 https://$host$request_uri; }
            server { listen 443 ssl; server_name a.example www.a.example; }
            server { listen 443 ssl; server_name *.b.example; listen 80; }";
        let none = |_: &Path| Err(String::new());
        let tree = read::file(Path::new("/n"), text, &none).expect("it is right");
        let groups = groups(&blocks(&tree));
        let shown: Vec<_> =
            groups.iter().map(|group| (group.names.join(" "), group.plain, group.tls)).collect();
        assert_eq!(
            shown,
            [
                ("a.example www.a.example *".into(), Some(0), Some(1)),
                ("*.b.example".into(), Some(2), Some(2)),
            ]
        );
    }
}
