//! Starts servers as processes on a prepared machine, measures them, and restores the machine.
//!
//! The bench and the lab use it. It starts Flash and its peers, each configured as its best users would, pinned to processors
//! and with limits. It makes disks slow, caches cold and read-ahead small. It reports the resources that a server used, and
//! describes the machine.
//!
//! It sends no requests except one check, and knows no experiment. Clients make the load; the lab has the plans.
//!
//! ```no_run
//! use flash_rig::{Cpus, Disk, Limits, Machine, ServerSpec, Setup, empty_caches};
//!
//! flash_rig::interrupt::register()?;
//! let machine = Machine::take()?;
//! for line in machine.restored() {
//!     eprintln!("a killed run had left something: {line}");
//! }
//! let (site, work) = ("/srv/site".as_ref(), "/tmp/work".as_ref());
//! let disk = Disk::below(site)?;
//! let _read_ahead = machine.read_ahead(&disk, 128)?;
//! let limits = Limits { memory_bytes: Some(256 << 20), reads_per_second: Some(3_000), ..Limits::default() };
//! let group = machine.group(&limits, &disk)?;
//! let cpus = Cpus::choose(1)?;
//! let setup = Setup { group: Some(&group), ..Setup::new(site, work, &cpus) };
//! let spec: ServerSpec = "amped --helpers-max 8".parse()?;
//! empty_caches()?;
//! let server = machine.start(&spec, &setup)?;
//! let before = server.process.usage()?;
//! // … load on 127.0.0.1:server.port, from cpus.client …
//! let used = server.process.usage()?.since(&before);
//! println!("{} ns, {:?}", used.cpu_ns, server.stop());
//! # Ok::<(), anyhow::Error>(())
//! ```

#![forbid(unsafe_code)]

mod back_ends;
mod certificate;
mod cgroup;
mod cpus;
mod disk;
mod dynamic;
mod facts;
pub mod fetch;
mod helper;
pub mod interrupt;
mod journal;
mod machine;
mod metrics;
mod mounts;
mod peers;
mod process;
mod rights;
mod server;
mod setup;
mod undo;
mod usage;
mod variants;

pub use crate::certificate::LocalCertificate;
pub use crate::cgroup::{Cgroup, GroupMemory, Limits};
pub use crate::cpus::{Cpus, Steal};
pub use crate::disk::{Disk, ReadAhead, drop_pages, empty_caches};
pub use crate::dynamic::{Php, php_version};
pub use crate::facts::{DiskFacts, Facts};
pub use crate::machine::Machine;
pub use crate::metrics::{Loop, Metrics};
pub use crate::mounts::{Image, Slow, SlowMount, make_image};
pub use crate::peers::raise_descriptors;
pub use crate::process::{Ended, Process};
pub use crate::rights::is_root;
pub use crate::server::{Running, ServerSpec};
pub use crate::setup::{Dynamic, Setup, TlsFiles};
pub use crate::usage::{Held, Memory, Usage, of_ended_children};
pub use crate::variants::{Program, VARIANTS, Variant};
pub use flash_system::{Missing, find, find_own, install};
