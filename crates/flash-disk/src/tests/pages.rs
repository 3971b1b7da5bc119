//! A site's own error pages, and roots that are none.

use super::*;

#[test]
fn error_pages_are_named_after_their_status() {
    let folder = Folder::new();
    for name in ["404.html", "500.html", "200.html", "404.txt", "x404.html", "style.css"] {
        folder.put(name, name);
    }
    let pages = error_pages(&folder.root()).unwrap();
    let mut pages: Vec<_> = pages.into_iter().collect();
    pages.sort();
    assert_eq!(pages, [(404, b"404.html".to_vec()), (500, b"500.html".to_vec())]);
    folder.put("404.html", vec![b'x'; (1 << 20) + 1]);
    assert!(error_pages(&folder.root()).unwrap_err().to_string().contains("404.html"));
    assert!(error_pages(&folder.path("missing")).is_err());
}

#[test]
fn a_root_has_to_be_a_folder() {
    let folder = Folder::new();
    let settings = folder.disk().settings;
    let file = folder.put("a.txt", "a");
    assert!(Disk::open(&file, settings.clone()).is_err());
    assert!(Disk::open(&folder.path("missing"), settings).is_err());
}
