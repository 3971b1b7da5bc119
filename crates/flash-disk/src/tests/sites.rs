//! Several sites on one disk.

use std::sync::{Arc, Barrier};
use std::thread;

use flash_core::root::OpenRoot;

use super::Folder;
use crate::site_root::OpensHere;

/// Its first page often asks for several files at once.
#[test]
fn a_site_that_several_helpers_open_at_once_has_the_root_of_one() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("other")).unwrap();
    for _ in 0..100 {
        let disk = folder.disk();
        let settings = Arc::new(disk.settings.site.clone());
        let folders = [folder.root(), folder.path("other")];
        let wanted = folders.map(|folder| (folder.into(), Arc::clone(&settings))).into();
        let next = disk.prepare_sites(wanted, |_| Arc::new(OpensHere)).unwrap();
        let (site, generation) = next.sites[1].clone();
        disk.replace_sites(next);
        let barrier = Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    barrier.wait();
                    let root = disk.site_root(site).unwrap();
                    assert_eq!(root.generation(), generation.get());
                });
            }
        });
    }
}
