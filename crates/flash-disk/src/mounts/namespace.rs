//! The mounts of this process's namespace, and what is known of their filesystems. All roots share them, so a change of the
//! list is read once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flash_os::file_stat;
use flash_os::mounts::MountInfo;

use super::device_class::{self, Capabilities, DeviceClass, NameRule};
use super::table::{Device, Reached};

#[derive(Debug)]
pub(crate) struct Namespace {
    /// In the kernel's order.
    mounts: Arc<[Known]>,
    by_id: HashMap<u64, usize>,
    /// All mounts, in the order of their points.
    by_point: Vec<usize>,
    filesystems: HashMap<Filesystem, Facts>,
    /// The mounts that some root reaches.
    near: HashSet<u64>,
    last_number: u32,
}

#[derive(Debug)]
struct Known {
    line: MountInfo,
    is_local: bool,
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

/// The devices of all mounts, as threads see them that wait for no lock.
#[derive(Debug)]
pub(crate) struct Devices {
    mounts: Arc<[Known]>,
    by_id: HashMap<u64, Device>,
    numbers: HashSet<u32>,
    near: HashSet<u64>,
}

impl Known {
    /// The numbers by which open files know the mount.
    fn ids(&self) -> impl Iterator<Item = u64> + use<> {
        let (major, minor) = (self.line.major, self.line.minor);
        let device = || file_stat::mount_of_device(file_stat::device_of(major, minor));
        [self.line.id].into_iter().chain(file_stat::is_mount_a_device().then(device))
    }
}

impl Filesystem {
    fn of(line: &MountInfo) -> Self {
        Self { major: line.major, minor: line.minor, kind: line.kind.clone() }
    }
}

impl Namespace {
    pub(crate) fn new(lines: Vec<MountInfo>) -> Self {
        let mut namespace = Self {
            mounts: Arc::default(),
            by_id: HashMap::new(),
            by_point: Vec::new(),
            filesystems: HashMap::new(),
            near: HashSet::new(),
            last_number: Device::ELSEWHERE.number,
        };
        namespace.update(lines);
        namespace
    }

    /// Takes a new list. Roots have to say again what they [reach](Self::reach).
    pub(crate) fn update(&mut self, lines: Vec<MountInfo>) {
        let before = std::mem::take(&mut self.filesystems);
        // One that is mounted again later is another device.
        for filesystem in lines.iter().map(Filesystem::of) {
            self.filesystems.entry(filesystem).or_insert_with_key(|filesystem| {
                before.get(filesystem).copied().unwrap_or_else(|| {
                    self.last_number += 1;
                    Facts { number: self.last_number, capabilities: None }
                })
            });
        }
        let locals: Vec<bool> = lines.iter().map(|line| device_class::is_local(line, &lines)).collect();
        self.mounts =
            lines.into_iter().zip(locals).map(|(line, is_local)| Known { line, is_local }).collect();
        self.by_id = self
            .mounts
            .iter()
            .enumerate()
            .flat_map(|(at, known)| known.ids().map(move |id| (id, at)))
            .collect();
        self.by_point = (0..self.mounts.len()).collect();
        self.by_point.sort_by_key(|&at| &self.mounts[at].line.point);
        self.near.clear();
    }

    pub(crate) fn get(&self, mount: u64) -> Option<&MountInfo> {
        self.by_id.get(&mount).map(|&at| &self.mounts[at].line)
    }

    /// The mounts with points below this folder, in the kernel's order.
    pub(crate) fn below(&self, folder: &[u8]) -> Vec<&MountInfo> {
        let mut prefix = folder.strip_suffix(b"/").unwrap_or(folder).to_vec();
        prefix.push(b'/');
        let point = |at: usize| &*self.mounts[at].line.point;
        let first = self.by_point.partition_point(|&at| *point(at) < *prefix);
        let from = self.by_point[first..].iter().copied();
        let mut below: Vec<usize> = from.take_while(|&at| point(at).starts_with(&prefix)).collect();
        below.retain(|&at| point(at) != prefix);
        below.sort_unstable();
        below.into_iter().map(|at| &self.mounts[at].line).collect()
    }

    /// Whether the filesystem of a mount of this list is local.
    pub(crate) fn is_local(&self, line: &MountInfo) -> bool {
        self.by_id.get(&line.id).is_some_and(|&at| self.mounts[at].is_local)
    }

    /// What the filesystem of this mount can do at once, if that is known.
    pub(crate) fn capabilities(&self, line: &MountInfo) -> Option<Capabilities> {
        self.filesystems.get(&Filesystem::of(line))?.capabilities
    }

    /// A mount was probed. Returns the number of its filesystem, if that changes what is known of it.
    pub(crate) fn entered(&mut self, mount: u64, capabilities: Capabilities) -> Option<u32> {
        let line = &self.mounts[*self.by_id.get(&mount)?].line;
        let facts = self.filesystems.get_mut(&Filesystem::of(line))?;
        let capabilities = Some(Capabilities { names: NameRule::of(&line.kind), ..capabilities });
        let is_new = facts.capabilities != capabilities;
        facts.capabilities = capabilities;
        is_new.then_some(facts.number)
    }

    /// A root reaches these mounts. Returns whether one of them was not [proven](DeviceClass::Unproven), and not known to be
    /// reached.
    pub(crate) fn reach(&mut self, mounts: &[u64]) -> bool {
        let mut is_news = false;
        for mount in mounts {
            let is_new = self.near.insert(*mount);
            is_news |= is_new && self.get(*mount).is_some_and(|line| self.capabilities(line).is_none());
        }
        is_news
    }

    /// The device of a mount of this list. `is_near` if a root reaches its filesystem.
    pub(crate) fn device(&self, line: &MountInfo, is_near: bool) -> Device {
        let Some(facts) = self.filesystems.get(&Filesystem::of(line)) else { return Device::ELSEWHERE };
        let class = match facts.capabilities {
            _ if !self.is_local(line) => DeviceClass::Remote,
            Some(capabilities) => DeviceClass::Local(capabilities),
            None if is_near => DeviceClass::Unproven,
            // Mounts beside the roots are not probed. They refuse what they cannot do, and never wait instead.
            None => DeviceClass::Local(Capabilities { names: NameRule::of(&line.kind), ..Capabilities::ALL }),
        };
        Device { number: facts.number, class }
    }

    pub(crate) fn devices(&self) -> Devices {
        let near: HashSet<Filesystem> =
            self.near.iter().filter_map(|mount| self.get(*mount)).map(Filesystem::of).collect();
        let device = |known: &Known| {
            let device = self.device(&known.line, near.contains(&Filesystem::of(&known.line)));
            known.ids().map(move |id| (id, device))
        };
        Devices {
            mounts: Arc::clone(&self.mounts),
            by_id: self.mounts.iter().flat_map(device).collect(),
            numbers: self.filesystems.values().map(|facts| facts.number).collect(),
            near: self.near.clone(),
        }
    }

    /// The mounts that a root reaches. `own` is the mount that its folder was opened on, and `base` its real path.
    pub(crate) fn reached(&self, own: Option<u64>, base: &[u8]) -> Reached<'_> {
        Reached::new(own.and_then(|own| self.get(own)), &self.below(base), base)
    }
}

impl Devices {
    pub(crate) fn of(&self, mount: Option<u64>) -> Device {
        mount.and_then(|mount| self.by_id.get(&mount).copied()).unwrap_or(Device::ELSEWHERE)
    }

    pub(crate) fn has(&self, device: Device) -> bool {
        self.numbers.contains(&device.number)
    }

    /// The device's name in logs. A mount point below a root is preferred.
    pub(crate) fn name_of(&self, device: Device) -> String {
        let lines = || self.mounts.iter().map(|known| &known.line);
        let is_devices = |line: &&MountInfo| self.of(Some(line.id)).number == device.number;
        let near = lines().filter(|line| self.near.contains(&line.id)).find(is_devices);
        near.or_else(|| lines().find(is_devices)).map_or_else(
            || "elsewhere".to_owned(),
            |line| {
                let (point, kind) =
                    (String::from_utf8_lossy(&line.point), String::from_utf8_lossy(&line.kind));
                format!("{point} ({kind})")
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::lines;
    use super::*;

    #[test]
    fn an_open_file_is_on_the_device_of_its_mount() {
        let mut namespace =
            Namespace::new(lines("1 0 1 /\n 2 1 2 /far nfs\n 3 2 3 /far/near\n 4 1 2 /s/far nfs"));
        let devices = namespace.devices();
        assert_eq!([None, Some(77)].map(|mount| devices.of(mount)), [Device::ELSEWHERE; 2]);
        let [far, near, again] = [2, 3, 4].map(|mount| devices.of(Some(mount)));
        assert_eq!(far, again, "two mounts of one filesystem are one device");
        assert!(far.class == DeviceClass::Remote && near.class.is_local());
        assert_eq!(devices.name_of(far), "/far (nfs)");
        assert_eq!(devices.name_of(Device::ELSEWHERE), "elsewhere");
        let reached = namespace.reached(Some(1), b"/s").numbers();
        assert_eq!(reached, [1, 4]);
        assert!(namespace.reach(&reached), "the root's own was not probed");
        assert!(!namespace.reach(&reached), "it is known by now");
        assert_eq!(
            namespace.devices().name_of(far),
            "/s/far (nfs)",
            "people know the place that a site sees"
        );
        assert_eq!(namespace.devices().of(Some(1)).class, DeviceClass::Unproven);
    }

    #[test]
    fn a_filesystem_keeps_its_number_while_it_is_mounted() {
        let mut namespace = Namespace::new(lines("1 0 1 /\n 2 1 2 /a\n 3 1 3 /b"));
        let [root, a, b] = [1, 2, 3].map(|mount| namespace.devices().of(Some(mount)).number);
        assert_eq!(namespace.entered(2, Capabilities::ALL), Some(a));
        assert_eq!(namespace.entered(2, Capabilities::ALL), None, "nothing new");
        assert_eq!(namespace.entered(77, Capabilities::ALL), None);
        namespace.update(lines("1 0 1 /\n 7 1 2 /c"));
        let devices = namespace.devices();
        assert_eq!([1, 7].map(|mount| devices.of(Some(mount)).number), [root, a]);
        assert!(namespace.capabilities(namespace.get(7).unwrap()).is_some());
        namespace.update(lines("1 0 1 /\n 3 1 3 /b"));
        assert!(
            ![root, a, b].contains(&namespace.devices().of(Some(3)).number),
            "mounted again, it is another"
        );
    }

    #[test]
    fn the_mounts_below_a_folder() {
        let namespace =
            Namespace::new(lines("1 0 1 /\n 2 1 2 /b\n 3 1 3 /a/b\n 4 1 4 /a\n 5 1 5 /ab\n 6 1 6 /a/a"));
        let below = |folder: &str| -> Vec<u64> {
            namespace.below(folder.as_bytes()).iter().map(|line| line.id).collect()
        };
        assert_eq!([below("/"), below("/a"), below("/a/b")], [vec![2, 3, 4, 5, 6], vec![3, 6], vec![]]);
    }
}
