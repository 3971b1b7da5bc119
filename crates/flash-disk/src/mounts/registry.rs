//! The registry of mounts, which tables are made from.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::device_class::{self, Capabilities, DeviceClass, NameRule};
use super::mount_root::MountRoot;
use super::mountinfo::MountInfo;
use super::path::below;
use super::table::{Device, Reached, Table};

#[derive(Debug)]
pub(crate) struct Registry {
    /// The mount that the root's folder was opened on, and its real path.
    own: Option<u64>,
    base: Vec<u8>,
    lines: Vec<MountInfo>,
    filesystems: HashMap<Filesystem, Facts>,
    /// By the mount's number, which no other mount has while its root is open.
    mount_roots: HashMap<u64, Arc<MountRoot>>,
    /// The mounts that were or are being probed, with success or without.
    looked_at: HashSet<MountInfo>,
    numbers: Arc<Mutex<Numbers>>,
}

/// The numbers of filesystems, for all roots.
#[derive(Debug)]
struct Numbers {
    known: HashMap<Filesystem, u32>,
    last: u32,
}

impl Numbers {
    fn of(&mut self, filesystem: &Filesystem) -> u32 {
        if let Some(number) = self.known.get(filesystem) {
            return *number;
        }
        self.last += 1;
        self.known.insert(filesystem.clone(), self.last);
        self.last
    }
}

/// A filesystem's identity. The kernel reuses the numbers of unmounted filesystems, but seldom for the same type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Filesystem {
    major: u32,
    minor: u32,
    kind: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Facts {
    number: u32,
    capabilities: Option<Capabilities>,
}

impl Filesystem {
    fn of(line: &MountInfo) -> Self {
        Self { major: line.major, minor: line.minor, kind: line.kind.clone() }
    }
}

impl Registry {
    pub(crate) fn new(own: Option<u64>, base: &[u8]) -> Self {
        Self {
            own,
            base: base.to_vec(),
            lines: Vec::new(),
            filesystems: HashMap::new(),
            mount_roots: HashMap::new(),
            looked_at: HashSet::new(),
            numbers: Arc::new(Mutex::new(Numbers { known: HashMap::new(), last: Device::ELSEWHERE.number })),
        }
    }

    /// What is known, for another root: on this mount, at this real path.
    pub(crate) fn successor(&self, own: Option<u64>, base: &[u8]) -> Self {
        Self {
            lines: self.lines.clone(),
            filesystems: self.filesystems.clone(),
            numbers: Arc::clone(&self.numbers),
            ..Self::new(own, base)
        }
    }

    /// What the filesystem of the root's own mount can do at once, if that is known.
    pub(crate) fn own_capabilities(&self) -> Option<Capabilities> {
        let own = self.reached().own?;
        self.filesystems.get(&Filesystem::of(own))?.capabilities
    }

    pub(crate) fn lines(&self) -> &[MountInfo] {
        &self.lines
    }

    /// Takes a new list, and removes what is gone.
    pub(crate) fn update(&mut self, lines: Vec<MountInfo>) {
        let mut before = std::mem::take(&mut self.filesystems);
        let numbers = Arc::clone(&self.numbers);
        let mut numbers = numbers.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is mounted again later is another device.
        let there: HashSet<Filesystem> = lines.iter().map(Filesystem::of).collect();
        numbers.known.retain(|filesystem, _| there.contains(filesystem));
        for line in &lines {
            let filesystem = Filesystem::of(line);
            let facts = before.remove(&filesystem).or_else(|| self.filesystems.get(&filesystem).copied());
            let new = || Facts { number: numbers.of(&filesystem), capabilities: None };
            let facts = facts.unwrap_or_else(new);
            self.filesystems.insert(filesystem, facts);
        }
        self.mount_roots.retain(|mount, _| lines.iter().any(|line| line.id == *mount));
        self.looked_at.retain(|line| lines.contains(line));
        self.lines = lines;
    }

    /// The number of the root's own mount, if that is local.
    pub(crate) fn own_if_local(&self) -> Option<u64> {
        self.reached().own.filter(|own| device_class::is_local(own, &self.lines)).map(|own| own.id)
    }

    /// Takes the local mounts below the root that were not probed yet.
    pub(crate) fn unseen(&mut self) -> Vec<MountInfo> {
        let reached = self.reached();
        let below = reached.below.iter().filter(|line| device_class::is_local(line, &self.lines));
        let unseen: Vec<MountInfo> =
            below.filter(|line| !self.looked_at.contains(line)).map(|&line| line.clone()).collect();
        self.looked_at.extend(unseen.iter().cloned());
        unseen
    }

    /// A mount was probed: adds its root, and what its filesystem can do at once.
    pub(crate) fn entered(&mut self, mount: u64, mount_root: MountRoot, capabilities: Capabilities) {
        let Some(line) = self.lines.iter().find(|line| line.id == mount) else { return };
        if let Some(facts) = self.filesystems.get_mut(&Filesystem::of(line)) {
            facts.capabilities = Some(Capabilities { names: NameRule::of(&line.kind), ..capabilities });
        }
        self.mount_roots.insert(mount, Arc::new(mount_root));
    }

    /// Where a mount is, relative to the root.
    pub(crate) fn below_root(&self, line: &MountInfo) -> Option<Vec<u8>> {
        below(&line.point, &self.base).map(<[u8]>::to_vec)
    }

    pub(crate) fn table(&self) -> Table {
        let reached = self.reached();
        let near: HashSet<Filesystem> = reached.all().map(Filesystem::of).collect();
        let device = |line: &MountInfo| {
            let filesystem = Filesystem::of(line);
            let Some(facts) = self.filesystems.get(&filesystem) else { return Device::ELSEWHERE };
            let class = match facts.capabilities {
                _ if !device_class::is_local(line, &self.lines) => DeviceClass::Remote,
                Some(capabilities) => DeviceClass::Local(capabilities),
                None if near.contains(&filesystem) => DeviceClass::Unproven,
                // Mounts beside the root are not probed. They refuse what they cannot do, and never wait instead.
                None => {
                    DeviceClass::Local(Capabilities { names: NameRule::of(&line.kind), ..Capabilities::ALL })
                }
            };
            Device { number: facts.number, class }
        };
        Table::new(&self.lines, &reached, &self.base, device, |line| self.mount_roots.get(&line.id).cloned())
    }

    fn reached(&self) -> Reached<'_> {
        Reached::new(&self.lines, self.own, &self.base)
    }
}
