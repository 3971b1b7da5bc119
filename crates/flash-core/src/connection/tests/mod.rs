//! The request path without sockets: bytes in, wants out, the clock turned by hand.

mod access;
mod bodies;
mod challenges;
mod closing;
mod dates;
mod deadlines;
mod digests;
mod elsewhere;
mod ends;
mod eviction;
mod fallback;
mod finding;
mod h2;
mod holding;
mod hosts;
mod leaving;
mod links;
mod listing;
mod logins;
mod lower_limits;
mod memory;
mod order;
mod piped;
mod places;
mod programs;
mod proxied;
mod proxying;
mod ranges;
mod rates;
mod records;
mod simulation;
mod slow_clients;
mod splits;
mod spooled;
mod stored;
mod streaming;
mod ways_around;
mod what_answers;
mod windows;

use std::sync::{Arc, LazyLock};

use super::*;
use crate::cache::local::LocalCache;
use crate::connection::context::{Drain, Tally};
use crate::connection::want::Interest;
use crate::job::{Failure, Job, Spent};
use crate::record::Record;
use crate::record::log_choice::{LogChoice, LogNumber};
use crate::server::Settings;
use crate::site::WINDOW_BYTES;
use crate::testing::{Client, Disk, Jobs, Look, Reply, Socket, Waits, World, replies};

/// Files up to this size are held in memory, larger ones are sent in windows.
const MEMORY_FILE_BYTES_MAX: u64 = 8 << 10;
/// Two windows and a bit.
const LARGE_BYTES: usize = 2 * WINDOW_BYTES as usize + 40_000;

/// A site with one of everything. Its settings are the default ones, with listings and the log switched on.
fn world() -> World {
    world_with(Settings::default())
}

fn world_with(settings: Settings) -> World {
    let mut disk = Disk::new(MEMORY_FILE_BYTES_MAX);
    disk.put("/small.txt", text(100));
    disk.put("/middle.txt", text(6_000));
    disk.put("/empty.txt", text(0));
    disk.put("/large.bin", Arc::clone(&TEXT));
    disk.put("/one-window.bin", text(10_000));
    disk.put_folder("/folder/", &[3, 2]);
    disk.forbid("/closed");
    World::new(Settings { access_log: Some(LogNumber(0)), ..settings }, disk)
}

/// Bytes that differ at every position. They are made once, because the tests build many worlds.
static TEXT: LazyLock<Arc<[u8]>> =
    LazyLock::new(|| (0..LARGE_BYTES).map(|at| (at * 31 + at / 251 + at / 65_536) as u8).collect());

fn text(bytes: usize) -> &'static [u8] {
    &TEXT[..bytes]
}

/// For a site of its own: requests have lines in the log of [`world`].
fn logged() -> LogChoice {
    LogChoice { log: Some(LogNumber(0)), statuses: Box::default() }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// The one response in `bytes`.
#[track_caller]
fn reply(bytes: &[u8]) -> Reply {
    let mut all = replies(bytes, &[]);
    assert_eq!(all.len(), 1, "one response: {}", String::from_utf8_lossy(bytes));
    all.remove(0)
}

#[track_caller]
fn statuses(bytes: &[u8]) -> Vec<u16> {
    replies(bytes, &[]).iter().map(|reply| reply.status).collect()
}
