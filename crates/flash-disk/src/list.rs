//! The job *list*: a folder's names in order, and rows of them.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use flash_core::job::{Done, List, Listed};
use flash_core::listing::{self, Column, Details, Name, Names};
use rustix::fs::{Dir, FileType};

use crate::meter::{Stage, timed};
use crate::root::{self, Root, Stop};
use crate::users::Users;
use crate::{Disk, Pace};

/// Rows in one job: enough to be worth a helper's wake-up, little enough for one buffer.
pub(crate) const ROWS_PER_JOB: usize = 256;
/// A page with more rows than this is of no use to anybody.
pub(crate) const NAMES_MAX: usize = 200_000;

impl Disk {
    pub(crate) fn list(&self, list: &List, pace: Pace) -> Result<Done, Stop> {
        let user_root;
        let (root, folder) = match self.users.as_ref().zip(crate::find::user_of(&list.path)) {
            Some((users, (user, below))) => {
                user_root = Users::root(users, user, pace)?;
                (&*user_root, below)
            }
            None => (self.root()?, list.path.relative()),
        };
        let names = match &list.names {
            Some(names) => Arc::clone(names),
            None => Arc::new(self.names(root, folder, list, pace)?),
        };
        let end = names.names.len().min(list.from + ROWS_PER_JOB);
        let mut rows = Vec::with_capacity(ROWS_PER_JOB * 192);
        for name in &names.names[list.from.min(end)..end] {
            // What has vanished since then, or leads out of the root, is not shown.
            let known = name.details.map(|details| (details, name.folder));
            if let Some((details, folder)) =
                known.map_or_else(|| look(root, folder, name, pace), |known| Ok(Some(known)))?
            {
                listing::row(&Name { folder, ..name.clone() }, Some(details), &mut rows);
            }
        }
        let next = (end < names.names.len()).then_some(end);
        Ok(Done::Listed(Listed { rows, names, next }))
    }

    fn names(&self, root: &Root, folder: &[u8], list: &List, pace: Pace) -> Result<Names, Stop> {
        let place: OwnedFd = root.open_folder(folder, pace)?;
        let mut names = Names::default();
        let mut folder_names = Dir::new(place).map_err(Stop::of)?;
        while let Some(entry) = timed(Stage::Read, "getdents64", || folder_names.next()) {
            let entry = entry.map_err(Stop::of)?;
            let name = entry.file_name().to_bytes();
            let hidden = matches!(name, b"." | b"..") || (name.starts_with(b".") && !self.settings.dotfiles);
            let kind = entry.file_type();
            let servable = matches!(
                kind,
                FileType::RegularFile | FileType::Directory | FileType::Symlink | FileType::Unknown
            );
            if hidden || !servable {
                continue;
            }
            if names.names.len() == NAMES_MAX {
                names.left_out += 1;
                continue;
            }
            let mut name = Name { name: name.into(), details: None, folder: kind == FileType::Directory };
            // Other orders need every file's details before the first row; so does a link that may be a folder.
            let unclear = matches!(kind, FileType::Symlink | FileType::Unknown);
            if unclear || list.order.by != Column::Name {
                let Some((details, is_folder)) = look(root, folder, &name, pace)? else { continue };
                name = Name { details: Some(details), folder: is_folder, ..name };
            }
            names.names.push(name);
        }
        list.order.sort(&mut names.names);
        Ok(names)
    }
}

/// Size, time and kind of one name; `None` for what would not be served.
fn look(root: &Root, folder: &[u8], name: &Name, pace: Pace) -> Result<Option<(Details, bool)>, Stop> {
    let mut path = Vec::with_capacity(folder.len() + 1 + name.name.len());
    if !folder.is_empty() {
        let _ = path.write_all(folder);
        path.push(b'/');
    }
    path.extend_from_slice(&name.name);
    let root::Examined { kind, stamp, .. } = match root.examine(&path, pace) {
        Err(Stop::Elsewhere) => return Err(Stop::Elsewhere),
        Err(_) => return Ok(None),
        Ok(examined) => examined,
    };
    let details = Details { size: stamp.size, modified: stamp.modified_seconds() };
    let servable = matches!(kind, FileType::RegularFile | FileType::Directory);
    Ok(servable.then_some((details, kind == FileType::Directory)))
}
