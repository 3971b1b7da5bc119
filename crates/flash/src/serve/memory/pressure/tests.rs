//! Files as kernels make them, and a cache's size over time.

use std::fs;

use super::*;

const MEBI: u64 = 1 << 20;

fn left(groups: &str, mounts: &str, files: &[(&str, &str)]) -> (Option<u64>, Vec<Option<Duration>>) {
    let root = super::super::tests::machine(groups, mounts, files);
    let files = MemoryFiles::open(root.path());
    (files.left_bytes().map(|bytes| bytes / MEBI), files.stalled())
}

#[test]
fn version_2_counts_what_cannot_be_reclaimed() {
    use super::super::tests::V2;
    let stat = "anon 52428800\nfile 70000000\nshmem 10485760\nactive_anon 1048576\ninactive_anon 61865984\nkernel_stack 1048576\nslab_reclaimable 9000000\n";
    let pressure = "some avg10=1.00 avg60=0.00 avg300=0.00 total=900\nfull avg10=0.50 avg60=0.00 total=250\n";
    let files = [
        ("sys/fs/cgroup/a/memory.max", "134217728\n"),
        ("sys/fs/cgroup/a/memory.high", "max\n"),
        ("sys/fs/cgroup/a/memory.stat", stat),
        ("sys/fs/cgroup/a/memory.pressure", pressure),
    ];
    assert_eq!(left("0::/a", V2, &files), (Some(128 - 50 - 10 - 1), vec![Some(Duration::from_micros(250))]));
}

#[test]
fn version_1_counts_the_groups_below_as_well() {
    use super::super::tests::V1;
    let stat = "rss 1048576\nshmem 1048576\ntotal_rss 20971520\ntotal_shmem 4194304\ntotal_inactive_anon 24117248\ntotal_active_anon 1048576\ntotal_unevictable 2097152\ntotal_cache 70000000\n";
    let files = [
        ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "67108864\n"),
        ("sys/fs/cgroup/memory/a/memory.stat", stat),
    ];
    assert_eq!(left("4:memory:/a", V1, &files), (Some(64 - 20 - 4 - 2), vec![None]));
}

#[test]
fn without_a_limit_the_machine_tells_or_nobody() {
    assert_eq!(left("", "", &[]).0, None, "an old kernel has no MemAvailable");
    assert_eq!(left("", "", &[("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    2048 kB\n")]).0, Some(2));
    let files = MemoryFiles::open(Path::new("/nowhere/at/all"));
    assert_eq!((files.left_bytes(), files.stalled()), (None, Vec::new()));
}

#[test]
fn a_limit_that_changes_is_seen() {
    use super::super::tests::{V2, machine};
    let files = [
        ("sys/fs/cgroup/a/memory.max", "134217728\n"),
        ("sys/fs/cgroup/a/memory.stat", "active_anon 1048576\n"),
    ];
    let root = machine("0::/a", V2, &files);
    let files = MemoryFiles::open(root.path());
    assert_eq!(files.left_bytes(), Some(127 * MEBI));
    fs::write(root.path().join("sys/fs/cgroup/a/memory.max"), "67108864\n").unwrap();
    assert_eq!(files.left_bytes(), Some(63 * MEBI));
}

#[test]
fn a_cache_has_half_of_what_is_left_and_comes_back_in_steps() {
    let mut size = Size::new(32 * MEBI, Vec::new());
    let mut next = |used, left| size.next(used * MEBI, left * MEBI, Vec::new()).map(|bytes| bytes / MEBI);
    assert_eq!(next(32, 80), None, "there is enough");
    assert_eq!(next(32, 8), Some(20), "8 are left, and its own 32");
    assert_eq!(next(20, 20), None, "it holds as much as is left");
    assert_eq!(next(20, 19), None, "too little to tell");
    assert_eq!(next(20, 0), Some(10));
    assert_eq!(next(10, 0), Some(5), "however small it is");
    assert_eq!([next(5, 20), next(7, 20), next(9, 20)], [Some(7), Some(9), Some(11)]);
    assert_eq!(next(11, 9), Some(10));
    assert_eq!([next(10, 100), next(12, 98), next(14, 96)], [Some(12), Some(14), Some(16)]);
    for _ in 0..8 {
        next(16, 100);
    }
    assert_eq!(next(32, 100), None, "it has its largest size again");
}

#[test]
fn long_waits_for_memory_shrink_it_too() {
    let mut size =
        Size::new(32 * MEBI, vec![Some(Duration::from_secs(40)), Some(Duration::from_secs(5)), None]);
    // The group above waited longer, before this server began.
    let mut next = |ms: u64| {
        size.next(
            32 * MEBI,
            100 * MEBI,
            vec![
                Some(Duration::from_secs(40)),
                Some(Duration::from_millis(ms)),
                Some(Duration::from_secs(9)),
            ],
        )
    };
    assert_eq!(next(5_090), None);
    assert_eq!(next(5_200), Some(24 * MEBI));
    assert_eq!(next(5_200), Some(26 * MEBI), "it grows once nobody waits");
}
