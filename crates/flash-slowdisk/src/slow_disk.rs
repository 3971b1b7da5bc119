//! A folder, mounted as a slow disk: what the rules hold up is decided elsewhere.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::mount::{UnmountFlags, unmount};

use crate::cleanup::Cleanup;
use crate::control::Control;
use crate::folder::Folder;
use crate::passthrough::Passthrough;
use crate::queue::{Counters, Queue};
use crate::rules::Rules;

/// A mounted slow disk. It unmounts when it is dropped, whatever hangs.
pub struct SlowDisk {
    control: Arc<Control>,
    queue: Arc<Queue>,
    session: Option<BackgroundSession>,
    mountpoint: PathBuf,
    _cleanup: Cleanup,
}

/// What a slow disk lacks here, if anything: root, or FUSE. A test that cannot run says so with it.
pub fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("mounting needs root".into());
    }
    let opened = File::options().read(true).write(true).open("/dev/fuse");
    opened.err().map(|error| format!("/dev/fuse: {error}"))
}

impl SlowDisk {
    /// Shows a folder at a mountpoint, which may be the folder itself.
    ///
    /// # Errors
    /// When something is [`missing`] or one of the two is no folder; `InvalidInput` when a rule makes no sense.
    pub fn mount(folder: &Path, mountpoint: &Path, rules: &str) -> io::Result<SlowDisk> {
        SlowDisk::with(folder, mountpoint, rules, None)
    }

    /// The same, where the folder has nothing but an image of this length.
    pub(crate) fn with(
        folder: &Path,
        mountpoint: &Path,
        rules: &str,
        image_bytes: Option<u64>,
    ) -> io::Result<SlowDisk> {
        let rules = read_rules(rules, image_bytes)?;
        demand()?;
        let folder = Arc::new(Folder::open(folder).map_err(|error| about(folder, error))?);
        let mountpoint = mountpoint.canonicalize().map_err(|error| about(mountpoint, error))?;
        let shown = Arc::clone(&folder);
        let queue = Queue::new(rules, image_bytes, move |path| {
            shown.metadata(path).is_ok_and(|found| found.is_dir())
        })?;
        let control = Arc::new(Control::new(Arc::clone(&queue)));
        let filesystem = Passthrough::new(folder, Arc::clone(&queue), Arc::clone(&control))?;
        let mut options = Config::default();
        // The kernel checks permissions, and everybody may try.
        let name = MountOption::FSName("flash-slowdisk".into());
        options.mount_options = vec![name, MountOption::DefaultPermissions];
        options.acl = SessionACL::All;
        let guard = Cleanup::new("umount -l \"$1\"", &[mountpoint.as_os_str()])?;
        let mut disk = SlowDisk { control, queue, session: None, mountpoint, _cleanup: guard };
        let session = Session::new(filesystem, &disk.mountpoint, &options).and_then(Session::spawn);
        disk.session = Some(session.map_err(|error| about(&disk.mountpoint, error))?);
        Ok(disk)
    }

    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Puts lines in force: all, or none.
    ///
    /// # Errors
    /// `InvalidInput` when one makes no sense.
    pub fn rule(&self, lines: &str) -> io::Result<()> {
        self.control.write(lines.as_bytes()).map_err(invalid)
    }

    /// Makes it a disk without faults. What hung goes on.
    pub fn clear(&self) {
        self.queue.clear();
    }

    pub fn counters(&self) -> Counters {
        self.queue.counters()
    }

    /// False after another process has unmounted it.
    pub fn is_mounted(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.guard.is_finished())
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        if self.is_mounted() {
            // FORCE fails what is under way, so that nobody waits for an answer any more; DETACH takes the mount
            // from its place even if files of it are open.
            let _ = unmount(&self.mountpoint, UnmountFlags::FORCE | UnmountFlags::DETACH);
        }
        if let Some(session) = self.session.take() {
            // It ends because its mount is gone; that is no news.
            let _ = session.join();
        }
        self.queue.close();
    }
}

pub(crate) fn read_rules(lines: &str, image_bytes: Option<u64>) -> io::Result<Rules> {
    let rules = Rules::default().with(lines).map_err(invalid)?;
    rules.check(image_bytes).map_err(invalid)?;
    Ok(rules)
}

pub(crate) fn demand() -> io::Result<()> {
    missing().map_or(Ok(()), |missing| Err(io::Error::new(io::ErrorKind::Unsupported, missing)))
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

pub(crate) fn about(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
