//! Apache: its files and `.htaccess` files, read and written anew as a configuration of Flash.

mod access;
mod at;
mod closed;
mod files;
mod programs;
mod read;
mod redirects;
mod rewrite;
mod sections;
mod server;
mod site;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::directive::{Directive, Include};
use crate::flash::Flash;
use crate::flash::finish::finish;
use crate::hosts::{self, Block};
use crate::note::{Concerns, Error, Note, Of, Paths, Source};
use crate::scope::{Context, Scope};
use crate::{Imported, include};
use sections::{Htaccess, OwnFile};

/// The name of the files that folders have.
const HTACCESS: &str = ".htaccess";
/// Where Debian's Apache looks for types.
const TYPES: &str = "/etc/mime.types";

/// Keys that names in a folder have of it, unless a section of names says otherwise.
const MERGED: [&str; 13] = [
    "allow",
    "deny",
    "auth",
    "satisfy",
    "methods",
    "root",
    "strip-prefix",
    "fallback",
    "proxy",
    "proxy-host",
    "proxy-header",
    "cgi",
    "fastcgi-param",
];

/// Imports a file with all that it includes, and the `.htaccess` files of its folders. A file of that name is imported as a site
/// whose folder it lies in.
///
/// # Errors
/// The first error of its syntax, with file and line.
pub fn import(path: &Path, text: &str, include: Include<'_>) -> Result<Imported, Error> {
    let mut tree = read::file(path, text, include)?;
    let pages = "pages for errors that no ErrorDocument names are Flash's own";
    let context = Context::new(pages, ("paths are in their canonical form", Of::Everything));
    let mut htaccess = Htaccess::new();
    if path.file_name().is_some_and(|name| name == HTACCESS) {
        let (folder, lines) = (folder_of(path), std::mem::take(&mut tree));
        tree.push(host_of(path, &folder));
        htaccess.insert(folder, OwnFile { lines, refusal: Vec::new() });
    }
    let types = types(&tree, include);
    find_htaccess(&context, &tree, include, &mut htaccess);
    let flash = flash(&context, &tree, &htaccess, &types);
    let files = htaccess.values().flat_map(|own| &own.lines);
    let all: Vec<&Directive> = tree.iter().chain(files).collect();
    Ok(Imported::new(&flash, context, &all, server::needs_nothing, server::advice))
}

/// Imports a file of this machine.
///
/// # Errors
/// As [`import`], or the file cannot be read.
pub fn import_file(path: &Path) -> Result<Imported, String> {
    let path = &std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
    include::import(path, import)
}

/// A virtual host for a folder with an `.htaccess` file, with PHP as a fresh installation has it.
fn host_of(path: &Path, folder: &str) -> Directive {
    let source = Source { file: path.into(), line: 1, text: HTACCESS.into() };
    let directive = |name: &str, words: &[&str], block| Directive {
        name: name.into(),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        block,
        source: source.clone(),
    };
    let php = directive("sethandler", &["proxy:unix:/run/php/php-fpm.sock|fcgi://localhost"], None);
    let block = vec![
        directive("documentroot", &[folder], None),
        directive("directory", &[folder], Some(vec![directive("allowoverride", &["All"], None)])),
        directive("filesmatch", &["\\.php$"], Some(vec![php])),
    ];
    directive("virtualhost", &["*:80"], Some(block))
}

/// Where a file lies, without a slash at the end.
fn folder_of(path: &Path) -> String {
    let folder = path.parent().map(|of| of.to_string_lossy().into_owned()).unwrap_or_default();
    sections::plain_folder(&folder).to_owned()
}

/// The types of `TypesConfig` and `AddType`.
fn types(tree: &[Directive], include: Include<'_>) -> BTreeMap<String, String> {
    let named = tree.iter().rfind(|of| of.name == "typesconfig").and_then(|of| of.words.first());
    let files = include(Path::new(named.map_or(TYPES, String::as_str))).unwrap_or_default();
    let mut types = BTreeMap::new();
    for line in files.iter().flat_map(|(_, text)| text.lines()).filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        if let Some(kind) = words.next() {
            types.extend(words.map(|end| (end.to_ascii_lowercase(), kind.to_owned())));
        }
    }
    types
}

/// Adds the `.htaccess` files in, above and below all folders that the configuration names.
fn find_htaccess(context: &Context, tree: &[Directive], include: Include<'_>, found: &mut Htaccess) {
    let named = tree.iter().rfind(|of| of.name == "accessfilename").map(|of| of.words.clone());
    let names = named.unwrap_or_else(|| vec![HTACCESS.into()]);
    let lines = |name: &'static str| {
        servers(tree).into_iter().flatten().flatten().filter(move |of| of.name == name).collect::<Vec<_>>()
    };
    let roots = lines("documentroot").into_iter().filter_map(|of| of.words.first());
    let aliases = lines("alias").into_iter().chain(lines("scriptalias")).filter_map(|of| of.words.get(1));
    let folders: BTreeSet<&str> = roots.chain(aliases).map(|folder| sections::plain_folder(folder)).collect();
    for (folder, name) in folders.iter().flat_map(|folder| names.iter().map(move |name| (*folder, name))) {
        let above = sections::above(folder).into_iter().map(|folder| Path::new(folder).join(name));
        for path in above.chain([Path::new(folder).join("**").join(name)]) {
            match include(&path) {
                Ok(files) => {
                    for (path, text) in files {
                        found.entry(folder_of(&path)).or_insert_with(|| own(context, &path, &text));
                    }
                }
                // A pattern finds none, if there is none. What cannot be read may guard something.
                Err(why) if path.exists() || path.ends_with(Path::new("**").join(name)) => {
                    let at = if path.exists() { folder_of(&path) } else { folder.to_owned() };
                    let error = Error { file: path.into(), line: 1, why };
                    found.entry(at).or_insert_with(|| OwnFile::closed(context, error));
                }
                Err(_) => {}
            }
        }
    }
}

/// The lines of an `.htaccess` file.
fn own(context: &Context, path: &Path, text: &str) -> OwnFile {
    const OF_SERVERS: [&str; 9] = [
        "include",
        "includeoptional",
        "alias",
        "scriptalias",
        "proxypass",
        "proxypassmatch",
        "documentroot",
        "directory",
        "virtualhost",
    ];
    let error = |line, why: String| Error { file: path.into(), line, why };
    let nothing = |_: &Path| Err("a folder's file includes no others".to_owned());
    let read = read::file(path, text, &nothing).and_then(|lines| {
        match lines.iter().find(|of| OF_SERVERS.contains(&&*of.name)) {
            Some(of) => Err(error(of.source.line, format!("{} does not stand in such a file", of.name))),
            None => Ok(lines),
        }
    });
    match read {
        Ok(lines) => {
            OwnFile { lines, refusal: refusal(Source { file: path.into(), line: 1, text: HTACCESS.into() }) }
        }
        Err(error) => OwnFile::closed(context, error),
    }
}

impl OwnFile {
    /// That of a folder that nobody gets into, as with Apache, whose answer is 500 or 403.
    fn closed(context: &Context, Error { file, line, why }: Error) -> Self {
        let source = Source { file, line, text: HTACCESS.into() };
        let text = format!("{why}: nobody gets in below the folder");
        let concerns = Concerns { paths: Paths::None, ..Concerns::nothing() };
        context.note(Note { source: Some(source.clone()), is_left: true, text, concerns });
        Self { lines: refusal(source.clone()), refusal: refusal(source) }
    }
}

fn refusal(source: Source) -> Vec<Directive> {
    let words = ["all", "denied"].map(Into::into).into();
    vec![Directive { name: "require".into(), words, block: None, source }]
}

/// The blocks of each server: those of all, and its own.
fn servers(tree: &[Directive]) -> Vec<Vec<&[Directive]>> {
    let hosts = tree.iter().filter(|of| of.name == "virtualhost");
    let mut servers: Vec<Vec<&[Directive]>> =
        hosts.map(|of| vec![tree, of.block.as_deref().unwrap_or_default()]).collect();
    servers.push(vec![tree]);
    servers
}

fn flash(
    context: &Context,
    tree: &[Directive],
    htaccess: &Htaccess,
    types: &BTreeMap<String, String>,
) -> Flash {
    let blocks = blocks(context, tree);
    let scopes: Vec<Scope<'_>> = blocks
        .iter()
        .zip(hosts::names(&blocks))
        .map(|(block, hosts)| {
            let own = [tree, block.block];
            let levels = if std::ptr::eq(tree, block.block) { vec![tree] } else { own.into() };
            Scope { levels, context, hosts }
        })
        .collect();
    let has_tls = blocks.iter().flat_map(|block| &block.listens).any(|listen| listen.is_tls);
    let sites: Vec<site::Draft<'_>> = blocks
        .iter()
        .zip(&scopes)
        .map(|(block, scope)| site::draft(site::Host { block, types, has_tls }, scope, htaccess))
        .collect();
    let drafts: Vec<_> = blocks
        .iter()
        .zip(scopes.iter().zip(&sites))
        .map(|(block, (scope, of))| hosts::Draft {
            block,
            scope,
            site: &of.site,
            answers: &of.answers,
            tls: server::tls(scope),
            strong: &[],
        })
        .collect();
    let main = Scope { levels: vec![tree], context, hosts: Vec::new() };
    let server = server::settings(&main, &blocks, &scopes);
    let (sites, strong): (_, Vec<_>) = hosts::sites(&blocks, &drafts).into_iter().unzip();
    let mut flash = Flash { server, upstreams: context.upstreams(), sites };
    finish(&mut flash, &strong, &MERGED, context);
    flash
}

/// The virtual hosts, and the main server where none of them is.
fn blocks<'t>(context: &Context, tree: &'t [Directive]) -> Vec<Block<'t>> {
    let listens = server::listens(tree);
    let mut blocks = Vec::new();
    for of in tree.iter().filter(|of| of.name == "virtualhost") {
        context.see(of);
        let block = of.block.as_deref().unwrap_or_default();
        let is_tls =
            block.iter().any(|of| of.name == "sslengine" && of.words.concat().eq_ignore_ascii_case("on"));
        let (names, strange) = names(block);
        blocks.push(Block {
            of,
            block,
            listens: server::of_host(&of.words, &listens, is_tls),
            names,
            strange,
        });
    }
    let is_covered = |at: &str| blocks.iter().flat_map(|block| &block.listens).any(|listen| listen.at == at);
    let own: Vec<_> = listens.iter().filter(|(at, _)| !is_covered(at)).collect();
    let root = tree.iter().rfind(|of| of.name == "documentroot");
    if let Some(of) = root.filter(|_| blocks.is_empty() || !own.is_empty()) {
        let all =
            if own.is_empty() { vec![(":80".to_owned(), false)] } else { own.into_iter().cloned().collect() };
        let listens =
            all.into_iter().map(|(at, is_tls)| hosts::Listen::new(at, is_tls, false, false)).collect();
        let (names, strange) = names(tree);
        blocks.push(Block { of, block: tree, listens, names, strange });
    }
    blocks
}

/// The names of a server, and lines with those that Flash does not have.
fn names(block: &[Directive]) -> (Vec<String>, Vec<&Directive>) {
    let (mut names, mut strange) = (Vec::new(), Vec::new());
    for of in block.iter().filter(|of| of.name == "servername" || of.name == "serveralias") {
        for word in &of.words {
            let plain = word.split_once("://").map_or(word.as_str(), |(_, rest)| rest);
            let name = plain.split(':').next().unwrap_or_default().to_ascii_lowercase();
            match name.strip_prefix("*.").unwrap_or(&name).contains(['*', '?', '$']) {
                true => strange.push(of),
                false if names.contains(&name) || name.is_empty() => {}
                false => names.push(name),
            }
        }
    }
    (names, strange)
}

#[cfg(test)]
mod tests;
