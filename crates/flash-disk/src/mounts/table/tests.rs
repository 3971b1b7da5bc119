//! The table of mounts, on lists that people and property tests make up.

use proptest::prelude::*;

use super::super::device_class::Capabilities;
use super::super::namespace::Namespace;
use super::*;

/// `id parent minor point`, one mount per line, and the type if it is not a local one.
pub(in super::super) fn lines(text: &str) -> Vec<MountInfo> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        MountInfo {
            id: words[0].parse().unwrap(),
            parent: words[1].parse().unwrap(),
            major: 0,
            minor: words[2].parse().unwrap(),
            point: words[3].into(),
            kind: words.get(4).unwrap_or(&"ext4").as_bytes().to_vec(),
            options: Vec::new(),
        }
    };
    text.lines().filter(|text| !text.trim().is_empty()).map(line).collect()
}

fn table_of(lines: &[MountInfo], own: u64, base: &str) -> Table {
    let device = |line: &MountInfo| Device {
        number: line.minor,
        class: if line.kind == b"nfs" { DeviceClass::Remote } else { DeviceClass::Local(Capabilities::ALL) },
    };
    let (base, namespace) = (base.as_bytes(), Namespace::new(lines.to_vec()));
    Table::new(&namespace.reached(Some(own), base), base, device, |_| None)
}

fn table(text: &str, own: u64, base: &str) -> Table {
    table_of(&lines(text), own, base)
}

fn devices(table: &Table, names: &[&str]) -> Vec<u32> {
    names.iter().map(|name| table.mount_of(name.as_bytes()).0.device.number).collect()
}

#[test]
fn the_longest_prefix_in_whole_names() {
    let table = table(
        "1 0 1 /\n 2 1 2 /srv/site/a\n 3 2 3 /srv/site/a/b/c\n 4 1 4 /srv/other\n 5 1 5 /srv/site/a.b",
        1,
        "/srv/site",
    );
    assert_eq!(
        devices(
            &table,
            &["", "x", "a", "a/x", "a/b", "a/b/c", "a/b/c/x/y", "a/b/cc", "ab", "a.b/x", "other"]
        ),
        [1, 1, 2, 2, 2, 3, 3, 2, 1, 5, 1]
    );
    assert_eq!(table.mount_of(b"a/b/c/x/y").1, b"x/y");
    assert_eq!(table.mount_of(b"ab/c").1, b"ab/c");
    assert_eq!(table.mount_of(b"a").1, b"");
}

#[test]
fn the_root_itself_may_be_a_mount_or_the_folder_of_all() {
    let mounted = table("1 0 1 /\n 2 1 2 /srv\n 3 2 3 /srv/a", 2, "/srv");
    assert_eq!(devices(&mounted, &["", "a", "b"]), [2, 3, 2]);
    let everything = table("1 0 1 /\n 2 1 2 /srv\n 3 2 3 /srv/a", 1, "/");
    assert_eq!(devices(&everything, &["", "srv", "srv/a/x", "etc"]), [1, 2, 3, 1]);
}

#[test]
fn mounts_upon_each_other() {
    // Stacked: the later one is seen. Hidden: /s/a/b lies below what was mounted over /s/a later.
    let table = table(
        "1 0 1 /\n 2 1 2 /s/a/b\n 3 1 3 /s/a\n 4 3 4 /s/a\n 5 4 5 /s/a/c\n 6 1 6 /s/d\n 7 3 7 /s/a/e",
        1,
        "/s",
    );
    assert_eq!(devices(&table, &["a", "a/b", "a/c", "a/e", "d", "x"]), [4, 4, 5, 4, 6, 1]);
}

#[test]
fn what_is_mounted_over_the_open_root_is_not_seen() {
    let table = table("1 0 1 /\n 2 1 2 /s\n 3 2 3 /s/a\n 4 1 4 /s/b", 1, "/s");
    assert_eq!(devices(&table, &["", "a", "b"]), [1, 1, 4]);
}

#[test]
fn the_later_of_two_at_one_place() {
    assert_eq!(devices(&table("1 0 1 /\n 2 1 2 /s/a\n 3 1 3 /s/a", 1, "/s"), &["a"]), [3]);
}

#[test]
fn without_the_roots_own_mount_nothing_is_certain() {
    let table = table("1 0 1 /\n 2 1 2 /s/a", 9, "/s");
    assert_eq!(table.mount_of(b"a").0.device, Device::ELSEWHERE);
}

#[test]
fn a_walk_waits_for_the_remote_device_that_it_crosses() {
    let table = table(
        "1 0 1 /\n 2 1 2 /s/far nfs\n 3 2 3 /s/far/near\n 4 3 4 /s/far/near/x nfs\n 5 1 5 /s/y",
        1,
        "/s",
    );
    assert_eq!(devices(&table, &["a", "far", "far/near/b", "far/near/x/c", "y"]), [1, 2, 2, 2, 5]);
    let all_remote = self::table("1 0 1 / nfs\n 2 1 2 /s/a", 1, "/s");
    assert_eq!(devices(&all_remote, &["a", "b"]), [1, 1]);
}

proptest! {
    /// Any list at all: no panic, no endless walk, and each name is held by a mount whose point is its prefix.
    #[test]
    fn any_list(
        mounts in prop::collection::vec((0u64..8, 0u64..8, "(/[ab]){0,4}"), 0..12),
        own in 0u64..8,
        base in "(/[ab]){0,2}",
        name in "[ab](/[ab]){0,3}",
    ) {
        let line = |(id, parent, point): (u64, u64, String)| MountInfo {
            id,
            parent,
            major: 0,
            minor: id as u32,
            point: if point.is_empty() { b"/".to_vec() } else { point.into_bytes() },
            kind: b"ext4".to_vec(),
            options: Vec::new(),
        };
        let lines: Vec<MountInfo> = mounts.into_iter().map(line).collect();
        let table = table_of(&lines, own, &base);
        let (mount, rest) = table.mount_of(name.as_bytes());
        prop_assert_eq!(below(name.as_bytes(), &mount.point), Some(rest));
        prop_assert!(mount.point.is_empty() || lines.iter().any(|line| line.minor == mount.device.number));
    }
}
