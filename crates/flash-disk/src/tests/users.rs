//! `/~name/`. There has to be a user to test with: `daemon` is on every system. In place of a folder in its home,
//! which these tests could not fill, stands an absolute path.

use std::os::unix::fs::{PermissionsExt, chown, symlink};

use flash_core::listing::Order;
use flash_core::record::refusal::Refusal;

use super::list::list;
use super::*;

fn with_users(change: impl FnOnce(&mut Settings)) -> (Folder, Folder, Disk) {
    let (folder, home) = (Folder::new(), Folder::new());
    folder.put("a.txt", "the site's");
    home.put("a.txt", "the user's");
    home.put("sub/index.html", "the user's index");
    let home_path = home.root().into_os_string().into_encoded_bytes();
    let disk = folder.disk_with(|settings| {
        settings.site.user_dirs = Some(home_path);
        change(settings);
    });
    (folder, home, disk)
}

#[test]
fn users_have_folders_of_their_own() {
    let (_folder, _home, disk) = with_users(|_| ());
    for (name, expected) in [
        ("/~daemon", "redirect"),
        ("/~daemon/", "folder"),
        ("/~daemon/a.txt", "the user's"),
        ("/~daemon/sub", "redirect"),
        ("/~daemon/sub/", "the user's index"),
        ("/~daemon/missing", "404"),
        ("/a.txt", "the site's"),
        ("/~nobody-of-that-name/a.txt", "404"),
        // The superuser's home is nobody's web site.
        ("/~root/a.txt", "404"),
        ("/~", "404"),
        ("/~/a.txt", "404"),
        ("/sub/~daemon/a.txt", "404"),
    ] {
        assert_eq!(outcome(&find(&disk, name)), expected, "{name}");
    }
}

#[test]
fn a_users_folder_is_a_root_too() {
    let (_folder, home, disk) = with_users(|_| ());
    fs::write(home.outside.path().join("secret.txt"), "secret").unwrap();
    symlink("../secret.txt", home.path("outside")).unwrap();
    assert_eq!(outcome(&find(&disk, "/~daemon/outside")), "403");
}

/// Looking a user up may read files or ask the network.
#[test]
fn a_user_is_never_looked_up_in_a_hurry() {
    let (_folder, _home, disk) = with_users(|_| ());
    let job = find_job("/~daemon/a.txt", None);
    assert!(disk.try_now(&job).is_none());
    find(&disk, "/~daemon/a.txt");
    assert!(disk.try_now(&job).is_some(), "it is known now");
}

#[test]
fn a_users_folder_can_be_listed() {
    let (_folder, _home, disk) = with_users(|_| ());
    assert_eq!(list(&disk, "/~daemon/", Order::default()), [["sub/", "a.txt"]]);
}

#[test]
fn without_the_setting_a_tilde_is_a_name() {
    let folder = Folder::new();
    folder.put("~daemon/a.txt", "plain");
    assert_eq!(outcome(&find(&folder.disk(), "/~daemon/a.txt")), "plain");
}

/// Programs run as the site's, and a user's are not.
#[test]
fn a_users_scripts_are_refused() {
    let (_folder, home, disk) = with_users(|settings| settings.site.scripts = vec![b".php".to_vec()]);
    home.put("a.php", "source");
    assert_eq!(outcome(&find(&disk, "/~daemon/a.php")), "403");
}

/// Debian's user `daemon`, whose folder it is, and another one.
const DAEMON: u32 = 1;
const OTHER: u32 = 2;

/// What a server with the rights of the superuser could send, and the user could not read. The user owns the folder.
fn with_closed_files(follow_links: FollowLinks) -> Option<(Folder, Folder, Disk)> {
    let (folder, home, disk) = with_users(|settings| settings.site.follow_links = follow_links);
    if fs::metadata(home.root()).unwrap().uid() != 0 {
        eprintln!("NOT TESTED: other users' files take the superuser");
        return None;
    }
    let outside = |name: &str| home.outside.path().join(name);
    for (name, owner, mode) in [("closed", 0, 0o600), ("own", DAEMON, 0o600), ("public", 0, 0o644)] {
        fs::write(outside(name), name).unwrap();
        rest(&outside(name));
        chown(outside(name), Some(owner), None).unwrap();
        fs::set_permissions(outside(name), fs::Permissions::from_mode(mode)).unwrap();
        symlink(format!("../{name}"), home.path(&format!("{name}-relative"))).unwrap();
        symlink(outside(name), home.path(&format!("{name}-absolute"))).unwrap();
        fs::hard_link(outside(name), home.path(&format!("{name}-hard"))).unwrap();
    }
    // A copy of what may be read, and the index of a folder.
    home.put("page.html", "page");
    fs::hard_link(outside("closed"), home.path("page.html.gz")).unwrap();
    fs::hard_link(outside("closed"), home.path("sub/index.htm")).unwrap();
    fs::remove_file(home.path("sub/index.html")).unwrap();
    for (name, owner, mode) in [("other", OTHER, 0o700), ("open", OTHER, 0o755), ("mine", DAEMON, 0o700)] {
        home.put(&format!("{name}/a.txt"), "a");
        chown(home.path(name), Some(owner), None).unwrap();
        fs::set_permissions(home.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink("/root", home.path("root")).unwrap();
    symlink("/root/nothing-of-that-name", home.path("nothing")).unwrap();
    chown(home.root(), Some(DAEMON), None).unwrap();
    Some((folder, home, disk))
}

/// In each way in which a thread may look.
fn outcomes(disk: &Disk, name: &str) -> String {
    let job = find_job(name, None);
    let waited = outcome(&find(disk, name));
    if let Some(now) = disk.try_now(&job) {
        assert_eq!(outcome(&found(now)), waited, "{name}: without waiting");
    }
    assert_eq!(outcome(&found(help(disk, &job))), waited, "{name}: by a helper");
    waited
}

#[test]
fn a_users_folder_holds_what_is_the_users_or_everyones() {
    let Some((_folder, _home, disk)) = with_closed_files(FollowLinks::Inside) else { return };
    for (name, expected) in [
        ("closed-hard", "403"),
        ("closed-relative", "403"),
        ("closed-absolute", "403"),
        ("own-hard", "own"),
        ("own-relative", "403"),
        ("public-hard", "public"),
        ("public-absolute", "403"),
        ("page.html", "page"),
        ("sub/", "403"),
        ("other/", "403"),
        ("other", "403"),
        ("open/", "folder"),
        ("mine/", "folder"),
        ("root", "403"),
        ("nothing", "403"),
    ] {
        assert_eq!(outcomes(&disk, &format!("/~daemon/{name}")), expected, "{name}");
    }
    let page = find(&disk, "/~daemon/page.html");
    assert_eq!(page.files().count(), 1, "the copy is another user's");
    let listed = list(&disk, "/~daemon/", Order::default()).concat();
    for name in ["closed-hard", "other/", "closed-absolute"] {
        assert!(!listed.iter().any(|row| row == name), "{listed:?}");
    }
    assert!(listed.iter().any(|row| row == "public-hard"), "{listed:?}");
}

#[test]
fn links_that_lead_anywhere_lead_to_what_is_the_users() {
    let Some((_folder, home, disk)) = with_closed_files(FollowLinks::Anywhere) else { return };
    for (name, expected) in [
        ("closed-hard", "403"),
        ("closed-relative", "403"),
        ("closed-absolute", "403"),
        ("own-hard", "own"),
        ("own-relative", "own"),
        ("own-absolute", "own"),
        // It may lie in a folder that is closed to the user.
        ("public-relative", "403"),
        ("root", "403"),
        ("root/", "403"),
        ("mine/", "folder"),
    ] {
        assert_eq!(outcomes(&disk, &format!("/~daemon/{name}")), expected, "{name}");
    }
    drop(home);
}

#[test]
fn a_users_folder_is_the_users_own_or_open_to_everyone() {
    let Some((_folder, home, _)) = with_closed_files(FollowLinks::Inside) else { return };
    let disk_of = |name: &str| {
        let path = home.outside.path().join(name).into_os_string().into_encoded_bytes();
        Folder::new().disk_with(|settings| settings.site.user_dirs = Some(path))
    };
    symlink("root/open", home.outside.path().join("linked-open")).unwrap();
    symlink("root/mine", home.outside.path().join("linked-mine")).unwrap();
    symlink("root/other", home.outside.path().join("linked-other")).unwrap();
    symlink("/etc", home.outside.path().join("linked-etc")).unwrap();
    symlink("/etc/shadow", home.outside.path().join("linked-shadow")).unwrap();
    let refused = |name: &str| match &find(&disk_of(name), "/~daemon/a.txt").resource {
        Resource::Forbidden(refusal) => Some(*refusal),
        Resource::Missing => None,
        resource => panic!("{name} is served: {resource:?}"),
    };
    for name in ["root/other", "linked-other", "linked-open", "linked-etc"] {
        assert_eq!(refused(name), Some(Refusal::NotTheUsers), "{name}");
    }
    for name in ["linked-shadow", "closed", "nothing"] {
        assert_eq!(refused(name), None, "{name}");
    }
    for name in ["root/open", "root/mine", "linked-mine"] {
        assert_eq!(outcome(&find(&disk_of(name), "/~daemon/a.txt")), "a", "{name}");
    }
}

#[test]
fn a_folder_that_its_user_replaces_or_withdraws_is_soon_served_no_more() {
    let (folder, home, disk) = with_users(|_| ());
    let age = || disk.root().users.as_ref().unwrap().age();
    let served = || outcome(&find(&disk, "/~daemon/a.txt"));
    let elsewhere = home.outside.path().join("elsewhere");
    assert_eq!(served(), "the user's");
    age();
    assert!(disk.try_now(&find_job("/~daemon/a.txt", None)).is_none(), "it has to be looked for");
    assert_eq!(served(), "the user's");
    fs::rename(home.root(), &elsewhere).unwrap();
    age();
    assert_eq!(served(), "404");
    home.put("a.txt", "the next");
    assert_eq!(served(), "the next");
    drop(folder);
}
