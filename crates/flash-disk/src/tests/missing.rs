//! New names in folders whose names are in memory. A loop knows a missing name without waiting, and never reports an existing
//! name as missing.

use std::os::unix::fs::symlink;
use std::thread::{scope, sleep};
use std::time::Instant;

use super::remote::Pair;
use super::*;

/// A disk that learns the names of folders, as the architectures with helpers have it. `None` where nothing can be held.
fn learning(folder: &Folder) -> Option<Disk> {
    let mut disk = folder.disk_with(|settings| settings.names_briefly = Duration::from_secs(3600));
    disk.close_elsewhere().unwrap();
    let rule = disk.device_for(&find_job("/x", None)).class.name_rule();
    if rule == NameRule::Ask {
        eprintln!("skipped: the names of this filesystem's folders cannot be held");
        return None;
    }
    Some(disk)
}

/// Long enough that the next change of a folder has another time.
fn settle() {
    sleep(Duration::from_millis(40));
}

/// What a name leads to, if that is known without waiting.
fn now(disk: &Disk, name: &str) -> Option<String> {
    disk.try_now(&find_job(name, None)).map(|outcome| super::outcome(&found(outcome)))
}

/// What a helper finds, who then reads the folder.
fn helped(disk: &Disk, name: &str) -> String {
    super::outcome(&found(help(disk, &find_job(name, None))))
}

/// A name that nobody has asked for.
fn fresh() -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("fresh-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn fresh_in(folder: &str) -> String {
    format!("{folder}{}", fresh())
}

/// Has the names of a folder learned; a busy machine may need more than one look.
#[track_caller]
fn learn(disk: &Disk, folder: &str) {
    let give_up = Instant::now() + Duration::from_secs(10);
    while now(disk, &fresh_in(folder)).is_none() {
        assert!(Instant::now() < give_up, "the names of {folder} are never learned");
        assert_eq!(helped(disk, &fresh_in(folder)), "404");
        sleep(Duration::from_millis(5));
    }
}

const MISSING: Option<&str> = Some("404");

#[test]
fn one_look_is_enough_for_all_new_names_of_a_folder() {
    let folder = Folder::new();
    folder.put("a.txt", "a");
    folder.put("sub/deep/b.txt", "b");
    symlink("sub", folder.path("link")).unwrap();
    let Some(disk) = learning(&folder) else { return };
    settle();
    assert_eq!(now(&disk, &fresh_in("/")), None, "nobody has looked there");
    assert_eq!(helped(&disk, &fresh_in("/")), "404");
    for name in [fresh_in("/"), fresh_in("/") + "/", fresh_in("/") + "/x/y.html", fresh_in("/a.txt/")] {
        assert_eq!(now(&disk, &name).as_deref(), MISSING, "{name}");
    }
    assert_eq!(now(&disk, &format!("/{}", "x".repeat(300))).as_deref(), MISSING);
    for folder in ["/sub/deep/", "/link/", "/link/deep/"] {
        assert_eq!(now(&disk, &fresh_in(folder)), None, "{folder}");
        assert_eq!(helped(&disk, &fresh_in(folder)), "404", "{folder}");
        assert_eq!(now(&disk, &fresh_in(folder)).as_deref(), MISSING, "{folder}");
    }
    for (name, expected) in
        [("/a.txt", "a"), ("/sub/deep/b.txt", "b"), ("/sub/", "folder"), ("/link/deep/b.txt", "b")]
    {
        assert_eq!(outcome(&find(&disk, name)), expected, "{name}");
    }
}

/// Each compressible file that is found asks for three names beside it.
#[test]
fn names_beside_a_file_are_known_to_be_missing() {
    let folder = Folder::new();
    let path = folder.put("style.css", "plain");
    let Some(disk) = learning(&folder) else { return };
    settle();
    // The file itself is in memory; its neighbours, nobody has asked for.
    fs::read(&path).unwrap();
    assert_eq!(now(&disk, "/style.css"), None);
    learn(&disk, "/");
    assert_eq!(now(&disk, "/style.css").as_deref(), Some("plain"));
    folder.put("style.css.gz", "gzipped");
    assert_eq!(now(&disk, "/style.css"), None);
    assert_eq!(variants(&find(&disk, "/style.css")).coded.len(), 1);
}

#[test]
fn scripts_answer_for_names_that_are_known_to_be_missing() {
    let folder = Folder::new();
    folder.put("run.php", "");
    let mut disk = folder.disk_with(|settings| {
        settings.site.scripts = vec![b".php".to_vec()];
        settings.names_briefly = Duration::from_secs(3600);
    });
    disk.close_elsewhere().unwrap();
    if disk.device_for(&find_job("/x", None)).class.name_rule() == NameRule::Ask {
        return;
    }
    settle();
    assert_eq!(Some(&*helped(&disk, &fresh_in("/"))), MISSING);
    assert_eq!(now(&disk, &fresh_in("/")).as_deref(), MISSING);
    assert_eq!(now(&disk, &(fresh_in("/run.php/"))).as_deref(), Some("script /run.php"));
}

#[test]
fn what_comes_is_found_at_once() {
    type Change = fn(&Folder);
    let changes: [(&str, &str, Change); 9] = [
        ("created", "/sub/new", |folder| {
            folder.put("sub/new", "new");
        }),
        ("renamed", "/sub/new", |folder| {
            fs::rename(folder.path("beside/new"), folder.path("sub/new")).unwrap();
        }),
        ("linked", "/sub/new", |folder| {
            fs::hard_link(folder.path("beside/new"), folder.path("sub/new")).unwrap();
        }),
        ("linked symbolically", "/sub/new", |folder| {
            symlink("../beside/new", folder.path("sub/new")).unwrap();
        }),
        ("its folder replaced", "/sub/new", |folder| {
            fs::rename(folder.path("sub"), folder.path("old")).unwrap();
            fs::rename(folder.path("beside"), folder.path("sub")).unwrap();
        }),
        ("its folder replaced by a link", "/sub/new", |folder| {
            fs::rename(folder.path("sub"), folder.path("old")).unwrap();
            symlink("beside", folder.path("sub")).unwrap();
        }),
        ("the folder above replaced", "/above/sub/new", |folder| {
            fs::rename(folder.path("above"), folder.path("old")).unwrap();
            fs::rename(folder.path("other"), folder.path("above")).unwrap();
        }),
        ("a link on the way led elsewhere", "/link/new", |folder| {
            fs::remove_file(folder.path("link")).unwrap();
            symlink("beside", folder.path("link")).unwrap();
        }),
        ("a file made a folder", "/file/new", |folder| {
            fs::remove_file(folder.path("file")).unwrap();
            folder.put("file/new", "new");
        }),
    ];
    for (what, name, change) in changes {
        for pause in [Duration::ZERO, Duration::from_millis(40)] {
            let folder = Folder::new();
            folder.put("sub/x", "x");
            folder.put("beside/new", "new");
            folder.put("above/sub/x", "x");
            folder.put("other/sub/new", "new");
            folder.put("file", "file");
            symlink("sub", folder.path("link")).unwrap();
            let Some(disk) = learning(&folder) else { return };
            settle();
            for folder in ["/", "/sub/", "/above/sub/", "/link/"] {
                learn(&disk, folder);
            }
            sleep(pause);
            change(&folder);
            assert_ne!(now(&disk, name).as_deref(), MISSING, "{what}");
            assert_eq!(outcome(&find(&disk, name)), "new", "{what}");
            let parent = &name[..name.rfind('/').unwrap() + 1];
            settle();
            learn(&disk, parent);
            assert_ne!(now(&disk, name).as_deref(), MISSING, "{what}");
        }
    }
}

#[test]
fn what_goes_is_missing_at_once() {
    let folder = Folder::new();
    folder.put("sub/a.txt", "a");
    let Some(disk) = learning(&folder) else { return };
    settle();
    learn(&disk, "/sub/");
    fs::remove_file(folder.path("sub/a.txt")).unwrap();
    assert_eq!(outcome(&find(&disk, "/sub/a.txt")), "404");
    assert_eq!(now(&disk, &fresh_in("/sub/")), None, "the folder has changed");
    settle();
    learn(&disk, "/sub/");
    fs::remove_dir(folder.path("sub")).unwrap();
    assert_eq!(outcome(&find(&disk, "/sub/")), "404");
    settle();
    learn(&disk, "/");
    assert_eq!(now(&disk, &fresh_in("/sub/")).as_deref(), MISSING);
}

/// The kernel's clock ticks every few milliseconds: two changes within a tick leave the same time.
#[test]
fn a_folder_that_has_just_changed_is_not_learned() {
    let folder = Folder::new();
    let Some(disk) = learning(&folder) else { return };
    let caught = (0..100).filter(|number| {
        let begun = Instant::now();
        folder.put(&format!("{number}"), "");
        assert_eq!(helped(&disk, &fresh_in("/")), "404");
        let learned = now(&disk, &fresh_in("/")).is_some();
        assert!(!learned || begun.elapsed() >= Duration::from_millis(10), "within a tick");
        !learned
    });
    assert!(caught.count() > 0);
}

/// Names come and go while helpers learn the folder and a loop asks for what has just come.
#[test]
fn whatever_is_there_is_never_said_to_be_missing() {
    let folder = Folder::new();
    fs::create_dir(folder.path("sub")).unwrap();
    let Some(disk) = learning(&folder) else { return };
    let end = Instant::now() + Duration::from_millis(1500);
    let learned = scope(|scope| {
        let helper = || {
            while Instant::now() < end {
                helped(&disk, &fresh_in("/sub/"));
            }
        };
        scope.spawn(helper);
        scope.spawn(helper);
        let mut learned = 0;
        for number in 0_u64.. {
            if Instant::now() >= end {
                break;
            }
            // Now and then the folder rests for long enough to be learned, by a little more or less.
            let rests_us = 18_000 + number * 7919 % 12_000;
            let until = Instant::now() + Duration::from_micros(if number % 3 == 0 { rests_us } else { 0 });
            while Instant::now() < until {
                learned += u64::from(now(&disk, &fresh_in("/sub/")).is_some());
            }
            let name = format!("sub/there-{number}");
            match number % 2 {
                0 => fs::write(folder.path(&name), "").unwrap(),
                _ => {
                    fs::rename(folder.path(&format!("sub/there-{}", number - 1)), folder.path(&name)).unwrap()
                }
            }
            assert_ne!(now(&disk, &format!("/{name}")).as_deref(), MISSING, "{name} is there");
        }
        learned
    });
    eprintln!("{learned} names were known to be missing");
}

#[test]
fn folders_with_many_names_are_learned_when_enough_of_them_were_missing() {
    let folder = Folder::new();
    for number in 0..600 {
        fs::write(folder.path(&number.to_string()), "").unwrap();
    }
    let Some(disk) = learning(&folder) else { return };
    settle();
    helped(&disk, &fresh_in("/"));
    assert_eq!(now(&disk, &fresh_in("/")), None, "one miss does not pay for 600 names");
    (0..2).for_each(|_| assert_eq!(helped(&disk, &fresh_in("/")), "404"));
    assert_eq!(now(&disk, &fresh_in("/")).as_deref(), MISSING);
}

/// On a busy machine helpers, who have the lowest priority, may get to nothing for a while.
#[test]
fn without_help_the_folder_is_learned_all_the_same() {
    let folder = Folder::new();
    folder.put("a.txt", "a");
    let Some(disk) = learning(&folder) else { return };
    settle();
    for _ in 0..300 {
        assert_eq!(now(&disk, &fresh_in("/")), None, "helpers are at it");
        helped(&disk, "/a.txt");
    }
    let give_up = Instant::now() + Duration::from_secs(10);
    let mut asked = 0;
    while now(&disk, &fresh_in("/")).is_none() {
        asked += 1;
        assert!(Instant::now() < give_up, "never learned");
    }
    assert!(asked >= 64, "{asked}");
}

/// Whoever waits itself has no need of it.
#[test]
fn who_waits_learns_nothing() {
    let folder = Folder::new();
    let disk = folder.disk();
    settle();
    find(&disk, fresh_in("/"));
    help(&disk, &find_job(fresh_in("/"), None));
    assert_eq!(now(&disk, &fresh_in("/")), None);
}

#[test]
fn users_folders_have_tables_of_their_own() {
    let (folder, home) = (Folder::new(), Folder::new());
    folder.put("only-here", "the site's");
    home.put("only-there", "the user's");
    let mut disk = folder.disk_with(|settings| {
        settings.site.user_dirs = Some(home.root().into_os_string().into_encoded_bytes());
        settings.names_briefly = Duration::from_secs(3600);
    });
    disk.close_elsewhere().unwrap();
    if disk.device_for(&find_job("/x", None)).class.name_rule() == NameRule::Ask {
        return;
    }
    settle();
    learn(&disk, "/");
    assert_eq!(helped(&disk, &fresh_in("/~daemon/")), "404");
    learn(&disk, "/~daemon/");
    assert_eq!(now(&disk, &fresh_in("/~daemon/")).as_deref(), MISSING);
    assert_eq!(outcome(&find(&disk, "/~daemon/only-there")), "the user's");
    assert_ne!(now(&disk, "/only-here").as_deref(), MISSING);
    assert_ne!(now(&disk, "/~daemon/only-there").as_deref(), MISSING);
}

#[test]
fn a_folder_that_may_not_be_searched_is_forbidden_and_not_empty() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    if is_superuser(&folder) {
        return;
    }
    folder.put("sub/x", "x");
    let Some(disk) = learning(&folder) else { return };
    settle();
    learn(&disk, "/sub/");
    fs::set_permissions(folder.path("sub"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_ne!(now(&disk, &fresh_in("/sub/")).as_deref(), MISSING);
    assert_eq!(outcome(&find(&disk, fresh_in("/sub/"))), "403");
    fs::set_permissions(folder.path("sub"), fs::Permissions::from_mode(0o700)).unwrap();
}

/// A server and its helper process. `None` where no names are told.
fn pair(folder: &Folder, briefly: Duration) -> Option<Pair> {
    let mut pair = Pair::of(folder);
    pair.here = folder.disk_with(|settings| settings.names_briefly = briefly);
    pair.here.leave_to_others();
    settle();
    let device = pair.there.device_for(&find_job("/x", None));
    (device.class.name_rule() != NameRule::Ask).then_some(pair)
}

fn asked(pair: &mut Pair, name: &str) -> String {
    outcome(&found(pair.done(&find_job(name, None))))
}

#[test]
fn a_helper_process_tells_the_names_of_the_folder() {
    let folder = Folder::new();
    folder.put("a.txt", "a");
    folder.put("sub/b.txt", "b");
    let Some(mut pair) = pair(&folder, Duration::from_secs(3600)) else { return };
    assert_eq!(now(&pair.here, &fresh_in("/")), None);
    assert_eq!(asked(&mut pair, &fresh_in("/")), "404");
    for name in [fresh_in("/"), fresh_in("/") + "/x", fresh_in("/a.txt/")] {
        assert_eq!(now(&pair.here, &name).as_deref(), MISSING, "{name}");
    }
    for name in ["/a.txt", "/", "/sub", "/sub/", "/sub/b.txt", &fresh_in("/sub/")] {
        assert_eq!(now(&pair.here, name), None, "{name}: another process has to look");
    }
    assert_eq!(asked(&mut pair, &fresh_in("/sub/")), "404");
    assert_eq!(now(&pair.here, &fresh_in("/sub/")).as_deref(), MISSING);
    assert_eq!(asked(&mut pair, "/sub/b.txt"), "b");
}

/// The server cannot see that a folder has changed.
#[test]
fn what_a_helper_process_told_serves_for_a_while() {
    let folder = Folder::new();
    let briefly = Duration::from_millis(200);
    let Some(mut pair) = pair(&folder, briefly) else { return };
    let give_up = Instant::now() + Duration::from_secs(10);
    let told = loop {
        assert_eq!(asked(&mut pair, &fresh_in("/")), "404");
        let told = Instant::now();
        if now(&pair.here, &fresh_in("/")).as_deref() == MISSING {
            break told;
        }
        assert!(Instant::now() < give_up, "never known");
    };
    folder.put("new", "new");
    sleep((told + briefly).saturating_duration_since(Instant::now()));
    assert_eq!(now(&pair.here, "/new"), None);
    assert_eq!(asked(&mut pair, "/new"), "new");
}

#[test]
fn nothing_is_told_where_every_request_is_to_look() {
    let folder = Folder::new();
    let Some(mut pair) = pair(&folder, Duration::ZERO) else { return };
    assert_eq!(asked(&mut pair, &fresh_in("/")), "404");
    assert_eq!(now(&pair.here, &fresh_in("/")), None);
}

#[test]
fn only_a_folder_above_the_name_is_believed() {
    let folder = Folder::new();
    folder.put("sub/x", "x");
    let Some(mut pair) = pair(&folder, Duration::from_secs(3600)) else { return };
    let job = find_job("/sub/none", None);
    let (bytes, _) = pair.answer(&job);
    // The times and the error, NOT_FOUND, WHOLE, then how much of the name is the folder's.
    let length = 1 + 3 * 8 + 4 + 1 + 1;
    assert_eq!(bytes[length..length + 4], 3_u32.to_ne_bytes());
    for (said, believed) in [(3_u32, true), (0, true), (2, false), (4, false), (8, false), (u32::MAX, false)]
    {
        let mut bytes = bytes.clone();
        bytes[length..length + 4].copy_from_slice(&said.to_ne_bytes());
        assert_eq!(
            pair.here.understand(&pair.here.root(), &job, &bytes, Vec::new()).is_ok(),
            believed,
            "{said}"
        );
    }
}
