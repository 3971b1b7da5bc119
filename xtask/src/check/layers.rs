//! Dependencies point one way, and the request path cannot reach a crate that can wait. What a crate's tests
//! use is its own affair.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::Finding;

/// Crates that make system calls or wait for them.
const SYSTEM: [&str; 12] = [
    "rustix",
    "libc",
    "nix",
    "mio",
    "polling",
    "io-uring",
    "socket2",
    "tokio",
    "async-std",
    "smol",
    "memmap2",
    "flash-os",
];
/// Where libc is only a lock's way to sleep until another thread lets go, or a hash's way to a seed.
const LOCKS: [&str; 2] = ["parking_lot_core", "getrandom"];

/// What each of our crates must not reach, by any way.
const RULES: [(&str, &[&str]); 24] = [
    ("flash-cli", &["flash-core", "flash-disk", "flash-arch", "flash"]),
    ("flash-http", &["flash-core", "flash-disk", "flash-arch", "flash-observe", "flash"]),
    ("flash-h2", &["flash-core", "flash-disk", "flash-arch", "flash-observe", "flash"]),
    ("flash-cgi", &["flash-core", "flash-disk", "flash-arch", "flash-observe", "flash"]),
    ("flash-compress", &["flash-core", "flash-os", "flash-disk", "flash-arch", "flash-observe", "flash"]),
    ("flash-core", &["flash-disk", "flash-arch", "flash-observe", "flash"]),
    ("flash-os", &["flash-disk", "flash-arch", "flash-observe", "flash"]),
    ("flash-trust", &["flash-core", "flash-os", "flash-disk", "flash-process", "flash-arch", "flash"]),
    ("flash-disk", &["flash-arch", "flash-observe", "flash"]),
    ("flash-process", &["flash-upstream", "flash-arch", "flash-disk", "flash-observe", "flash"]),
    ("flash-upstream", &["flash-arch", "flash-disk", "flash-observe", "flash"]),
    ("flash-observe", &["flash-arch", "flash-disk", "flash"]),
    ("flash-tls", &["flash-os", "flash-disk", "flash-arch", "flash-observe", "flash"]),
    ("flash-arch", &["flash"]),
    ("flash-config", &["flash-core", "flash-os", "flash-disk", "flash-process", "flash-arch", "flash"]),
    ("flash", &[]),
    ("flash-traffic", &["flash-core", "flash-disk", "flash-arch", "flash-load", "flash"]),
    ("flash-figure", &["flash-core", "flash-disk", "flash-arch", "flash"]),
    ("flash-rig", &["flash-core", "flash-disk", "flash-arch", "flash"]),
    ("flash-sleep", &["flash-core", "flash-os", "flash-disk", "flash-arch", "flash-why", "flash"]),
    ("flash-why", &["flash-core", "flash-disk", "flash-arch", "flash"]),
    ("flash-load", &["flash-arch", "flash"]),
    ("flash-sim", &["flash-arch", "flash"]),
    ("flash-lab", &["flash-arch", "flash"]),
];
const WITHOUT_SYSTEM_CALLS: [&str; 5] =
    ["flash-http", "flash-h2", "flash-cgi", "flash-compress", "flash-core"];
/// There for tests and experiments alone: no other crate with a rule reaches it.
const FOR_TESTS: &str = "flash-slowdisk";
const EXPERIMENTS: [&str; 3] = ["flash-rig", "flash-lab", "flash-sim"];

/// Checks what `cargo metadata` says.
pub(crate) fn check(metadata: &Value) -> Vec<Finding> {
    let graph = Graph::new(metadata);
    let mut findings = Vec::new();
    for (name, forbidden) in RULES {
        let mut forbidden = forbidden.to_vec();
        if !EXPERIMENTS.contains(&name) {
            forbidden.push(FOR_TESTS);
        }
        if WITHOUT_SYSTEM_CALLS.contains(&name) {
            forbidden.extend(SYSTEM);
        }
        for path in graph.paths(name) {
            let reached = path.last().copied().unwrap_or_default();
            if forbidden.contains(&reached) {
                let message = format!("reaches {reached}, which it must not ({})", path.join(" → "));
                findings.push(Finding { place: name.into(), message });
            }
        }
    }
    findings
}

/// The packages of this workspace.
pub(crate) fn members(metadata: &Value) -> impl Iterator<Item = &Value> {
    let members = metadata["workspace_members"].as_array();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages.filter(move |package| members.is_some_and(|members| members.contains(&package["id"])))
}

/// Who depends on whom, by package id, without what only tests and build scripts need.
struct Graph<'a> {
    names: HashMap<&'a str, &'a str>,
    below: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> Graph<'a> {
    fn new(metadata: &'a Value) -> Graph<'a> {
        let text = |value: &'a Value| value.as_str().unwrap_or_default();
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let names = packages.map(|package| (text(&package["id"]), text(&package["name"]))).collect();
        let mut below = HashMap::new();
        for node in metadata["resolve"]["nodes"].as_array().into_iter().flatten() {
            let needed = node["deps"].as_array().into_iter().flatten().filter(|dependency| {
                let kinds = dependency["dep_kinds"].as_array();
                kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
            });
            below.insert(text(&node["id"]), needed.map(|dependency| text(&dependency["pkg"])).collect());
        }
        Graph { names, below }
    }

    /// A shortest path to every crate that this one reaches. It does not look behind locks.
    fn paths(&self, name: &str) -> Vec<Vec<&'a str>> {
        let Some((&start, _)) = self.names.iter().find(|(_, found)| **found == name) else {
            return Vec::new();
        };
        let mut paths: HashMap<&str, Vec<&'a str>> = HashMap::from([(start, vec![self.names[start]])]);
        let mut next = VecDeque::from([start]);
        while let Some(id) = next.pop_front() {
            for &dependency in self.below.get(id).into_iter().flatten() {
                let Some(&name) = self.names.get(dependency) else { continue };
                if LOCKS.contains(&name) || paths.contains_key(dependency) {
                    continue;
                }
                let path = [paths[id].as_slice(), &[name]].concat();
                paths.insert(dependency, path);
                next.push_back(dependency);
            }
        }
        paths.remove(start);
        let mut paths: Vec<_> = paths.into_values().collect();
        paths.sort();
        paths
    }
}
