//! The table of mounts: which mount a name below the root belongs to. A new table is made at each change of the list,
//! and loops read the newest.

use std::collections::HashMap;
use std::sync::Arc;

use super::device_class::DeviceClass;
use super::mount_root::MountRoot;
use super::mountinfo::MountInfo;
use super::path::below;

/// A device that jobs wait for: a filesystem, which may be mounted several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Stays the same while the filesystem is mounted. No other one ever has it.
    pub number: u32,
    pub class: DeviceClass,
}

impl Device {
    /// All unknown places: targets of links out of a mount, users' homes that were not opened yet, mounts that are
    /// gone or new.
    pub const ELSEWHERE: Self = Self { number: 0, class: DeviceClass::Remote };

    /// The device of the spool. It has helpers of its own, so uploads take none from reads.
    pub const SPOOL: Self = Self { number: u32::MAX, class: DeviceClass::Remote };
}

/// A mount that names below the root lead to.
#[derive(Clone, Debug)]
pub(crate) struct Mount {
    /// The device that a walk here may wait for: the mount's own, or a remote one on the way.
    pub(crate) device: Device,
    /// Relative to the root, without slashes at its ends. Empty for the root's own mount.
    pub(crate) point: Vec<u8>,
    /// Where walks that must not wait begin. `None` if no such walk is possible.
    pub(crate) mount_root: Option<Arc<MountRoot>>,
}

#[derive(Debug)]
pub(crate) struct Table {
    root: Mount,
    /// The mounts below the root that a walk can reach, the longest names first.
    below: Vec<Mount>,
    /// The devices of all mounts, by the mount's number.
    devices: HashMap<u64, Device>,
    /// The devices' names in logs, by their numbers.
    names: HashMap<u32, String>,
}

/// The mounts of a list that names below the root lead to.
pub(crate) struct Reached<'a> {
    /// The root's own mount. `None` if an old kernel does not tell, or the mount is gone.
    pub(crate) own: Option<&'a MountInfo>,
    pub(crate) below: Vec<&'a MountInfo>,
}

impl<'a> Reached<'a> {
    /// `own` is the mount that the root's folder was opened on, and `base` its real path.
    pub(crate) fn new(lines: &'a [MountInfo], own: Option<u64>, base: &[u8]) -> Self {
        let own = lines.iter().find(|line| Some(line.id) == own);
        let below =
            lines.iter().filter(|line| own.is_some_and(|own| reaches(lines, own, base, line))).collect();
        Self { own, below }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &'a MountInfo> {
        self.own.into_iter().chain(self.below.iter().copied())
    }
}

impl Table {
    pub(crate) fn new(
        lines: &[MountInfo],
        reached: &Reached<'_>,
        base: &[u8],
        device: impl Fn(&MountInfo) -> Device,
        mount_root: impl Fn(&MountInfo) -> Option<Arc<MountRoot>>,
    ) -> Self {
        let mount = |line: &MountInfo, point: &[u8]| {
            let (device, mount_root) = (device(line), mount_root(line));
            Mount { device, point: point.to_vec(), mount_root }
        };
        let root = reached.own.map_or_else(
            || Mount { device: Device::ELSEWHERE, point: Vec::new(), mount_root: None },
            |line| mount(line, b""),
        );
        // The outermost first, because each depends on those on its way.
        let mut mounts: Vec<Mount> =
            reached.below.iter().filter_map(|line| Some(mount(line, below(&line.point, base)?))).collect();
        mounts.sort_by_key(|mount| mount.point.len());
        for at in 0..mounts.len() {
            let (above, rest) = mounts.split_at_mut(at);
            let on_the_way = above
                .iter()
                .rev()
                .find(|above| below(&rest[0].point, &above.point).is_some())
                .unwrap_or(&root);
            if on_the_way.device.class == DeviceClass::Remote {
                (rest[0].device, rest[0].mount_root) = (on_the_way.device, None);
            }
        }
        mounts.reverse();
        let devices = lines.iter().map(|line| (line.id, device(line))).collect();
        let mut names = HashMap::new();
        // A mount point below the root is the preferred name.
        for line in reached.all().chain(lines) {
            names.entry(device(line).number).or_insert_with(|| {
                let (point, kind) =
                    (String::from_utf8_lossy(&line.point), String::from_utf8_lossy(&line.kind));
                format!("{point} ({kind})")
            });
        }
        Self { root, below: mounts, devices, names }
    }

    /// The mount that a name below the root belongs to, without regard to symbolic links, and the name from there on.
    pub(crate) fn mount_of<'a>(&self, name: &'a [u8]) -> (&Mount, &'a [u8]) {
        let inner = self.below.iter().find_map(|mount| Some((mount, below(name, &mount.point)?)));
        inner.unwrap_or((&self.root, name))
    }

    pub(crate) fn name_of(&self, device: Device) -> String {
        self.names.get(&device.number).map_or_else(|| "elsewhere".to_owned(), Clone::clone)
    }

    pub(crate) fn device_of(&self, mount: Option<u64>) -> Device {
        mount.and_then(|mount| self.devices.get(&mount).copied()).unwrap_or(Device::ELSEWHERE)
    }
}

/// Whether a walk from the root reaches this mount, and not one that hides it. It walks as the kernel does, and
/// crosses at the first mount point on its way.
fn reaches(lines: &[MountInfo], own: &MountInfo, base: &[u8], wanted: &MountInfo) -> bool {
    if below(&wanted.point, base).is_none_or(<[u8]>::is_empty) {
        // A mount on the root's folder that came after the folder was opened is not visible from it.
        return false;
    }
    let mut at = own;
    let mut crossed = base;
    // A walk crosses each mount at most once.
    for _ in 0..lines.len() {
        let next = lines
            .iter()
            .rev()
            .filter(|line| line.parent == at.id && line.id != at.id)
            .filter(|line| below(&wanted.point, &line.point).is_some())
            // Not before the last mount point, and on it only if mounts are stacked.
            .filter(|line| below(&line.point, crossed).is_some_and(|on| !on.is_empty() || at.id != own.id))
            .min_by_key(|line| line.point.len());
        match next {
            None => return at.id == wanted.id,
            Some(line) => (at, crossed) = (line, &line.point),
        }
    }
    false
}

#[cfg(test)]
mod tests;
