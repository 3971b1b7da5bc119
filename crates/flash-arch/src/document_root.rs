//! Where sites are, as their programs are told: at their present roots, which deploys change.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use flash_core::site::hosts::Hosts;
use flash_core::site::id::SiteId;
use flash_disk::Disk;

/// Tells the programs of all sites that are open. What they were told when the configuration was made may be an earlier root.
pub(crate) fn tell_all(disk: &Disk, hosts: &Hosts) {
    disk.open_sites().into_iter().for_each(|site| tell(site, disk, hosts));
}

/// Tells the programs of a site that is open.
pub(crate) fn tell(site: SiteId, disk: &Disk, hosts: &Hosts) {
    let Some(routes) = hosts.routes(site) else { return };
    while let Some(root) = disk.site_root(site) {
        let path = root.real_path().as_os_str().as_bytes();
        routes.set_document_root(path.strip_suffix(b"/").unwrap_or(path));
        // Two threads may do this at once. The last of them has seen the last root.
        if disk.site_root(site).is_none_or(|present| Arc::ptr_eq(&present, &root)) {
            return;
        }
    }
}
