//! Programs are found, and never sent.

use std::os::unix::fs::symlink;

use super::*;

fn disk(folder: &Folder) -> Disk {
    folder.disk_with(|settings| {
        settings.site.scripts = vec![b".php".to_vec()];
        settings.site.index.push(b"index.php".to_vec());
        let cgi = fs::canonicalize(folder.path("cgi")).unwrap();
        settings.site.program_folders = [cgi].into();
    })
}

#[test]
fn scripts_are_found_by_their_names() {
    let folder = Folder::new();
    folder.put("a.php", "source");
    folder.put("d/index.php", "source");
    folder.put("e.php/b.php", "source");
    folder.put("cgi/x", "source");
    let disk = disk(&folder);
    for (name, expected) in [
        ("/a.php", "script /a.php"),
        ("/a.php/", "script /a.php"),
        ("/a.php/more/b.php", "script /a.php"),
        ("/d/", "script /d/index.php"),
        ("/d/index.php/x", "script /d/index.php"),
        ("/e.php/b.php", "script /e.php/b.php"),
        ("/e.php/b.php/x", "script /e.php/b.php"),
        ("/e.php", "redirect"),
        ("/missing.php", "404"),
        ("/missing.php/x", "404"),
    ] {
        assert_eq!(outcome(&find(&disk, name)), expected, "{name}");
    }
}

#[test]
fn no_path_runs_a_script_where_none_runs() {
    let folder = Folder::new();
    folder.put("cgi/x", "source");
    folder.put("d/index.php", "source");
    for (rule, expected) in [
        ("/d", ["403", "403", "403"]),
        ("/d/index.php", ["403", "403", "403"]),
        ("index.php", ["403", "403", "403"]),
        ("*.php", ["403", "403", "403"]),
        ("/e", ["script /d/index.php", "script /d/index.php", "script /d/index.php"]),
    ] {
        let no_programs = [PathRule::parse(rule).unwrap()].into_iter().collect();
        let disk = folder.disk_with(|settings| {
            settings.site.scripts = vec![b".php".to_vec()];
            settings.site.index.push(b"index.php".to_vec());
            settings.site.no_programs = no_programs;
        });
        let found = ["/d/", "/d/index.php", "/d/index.php/x"].map(|name| outcome(&find(&disk, name)));
        assert_eq!(found, expected, "{rule}");
    }
}

#[test]
fn no_name_leads_to_a_source() {
    let folder = Folder::new();
    folder.put("a.php", "source");
    folder.put("cgi/x", "source");
    folder.put("cgi.txt", "text");
    folder.put("open.txt", "text");
    symlink("a.php", folder.path("a.txt")).unwrap();
    symlink("a.php", folder.path("open.txt.gz")).unwrap();
    symlink("cgi", folder.path("linked")).unwrap();
    symlink("cgi/x", folder.path("x.txt")).unwrap();
    symlink("open.txt", folder.path("b.php")).unwrap();
    let disk = disk(&folder);
    for (name, expected) in [
        ("/a.txt", "403"),
        ("/cgi/x", "403"),
        ("/linked/x", "403"),
        ("/x.txt", "403"),
        ("/cgi.txt", "text"),
        // A script by its name, whatever it is.
        ("/b.php", "script /b.php"),
    ] {
        assert_eq!(outcome(&find(&disk, name)), expected, "{name}");
    }
    let entry = find(&disk, "/open.txt");
    assert!(variants(&entry).coded.is_empty(), "a source is no copy of a text");
}
