//! Trees in temporary folders.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use super::*;
use crate::sample::Sizes;
use crate::synthetic::{References, Shape, Synthetic};
use crate::workload::{File as Listed, Workload};

fn site(files: u32, bytes_total: u64) -> Arc<Catalogue> {
    let sizes = Sizes { ln_mean: 8.0, ln_sd: 2.0, bytes_total: Some(bytes_total) };
    let shape =
        Shape { folder: String::new(), files, sizes, exponent: 1.0, references: References::Independent };
    Arc::clone(Synthetic::new(&shape, 5).unwrap().catalogue())
}

fn catalogue(files: &[(&str, Option<u64>)]) -> Catalogue {
    let file = |(target, bytes): &(&str, Option<u64>)| Listed {
        target: (*target).into(),
        bytes: *bytes,
        class: 0,
        program: false,
    };
    Catalogue { files: files.iter().map(file).collect(), classes: vec!["files".into()] }
}

fn make(folder: &Path, catalogue: &Catalogue, seed: u64) -> Result<Made, SiteError> {
    make_site(folder, catalogue, seed, "a test", &Progress::default())
}

#[test]
fn every_file_is_there_byte_for_byte_and_is_kept() {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("x/site");
    let catalogue = site(1_200, 9_000_000);
    assert_eq!(make(&folder, &catalogue, 3).unwrap(), Made { written: 1_200, kept: 0, bytes: 9_000_000 });
    for file in &catalogue.files {
        let found = fs::read(folder.join(name::path_of(&file.target).unwrap())).unwrap();
        assert_eq!(Some(found.len() as u64), file.bytes);
        assert_eq!(Content::new(3, &file.target).first_difference(0, &found), None, "{}", file.target);
    }
    let note = Note { seed: 3, workload: "a test".into(), files: 1_200, bytes: 9_000_000, complete: true };
    assert_eq!(Note::read(&folder).unwrap(), Some(note));

    // One is gone, one was not finished: only these are made again.
    let path = |nth: usize| folder.join(name::path_of(&catalogue.files[nth].target).unwrap());
    let inode = fs::metadata(path(3)).unwrap().ino();
    fs::remove_file(path(1)).unwrap();
    fs::write(path(2), "").unwrap();
    assert_eq!(make(&folder, &catalogue, 3).unwrap(), Made { written: 2, kept: 1_198, bytes: 9_000_000 });
    assert_eq!(fs::metadata(path(3)).unwrap().ino(), inode);
    assert_eq!(
        Content::new(3, &catalogue.files[2].target).first_difference(0, &fs::read(path(2)).unwrap()),
        None
    );

    // Bytes of another seed are of no use.
    assert_eq!(make(&folder, &catalogue, 4).unwrap().written, 1_200);
    assert_eq!(
        Content::new(4, &catalogue.files[0].target).first_difference(0, &fs::read(path(0)).unwrap()),
        None
    );
}

#[test]
fn what_somebody_else_made_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("index.html");
    fs::write(&theirs, "theirs").unwrap();
    let error = make(folder.path(), &catalogue(&[("/", Some(5))]), 1).unwrap_err();
    assert!(matches!(error, SiteError::NotOurs { .. }), "{error}");
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
    assert_eq!(Note::read(folder.path()).unwrap(), None);
}

#[test]
fn what_is_no_file_is_refused_before_anything_is_written() {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("site");
    for (files, expected) in [
        (vec![("/a/../../b", Some(1))], "/a/../../b: a hidden name, or `..`"),
        (vec![("/a", None)], "/a: its size is not known, so it cannot be made"),
        (
            vec![("/a/", Some(1)), ("/a/index.html", Some(2))],
            "/a/index.html: another file of the workload lies there, with another size",
        ),
    ] {
        assert_eq!(make(&folder, &catalogue(&files), 1).unwrap_err().to_string(), expected);
        assert!(!folder.exists());
    }
    let same = catalogue(&[("/a/", Some(1)), ("/a/index.html", Some(1))]);
    assert_eq!(make(&folder, &same, 1).unwrap().written, 1);
}

#[test]
fn what_cannot_be_written_is_named_and_the_rest_stays() {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("site");
    let files = catalogue(&[("/a", Some(10)), ("/b", Some(10))]);
    make(&folder, &catalogue(&[("/a", Some(10))]), 1).unwrap();
    fs::create_dir(folder.join("b")).unwrap();
    let error = make(&folder, &files, 1).unwrap_err().to_string();
    assert!(error.contains("/site/b: Is a directory"), "{error}");
    assert!(!Note::read(&folder).unwrap().unwrap().complete);
    fs::remove_dir(folder.join("b")).unwrap();
    assert_eq!(make(&folder, &files, 1).unwrap(), Made { written: 1, kept: 1, bytes: 20 });
    fs::write(note_path(&folder), "{").unwrap();
    let error = make(&folder, &files, 1).unwrap_err().to_string();
    assert!(error.contains(".flash-site.json: EOF"), "{error}");
}

#[test]
fn a_full_disk_is_named() {
    let above = tempfile::tempdir().unwrap();
    let disk = above.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let size = c"size=1m";
    if let Err(error) =
        rustix::mount::mount("tmpfs", &disk, "tmpfs", rustix::mount::MountFlags::empty(), size)
    {
        eprintln!("NOT CHECKED: no small disk to fill, because mounting one says: {error}");
        return;
    }
    let folder = disk.join("site");
    let made = make(&folder, &site(100, 3_000_000), 1);
    let kept = fs::read_dir(&folder).unwrap().count();
    rustix::mount::unmount(&disk, rustix::mount::UnmountFlags::DETACH).unwrap();
    let error = made.unwrap_err().to_string();
    assert!(error.contains("/site/") && error.contains("No space left on device"), "{error}");
    assert!(kept > 0);
}
