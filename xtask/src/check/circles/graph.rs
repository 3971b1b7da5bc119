//! Which module needs which, and the knots in it: sets of modules that all lead to each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::slice;

/// A module's use of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// The module's path in its crate, `exchange::reply`; that of the crate's first file is `crate`.
    pub(super) from: String,
    pub(super) to: String,
    /// File and line of the use.
    pub(super) place: String,
}

/// Modules that all lead to each other.
#[derive(Debug)]
pub(super) struct Knot {
    pub(super) modules: BTreeSet<String>,
    /// The shortest circle of one of them.
    pub(super) circle: Vec<Edge>,
}

/// Edges by the module that they leave; of several between two modules the first.
#[derive(Default)]
pub(super) struct Graph {
    edges: BTreeMap<String, BTreeMap<String, Edge>>,
}

impl Graph {
    pub(super) fn add(&mut self, edge: Edge) {
        self.edges.entry(edge.from.clone()).or_default().entry(edge.to.clone()).or_insert(edge);
    }

    pub(super) fn knots(&self) -> Vec<Knot> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.edges.keys().map(|start| (&**start, self.reached(start))).collect();
        let mut knots: Vec<Knot> = Vec::new();
        for (start, ahead) in &reached {
            if knots.iter().any(|knot| knot.modules.contains(*start)) {
                continue;
            }
            let leads_back =
                |module: &&&str| reached.get(**module).is_some_and(|ahead| ahead.contains(start));
            let modules: BTreeSet<String> =
                ahead.iter().filter(leads_back).map(|&module| module.to_owned()).collect();
            // The shortest circle of all says most.
            let circles = modules.iter().filter_map(|module| self.shortest(module));
            if let Some(circle) = circles.min_by_key(Vec::len) {
                knots.push(Knot { modules, circle });
            }
        }
        knots
    }

    fn reached<'a>(&'a self, start: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut next = vec![start];
        while let Some(at) = next.pop() {
            let ahead = self.edges.get(at).into_iter().flat_map(BTreeMap::keys);
            next.extend(ahead.map(|to| &**to).filter(|to| reached.insert(*to)));
        }
        reached
    }

    /// The shortest way from a module back to it.
    fn shortest(&self, start: &str) -> Option<Vec<Edge>> {
        let mut seen = BTreeSet::new();
        let mut next = VecDeque::from([(start, Vec::new())]);
        while let Some((at, way)) = next.pop_front() {
            for (to, edge) in self.edges.get(at).into_iter().flatten() {
                let way = [&way[..], slice::from_ref(edge)].concat();
                if to == start {
                    return Some(way);
                }
                if seen.insert(to) {
                    next.push_back((to, way));
                }
            }
        }
        None
    }
}
