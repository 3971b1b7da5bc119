//! A slow and faulty disk to test file servers on.
//!
//! It shows a folder, read-only, through a FUSE filesystem. Rules decide how long an operation takes, and whether it fails or
//! hangs. Alone it behaves like a network mount. With a filesystem image on a loop device on it ([`SlowImage`]), it behaves
//! like a slow local disk whose metadata is slow too. It is for tests and experiments only; no crate of the server depends on
//! it. It needs root and `/dev/fuse`; [`missing`] says which of them is missing.
//!
//! ```text
//! flash-slowdisk /srv/site /mnt/slow --concurrent 4 --rule 'read delay exp:8ms' --rule 'hang fraction 0.01'
//! flash-slowdisk /srv/site /mnt/disk --image 512 --rule 'read delay uniform:1ms-20ms'
//! flash-slowdisk /srv/site /mnt/disk --image 1024 --rule 'arm hp97560 c-look'
//! ```
//!
//! It prints one line when it is mounted. On SIGTERM or SIGINT it unmounts, also while operations hang. If it is killed, a
//! shell that it started unmounts.
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
//! | PATTERN | `prefix /bad/`, `glob /img/*.png` (`**` crosses slashes), `fraction 0.01 seed 7` of files, chosen by name; all given patterns must match |
//!
//! Other lines (with their defaults):
//!
//! - `arm DRIVE [ORDER [DEPTH]]` (`off`): an image has one arm, which does one read at a time. A read takes the time of its seek by
//!   distance, of the rotation and of the transfer by tracks, and what delays say beside that. DRIVE is `hp97560` (1991, 4,002 rotations a
//!   minute) or `deskstar` (2000, 7,200). ORDER is `fifo`, `c-look` (the default) or `shortest`, by seek and rotation, among the DEPTH (32)
//!   reads that have waited for longest. After a read the drive reads on into its buffer. Several arms are several mounts.
//! - `concurrent N` (16): so many operations run at a time, the others wait.
//! - `ttl 1s` (0s): the kernel keeps names and attributes for that time.
//! - `direct-io on` (off): files opened from now on bypass the page cache.
//! - `remove RULE` removes a rule, and `clear` removes all of them.
//! - `#` begins a comment.
//!
//! Each change applies to running operations too. An operation that hangs or waits continues if no rule stops it any more.
//!
//! # While it runs
//!
//! The mount's root has a file `.slowdisk`, which no listing shows. A write to it takes such lines, all or none. If a line is
//! wrong, the write fails with `EINVAL`, and the file has the reason. Reading it shows the current rules and the counted
//! operations. It answers while all other files hang, because neither it nor the attributes of the root wait. Write without
//! creating (`dd of=.slowdisk conv=notrunc,nocreat`): on older kernels a shell's `>` waits for every look-up in that folder
//! first.
//!
//! # Where it differs from the real thing
//!
//! - While size and times stay the same, pages stay cached from one open to the next, and need no operation, as on NFS. FUSE
//!   refuses `RWF_NOWAIT`, as NFS does.
//! - A process that is killed while its operation hangs ends at once, as on NFS. FUSE alone would hold it for ever.
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

mod arm;
mod cleanup;
mod control;
mod delay;
mod disk;
mod drive;
mod folder;
mod image;
mod nodes;
mod passthrough;
mod pattern;
mod queue;
mod rules;
mod slow_disk;

pub use crate::cleanup::Cleanup;
pub use crate::control::CONTROL;
pub use crate::image::SlowImage;
pub use crate::queue::Counters;
pub use crate::rules::Kind;
pub use crate::slow_disk::{SlowDisk, missing};
