//! The shape of the server: its architecture with its size, and how it divides the table of open files.

use std::fmt;
use std::thread;

use flash_arch::{Arch, HelperLimits};
use flash_core::clients::forwarded::ForwardedField;
use flash_os::system_calls::Call;
use flash_process::child;

use super::descriptors::{self, Table};
use super::privileges;
use super::programs::Programs;
use super::shares::Shares;
use super::site_plan::SitePlans;
use crate::flags;

pub(super) fn arch(flags: &flags::Serve, shares: &Shares, connections: usize) -> Arch {
    let loops = loops(flags);
    let helpers = HelperLimits { helpers_max: shares.helpers_max, queue_max: flags.helper_queue_max };
    match flags.arch {
        flags::Arch::Amped => Arch::Amped { loops, helpers },
        flags::Arch::Uring => match rings(flags) {
            Ok(()) => Arch::Uring { loops, helpers },
            Err(why) => {
                child::log(format_args!("io_uring is not available here ({why}): serving as amped"));
                Arch::Amped { loops, helpers }
            }
        },
        flags::Arch::Sped => Arch::Sped { loops },
        flags::Arch::Pipelined => Arch::Pipelined { pools: loops, helpers },
        flags::Arch::Mt => {
            // One more can take a connection that waits until another one ends.
            let threads_max = shares.threads_max.min(connections + 1);
            Arch::Mt { threads: shares.threads.min(threads_max), threads_max }
        }
        flags::Arch::Mp => Arch::Mp { processes: shares.processes, processes_max: shares.processes_max },
    }
}

/// The same architecture with so many helpers for a device.
pub(super) fn with_helpers(arch: Arch, helpers_max: usize) -> Arch {
    match arch {
        Arch::Amped { loops, helpers } => {
            Arch::Amped { loops, helpers: HelperLimits { helpers_max, ..helpers } }
        }
        Arch::Uring { loops, helpers } => {
            Arch::Uring { loops, helpers: HelperLimits { helpers_max, ..helpers } }
        }
        // Each of the others has as many as its own shape needs.
        arch @ (Arch::Pipelined { .. } | Arch::Sped { .. } | Arch::Mt { .. } | Arch::Mp { .. }) => arch,
    }
}

pub(super) fn forwarded_field(flags: &flags::Serve) -> ForwardedField {
    match flags.forwarded_field {
        flags::ForwardedField::XForwardedFor => ForwardedField::XForwardedFor,
        flags::ForwardedField::Forwarded => ForwardedField::Forwarded,
    }
}

/// Why there can be none.
fn rings(flags: &flags::Serve) -> Result<(), String> {
    match flags.helpers == flags::Helpers::Process && privileges::sandbox(flags) != flags::Sandbox::Off {
        true => Err("a sandbox cannot see what they do".into()),
        // Not even tried: a filter may end who does.
        false if !flags.experiments.system_calls.contains(Call::IoUring) => {
            Err("--system-calls leaves them out".into())
        }
        false => flash_arch::uring::probe(),
    }
}

pub(super) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Who wants what of the table of open files, which has this limit.
pub(super) fn table(flags: &flags::Serve, shares: &Shares, sites: &SitePlans, limit: usize) -> Table {
    let (of_programs, of_connection) = Programs::descriptors(sites.programs(), &flags.programs);
    let connections = match flags.arch {
        // A process has a table of its own, and one connection.
        flags::Arch::Mp => Some(1),
        _ => flags.connections_max,
    };
    Table {
        limit,
        own: descriptors::own(flags.arch, loops(flags), flags.listen.len())
            // A site that was visited holds its folder open.
            + (sites.folders() - 1).min(descriptors::folders_max(limit)),
        folders: sites.folders(),
        helpers: match flags.arch {
            flags::Arch::Amped | flags::Arch::Uring => shares.helpers_max,
            _ => 0,
        },
        programs: of_programs,
        of_connection,
        connections,
        open_files: match flags.arch {
            flags::Arch::Mp => shares.open_files.div_ceil(shares.processes),
            _ => shares.open_files,
        },
    }
}

fn loops(flags: &flags::Serve) -> usize {
    flags.loops.unwrap_or_else(processors)
}

/// `amped, 2 loops`.
pub(super) struct Shape(pub(super) Arch);

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = match self.0 {
            Arch::Amped { loops, .. } | Arch::Uring { loops, .. } | Arch::Sped { loops } => (loops, "loop"),
            Arch::Pipelined { pools, .. } => (pools, "pool"),
            Arch::Mt { threads, .. } => (threads, "thread"),
            Arch::Mp { processes, .. } => (processes, "process"),
        };
        let plural = match (count, unit) {
            (1, _) => "",
            (_, "process") => "es",
            _ => "s",
        };
        write!(f, "{}, {count} {unit}{plural}", self.0.name())
    }
}
