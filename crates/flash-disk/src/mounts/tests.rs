//! Real mounts, in a list of this test's own. A tmpfs is the most local mount; a FUSE mount whose program never answers is the
//! most remote.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use flash_core::file::Window;
use flash_core::job::{Done, Job, Load};
use flash_core::listing::Order;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};

use super::*;
use crate::tests::list::list_job;
use crate::tests::{Folder, find, find_job, help, outcome, variants};
use crate::{Disk, FollowLinks};

/// Mounts are made where nobody else sees them, and go with their last thread.
fn with_own_mounts(test: impl FnOnce(&Folder) + Send) {
    thread::scope(|scope| {
        let test = scope.spawn(|| {
            if let Err(error) = flash_os::namespace::unshare_mounts() {
                return eprintln!("skipped: only the superuser may mount: {error}");
            }
            mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).unwrap();
            test(&Folder::new());
        });
        test.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// A folder below the root with a filesystem in memory on it.
fn tmpfs(folder: &Folder, name: &str) {
    fs::create_dir_all(folder.path(name)).unwrap();
    mount("flash", folder.path(name), "tmpfs", MountFlags::empty(), None).unwrap();
}

/// A filesystem whose every answer takes forever, until this is dropped and all of them fail.
struct Silent {
    _program: OwnedFd,
}

impl Silent {
    fn mount(folder: &Folder, name: &str) -> Self {
        use std::os::fd::AsRawFd;
        fs::create_dir_all(folder.path(name)).unwrap();
        let program = fs::File::options().read(true).write(true).open("/dev/fuse").unwrap();
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", program.as_raw_fd());
        let options = std::ffi::CString::new(options).unwrap();
        mount("flash", folder.path(name), "fuse.silent", MountFlags::empty(), options.as_c_str()).unwrap();
        Self { _program: program.into() }
    }
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < give_up, "{what}: never");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a name is on a device of these terms, and says on which.
#[track_caller]
fn wait_for(disk: &Disk, name: &str, class: impl Fn(DeviceClass) -> bool) -> Device {
    let device = || disk.device_for(&find_job(name, None));
    wait_until(name, || class(device().class));
    device()
}

fn watched(folder: &Folder) -> Disk {
    let mut disk = folder.disk();
    disk.close_elsewhere().unwrap();
    disk.watch_mounts().unwrap();
    disk
}

/// What is found without waiting, and that nothing was waited for.
#[track_caller]
fn now(disk: &Disk, name: &str) -> Option<String> {
    let since = Instant::now();
    let done = disk.try_now(&find_job(name, None));
    assert!(since.elapsed() < Duration::from_secs(2), "{name} was waited for");
    done.map(|outcome| match outcome.done {
        Done::Found(entry) => self::outcome(&entry),
        other => panic!("{name}: {other:?}"),
    })
}

/// Waits until each name is answered like this at once. While another test mounts something, the kernel says of any name that it
/// would have to look again.
#[track_caller]
fn answers_at_once(disk: &Disk, names: &[&str], expected: &str) {
    for name in names {
        wait_until(name, || now(disk, name).as_deref() == Some(expected));
    }
}

/// Every name once, so that the kernel has heard of it.
fn warm(disk: &Disk, names: &[&str]) {
    for name in names {
        find(disk, name);
    }
}

/// A folder below the root that is mounted from beside it.
fn bound(folder: &Folder, name: &str) {
    let beside = folder.outside.path().join(name);
    fs::create_dir_all(&beside).unwrap();
    fs::create_dir_all(folder.path(name)).unwrap();
    mount_bind(&beside, folder.path(name)).unwrap();
}

#[test]
fn a_local_mount_below_the_root_answers_at_once() {
    with_own_mounts(|folder| {
        folder.put("a.txt", "a");
        bound(folder, "near");
        folder.put("near/b/b.txt", "b");
        folder.put("near/index.html", "index");
        symlink("b/b.txt", folder.path("near/link")).unwrap();
        symlink("../a.txt", folder.path("near/back")).unwrap();
        let disk = watched(folder);
        let names = ["/near/b/b.txt", "/near/", "/near/link", "/near/b", "/near/b/none"];
        warm(&disk, &names);
        // A link counts as cached only when its own time of access need not be set any more.
        wait_until("the mount is entered", || {
            outcome(&find(&disk, "/near/link")) == "b" && now(&disk, "/near/link").is_some()
        });
        let expected = ["b", "index", "b", "redirect", "404"].map(|text| Some(text.to_owned()));
        wait_until("all are answered at once", || names.map(|name| now(&disk, name)) == expected);
        assert_eq!(outcome(&find(&disk, "/near/back")), "a");
        assert_eq!(now(&disk, "/near/back"), None, "a link out of the mount is a helper's");
        let own = disk.device_for(&find_job("/a.txt", None));
        assert_eq!(disk.device_for(&find_job("/near/b", None)), own, "a second mount of one filesystem");
    });
}

/// Whatever a filesystem in memory does when it is swapped out, it does not promise not to wait.
#[test]
fn one_that_reads_nothing_at_once_is_still_looked_at() {
    with_own_mounts(|folder| {
        tmpfs(folder, "near");
        folder.put("near/x", "x");
        folder.put("near/b/x", "x");
        let disk = watched(folder);
        let near = wait_for(&disk, "/near/x", DeviceClass::is_local);
        assert_ne!(near.number, disk.device_for(&find_job("/nearer", None)).number);
        warm(&disk, &["/near/x", "/near/b"]);
        answers_at_once(&disk, &["/near/b"], "redirect");
        wait_until("the file is read as its mount allows", || {
            now(&disk, "/near/x").is_some() == near.class.reads_now()
        });
        let list = list_job("/near/", Order::default(), 0);
        assert_eq!(disk.device_for(&Job::List(list)), near);
        assert!(disk.device_name(near).ends_with("root/near (tmpfs)"), "{}", disk.device_name(near));
    });
}

#[test]
fn a_mount_that_never_answers_is_never_asked() {
    with_own_mounts(|folder| {
        folder.put("a.txt", "a");
        symlink("far/x", folder.path("link")).unwrap();
        symlink("far", folder.path("linked")).unwrap();
        let _silent = Silent::mount(folder, "far");
        let disk = watched(folder);
        let far = wait_for(&disk, "/far/x", |class| class == DeviceClass::Remote);
        assert!(disk.device_name(far).ends_with("/far (fuse.silent)"), "{}", disk.device_name(far));
        assert_eq!(disk.device_for(&find_job("/far", None)), far, "its own folder, too");
        for name in ["/far", "/far/", "/far/x", "/link", "/linked/x", "/linked/", "/linked"] {
            assert_eq!(now(&disk, name), None, "{name}");
        }
        // A helper of this device waits for no other, or the silent one would keep it.
        let here = disk.device_for(&find_job("/link", None));
        assert!(here.class.is_local());
        for name in ["/link", "/linked/x", "/linked/", "/linked"] {
            assert!(disk.help(&find_job(name, None), here).is_none(), "{name}");
        }
        let list = list_job("/", Order::default(), 0);
        assert!(disk.help(&Job::List(list), here).is_none());
        warm(&disk, &["/a.txt"]);
        answers_at_once(&disk, &["/a.txt"], "a");
    });
}

/// Without anybody who looks at the list again: the kernel itself keeps the walk from crossing.
#[test]
fn a_mount_that_nobody_noticed_is_not_asked_either() {
    with_own_mounts(|folder| {
        folder.put("far/x", "covered");
        folder.put("near/x", "covered");
        symlink("../far/x", folder.path("near/link")).unwrap();
        let inside = folder.disk();
        let anywhere = folder.disk_with(|settings| settings.site.follow_links = FollowLinks::Anywhere);
        let names = ["/far/x", "/near/link"];
        for disk in [&inside, &anywhere] {
            warm(disk, &names);
            answers_at_once(disk, &names, "covered");
        }
        let _silent = Silent::mount(folder, "far");
        for disk in [&inside, &anywhere] {
            for name in ["/far", "/far/", "/far/x", "/near/link"] {
                assert_eq!(now(disk, name), None, "{name}");
            }
        }
    });
}

#[test]
fn mounts_come_and_go() {
    with_own_mounts(|folder| {
        folder.put("place/x", "below");
        let disk = watched(folder);
        let own = wait_for(&disk, "/place/x", DeviceClass::looks_now);
        let silent = Silent::mount(folder, "place");
        let far = wait_for(&disk, "/place/x", |class| class == DeviceClass::Remote);
        assert_ne!(far.number, own.number);
        assert_eq!(now(&disk, "/place/x"), None);
        // The first mount is still there, below this one.
        let upper = folder.outside.path().join("upper");
        fs::create_dir(&upper).unwrap();
        fs::write(upper.join("x"), "above").unwrap();
        crate::tests::rest(&upper.join("x"));
        mount_bind(&upper, folder.path("place")).unwrap();
        wait_for(&disk, "/place/x", |_| disk.device_for(&find_job("/place/x", None)) == own);
        answers_at_once(&disk, &["/place/x"], "above");
        // Its mount root is held open, so that it can only be detached.
        assert_eq!(unmount(folder.path("place"), UnmountFlags::empty()), Err(rustix::io::Errno::BUSY));
        unmount(folder.path("place"), UnmountFlags::DETACH).unwrap();
        assert_eq!(wait_for(&disk, "/place/x", |class| class == DeviceClass::Remote), far);
        drop(silent);
        unmount(folder.path("place"), UnmountFlags::DETACH).unwrap();
        assert_eq!(wait_for(&disk, "/place/x", DeviceClass::is_local), own);
        answers_at_once(&disk, &["/place/x"], "below");
    });
}

/// Nobody waits for a silent mount, nor does whoever looks for others.
#[test]
fn others_are_noticed_beside_it() {
    with_own_mounts(|folder| {
        let _silent = Silent::mount(folder, "far");
        let disk = watched(folder);
        wait_for(&disk, "/far/x", |class| class == DeviceClass::Remote);
        bound(folder, "later");
        folder.put("later/x", "later");
        warm(&disk, &["/later/x"]);
        wait_until("the later mount is entered", || now(&disk, "/later/x").is_some());
    });
}

/// Asks for new names until one is known to be missing at once.
#[track_caller]
fn learn(disk: &Disk, folder: &str, device: Device) {
    let mut number = 0;
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        let name = || format!("{folder}fresh-{:?}-{number}", Instant::now());
        if now(disk, &name()).as_deref() == Some("404") {
            return;
        }
        assert!(Instant::now() < give_up, "{folder}: never learned");
        assert!(disk.help(&find_job(name(), None), device).is_some());
        number += 1;
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn each_mount_has_names_of_its_own() {
    with_own_mounts(|folder| {
        folder.put("near/below", "covered");
        let disk = watched(folder);
        let own = wait_for(&disk, "/near/x", DeviceClass::looks_now);
        thread::sleep(Duration::from_millis(40));
        learn(&disk, "/near/", own);
        tmpfs(folder, "near");
        folder.put("near/above", "above");
        assert_ne!(now(&disk, "/near/above").as_deref(), Some("404"), "the mount may not be noticed yet");
        let near = wait_for(&disk, "/near/x", |class| {
            class.is_local() && disk.device_for(&find_job("/near/x", None)) != own
        });
        assert_ne!(now(&disk, "/near/above").as_deref(), Some("404"));
        learn(&disk, "/near/", near);
        unmount(folder.path("near"), UnmountFlags::DETACH).unwrap();
        // Until it is noticed that the mount is gone, its mount root is still open.
        wait_until("it is gone", || now(&disk, "/near/below").as_deref() != Some("404"));
        let _silent = Silent::mount(folder, "near");
        assert_ne!(now(&disk, "/near/anything").as_deref(), Some("404"));
        wait_for(&disk, "/near/x", |class| class == DeviceClass::Remote);
        assert_eq!(now(&disk, "/near/anything"), None);
    });
}

/// An image that is mounted in place of an older one may have its device, and folders with the same times.
#[test]
fn a_mount_in_the_place_of_another_has_names_of_its_own() {
    with_own_mounts(|folder| {
        bound(folder, "near");
        folder.put("near/x", "x");
        let disk = watched(folder);
        let mount_root = || {
            let site = disk.root();
            let table = site.root.mounts().table();
            table.mount_of(b"near/x").0.mount_root.as_ref().map(|mount_root| mount_root.number())
        };
        let site = disk.root();
        let root = site
            .root
            .mounts()
            .table()
            .mount_of(b"x")
            .0
            .mount_root
            .as_ref()
            .map(|mount_root| mount_root.number());
        wait_until("the mount is entered", || {
            mount_root().is_some_and(|mount_root| Some(mount_root) != root)
        });
        let before = mount_root();
        thread::sleep(Duration::from_millis(40));
        learn(&disk, "/near/", disk.device_for(&find_job("/near/x", None)));
        unmount(folder.path("near"), UnmountFlags::DETACH).unwrap();
        bound(folder, "near");
        wait_until("the other is entered", || {
            mount_root().is_some_and(|mount_root| ![root, before].contains(&Some(mount_root)))
        });
        assert_eq!(
            now(&disk, &format!("/near/fresh-{:?}", Instant::now())),
            None,
            "though its times are the same"
        );
    });
}

/// Its layers may be changed from below, which leaves no trace.
#[test]
fn the_names_of_an_overlay_are_held_for_a_moment() {
    with_own_mounts(|folder| {
        let beside = |name: &str| folder.outside.path().join(name);
        ["lower", "upper", "work"].iter().for_each(|name| fs::create_dir(beside(name)).unwrap());
        fs::create_dir(folder.path("near")).unwrap();
        let layers = ["lower", "upper", "work"].map(|name| format!("{name}dir={}", beside(name).display()));
        let layers = std::ffi::CString::new(layers.join(",")).unwrap();
        let flags = MountFlags::empty();
        if let Err(error) = mount("flash", folder.path("near"), "overlay", flags, layers.as_c_str()) {
            return eprintln!("skipped: no overlay can be mounted: {error}");
        }
        fs::write(beside("lower").join("x"), "x").unwrap();
        let briefly = Duration::from_millis(300);
        let mut disk = folder.disk_with(|settings| settings.names_briefly = briefly);
        disk.close_elsewhere().unwrap();
        disk.watch_mounts().unwrap();
        let near = wait_for(&disk, "/near/x", DeviceClass::looks_now);
        assert_eq!(near.class.name_rule(), NameRule::Briefly);
        thread::sleep(Duration::from_millis(40));
        learn(&disk, "/near/", near);
        fs::write(beside("lower").join("from-below"), "").unwrap();
        thread::sleep(briefly);
        assert_ne!(now(&disk, "/near/from-below").as_deref(), Some("404"));
        learn(&disk, "/near/", near);
        folder.put("near/from-above", "");
        assert_ne!(
            now(&disk, "/near/from-above").as_deref(),
            Some("404"),
            "what has left a trace is seen at once"
        );
    });
}

#[test]
fn an_open_file_remembers_its_mount() {
    with_own_mounts(|folder| {
        tmpfs(folder, "near");
        folder.put("near/large", vec![7; 100_000]);
        symlink("near/large", folder.path("link")).unwrap();
        let mut disk = folder.disk_with(|settings| {
            settings.memory_file_bytes_max = 0;
            settings.zero_copy = true;
        });
        let entry = find(&disk, "/link");
        let file = Arc::clone(&variants(&entry).identity);
        let load = Job::Load(Load {
            site: None,
            file,
            window: 0..50_000,
            goes_to: 50_000,
            copy: true,
            completes: None,
        });
        let is_copied = |done| matches!(done, Done::Window(Window::Copied(_)));
        let before = disk.device_for(&load);
        assert_eq!(before.class, DeviceClass::Unproven, "nobody has looked");
        assert!(disk.try_now(&load).is_none(), "nor looks, though every page is there");
        assert!(is_copied(help(&disk, &load).done));
        disk.watch_mounts().unwrap();
        wait_for(&disk, "/near/large", DeviceClass::looks_now);
        assert_eq!(disk.device_for(&load).number, before.number);
        let now = disk.try_now(&load).map(|outcome| outcome.done);
        assert!(matches!(now, Some(Done::Window(Window::Resident(_)))), "{now:?}");
        // Detached, but still open.
        unmount(folder.path("near"), UnmountFlags::DETACH).unwrap();
        wait_until("it is gone", || disk.device_for(&load) == Device::ELSEWHERE);
        assert!(disk.try_now(&load).is_none());
        assert!(is_copied(help(&disk, &load).done));
    });
}

/// What was mounted upon it since the list was read has another number.
#[test]
fn a_mount_root_is_the_mounts_own() {
    with_own_mounts(|folder| {
        bound(folder, "near");
        let root = File::open(folder.root()).unwrap();
        let mount = file_stat::mount_of(File::open(folder.path("near")).unwrap()).unwrap();
        assert!(mount_root::open(&root, b"near", mount).is_ok());
        tmpfs(folder, "near");
        assert!(mount_root::open(&root, b"near", mount).is_err());
    });
}

#[test]
fn its_threads_leave_with_it() {
    let folder = Folder::new();
    let disk = watched(&folder);
    let mounts = Arc::downgrade(disk.root().root.mounts());
    drop(disk);
    wait_until("the last one leaves", || mounts.strong_count() == 0);
}
