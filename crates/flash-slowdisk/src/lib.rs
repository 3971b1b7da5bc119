//! A slow and faulty disk to test file servers on.
//!
//! It shows a folder, read-only, through a FUSE filesystem whose operations take the time and meet the fate that
//! rules give them. As it is, it plays a network mount. With a filesystem image on a loop device upon it
//! ([`SlowImage`]), it plays a slow local disk whose metadata is slow too. It is for tests and experiments alone: no
//! crate of the server reaches it. It needs root and `/dev/fuse`; [`missing`] says what is not there.
//!
//! ```text
//! flash-slowdisk /srv/site /mnt/slow --concurrent 4 --rule 'read delay exp:8ms' --rule 'hang fraction 0.01'
//! flash-slowdisk /srv/site /mnt/disk --image 512 --rule 'read delay uniform:1ms-20ms'
//! ```
//!
//! It says in one line when it is mounted, and unmounts when it is told to end (SIGTERM, SIGINT), also while
//! operations hang. Should it be killed, a shell that it left behind unmounts.
//!
//! # Rules
//!
//! A rule is a line: `[KIND] EFFECT [PATTERN]`. The newest delay that fits an operation counts, and the newest fault.
//!
//! | | |
//! |---|---|
//! | KIND | `lookup`, `getattr`, `open` (of folders too), `read`, `readdir`, `readlink`, `statfs`; all without one |
//! | `delay DELAY` | `fixed:5ms`, `uniform:1ms-20ms`, `exp:8ms` |
//! | `hang` | no answer until the rules change |
//! | `fail ERROR` | `EIO`, `ESTALE` and the like, or a number |
//! | `short BYTES` | a read returns no more than this. Files opened now bypass the page cache, which would take it for the file's end |
//! | PATTERN | `prefix /bad/`, `glob /img/*.png` (`**` crosses slashes), `fraction 0.01 seed 7` of files, chosen by name; all that are given must fit |
//!
//! Other lines: `concurrent N` (16) operations are done at a time, the rest wait; `ttl 1s` (0s) lets the kernel keep
//! names and attributes; `direct-io on` (off) bypasses the page cache for files opened from now on; `remove RULE`;
//! `clear` goes back to a disk without faults. `#` begins a comment. Every change is a new judgement for operations
//! under way: those that hung or sat out a delay go on if nothing holds them any more.
//!
//! # While it runs
//!
//! The file `.slowdisk` at the mount's root, which no list shows, takes such lines in one write, all or none (`EINVAL`,
//! and why is in the file), and reads as the rules in force and the operations that were counted. It answers when all
//! else hangs: neither it nor the attributes of the root wait. Write without creating (`dd of=.slowdisk
//! conv=notrunc,nocreat`): on older kernels a shell's `>` waits for every look-up in that folder first.
//!
//! # Where it differs from the real thing
//!
//! - Pages are kept from one open to the next while size and times stay, and cost no operation, as on NFS. FUSE
//!   refuses `RWF_NOWAIT`, as NFS does.
//! - A process that is killed while its operation hangs goes at once, as on NFS; FUSE alone would hold it for good.
//! - Files with several names have one inode; rules know it by the name that was looked up last.
//!
//! ```no_run
//! let disk = flash_slowdisk::SlowDisk::mount("site".as_ref(), "/mnt".as_ref(), "read delay fixed:5ms")?;
//! disk.rule("hang prefix /bad/")?;
//! assert_eq!(disk.counters().hung, 0);
//! disk.clear();
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]

mod control;
mod delay;
mod disk;
mod folder;
mod guard;
mod image;
mod nodes;
mod passthrough;
mod pattern;
mod queue;
mod rules;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::mount::{UnmountFlags, unmount};

use crate::control::Control;
use crate::folder::Folder;
use crate::passthrough::Passthrough;
use crate::queue::Queue;
use crate::rules::Rules;

pub use crate::guard::Guard;
pub use crate::image::SlowImage;
pub use crate::queue::Counters;
pub use crate::rules::Kind;

/// The name of the control file, at the mount's root.
pub const CONTROL: &str = ".slowdisk";

/// A mounted slow disk. It unmounts when it is dropped, whatever hangs.
pub struct SlowDisk {
    control: Arc<Control>,
    queue: Arc<Queue>,
    session: Option<BackgroundSession>,
    mountpoint: PathBuf,
    _guard: Guard,
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
        let rules = read_rules(rules)?;
        demand()?;
        let folder = Arc::new(Folder::open(folder).map_err(|error| about(folder, error))?);
        let mountpoint = mountpoint.canonicalize().map_err(|error| about(mountpoint, error))?;
        let shown = Arc::clone(&folder);
        let queue = Queue::new(rules, move |path| shown.metadata(path).is_ok_and(|found| found.is_dir()))?;
        let control = Arc::new(Control::new(Arc::clone(&queue)));
        let filesystem = Passthrough::new(folder, Arc::clone(&queue), Arc::clone(&control))?;
        let mut options = Config::default();
        // The kernel checks permissions, and everybody may try.
        let name = MountOption::FSName("flash-slowdisk".into());
        options.mount_options = vec![name, MountOption::DefaultPermissions];
        options.acl = SessionACL::All;
        let guard = Guard::new("umount -l \"$1\"", &[mountpoint.as_os_str()])?;
        let mut disk = SlowDisk { control, queue, session: None, mountpoint, _guard: guard };
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

    /// False once somebody else has unmounted it.
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

fn read_rules(lines: &str) -> io::Result<Rules> {
    Rules::default().with(lines).map_err(invalid)
}

fn demand() -> io::Result<()> {
    missing().map_or(Ok(()), |missing| Err(io::Error::new(io::ErrorKind::Unsupported, missing)))
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

fn about(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
