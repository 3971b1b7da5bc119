//! Symbolic links: what is below the root serves, what is not does not, unless the owner says so.

use std::os::unix::fs::symlink;

use super::*;

fn linked() -> Folder {
    let folder = Folder::new();
    fs::write(folder.outside.path().join("secret.txt"), "secret").unwrap();
    fs::create_dir(folder.outside.path().join("beside")).unwrap();
    fs::write(folder.outside.path().join("beside/x.txt"), "secret too").unwrap();
    folder.put("real/x.txt", "x");
    folder.put("style.css", "style");
    let link = |target: &str, name: &str| symlink(target, folder.path(name)).unwrap();
    link("real/x.txt", "inside");
    link("../root/real/x.txt", "out-and-in");
    link("real", "inside-folder");
    link("../secret.txt", "outside");
    link("../beside", "outside-folder");
    link("loop", "loop");
    link("nowhere", "dangling");
    link("../secret.txt", "style.css.gz");
    symlink(folder.path("real/x.txt"), folder.path("absolute-inside")).unwrap();
    symlink(folder.path("real"), folder.path("absolute-inside-folder")).unwrap();
    symlink(folder.outside.path().join("secret.txt"), folder.path("absolute-outside")).unwrap();
    symlink("/proc/self/root/etc/passwd", folder.path("magic")).unwrap();
    folder
}

#[test]
fn links_that_stay_inside_serve() {
    let folder = linked();
    let disk = folder.disk();
    for (name, expected) in [
        ("/inside", "x"),
        ("/inside-folder", "redirect"),
        ("/inside-folder/x.txt", "x"),
        ("/absolute-inside", "x"),
        ("/absolute-inside-folder/", "folder"),
        ("/absolute-inside-folder/x.txt", "x"),
    ] {
        assert_eq!(outcome(&find(&disk, name)), expected, "{name}");
    }
}

#[test]
fn links_that_lead_out_do_not() {
    let folder = linked();
    let disk = folder.disk();
    for name in ["/outside", "/outside-folder", "/outside-folder/x.txt", "/absolute-outside"] {
        assert_eq!(outcome(&find(&disk, name)), "403", "{name}");
    }
    for name in ["/loop", "/dangling", "/dangling/x"] {
        assert_eq!(outcome(&find(&disk, name)), "404", "{name}");
    }
    assert_ne!(outcome(&find(&disk, "/magic")).len(), fs::read("/etc/passwd").unwrap().len());
    assert!(variants(&find(&disk, "/style.css")).coded.is_empty(), "nor as a sibling");
}

#[test]
fn anywhere_means_anywhere_but_through_the_kernels_own_links() {
    let folder = linked();
    let disk = folder.disk_with(|settings| settings.site.follow_links = FollowLinks::Anywhere);
    for (name, expected) in [
        ("/inside", "x"),
        ("/outside", "secret"),
        ("/outside-folder/x.txt", "secret too"),
        ("/absolute-outside", "secret"),
        ("/loop", "404"),
        ("/magic", "404"),
    ] {
        assert_eq!(outcome(&find(&disk, name)), expected, "{name}");
    }
}

/// The walk along an absolute link is not one that the kernel holds below the root, so it is a helper's.
#[test]
fn an_absolute_link_is_never_followed_in_a_hurry() {
    let folder = linked();
    let disk = folder.disk();
    assert_eq!(outcome(&find(&disk, "/absolute-inside")), "x");
    assert!(disk.try_now(&find_job("/absolute-inside", None)).is_none());
}
