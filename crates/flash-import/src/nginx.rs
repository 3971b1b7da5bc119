//! nginx: its files, read and written anew as a configuration of Flash.

mod access;
mod answer;
mod answers;
mod conditions;
mod content;
mod listen;
mod locations;
mod logs;
mod maps;
mod programs;
mod proxy;
mod read;
mod scripts;
mod server;
mod site;
mod types;
mod upstreams;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crate::directive::{Directive, Include};
use crate::flash::Flash;
use crate::hosts::{self, Block};
use crate::note::{Error, Of, Paths};
use crate::scope::{Context, Scope};
use crate::{Imported, include};
use answer::Server;
use programs::Upstreams;

/// Imports a file with all that it includes.
///
/// # Errors
/// The first error of its syntax, with file and line.
pub fn import(path: &Path, text: &str, include: Include<'_>) -> Result<Imported, Error> {
    let tree = read::file(path, text, include)?;
    let pages = "pages for errors that no error_page names are Flash's own, and fields of add_header stand in them, too";
    let paths = "redirections have paths in their canonical form, encoded anew";
    let context = Context::new(pages, (paths, Of::Location));
    let flash = flash(&context, &tree);
    Ok(Imported::new(
        &flash,
        context,
        &tree.iter().collect::<Vec<_>>(),
        server::needs_nothing,
        server::advice,
    ))
}

/// Imports a file of this machine.
///
/// # Errors
/// As [`import`], or the file cannot be read.
pub fn import_file(path: &Path) -> Result<Imported, String> {
    include::import(path, import)
}

fn flash(context: &Context, tree: &[Directive]) -> Flash {
    let http = tree.iter().find(|of| of.name == "http").and_then(|of| of.block.as_deref()).unwrap_or(tree);
    let scope = |block, hosts: &[String]| Scope { levels: vec![block], context, hosts: hosts.to_vec() };
    let blocks = listen::blocks(http);
    let upstreams: BTreeMap<&str, &Directive> = http
        .iter()
        .filter(|of| of.name == "upstream")
        .filter_map(|of| Some((of.words.first()?.as_str(), of)))
        .collect();
    let facts: Vec<(Scope<'_>, Server<'_>)> = blocks
        .iter()
        .zip(hosts::names(&blocks))
        .map(|(block, names)| facts(&scope(http, &names), block, &upstreams))
        .collect();
    let sites: Vec<site::Draft<'_>> = facts
        .iter()
        .zip(&blocks)
        .map(|((scope, server), block)| site::draft(scope, server, &block.of.source))
        .collect();
    let drafts: Vec<_> = blocks
        .iter()
        .zip(facts.iter().zip(&sites))
        .map(|(block, ((scope, _), of))| hosts::Draft {
            block,
            scope,
            site: &of.site,
            answers: &of.answers,
            tls: server::tls(scope),
            strong: of.strong(),
        })
        .collect();
    let server = server::settings(&scope(tree, &[]), &scope(http, &[]), &blocks);
    hosts::flash(server, &blocks, &drafts, &[], context)
}

fn facts<'t>(http: &Scope<'t>, block: &Block<'t>, upstreams: &'t Upstreams<'t>) -> (Scope<'t>, Server<'t>) {
    let scope = http.inner(block.block);
    for of in &block.strange {
        scope.left(of, "names of sites are whole, or *.example.org: write each", Paths::All);
    }
    let has = |is_tls: bool| block.listens.iter().any(|listen| listen.is_tls == is_tls);
    let named = block.block.iter().filter(|of| of.name == "location");
    let named =
        named.filter_map(|of| Some((of.words.first().filter(|word| word.starts_with('@'))?.as_str(), of)));
    let server = Server {
        name: block.names.first().cloned().unwrap_or_default(),
        scheme: if has(true) { "https" } else { "http" },
        has_both: has(true) && has(false),
        named: named.collect::<HashMap<_, _>>(),
        upstreams,
    };
    (scope, server)
}

#[cfg(test)]
pub(crate) fn blocks_of<T>(text: &str, with: impl FnOnce(&[Block<'_>]) -> T) -> T {
    let none = |_: &Path| Err(String::new());
    let tree = read::file(Path::new("/n"), text, &none).expect("it is right");
    with(&listen::blocks(&tree))
}
