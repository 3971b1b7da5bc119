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

mod cleanup;
mod control;
mod delay;
mod disk;
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
