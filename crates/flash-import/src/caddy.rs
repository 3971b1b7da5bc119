//! Caddy: a Caddyfile, read and written anew as a configuration of Flash.

mod answer;
mod directives;
mod evaluate;
mod files;
mod lines;
mod matcher;
mod proxy;
mod read;
mod site;
mod tls;

use std::path::Path;

use crate::directive::{Directive, Include};
use crate::flash::{Flash, Settings, Site, Value, set};
use crate::hosts::{self, Answers, Block, Listen};
use crate::note::{Concerns, Error, Note, Of, Paths};
use crate::scope::{Context, Scope};
use crate::{Imported, include};

/// What the global options say that concerns sites.
struct Options<'t> {
    of: Option<&'t Directive>,
    http_port: &'t str,
    https_port: &'t str,
    bind: Vec<&'t str>,
    /// Sites with names have certificates of an authority.
    has_acme: bool,
    /// Requests without TLS are redirected.
    redirects: bool,
}

/// An address of a site: `https://www.example.org:8443`.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    scheme: Option<&'static str>,
    host: String,
    port: Option<String>,
}

/// Imports a file with all that it imports.
///
/// # Errors
/// The first error of its syntax, with file and line.
pub fn import(path: &Path, text: &str, include: Include<'_>) -> Result<Imported, Error> {
    let tree = read::file(path, text, include)?;
    let pages = "pages for errors are Flash's own, where Caddy's have no text";
    let context = Context::new(pages, ("paths are in their canonical form", Of::Everything));
    let concerns = Concerns { hosts: Vec::new(), paths: Paths::All, of: Of::Type };
    let text = "types are Flash's own, and not the system's: types = { \"*.ext\" = … } sets one".into();
    context.note(Note { source: None, is_left: false, text, concerns });
    name_defaults(&context, &tree);
    let flash = flash(&context, &tree);
    let all: Vec<&Directive> = tree.iter().collect();
    Ok(Imported::new(&flash, context, &all, directives::needs_nothing, directives::advice))
}

/// Imports a file of this machine.
///
/// # Errors
/// As [`import`], or the file cannot be read.
pub fn import_file(path: &Path) -> Result<Imported, String> {
    include::import(path, import)
}

/// Lines whose words stand for variables of the environment that are not set.
fn name_defaults(context: &Context, tree: &[Directive]) {
    for of in tree {
        if of.has_defaults {
            let text =
                "this is for a variable of the environment that is not set: write its value, if it is".into();
            context.note(Note {
                source: Some(of.source.clone()),
                is_left: false,
                text,
                concerns: Concerns::nothing(),
            });
        }
        name_defaults(context, of.block.as_deref().unwrap_or_default());
    }
}

fn flash(context: &Context, tree: &[Directive]) -> Flash {
    let options = Options::of(context, tree);
    let sites: Vec<&Directive> = tree.iter().filter(|of| of.name == read::SITE).collect();
    sites.iter().for_each(|of| context.see(of));
    let mut blocks: Vec<Block<'_>> = sites.iter().map(|of| block(of, &options)).collect();
    speak_alike(&mut blocks);
    // What no site is named for, Caddy answers with nothing.
    if let Some(of) = sites.first().filter(|_| blocks.iter().all(|block| !block.names.is_empty())) {
        let mut listens: Vec<Listen> = Vec::new();
        for listen in blocks.iter().flat_map(|block| &block.listens) {
            if !listens.iter().any(|known| known.at == listen.at) {
                listens.push(Listen { is_default: true, ..listen.clone() });
            }
        }
        blocks.push(Block { of, block: &[], listens, names: Vec::new(), strange: Vec::new() });
    }
    let scopes: Vec<Scope<'_>> = blocks
        .iter()
        .zip(hosts::names(&blocks))
        .map(|(block, hosts)| Scope { levels: vec![block.block], context, hosts })
        .collect();
    let made: Vec<(Site, Answers, Settings)> =
        blocks.iter().zip(&scopes).map(|(block, scope)| made(block, scope, &options)).collect();
    let drafts: Vec<_> = blocks
        .iter()
        .zip(scopes.iter().zip(&made))
        .map(|(block, (scope, (site, answers, tls)))| hosts::Draft {
            block,
            scope,
            site,
            answers,
            tls: tls.clone(),
            strong: &[],
        })
        .collect();
    let mut server = Settings::new();
    let listens = hosts::listeners(blocks.iter().flat_map(|block| &block.listens));
    set(&mut server, "listen", Value::Texts(listens), None);
    if let Some(of) = options.line("email") {
        set(&mut server, "acme-email", Value::Text(of.words.concat()), Some(of));
    }
    if let Some(of) = options.line("acme_ca") {
        set(&mut server, "acme-directory", Value::Text(of.words.concat()), Some(of));
    }
    hosts::flash(server, &blocks, &drafts, &[], context)
}

impl<'t> Options<'t> {
    fn of(context: &Context, tree: &'t [Directive]) -> Self {
        let of = tree.iter().find(|of| of.name == read::GLOBAL);
        of.iter().for_each(|of| context.see(of));
        let mut options = Self {
            of,
            http_port: "80",
            https_port: "443",
            bind: Vec::new(),
            has_acme: true,
            redirects: true,
        };
        for line in of.iter().flat_map(|of| of.block.iter().flatten()) {
            let word = line.words.first().map_or("", String::as_str);
            match &*line.name {
                "http_port" => options.http_port = word,
                "https_port" => options.https_port = word,
                "default_bind" => options.bind = line.words.iter().map(String::as_str).collect(),
                "auto_https" if word == "off" => (options.has_acme, options.redirects) = (false, false),
                "auto_https" if word == "disable_redirects" => options.redirects = false,
                "auto_https" if word == "disable_certs" => options.has_acme = false,
                "email" | "acme_ca" => {}
                _ => continue,
            }
            context.see(line);
        }
        options
    }

    fn line(&self, name: &str) -> Option<&'t Directive> {
        self.of?.block.iter().flatten().find(|of| of.name == name)
    }
}

impl Address {
    fn of(text: &str) -> Self {
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => (Some("http"), rest),
            Some(("https", rest)) => (Some("https"), rest),
            _ => (None, text),
        };
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
                (host, Some(port.to_owned()))
            }
            _ => (rest, None),
        };
        Self { scheme, host: host.trim_matches(['[', ']']).to_ascii_lowercase(), port }
    }

    /// Whether Flash has such a name.
    fn is_strange(&self) -> bool {
        self.host.strip_prefix("*.").unwrap_or(&self.host).contains(['*', '/', '{', ' '])
    }

    /// The ports that it is answered at, each with whether TLS is spoken there. `has_policy` is that of its site.
    fn ports(&self, options: &Options<'_>, has_policy: bool) -> Vec<(String, bool)> {
        let port = self.port.as_deref();
        let is_plain = match self.scheme {
            Some(scheme) => scheme == "http",
            None if port == Some(options.http_port) => true,
            None if has_policy => false,
            None => {
                self.host.is_empty() && port != Some(options.https_port)
                    || !options.has_acme && !options.redirects
            }
        };
        let default = if is_plain { options.http_port } else { options.https_port };
        let mut ports = vec![(self.port.clone().unwrap_or_else(|| default.to_owned()), !is_plain)];
        if !is_plain && options.redirects && !self.host.is_empty() {
            ports.push((options.http_port.to_owned(), false));
        }
        ports
    }
}

/// A site with its names and listeners.
fn block<'t>(of: &'t Directive, options: &Options<'t>) -> Block<'t> {
    let block = of.block.as_deref().unwrap_or_default();
    let addresses: Vec<Address> = of.words.iter().map(|text| Address::of(text)).collect();
    let own =
        block.iter().find(|of| of.name == "bind").map(|of| of.words.iter().map(String::as_str).collect());
    let bind: Vec<&str> = own.unwrap_or_else(|| options.bind.clone());
    let has_policy = tls::policy(block).is_some();
    let (mut names, mut listens): (Vec<String>, Vec<Listen>) = (Vec::new(), Vec::new());
    for address in addresses.iter().filter(|address| !address.is_strange()) {
        for (port, is_tls) in address.ports(options, has_policy) {
            let hosts = if bind.is_empty() { vec![""] } else { bind.clone() };
            for host in hosts {
                let host = if host.contains(':') && !host.starts_with('[') {
                    format!("[{host}]")
                } else {
                    host.to_owned()
                };
                let listen = Listen::new(format!("{host}:{port}"), is_tls, address.host.is_empty(), false);
                if !listens.iter().any(|known| known.at == listen.at) {
                    listens.push(listen);
                }
            }
        }
        if !address.host.is_empty() && !names.contains(&address.host) {
            names.push(address.host.clone());
        }
    }
    let strange = if addresses.iter().any(Address::is_strange) { vec![of] } else { Vec::new() };
    Block { of, block, listens, names, strange }
}

/// With Caddy, TLS is a matter of the address: all sites there have it, or none.
fn speak_alike(blocks: &mut [Block<'_>]) {
    let with_tls: Vec<Listen> =
        blocks.iter().flat_map(|block| &block.listens).filter(|listen| listen.is_tls).cloned().collect();
    for listen in blocks.iter_mut().flat_map(|block| &mut block.listens) {
        if let Some(known) = with_tls.iter().find(|known| known.at == listen.at) {
            *listen = Listen { is_default: listen.is_default, ..known.clone() };
        }
    }
}

/// A site with its answers, and the keys of its certificates.
fn made<'t>(block: &Block<'t>, scope: &Scope<'t>, options: &Options<'t>) -> (Site, Answers, Settings) {
    let mut site = Site {
        names: scope.hosts.clone(),
        own: Settings::new(),
        places: Vec::new(),
        sources: vec![block.of.source.clone()],
    };
    let mut answers = Answers::default();
    for of in &block.strange {
        scope.left(
            of,
            "addresses have http, https or no scheme, and whole names, or *.example.org: write each",
            Paths::All,
        );
    }
    if block.block.is_empty() && block.names.is_empty() {
        answers.is_missing = true;
        return (site, answers, Settings::new());
    }
    site::fill(scope, block.of, &mut site);
    let clients = tls::clients(scope).unwrap_or_else(|(line, why)| {
        site::close(scope, line, why, &mut site);
        Settings::new()
    });
    if let Some(line) = tls::policy(block.block)
        && !block.listens.iter().any(|listen| listen.is_tls)
    {
        site::close(scope, line, "no listener of the site speaks TLS", &mut site);
    }
    if let Some(order) = options.line("order") {
        site::close(scope, order, "directives have Caddy's own order here", &mut site);
    }
    if options.redirects && block.listens.iter().any(|listen| listen.is_tls) && !block.names.is_empty() {
        let mut own = Settings::new();
        set(&mut own, "https", Value::Text("required".into()), Some(block.of));
        answers.https = own.remove("https");
    }
    (site, answers, tls::settings(scope, block, options.has_acme, clients))
}

#[cfg(test)]
mod tests;
