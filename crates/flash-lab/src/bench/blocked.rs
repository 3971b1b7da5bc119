//! What puts a server's event loops to sleep meanwhile, seen by `flash why`: sleeps by cause.

use std::collections::BTreeMap;

use anyhow::{Context, Result, anyhow};
use flash_sleep::Cause;
use flash_why::{Level, Target, Watch};

/// A watch that begins with its first look.
#[derive(Default)]
pub(super) struct Blocked {
    watch: Option<Result<Watch>>,
    blocks: Vec<(u32, Cause, u64)>,
}

/// Sleeps of loops outside their wait for events.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sleeps {
    pub(super) count: u64,
    pub(super) us: u64,
    /// Every cause has a count, if only 0.
    pub(super) by_cause: BTreeMap<&'static str, u64>,
}

impl Blocked {
    /// Begins, or takes what was seen since the last look.
    pub(super) fn look(&mut self, server: u32) {
        let Ok(watch) = self.watch.get_or_insert_with(|| begin(server)) else { return };
        let blocks = &mut self.blocks;
        let polled = watch.poll(&mut |block| blocks.push((block.thread, block.cause, block.us)));
        if let Err(error) = polled {
            self.watch = Some(Err(anyhow!(error)));
        }
    }

    /// Ends the watch.
    ///
    /// # Errors
    /// When there was none, or when it lost sleeps of loops.
    pub(super) fn end(self) -> Result<Sleeps> {
        let Blocked { watch, mut blocks } = self;
        let mut watch = watch.context("nothing was watched")?.context("flash why")?;
        watch.unfinished(&mut |block| blocks.push((block.thread, block.cause, block.us)));
        let threads = watch.threads();
        let lost = watch.lost(&threads);
        if lost.of_loops > 0 {
            return Err(anyhow!("flash why lost {lost}"));
        }
        let loops: Vec<u32> =
            threads.iter().filter(|thread| thread.is_loop).map(|thread| thread.thread).collect();
        blocks.retain(|(thread, ..)| loops.contains(thread));
        Ok(sum(&blocks))
    }
}

/// The best level that sees every sleep.
fn begin(server: u32) -> Result<Watch> {
    let target = Target::Pid(server);
    let begun = Watch::begin(&target, Some(Level::Ebpf));
    Ok(begun.or_else(|_| Watch::begin(&target, Some(Level::Perf)))?)
}

fn sum(blocks: &[(u32, Cause, u64)]) -> Sleeps {
    let by_cause = Cause::ALL.iter().filter(|cause| **cause != Cause::Events).map(|cause| (cause.name(), 0));
    let mut sleeps = Sleeps { by_cause: by_cause.collect(), ..Sleeps::default() };
    for (_, cause, us) in blocks {
        sleeps.count += 1;
        sleeps.us += us;
        *sleeps.by_cause.entry(cause.name()).or_default() += 1;
    }
    sleeps
}

#[test]
fn sleeps_are_summed_by_cause() {
    let sleeps = sum(&[(7, Cause::MetadataRead, 300), (7, Cause::MetadataRead, 200), (8, Cause::Timer, 1)]);
    assert_eq!((sleeps.count, sleeps.us), (3, 501));
    assert_eq!((sleeps.by_cause["metadata read"], sleeps.by_cause["journal"]), (2, 0));
}

#[test]
fn without_a_look_there_is_nothing_to_tell() {
    assert!(Blocked::default().end().is_err());
}
