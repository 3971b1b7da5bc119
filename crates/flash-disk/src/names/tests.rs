//! What tables say, which folders are read, and what is kept of them.

use super::table::Term;
use super::*;

const BRIEFLY: Duration = Duration::from_secs(1);

fn table(tables: &NameTables, names: &[(&str, bool)]) -> Table {
    let hashes = names.iter().map(|(name, is_file)| table::marked(tables.hash(name.as_bytes()), *is_file));
    Table::new(hashes.collect(), Some(FolderState::default()), None)
}

fn learn(tables: &NameTables, root: u32, path: &str, names: &[(&str, bool)]) {
    let folder = tables.visit(root, path.as_bytes()).expect("the path is short");
    tables.publish(&folder, Reading::Whole(table(tables, names)));
}

fn lack(tables: &NameTables, root: u32, name: &str) -> bool {
    tables.lack(root, name.as_bytes(), |_, state| Some(*state == FolderState::default()))
}

#[test]
fn the_first_part_that_is_missing_decides() {
    let tables = NameTables::new(BRIEFLY);
    assert!(!lack(&tables, 0, "x"), "nothing is known");
    learn(&tables, 0, "", &[("a", false), ("a.txt", true)]);
    learn(&tables, 0, "a/b", &[("c", false)]);
    for (name, missing) in [
        ("x", true),
        ("x/y/z", true),
        ("a", false),
        ("a.txt", false),
        // Nothing is below a file.
        ("a.txt/x", true),
        ("a/x", false),
        ("a/b", false),
        ("a/b/c", false),
        ("a/b/x", true),
        ("a/b/x/y", true),
        ("a/b/c/x", false),
        // Not as requests have names, but settings may.
        ("", false),
        ("./x", false),
        ("../x", false),
        ("a//b/x", false),
        ("a/../x", false),
        ("x/..", true),
    ] {
        assert_eq!(lack(&tables, 0, name), missing, "{name}");
    }
    assert!(!lack(&tables, 1, "x"), "another root");
}

#[test]
fn equal_hashes_say_nothing() {
    let table = Table::new(vec![3, 2, 9, 16], Some(FolderState::default()), None);
    let says = [0, 1, 2, 3, 4, 8, 9, 16, 17, 18].map(|hash| table.says(hash));
    use Says::{Anything, File, Missing};
    assert_eq!(
        says,
        [Missing, Missing, Anything, Anything, Missing, File, File, Anything, Anything, Missing],
        "a file's and a folder's name with the same hash are a folder's"
    );
}

#[test]
fn a_table_is_outdated_for_good_when_its_folder_was_seen_in_another_state() {
    let tables = NameTables::new(BRIEFLY);
    learn(&tables, 0, "", &[]);
    assert!(!tables.lack(0, b"x", |_, _| None) && lack(&tables, 0, "x"), "nobody could look");
    assert!(!tables.lack(0, b"x", |_, _| Some(false)));
    assert!(!lack(&tables, 0, "x"), "should it be in the old state again, that is no proof");
    learn(&tables, 0, "", &[]);
    assert!(lack(&tables, 0, "x"));
}

#[test]
fn without_a_state_a_table_serves_for_a_while() {
    let tables = NameTables::new(BRIEFLY);
    let folder = tables.visit(0, b"").unwrap();
    let hour = Duration::from_secs(3600);
    let aged = |age| Reading::Whole(Table::new(vec![], None, Some(Term::new(age, hour))));
    let lack = || tables.lack(0, b"x", |_, _| None);
    tables.publish(&folder, aged(Duration::ZERO));
    assert!(lack() && lack());
    tables.publish(&folder, aged(hour / 2));
    assert!(!lack(), "one of many looks at the disk, so that the table is renewed in time");
    assert!(lack() && lack(), "the others need not");
    tables.publish(&folder, aged(hour));
    assert!(!lack() && !lack());
}

/// However large a folder is, all readings of it together cost no more than a multiple of the misses.
#[test]
fn misses_pay_for_reading() {
    for names in [0_u32, 100, 512, 513, 5_000, TABLE_NAMES_MAX, TABLE_NAMES_MAX + 1, 1 << 20] {
        let tables = NameTables::new(BRIEFLY);
        let (mut read, mut learned_after) = (0_u64, None);
        for miss in 1..=5_000_u64 {
            let folder = tables.visit(0, b"a").unwrap();
            if let Some(names_max) = folder.missed(&FolderState::default(), Reader::Helper) {
                assert!(names_max <= TABLE_NAMES_MAX);
                read += u64::from(names.min(names_max));
                let table =
                    Table::new(vec![0; names.min(names_max) as usize], Some(FolderState::default()), None);
                let whole = names <= names_max;
                tables.publish(
                    &folder,
                    if whole { Reading::Whole(table) } else { Reading::MoreThan(names_max) },
                );
                learned_after = learned_after.or(whole.then_some(miss));
            }
            assert!(read <= 2 * miss * u64::from(NAMES_PER_MISS), "{read} names read for {miss} misses");
        }
        assert_eq!(learned_after.is_some(), names <= TABLE_NAMES_MAX, "{names}");
        let most = 2 + u64::from(4 * names / NAMES_PER_MISS);
        assert!(learned_after.is_none_or(|misses| misses <= most), "{names} names: {learned_after:?}");
    }
}

#[test]
fn one_helper_at_a_time_reads_a_folder_and_nobody_one_that_is_known() {
    let tables = NameTables::new(BRIEFLY);
    let folder = tables.visit(0, b"a").unwrap();
    assert_eq!(folder.missed(&FolderState::default(), Reader::Helper), Some(NAMES_PER_MISS));
    assert_eq!(
        tables.visit(0, b"a").unwrap().missed(&FolderState::default(), Reader::Helper),
        None,
        "somebody is at it"
    );
    assert!(
        tables.visit(0, b"a").unwrap().missed(&FolderState::default(), Reader::FolderReader).is_some(),
        "it waits for no helper"
    );
    tables.publish(&folder, Reading::NotNow);
    assert!(
        tables.visit(0, b"a").unwrap().missed(&FolderState::default(), Reader::Helper).is_some(),
        "it was changing"
    );
    learn(&tables, 0, "a", &[("x", true)]);
    let folder = tables.visit(0, b"a").unwrap();
    assert_eq!(folder.missed(&FolderState::default(), Reader::Helper), None);
    assert!(
        folder.missed(&FolderState { mount_root: 1, ..FolderState::default() }, Reader::Helper).is_some(),
        "it has changed"
    );
    tables.publish(&folder, Reading::Never);
    assert!(
        (0..1000).all(|_| tables
            .visit(0, b"a")
            .unwrap()
            .missed(&FolderState::default(), Reader::Helper)
            .is_none())
    );
}

#[test]
fn a_large_folder_is_read_again_in_time() {
    let tables = NameTables::new(BRIEFLY);
    let folder = tables.visit(0, b"").unwrap();
    let hour = Duration::from_secs(3600);
    let hashes = || vec![0; 5_000];
    let half_over = Table::new(hashes(), Some(FolderState::default()), Some(Term::new(hour / 2, hour)));
    tables.publish(&folder, Reading::Whole(half_over));
    let folder = tables.visit(0, b"").unwrap();
    assert_eq!(folder.missed(&FolderState::default(), Reader::Helper), None, "it serves");
    assert!(!lack(&tables, 0, "x"));
    assert_eq!(tables.wanted(0, b"x"), TABLE_NAMES_MAX);
    assert_eq!(folder.missed(&FolderState::default(), Reader::Helper), Some(TABLE_NAMES_MAX));
}

#[test]
fn helper_processes_are_asked_for_names_that_are_not_known() {
    let tables = NameTables::new(BRIEFLY);
    assert_eq!(tables.wanted(0, b"a/x"), NAMES_PER_MISS);
    learn(&tables, 0, "", &[("a", false)]);
    assert_eq!(tables.wanted(0, b"a/x"), NAMES_PER_MISS, "of the folder below it");
    let below = tables.visit(0, b"a").unwrap();
    tables.publish(&below, Reading::MoreThan(NAMES_PER_MISS));
    let wanted = || tables.wanted(0, b"a/x");
    assert_eq!([wanted(), wanted()], [0, 2 * NAMES_PER_MISS], "the second miss pays for the rest");
    assert_eq!(NameTables::new(Duration::ZERO).wanted(0, b"a/x"), 0, "nothing may be held");
}

#[test]
fn everything_has_a_limit() {
    let tables = NameTables::new(BRIEFLY);
    assert!(tables.visit(0, &[b'x'; PATH_BYTES_MAX + 1]).is_none());
    let names: Vec<String> = (0..TABLE_NAMES_MAX).map(|number| number.to_string()).collect();
    let names: Vec<(&str, bool)> = names.iter().map(|name| (&**name, true)).collect();
    learn(&tables, 0, "hot", &[("x", true)]);
    for number in 0..3 * FOLDERS_MAX {
        assert!(lack(&tables, 0, "hot/y"), "what is used stays, {number}");
        let many = if number < 200 { &names[..] } else { &[] };
        learn(&tables, 0, &format!("folder-{number}"), many);
        let held = tables.clock.lock().unwrap().names;
        assert!(held <= NAMES_MAX, "{held}");
    }
    let kept =
        (0..3 * FOLDERS_MAX).filter(|number| lack(&tables, 0, &format!("folder-{number}/none"))).count();
    assert!((FOLDERS_MAX / 2..FOLDERS_MAX).contains(&kept), "{kept}");
    let counted: usize = tables.slots.iter().filter_map(|slot| Some(slot.load().as_ref()?.names())).sum();
    assert_eq!(tables.clock.lock().unwrap().names, counted);
}
