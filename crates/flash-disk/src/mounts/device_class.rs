//! The class of a device: what may be tried without waiting, and what must be left to a helper.
//!
//! The type of the filesystem decides most. The rest is [probed](super::probe).

use flash_os::mounts::MountInfo;

use super::path::below;

/// What holds for all files of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClass {
    /// Local by its type, but not probed yet, so for now it counts as remote.
    Unproven,
    /// Memory is tried first, and a helper does the rest.
    Local(Capabilities),
    /// Any call may wait for another machine or another program, so helpers make all calls.
    Remote,
}

/// What this kernel can do at once on a local filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// `RESOLVE_CACHED` walks through names that are in memory.
    pub looks_now: bool,
    /// `RWF_NOWAIT` reads what is in memory.
    pub reads_now: bool,
    /// `mincore` sees what is in memory, if this process may know it.
    pub tells_residency: bool,
    pub names: NameRule,
}

/// For how long the names of a folder may be held in memory. It follows from the type of the filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// They may not be held.
    Ask,
    /// For a short time, while the folder's stamp is the same. A change in an overlay's layers leaves the stamp as it
    /// is.
    Briefly,
    /// While the folder's stamp is the same.
    WhileUnchanged,
}

impl Capabilities {
    /// All that is probed.
    pub(crate) const ALL: Self =
        Self { looks_now: true, reads_now: true, tells_residency: true, names: NameRule::Ask };
}

impl NameRule {
    pub(crate) fn of(kind: &[u8]) -> Self {
        match kind {
            b"overlay" => Self::Briefly,
            _ if LISTED.iter().any(|listed| listed.as_bytes() == kind) => Self::WhileUnchanged,
            _ => Self::Ask,
        }
    }
}

impl DeviceClass {
    /// Whether calls with `RESOLVE_CACHED` and `RWF_NOWAIT` are known not to wait.
    pub fn is_local(self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// Whether names and attributes may be looked up without waiting.
    pub fn looks_now(self) -> bool {
        matches!(self, Self::Local(Capabilities { looks_now: true, .. }))
    }

    /// Whether content may be read without waiting.
    pub fn reads_now(self) -> bool {
        matches!(self, Self::Local(Capabilities { reads_now: true, .. }))
    }

    /// Whether its files are read for their digests. One that hangs would hold up those of all others.
    pub(crate) fn is_digested(self) -> bool {
        self != Self::Remote
    }

    /// For how long the names of a folder may be held in memory.
    pub(crate) fn name_rule(self) -> NameRule {
        match self {
            Self::Local(capabilities) => capabilities.names,
            Self::Unproven | Self::Remote => NameRule::Ask,
        }
    }

    /// Whether pages of the cache may be sent. Without a probe, a look at them errs on the safe side.
    pub(crate) fn lends(self) -> bool {
        matches!(self, Self::Unproven | Self::Local(Capabilities { tells_residency: true, .. }))
    }
}

/// Types that use only this machine's memory and disks. All others count as remote. Some have a server (`nfs`, `cifs`, `9p`,
/// `ceph`) or a program (`fuse` in all its forms). Others have walks that wait (`autofs`), or are shared by machines (`gfs2`).
/// Unknown types count as remote too.
const LOCAL: [&str; 31] = [
    "affs", "bcachefs", "btrfs", "cramfs", "devtmpfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs",
    "hfs", "hfsplus", "iso9660", "jffs2", "jfs", "minix", "msdos", "nilfs2", "ntfs3", "ramfs", "reiserfs",
    "romfs", "rootfs", "squashfs", "tmpfs", "ubifs", "udf", "vfat", "xfs", "zfs",
];

/// Local types on which each change of a folder's names sets its times, and only listed names are found. Others have
/// short names (`vfat`), hidden ones (`zfs`), or several spellings of a name.
const LISTED: [&str; 10] =
    ["btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "ramfs", "squashfs", "tmpfs", "xfs"];

/// Whether the filesystem of `line` is local. `all` are the mounts that an overlay's layers may be on.
pub(crate) fn is_local(line: &MountInfo, all: &[MountInfo]) -> bool {
    if line.kind == b"overlay" {
        // An overlay is local if its layers are. Layers of another mount namespace, as in a container, are not found
        // here and count as local. So does an overlay on an overlay.
        return layers(&line.options)
            .filter_map(|layer| holder(layer, all))
            .all(|holder| holder.kind == line.kind || is_local(holder, all));
    }
    LOCAL.iter().any(|local| local.as_bytes() == line.kind)
}

/// The folders of an overlay's layers.
fn layers(options: &[u8]) -> impl Iterator<Item = &[u8]> {
    const KEYS: [&[u8]; 5] = [b"lowerdir=", b"lowerdir+=", b"upperdir=", b"datadir=", b"datadir+="];
    options.split(|&byte| byte == b',').flat_map(|option| {
        let value = KEYS.iter().find_map(|key| option.strip_prefix(*key)).unwrap_or_default();
        value.split(|&byte| byte == b':').filter(|layer| layer.starts_with(b"/"))
    })
}

/// The mount that a path is on, by its name alone. Of stacked mounts it is the last.
fn holder<'a>(path: &[u8], all: &'a [MountInfo]) -> Option<&'a MountInfo> {
    all.iter().filter(|line| below(path, &line.point).is_some()).max_by_key(|line| line.point.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, point: &str, options: &str) -> MountInfo {
        let (point, kind, options) = (point.into(), kind.into(), options.into());
        MountInfo { id: 1, parent: 0, major: 0, minor: 1, point, kind, options }
    }

    #[test]
    fn by_type() {
        for (kind, local) in [
            ("ext4", true),
            ("tmpfs", true),
            ("nfs4", false),
            ("fuse", false),
            ("fuse.ext4", false),
            ("fuseblk", false),
            ("ext4fs", false),
            ("ext", false),
            ("", false),
        ] {
            assert_eq!(is_local(&line(kind, "/x", ""), &[]), local, "{kind}");
        }
    }

    #[test]
    fn names_are_held_where_a_change_leaves_a_trace() {
        for (kind, rule) in [
            ("ext4", NameRule::WhileUnchanged),
            ("xfs", NameRule::WhileUnchanged),
            ("overlay", NameRule::Briefly),
            ("vfat", NameRule::Ask),
            ("nfs4", NameRule::Ask),
            ("", NameRule::Ask),
        ] {
            assert_eq!(NameRule::of(kind.as_bytes()), rule, "{kind}");
        }
        assert!(LISTED.iter().all(|listed| LOCAL.contains(listed)));
    }

    #[test]
    fn an_overlay_is_as_local_as_its_layers() {
        let all = [line("ext4", "/", ""), line("nfs", "/net", ""), line("overlay", "/o", "")];
        for (options, local) in [
            ("rw,lowerdir=/a:/b,upperdir=/c", true),
            ("rw,lowerdir=/a:/net/b,upperdir=/c", false),
            ("rw,lowerdir=/a,upperdir=/net", false),
            ("rw,lowerdir+=/a,lowerdir+=/net/x", false),
            ("rw,lowerdir=/network/a", true),
            ("rw,lowerdir=/o/a", true),
            ("rw", true),
        ] {
            assert_eq!(is_local(&line("overlay", "/x", options), &all), local, "{options}");
        }
        let covered = [line("ext4", "/a", ""), line("nfs", "/a", "")];
        assert!(!is_local(&line("overlay", "/x", "lowerdir=/a/l"), &covered), "the last one mounted is seen");
    }
}
