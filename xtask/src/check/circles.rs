//! No two files of a crate need each other: what a file imports, or names by its path, may not lead back to it. A file that
//! declares another as its module does not need it for that; what a module uses of its parent, it needs. Re-exports are followed
//! to what they stand for. Code for tests alone does not count.

mod graph;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use self::graph::{Edge, Graph, Knot};
use self::names::Names;
use super::Finding;
use super::source::Source;

/// Checks the files below the `src` folders of our crates.
pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, folder) in packages(sources) {
        for Knot { modules, circle } in crates(&folder, sources).iter().flat_map(Crate::knots) {
            let way: Vec<&str> = circle.iter().map(|edge| &*edge.from).chain([&*circle[0].from]).collect();
            let of = match modules.len() - circle.len() {
                0 => String::new(),
                more => format!("; {more} more files hang together with it"),
            };
            let message = format!("{package}: an import circle: {}{of}", way.join(" -> "));
            findings.push(Finding { place: circle[0].place.clone(), message });
        }
    }
    findings
}

/// Our packages with their folders of sources.
fn packages(sources: &[Source]) -> BTreeMap<String, String> {
    let mut packages = BTreeMap::new();
    for source in sources {
        if let Some((package, _)) = source.path.split_once("/src/") {
            let name = package.rsplit('/').next().unwrap_or(package);
            packages.insert(name.to_owned(), format!("{package}/src/"));
        }
    }
    packages
}

/// The crates of a package: its library, and its programs.
fn crates(folder: &str, sources: &[Source]) -> Vec<Crate> {
    let is_root = |path: &str| {
        let below = path.strip_prefix(folder).unwrap_or_default();
        matches!(below, "lib.rs" | "main.rs")
            || below
                .strip_prefix("bin/")
                .is_some_and(|name| !name.contains('/') || name.ends_with("/main.rs"))
    };
    let roots = sources.iter().filter(|source| source.path.starts_with(folder) && is_root(&source.path));
    roots.map(|root| Crate::read(root, sources)).collect()
}

/// A module's path, without `crate`.
type Module = Vec<String>;

/// Modules that are files.
struct Crate {
    modules: BTreeMap<Module, Names>,
}

impl Crate {
    /// Reads the files that make a crate, from its first on.
    fn read(root: &Source, sources: &[Source]) -> Crate {
        let mut this = Crate { modules: BTreeMap::new() };
        let folder = root.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        this.read_module(Vec::new(), root, folder, sources);
        this
    }

    fn read_module(&mut self, module: Module, source: &Source, folder: &str, sources: &[Source]) {
        let names = Names::read(source);
        for child in names.modules.clone() {
            let (flat, own) = (format!("{folder}/{child}.rs"), format!("{folder}/{child}/mod.rs"));
            if let Some(file) = sources.iter().find(|file| file.path == flat || file.path == own) {
                let module = [&module[..], slice::from_ref(&child)].concat();
                self.read_module(module, file, &format!("{folder}/{child}"), sources);
            }
        }
        self.modules.insert(module, names);
    }

    fn knots(&self) -> Vec<Knot> {
        let mut graph = Graph::default();
        for (module, names) in &self.modules {
            for used in &names.used {
                if let Some(to) = self.resolve(module, &used.path, &mut BTreeSet::new())
                    && to != *module
                {
                    graph.add(Edge { from: shown(module), to: shown(&to), place: used.place.clone() });
                }
            }
        }
        graph.knots()
    }

    /// The file that defines what a path means there. None for other crates' things.
    fn resolve(
        &self,
        from: &Module,
        path: &[String],
        seen: &mut BTreeSet<(Module, String)>,
    ) -> Option<Module> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match &**first {
            "crate" => Vec::new(),
            "self" => from.clone(),
            "super" => from[..from.len().checked_sub(1)?].to_vec(),
            child => {
                rest = path;
                if !self.modules.contains_key(&[&from[..], &[child.to_owned()]].concat()) {
                    return None;
                }
                from.clone()
            }
        };
        while let Some((name, more)) = rest.split_first() {
            let below = [&at[..], slice::from_ref(name)].concat();
            if name == "super" {
                at.pop()?;
            } else if name == "self" {
            } else if self.modules.contains_key(&below) {
                at = below;
            } else {
                // What it re-exports comes from elsewhere.
                return self.re_exported(&at, name, more, seen).or(Some(at));
            }
            rest = more;
        }
        Some(at)
    }

    fn re_exported(
        &self,
        at: &Module,
        name: &str,
        more: &[String],
        seen: &mut BTreeSet<(Module, String)>,
    ) -> Option<Module> {
        if !seen.insert((at.clone(), name.to_owned())) {
            return None;
        }
        let names = self.modules.get(at)?;
        let named = names.used.iter().filter(|used| used.name.as_deref() == Some(name));
        let mut found = named.filter_map(|used| self.resolve(at, &[&used.path, more].concat(), seen));
        found.next()
    }
}

fn shown(module: &Module) -> String {
    if module.is_empty() { "crate".to_owned() } else { module.join("::") }
}

#[cfg(test)]
mod tests;
