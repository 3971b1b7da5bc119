//! Scripts among the site's files. They are found, but never opened to be sent.
//!
//! A name with a script's suffix leads to [`Resource::Script`], which has no content. Another name may lead to the
//! same file by a link. So the real path of each opened file is checked too.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use flash_cgi::script;
use flash_core::file::entry::Resource;
use flash_core::path::SitePath;
use flash_core::record::refusal::Refusal;
use rustix::fs::{FileType, readlink};

use crate::blocking::Blocking;
use crate::lookup_error::LookupError;
use crate::root::Root;
use crate::site_root::SiteRoot;
use crate::target::Target;

pub(crate) fn is_script(site: &SiteRoot, name: &[u8]) -> bool {
    site.settings.scripts.iter().any(|suffix| name.ends_with(suffix))
}

/// A script that exists. A script in a user's folder is refused, because programs run with the site's rights.
pub(crate) fn script(
    (site, root): (&SiteRoot, &Root),
    path: &SitePath<'_>,
    name: &[u8],
) -> Result<Target, LookupError> {
    let at = [b"/", &*site.settings.path_of(name)].concat();
    // A name on the disk has no empty segment.
    let script = SitePath::of_decoded(&at).ok_or(LookupError::Missing)?;
    let rules = &site.settings.no_programs;
    match std::ptr::eq(root, &*site.root) && !rules.cover(path) && !rules.cover(&script) {
        true => {
            let found_at = (script != *path).then_some(script);
            Ok(Target { resource: Resource::Script(at.into()), found_at })
        }
        false => Err(LookupError::Forbidden(Refusal::Program)),
    }
}

/// A script whose name is a prefix of the path. The rest of the path is the script's business.
pub(crate) fn script_above(
    site: &SiteRoot,
    path: &SitePath<'_>,
    blocking: Blocking,
) -> Result<Option<Target>, LookupError> {
    let root = &*site.root;
    let splits = site.settings.scripts.iter().flat_map(|suffix| script::suffixed(path.as_bytes(), suffix));
    for name in splits.filter(|split| !split.info.is_empty()).map(|split| &split.name[1..]) {
        let name = site.settings.stripped(name);
        match root.examine(name, blocking) {
            Ok(examined) if examined.kind == FileType::RegularFile => {
                return script((site, root), path, name).map(Some);
            }
            Ok(_) | Err(LookupError::Missing) => {}
            Err(stop) => return Err(stop),
        }
    }
    Ok(None)
}

/// Whether an open file is a script, or lies in a folder of programs, by its real path.
pub(crate) fn is_program(site: &SiteRoot, file: &OwnedFd) -> bool {
    let (scripts, folders) = (&site.settings.scripts, &site.program_folders);
    if scripts.is_empty() && folders.is_empty() {
        return false;
    }
    // The kernel tells the path without asking the disk. If it does not, the file counts as a program.
    let Ok(path) = readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new()) else {
        return true;
    };
    let path = path.to_bytes();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let is_below = |folder: &[u8]| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/"));
    scripts.iter().any(|suffix| path.ends_with(suffix))
        || folders.iter().any(|folder| is_below(folder.as_os_str().as_bytes()))
}
