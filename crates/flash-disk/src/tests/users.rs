//! `/~name/`. There has to be a user to test with: `daemon` is on every system. In place of a folder in its home,
//! which these tests could not fill, stands an absolute path.

use flash_core::listing::Order;

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
    std::os::unix::fs::symlink("../secret.txt", home.path("outside")).unwrap();
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
