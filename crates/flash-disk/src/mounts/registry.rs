//! What is known of the mounts that one root reaches. Its tables are made from that.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flash_os::mounts::MountInfo;

use super::mount_root::MountRoot;
use super::namespace::Namespace;
use super::path::below;
use super::table::{Reached, Table};

#[derive(Debug)]
pub(crate) struct Registry {
    /// The mount that the root's folder was opened on, and its real path.
    own: Option<u64>,
    base: Vec<u8>,
    /// By the mount's number, which no other mount has while its root is open.
    mount_roots: HashMap<u64, Arc<MountRoot>>,
    /// The mounts below the root that were or are being probed, with success or without.
    looked_at: HashSet<MountInfo>,
}

impl Registry {
    pub(crate) fn new(own: Option<u64>, base: &[u8]) -> Self {
        Self { own, base: base.to_vec(), mount_roots: HashMap::new(), looked_at: HashSet::new() }
    }

    /// The list has changed: removes what is gone.
    pub(crate) fn update(&mut self, namespace: &Namespace) {
        self.mount_roots.retain(|mount, _| namespace.get(*mount).is_some());
        self.looked_at.retain(|line| namespace.get(line.id) == Some(line));
    }

    /// The root's own mount, if that is local.
    pub(crate) fn own_if_local<'a>(&self, namespace: &'a Namespace) -> Option<&'a MountInfo> {
        namespace.get(self.own?).filter(|own| namespace.is_local(own))
    }

    /// Takes the local mounts below the root that were not probed yet.
    pub(crate) fn unseen(&mut self, namespace: &Namespace) -> Vec<MountInfo> {
        let below = self.reached(namespace).below;
        let mut unseen: Vec<MountInfo> =
            below.into_iter().filter(|line| namespace.is_local(line)).cloned().collect();
        unseen.retain(|line| self.looked_at.insert(line.clone()));
        unseen
    }

    /// A mount was probed: walks may begin at its root.
    pub(crate) fn entered(&mut self, mount: u64, mount_root: MountRoot) {
        self.mount_roots.insert(mount, Arc::new(mount_root));
    }

    /// Where a mount is, relative to the root.
    pub(crate) fn below_root(&self, line: &MountInfo) -> Option<Vec<u8>> {
        below(&line.point, &self.base).map(<[u8]>::to_vec)
    }

    pub(crate) fn table(&self, namespace: &Namespace) -> Table {
        let mount_root = |line: &MountInfo| self.mount_roots.get(&line.id).cloned();
        Table::new(&self.reached(namespace), &self.base, |line| namespace.device(line, true), mount_root)
    }

    pub(crate) fn reached<'a>(&self, namespace: &'a Namespace) -> Reached<'a> {
        namespace.reached(self.own, &self.base)
    }
}
