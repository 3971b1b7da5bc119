//! Tests on trees that are made up as kernels and container engines make them.

use super::*;
use std::path::Path;

const MEBI: u64 = 1 << 20;

/// A machine of 8 GiB with these files.
pub(super) fn machine(groups: &str, mounts: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder above")).expect("a new folder");
        fs::write(path, text).expect("a new file");
    };
    write("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:         1000000 kB\n");
    write("proc/self/cgroup", groups);
    write("proc/self/mountinfo", mounts);
    files.iter().for_each(|(path, text)| write(path, text));
    root
}

fn mebibytes(groups: &str, mounts: &str, files: &[(&str, &str)]) -> u64 {
    let root = machine(groups, mounts, files);
    available_bytes(root.path()).expect("MemTotal at least") / MEBI
}

const V1_NONE: &str = "9223372036854771712\n";
pub(super) const V1: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
pub(super) const V2: &str = "29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";

#[test]
fn without_limits_it_is_the_machines() {
    assert_eq!(mebibytes("", "", &[]), 8192);
    assert_eq!(mebibytes("0::/a", V2, &[("sys/fs/cgroup/a/memory.max", "max\n")]), 8192);
    assert_eq!(mebibytes("4:memory:/", V1, &[("sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NONE)]), 8192);
    assert_eq!(available_bytes(Path::new("/nowhere/at/all")), None);
}

#[test]
fn version_1_at_every_level() {
    let groups = "6:freezer:/x\n4:memory:/a/b\n1:cpu,cpuacct:/other\n0::/";
    let file = |level: &str| format!("sys/fs/cgroup/memory{level}/memory.limit_in_bytes");
    for (own, above, least) in
        [("134217728\n", V1_NONE, 128), (V1_NONE, "67108864\n", 64), ("67108864", "134217728", 64)]
    {
        let files = [(&*file(""), V1_NONE), (&*file("/a"), above), (&*file("/a/b"), own)];
        assert_eq!(mebibytes(groups, V1, &files), least);
    }
    let others = [(&*file("/c"), "1048576"), (&*file("/a/b/c"), "1048576")];
    assert_eq!(mebibytes(groups, V1, &others), 8192, "other cgroups' limits are none of ours");
}

#[test]
fn version_2_at_every_level() {
    let groups = "0::/system.slice/flash.service";
    let file = |path: &str| format!("sys/fs/cgroup/system.slice/{path}");
    for (own, above, least) in [("134217728\n", "max\n", 128), ("max\n", "67108864\n", 64)] {
        let files = [(&*file("flash.service/memory.max"), own), (&*file("memory.max"), above)];
        assert_eq!(mebibytes(groups, V2, &files), least);
    }
    let files = [
        (&*file("flash.service/memory.max"), "134217728"),
        (&*file("flash.service/memory.high"), "100663296"),
    ];
    assert_eq!(mebibytes(groups, V2, &files), 96, "beyond memory.high allocations wait");
}

#[test]
fn both_versions_are_mounted_and_the_first_limits() {
    let files = [("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "67108864")];
    assert_eq!(mebibytes("4:memory:/a\n0::/a", V1, &files), 64);
}

#[test]
fn in_containers() {
    let file = [("sys/fs/cgroup/memory.max", "67108864")];
    // With a namespace of cgroups, and once more as seen from outside of it.
    assert_eq!(mebibytes("0::/", V2, &file), 64);
    assert_eq!(mebibytes("0::/../other", V2, &file), 64);
    // Without one, version 2: the container's own part of the tree is mounted.
    let mounts = V2.replace("0:26 / ", "0:26 /docker/1a2b ");
    assert_eq!(mebibytes("0::/docker/1a2b", &mounts, &file), 64);
    assert_eq!(
        mebibytes("0::/docker/1a2b", V2, &file),
        64,
        "the path is not known here, the mount's root is"
    );
    // Version 1, with a part that another container has beside it.
    let own = V1.replace("0:32 / ", "0:32 /docker/1a2b ");
    let mounts = format!("33 31 0:32 /docker/3c4d /mnt/other rw - cgroup cgroup rw,memory\n{own}");
    let files = [
        ("mnt/other/memory.limit_in_bytes", "1048576"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864"),
    ];
    assert_eq!(mebibytes("4:memory:/docker/1a2b", &mounts, &files), 64);
}

#[test]
fn names_with_blanks_and_backslashes() {
    let mounts = V2.replace("/sys/fs/cgroup", "/a\\040b").replace("0:26 / ", "0:26 /u\\134x2d ");
    assert_eq!(mebibytes("0::/u\\x2d/c d", &mounts, &[("a b/c d/memory.max", "67108864")]), 64);
    for (written, plain) in [
        ("a", "a"),
        ("\\", "\\"),
        ("\\04", "\\04"),
        ("\\999", "\\999"),
        ("\\134\\040", "\\ "),
        ("\\04é", "\\04é"),
    ] {
        assert_eq!(unescaped(written), plain);
    }
}

#[test]
fn what_makes_no_sense_is_no_limit() {
    for (groups, mounts) in
        [("nonsense", "nonsense"), ("4:memory", V1), ("0::/a", "1 2 0:3 - cgroup2"), ("\n\n", "\n - \n")]
    {
        assert_eq!(mebibytes(groups, mounts, &[("sys/fs/cgroup/memory.max", "nonsense")]), 8192, "{groups}");
    }
}

#[test]
fn this_machine_has_memory() {
    assert!(available_bytes(Path::new("/")).expect("Linux tells") > MEBI);
}
