//! Folders whose files only programs may hand on to clients.

use crate::path::SitePath;

/// A folder of the disk, and the prefix under which a site has its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateRoot {
    /// Without a slash at its end.
    pub prefix: Box<[u8]>,
    /// An absolute path, without a slash at its end.
    pub folder: Box<[u8]>,
}

impl PrivateRoot {
    /// The path that the site has for a file of the disk, if the file is named as one below this folder.
    pub(crate) fn path_of(&self, file: &[u8]) -> Option<SitePath<'static>> {
        let rest = file.strip_prefix(&*self.folder).filter(|rest| rest.starts_with(b"/"))?;
        SitePath::of_decoded(&[&*self.prefix, rest].concat())
    }
}
