//! Where a path leads, as far as a walk can tell: a file that is not open yet, or a folder. Each part of the path is looked up
//! once. Nothing is read.

use std::os::fd::OwnedFd;

use flash_core::path::SitePath;
use rustix::fs::FileType;

use crate::blocking::Blocking;
use crate::lookup_error::LookupError;
use crate::root::{Root, Walked, parent};
use crate::scripts::is_script;
use crate::site_root::SiteRoot;
use crate::stat;

/// What a request's path leads to.
pub(crate) enum Destination {
    File(FoundFile),
    Folder,
    FolderWithoutSlash,
}

/// A regular file that a walk has reached.
pub(crate) struct FoundFile {
    /// Below its root.
    pub(crate) name: Vec<u8>,
    pub(crate) walked: Walked,
    /// Its folder, if a walk has reached that on the way.
    pub(crate) folder: Option<OwnedFd>,
}

/// How much a walk has to find out.
#[derive(Clone, Copy)]
pub(crate) struct Walk {
    pub(crate) blocking: Blocking,
    /// Reach the file's folder too, because other names in it follow.
    pub(crate) by_folder: bool,
    /// The state of the file decides whether a known one is current, so a remote server is asked for it.
    pub(crate) compares: bool,
}

impl Destination {
    pub(crate) fn find(
        (site, root): (&SiteRoot, &Root),
        path: &SitePath<'_>,
        name: &[u8],
        walk: Walk,
    ) -> Result<Self, LookupError> {
        let above = (walk.by_folder && walk.blocking.waits()).then(|| parent(name));
        let above = match above.filter(|above| !above.is_empty()) {
            Some(above) => Some(root.walk_to(None, above, walk.blocking)?),
            None => None,
        };
        let first = Walk { compares: walk.compares && !path.names_folder(), ..walk };
        let walked = first.to(root, above.as_ref(), name);
        if !path.names_folder() {
            let is_folder = match walked {
                Ok(walked) if walked.stat.kind == FileType::RegularFile => {
                    return Ok(Self::File(FoundFile { name: name.to_vec(), walked, folder: above }));
                }
                Ok(walked) => walked.stat.kind == FileType::Directory,
                Err(LookupError::Missing) => false,
                Err(stop) => return Err(stop),
            };
            return match Self::extended((site, root), path, name, (above, walk))? {
                Some(file) => Ok(Self::File(file)),
                None if is_folder => Ok(Self::FolderWithoutSlash),
                None => Err(LookupError::Missing),
            };
        }
        let walked = walked?;
        if walked.stat.kind != FileType::Directory {
            return Err(LookupError::Missing);
        }
        let folder = walked.place;
        for index in &site.settings.index {
            if site.settings.deny.cover_in(path, index) {
                continue;
            }
            let mut name = name.to_vec();
            if !name.is_empty() {
                name.push(b'/');
            }
            name.extend_from_slice(index);
            match walk.to(root, Some(&folder), &name) {
                Ok(walked) if walked.stat.kind == FileType::RegularFile => {
                    return Ok(Self::File(FoundFile { name, walked, folder: Some(folder) }));
                }
                Ok(_) | Err(LookupError::Missing) => {}
                Err(stop) => return Err(stop),
            }
        }
        // A folder that may not be read is refused here, not in the middle of its listing.
        root.check_folder(&folder, name, walk.blocking)?;
        Ok(Self::Folder)
    }

    /// The file that has the name with one of the site's extensions. No script answers so.
    fn extended(
        (site, root): (&SiteRoot, &Root),
        path: &SitePath<'_>,
        name: &[u8],
        (folder, walk): (Option<OwnedFd>, Walk),
    ) -> Result<Option<FoundFile>, LookupError> {
        for end in site.settings.extensions.iter().filter(|_| !name.is_empty()) {
            let name = [name, end].concat();
            if is_script(site, &name) || site.settings.deny.cover(&path.extended(end)) {
                continue;
            }
            match walk.to(root, folder.as_ref(), &name) {
                Ok(walked) if walked.stat.kind == FileType::RegularFile => {
                    return Ok(Some(FoundFile { name, walked, folder }));
                }
                Ok(_) | Err(LookupError::Missing) => {}
                Err(stop) => return Err(stop),
            }
        }
        Ok(None)
    }
}

impl Walk {
    /// Walks to a name, in its folder if that was reached.
    pub(crate) fn to(
        self,
        root: &Root,
        folder: Option<&OwnedFd>,
        name: &[u8],
    ) -> Result<Walked, LookupError> {
        let place = root.walk_to(folder, name, self.blocking)?;
        let stat = if self.compares { stat::examine(&place)? } else { stat::examine_walked(&place)? };
        Ok(Walked { place, stat })
    }
}
