//! The proof that loops never block: a tree of very many files, cold again and again, and two witnesses. The server's own
//! metrics count sleeps outside the loops' wait. `flash why` sees every sleep of a loop's thread with its kernel stack, by perf
//! events. Both must say 0. For *sped*, which does wait for the disk, both must say many. Where there is eBPF, `flash why` must
//! see the same through it.
//!
//! `FLASH_PROOF_FILES` and `FLASH_PROOF_REQUESTS` set its size. The full proof has 1000000 and 200000; its result is in
//! docs/never-blocking.md. `FLASH_PROOF_ONLY` names the servers, with commas between.

#![forbid(unsafe_code)]

mod load;
mod tree;
mod watch;

use std::fs;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use flash_sleep::Cause;
use flash_tests::{PATIENCE, Server, program};
use flash_why::{Block, Level};

use crate::load::Load;
use crate::tree::Tree;
use crate::watch::{Seen, Watched};

/// A way to run the server that is to be judged.
struct Contestant {
    name: &'static str,
    wrapper: &'static [&'static str],
    arch: &'static str,
    flags: &'static [&'static str],
    /// A word of the server's help, without which it does not know this way yet.
    needs: &'static str,
    never_blocks: bool,
}

const AS_NOBODY: &[&str] = &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

const CONTESTANTS: [Contestant; 5] = [
    Contestant { name: "amped", wrapper: &[], arch: "amped", flags: &[], needs: "amped", never_blocks: true },
    // To whom the kernel does not say what of others' files is in memory.
    Contestant {
        name: "amped-nobody",
        wrapper: AS_NOBODY,
        arch: "amped",
        flags: &[],
        needs: "amped",
        never_blocks: true,
    },
    Contestant {
        name: "amped-processes",
        wrapper: &[],
        arch: "amped",
        flags: &["--helpers", "process"],
        needs: "--helpers",
        never_blocks: true,
    },
    Contestant { name: "uring", wrapper: &[], arch: "uring", flags: &[], needs: "uring", never_blocks: true },
    Contestant { name: "sped", wrapper: &[], arch: "sped", flags: &[], needs: "sped", never_blocks: false },
];

/// One sleep in so many requests may be for memory at most: it is no disk's, but each is a fault worth knowing.
const MEMORY_PER_REQUESTS_MAX: u64 = 5000;

/// Each loop is watched; two are enough to be in each other's way.
const LOOPS: &str = "2";

#[test]
fn no_loop_ever_blocks() {
    if let Some(missing) = tree::missing().or_else(watch::missing) {
        eprintln!("NOT TESTED, whether loops block: {missing}");
        return;
    }
    let (files, requests) = (setting("FLASH_PROOF_FILES", 100_000), setting("FLASH_PROOF_REQUESTS", 20_000));
    let only = std::env::var("FLASH_PROOF_ONLY").ok();
    let help = Command::new(program()).args(["serve", "--help"]).output().expect("flash has help").stdout;
    let help = String::from_utf8(help).expect("help is text");
    let begun = Instant::now();
    let tree = Tree::make(files as usize).expect("a tree can be made");
    eprintln!("proof: {files} files in {:.1} s", begun.elapsed().as_secs_f64());
    for contestant in &CONTESTANTS {
        if only.as_deref().is_some_and(|only| !only.split(',').any(|name| name == contestant.name)) {
            continue;
        }
        let known = help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        if !known.into_iter().any(|word| word == contestant.needs) {
            eprintln!("NOT TESTED, {}: this server does not know {}", contestant.name, contestant.needs);
            continue;
        }
        contestant.judge(&tree, requests);
    }
}

impl Contestant {
    fn judge(&self, tree: &Tree, requests: u64) {
        let flags: Vec<&str> = ["--loops", LOOPS].iter().chain(self.flags).copied().collect();
        let server = Server::start_under(self.wrapper, self.arch, tree.root.path(), &flags);
        let loops = self.loops(&server);
        tree::drop_caches();
        let perf = Watched::begin(server.pid(), Level::Perf).expect("it could begin before");
        let (ebpf, load) = (Watched::begin(server.pid(), Level::Ebpf), Load::default());
        let took = load.run(server.address, tree, requests, requests);
        let seen = perf.end();
        seen.assert_whole(self.name, &loops);
        let all = seen.blocks(&loops);
        match ebpf {
            Ok(ebpf) => self.compare(&all, &ebpf.end(), &loops),
            Err(missing) => eprintln!("NOT TESTED, whether eBPF sees the same: {missing}"),
        }
        let said = server.stop();
        let told = |name| told(&said, name);
        // The kernel was at work on its memory: no disk's fault.
        let (memory, blocks): (Vec<&Block>, Vec<&Block>) =
            all.iter().partition(|block| block.cause == Cause::MemoryMap);
        let waits = seen.waits(&loops);
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        eprintln!(
            "proof: {:<15} {requests} requests over {} files in {:.1} s ({} found, {} not found, {} helper jobs), \
             caches dropped {} times, {} files replaced: {} waits of {LOOPS} loops, and blocks: {} by the kernel, {} by the metrics, \
             {} for memory{}",
            self.name,
            tree.files,
            took.as_secs_f64(),
            count(&load.found),
            count(&load.not_found),
            told("helper_jobs"),
            count(&load.drops),
            count(&load.replaced),
            waits,
            blocks.len(),
            told("loop_blocks"),
            memory.len(),
            watch::most(&memory, 5),
        );
        assert!(told("requests") >= requests, "{said}");
        match self.never_blocks {
            true => {
                let reasons = watch::most(&blocks, 20);
                let memory = memory.len() as u64;
                assert!(reasons.is_empty(), "{} slept outside its wait:{reasons}", self.name);
                // Flash's own metrics cannot tell why, only that.
                assert!(told("loop_blocks") <= memory, "{}: {said}", self.name);
                assert!(memory <= requests / MEMORY_PER_REQUESTS_MAX, "{}: {memory}", self.name);
                // It was cold indeed.
                assert!(told("helper_jobs") > requests / 4, "{said}");
            }
            false => self.must_block(&all, told("loop_blocks"), requests, &said),
        }
        assert!(waits > 0 && count(&load.drops) > 1, "{waits} waits");
    }

    /// Both levels saw the same sleeps, within one in a hundred: they neither begin nor end at the same moment.
    fn compare(&self, by_perf: &[&Block], ebpf: &Seen, loops: &[u32]) {
        let by_ebpf = ebpf.blocks(loops);
        eprintln!(
            "proof: {}: {} blocks by perf events, {} by eBPF{}",
            self.name,
            by_perf.len(),
            by_ebpf.len(),
            watch::by_cause(&by_ebpf),
        );
        ebpf.assert_whole(self.name, loops);
        let (one, other) = (by_perf.len(), by_ebpf.len());
        assert!(
            one.abs_diff(other) <= one.div_ceil(100),
            "{}: {one} by perf events, {other} by eBPF",
            self.name
        );
    }

    /// The threads of its loops. A thread names itself, a moment after it was started.
    fn loops(&self, server: &Server) -> Vec<u32> {
        let asked = Instant::now();
        loop {
            let loops = loops_of(server.pid());
            if loops.len().to_string() == LOOPS {
                return loops;
            }
            assert!(asked.elapsed() < PATIENCE, "{}: {LOOPS} loops, but threads {loops:?}", self.name);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The same run finds blocks where there are some, or it would prove nothing.
    fn must_block(&self, blocks: &[&Block], metrics: u64, requests: u64, said: &str) {
        let kernel = blocks.len() as u64;
        eprintln!("proof: {} sleeps most in:{}", self.name, watch::most(blocks, 3));
        assert!(kernel > requests / 4, "{}: {kernel} blocks only", self.name);
        // All that the metrics say happened, and it misses few: those outside the calls it watches it samples.
        assert!(
            (kernel * 9 / 10..=kernel * 11 / 10).contains(&metrics),
            "kernel {kernel}, metrics {metrics}"
        );
        let line = said.lines().find(|line| line.contains(" slept outside its wait: "));
        let line = line.unwrap_or_else(|| panic!("no line about it: {said}"));
        let (call, path) =
            line.split_once(" ms in ").and_then(|(_, rest)| rest.split_once(" of ")).expect(line);
        assert!(["openat2", "statx", "preadv2"].contains(&call) && path.contains("/deep/down"), "{line}");
        // It knows why, too, but for the first sleep of each loop and those that it only samples.
        let seen = blocks.iter().filter(|block| block.cause == Cause::PageCacheRead).count() as u64;
        let explained = explained(said, Cause::PageCacheRead);
        assert!(
            (seen * 8 / 10..=seen * 11 / 10).contains(&explained),
            "{seen} page-cache reads, {explained}: {said}"
        );
    }
}

/// The threads of a server, or of its own processes, that are loops.
fn loops_of(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("the server runs");
    let mut loops = Vec::new();
    for task in tasks.map(|task| task.expect("a thread").path()) {
        if fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("loop-")) {
            let id = task.file_name().and_then(|id| id.to_str()).and_then(|id| id.parse::<u32>().ok());
            loops.extend(id);
        }
        let children = fs::read_to_string(task.join("children")).unwrap_or_default();
        loops.extend(
            children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()).flat_map(loops_of),
        );
    }
    loops
}

/// The sleeps that the server's last report says are of this cause.
fn explained(said: &str, cause: Cause) -> u64 {
    let last = said.rsplit("stopped: requests=").next().expect("a report");
    let lines = last.lines().filter_map(|line| line.strip_prefix("flash: blocks: sleeps="));
    let of_cause = lines.filter(|line| line.contains(&format!(" {cause} in ")));
    of_cause.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum()
}

/// A number of the server's last words.
fn told(said: &str, name: &str) -> u64 {
    let words = said.lines().find_map(|line| line.split_once("stopped: ")).expect("last words").1;
    let count = words.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no {name}: {said}"))
}

fn setting(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |set| set.parse().unwrap_or_else(|_| panic!("{name} is no number: {set}")))
}
