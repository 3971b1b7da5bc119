//! The table of mounts: which mount a name below the root belongs to. A new table is made at each change of the list,
//! and loops read the newest.

use std::sync::Arc;

use flash_os::mounts::MountInfo;

use super::device_class::DeviceClass;
use super::mount_root::MountRoot;
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
}

/// The mounts of a list that names below the root lead to.
pub(crate) struct Reached<'a> {
    /// The root's own mount. `None` if an old kernel does not tell, or the mount is gone.
    pub(crate) own: Option<&'a MountInfo>,
    pub(crate) below: Vec<&'a MountInfo>,
}

impl<'a> Reached<'a> {
    /// `own` is the mount that the root's folder was opened on, and `base` its real path. `lines` are the mounts below that.
    pub(crate) fn new(own: Option<&'a MountInfo>, lines: &[&'a MountInfo], base: &[u8]) -> Self {
        let is_reached = |line: &&&MountInfo| own.is_some_and(|own| reaches(lines, own, base, line));
        Self { own, below: lines.iter().filter(is_reached).copied().collect() }
    }

    /// The numbers of the mounts.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.own.iter().chain(&self.below).map(|line| line.id).collect()
    }
}

impl Table {
    pub(crate) fn new(
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
        Self { root, below: mounts }
    }

    /// The mount that a name below the root belongs to, without regard to symbolic links, and the name from there on.
    pub(crate) fn mount_of<'a>(&self, name: &'a [u8]) -> (&Mount, &'a [u8]) {
        let inner = self.below.iter().find_map(|mount| Some((mount, below(name, &mount.point)?)));
        inner.unwrap_or((&self.root, name))
    }

    /// Whether walks may wait for the filesystem of this number.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.below.iter().chain([&self.root]).any(|mount| mount.device.number == number)
    }
}

/// Whether a walk from the root reaches this mount, and not one that hides it. It walks as the kernel does, and
/// crosses at the first mount point on its way. A mount on the root's folder that came after the folder was opened is not
/// visible from it, and not among `lines`.
fn reaches(lines: &[&MountInfo], own: &MountInfo, base: &[u8], wanted: &MountInfo) -> bool {
    let mut at = own;
    let mut crossed = base;
    // A walk crosses each mount at most once.
    for _ in 0..=lines.len() {
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
pub(super) mod tests;
