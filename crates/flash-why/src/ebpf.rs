//! The first level: programs in the kernel (`bpf/why.bpf.c`) that see each switch of the watched threads.
//!
//! It loads and attaches them, and makes blocks of their records. The kernel drops all of it when this process ends, however
//! it ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aya::maps::{Array, HashMap as KernelMap, Map, MapData, RingBuf};
use aya::programs::BtfTracePoint;
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::{Btf, Ebpf, EbpfLoader};
use flash_sleep::{Cause, FAULT_ENTRY};

use crate::block::{Block, Poller, ThreadTotals};
use crate::call::{CALLS, Call, Events};
use crate::doing::SleepPoint;
use crate::error::Error;
use crate::perf::now_ns;
use crate::proc;
use crate::record::{Begin, End, PATH_WHOLE, Record, is_interrupt};
use crate::record::{Gone, IN_FAULT};
use crate::symbols::Symbols;

/// `cargo xtask bpf` makes it of the source, with clang; it fits itself to the running kernel when it is loaded (CO-RE).
static OBJECT: &[u8] = aya::include_bytes_aligned!("bpf/why.bpf.o");

/// Programs that a watch needs, by their tracepoints.
const PROGRAMS: [(&str, &str); 4] = [
    ("on_switch", "sched_switch"),
    ("on_waking", "sched_waking"),
    ("on_fork", "sched_process_fork"),
    ("on_exit", "sched_process_exit"),
];
/// Where a kernel has them, page faults are named after their files.
const FAULTS: [(&str, &str); 2] =
    [("on_fault_user", "page_fault_user"), ("on_fault_kernel", "page_fault_kernel")];

/// The bits of a call's description, as the kernel's side has them.
const IS_WAIT: u32 = 1 << 24;
const IS_EPOLL: u32 = 1 << 25;
const IS_RING: u32 = 1 << 26;
const IS_POLL: u32 = 1 << 27;

/// One of loops, one of other threads.
const RINGS: usize = 2;

pub(crate) struct Instrument {
    kernel: Ebpf,
    /// Those of loops first: they are read before all others.
    rings: [RingBuf<MapData>; RINGS],
    symbols: Symbols,
    stacks: HashMap<Vec<u64>, SleepPoint>,
    names: HashMap<String, Arc<str>>,
    /// By thread and time. A thread that was just found to be a loop may have one in each ring.
    asleep: BTreeMap<(u32, u64), Begin>,
    gone: Vec<ThreadTotals>,
    begun_ns: u64,
    /// The program that sees calls, while it does.
    calls: Option<BtfTracePointLinkId>,
    ending: bool,
    /// Records whose other half was lost.
    halves: u64,
}

/// The next record: none if there is none, and nothing in it if it cannot be read.
fn next(records: &mut RingBuf<MapData>) -> Option<Option<Record>> {
    records.next().map(|bytes| Record::read(&bytes))
}

impl Instrument {
    /// Loads and attaches everything. Nothing is watched yet.
    pub(crate) fn new() -> Result<Instrument, Error> {
        let symbols = Symbols::read()?;
        let btf =
            Btf::from_sys_fs().map_err(|error| Error::run(format!("the kernel's types (BTF): {error}")))?;
        // Before 5.11, maps count against this limit.
        let _ = rustix::process::setrlimit(
            rustix::process::Resource::Memlock,
            rustix::process::Rlimit { current: None, maximum: None },
        );
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let kernel = release.split(['.', '-']).filter_map(|part| part.parse::<u32>().ok());
        let version: Vec<u32> = kernel.take(2).collect();
        let has_prev_state = u32::from(version >= vec![5, 19]);
        let has_registers_of = u32::from(version >= vec![5, 15]);
        let fault = symbols.range(FAULT_ENTRY).unwrap_or_default();
        let mut loader = EbpfLoader::new();
        loader.btf(Some(&btf));
        loader.override_global("HAS_PREV_STATE", &has_prev_state, true);
        loader.override_global("HAS_REGISTERS_OF", &has_registers_of, true);
        loader.override_global("FAULT_FROM", &fault.0, true);
        loader.override_global("FAULT_TO", &fault.1, true);
        let mut kernel = loader.load(OBJECT).map_err(refused)?;
        describe_calls(&mut kernel)?;
        for (program, tracepoint) in PROGRAMS {
            attach(&mut kernel, program, tracepoint, &btf)?;
        }
        for (program, tracepoint) in FAULTS {
            // Before 5.17 a program cannot ask what is mapped at an address.
            let _ = attach(&mut kernel, program, tracepoint, &btf);
        }
        program(&mut kernel, "on_enter")?.load("sys_enter", &btf).map_err(refused)?;
        let mut ring = |name| RingBuf::try_from(kernel.take_map(name).expect("the object has it"));
        let rings = [ring("of_loops").map_err(refused)?, ring("of_others").map_err(refused)?];
        Ok(Instrument {
            kernel,
            rings,
            symbols,
            stacks: HashMap::new(),
            names: HashMap::new(),
            asleep: BTreeMap::new(),
            gone: Vec::new(),
            begun_ns: now_ns(),
            calls: None,
            ending: false,
            halves: 0,
        })
    }

    /// Watches a process, all its threads, and what it forks from now on.
    pub(crate) fn watch(&mut self, pid: u32) -> Result<(), Error> {
        let mut watched: KernelMap<_, u32, u8> = KernelMap::try_from(self.map("watched")).map_err(refused)?;
        watched.insert(pid, 1, 0).map_err(refused)?;
        // Until it is known who sleeps.
        self.follow_calls(true)
    }

    /// The watch begins: what came before does not count.
    pub(crate) fn begin(&mut self) {
        self.begun_ns = now_ns();
    }

    /// Processes that are watched and have not ended.
    pub(crate) fn watched(&self) -> Vec<u32> {
        let watched = self.kernel.map("watched").expect("the object has it");
        let watched: KernelMap<_, u32, u8> = KernelMap::try_from(watched).expect("it is one");
        watched.keys().flatten().collect()
    }

    /// Gives every block that has ended since it was last asked.
    pub(crate) fn poll(&mut self, found: &mut dyn FnMut(Block)) {
        let begun = Instant::now();
        for ring in 0..self.rings.len() {
            // Read in a function of its own: the ring is borrowed as long as the record is.
            while let Some(record) = next(&mut self.rings[ring]) {
                self.note(record, found);
                // Whoever writes records faster than they are read must not hold the rest up.
                if !self.ending && begun.elapsed() > POLL_LONGEST {
                    break;
                }
            }
        }
    }

    fn note(&mut self, record: Option<Record>, found: &mut dyn FnMut(Block)) {
        match record {
            Some(Record::Begin(begin)) => {
                let thread = begin.tid;
                self.asleep.insert((thread, begin.time_ns), begin);
                self.forget_older(thread, RINGS);
            }
            Some(Record::End(end)) => match self.asleep.remove(&(end.tid, end.since_ns)) {
                Some(_) if end.time_ns <= self.begun_ns => {}
                Some(begin) => found(self.block(&begin, Some(&end))),
                None => self.halves += 1,
            },
            Some(Record::Gone(gone)) => self.gone.push(totals_of(gone)),
            None => self.halves += 1,
        }
    }

    /// Forgets the oldest sleeps of a thread, whose ends were lost.
    fn forget_older(&mut self, thread: u32, kept: usize) {
        let of_thread = (thread, 0)..=(thread, u64::MAX);
        while self.asleep.range(of_thread.clone()).count() > kept {
            let oldest = self.asleep.range(of_thread.clone()).next().map(|(key, _)| *key);
            oldest.and_then(|oldest| self.asleep.remove(&oldest));
            self.halves += 1;
        }
    }

    /// Gives what is still in the rings, and the blocks that have not ended. Nothing is watched any more then.
    pub(crate) fn unfinished(&mut self, found: &mut dyn FnMut(Block)) {
        let pids = self.watched();
        if let Ok(mut watched) = KernelMap::<_, u32, u8>::try_from(self.map("watched")) {
            for pid in pids {
                let _ = watched.remove(&pid);
            }
        }
        self.ending = true;
        self.poll(found);
        let lasts: BTreeSet<(u32, u64)> =
            self.live().filter_map(|(thread, words)| lasts(thread, &words)).collect();
        for (sleep, begin) in std::mem::take(&mut self.asleep) {
            match lasts.contains(&sleep) {
                true => found(self.block(&begin, None)),
                // The record of its end was lost.
                false => self.halves += 1,
            }
        }
    }

    /// Begins or ends to look at calls: a loop that has no time to sleep is found by them.
    pub(crate) fn follow_calls(&mut self, follow: bool) -> Result<(), Error> {
        let enters = program(&mut self.kernel, "on_enter")?;
        match self.calls.take() {
            None if follow => self.calls = Some(enters.attach().map_err(refused)?),
            Some(link) if !follow => enters.detach(link).map_err(refused)?,
            unchanged => self.calls = unchanged,
        }
        Ok(())
    }

    /// Threads that have not ended, in the kernel's words.
    fn live(&self) -> impl Iterator<Item = (u32, [u64; THREAD_WORDS])> {
        let live = self.kernel.map("threads").expect("the object has it");
        let live: KernelMap<_, u32, [u64; THREAD_WORDS]> = KernelMap::try_from(live).expect("it is one");
        live.iter().flatten().collect::<Vec<_>>().into_iter()
    }

    /// What each thread did.
    pub(crate) fn threads(&self) -> Vec<ThreadTotals> {
        let mut all = self.gone.clone();
        for (thread, words) in self.live() {
            let (pid, _) = numbers(words[8]);
            let (poller, is_ring) = numbers(words[9]);
            let (is_loop, _) = numbers(words[10]);
            all.push(ThreadTotals {
                pid,
                thread,
                name: proc::thread_name(pid, thread),
                is_loop: is_loop != 0,
                poller: poller_of(poller, is_ring != 0),
                waits: words[1],
                wait_us: words[2] / 1000,
                blocks: words[3],
                block_us: words[4] / 1000,
                lost: words[5],
            });
        }
        all
    }

    /// Blocks of which only one half arrived.
    pub(crate) fn halves(&self) -> u64 {
        self.halves
    }

    /// Threads that were not counted.
    pub(crate) fn unseen(&self) -> u64 {
        let unseen = self.kernel.map("unseen").expect("the object has it");
        let unseen: Array<_, u64> = Array::try_from(unseen).expect("it is one");
        unseen.get(&0, 0).unwrap_or(0)
    }

    fn map(&mut self, name: &str) -> &mut Map {
        self.kernel.map_mut(name).expect("the object has it")
    }

    fn block(&mut self, begin: &Begin, end: Option<&End>) -> Block {
        let place = self.place(&begin.stack);
        let cause = match begin.is_throttled() {
            true => Cause::CgroupThrottle,
            false => place.cause_on(&begin.filesystem),
        };
        let call = Call::of(begin.call as i64);
        let call_name = match call {
            Some(call) => call.name.to_owned(),
            None if begin.call == u64::MAX && begin.flags & IN_FAULT != 0 => "page fault".to_owned(),
            None if begin.call == u64::MAX => "none".to_owned(),
            None => format!("call {}", begin.call),
        };
        let args = call.map(|call| call.words(&begin.args, Some(&begin.text))).unwrap_or_default();
        let path = path_of(begin, call);
        let ended_ns = end.map_or_else(now_ns, |end| end.time_ns);
        let since_ns = begin.time_ns.max(self.begun_ns);
        Block {
            time_us: (since_ns - self.begun_ns) / 1000,
            pid: begin.pid,
            thread: begin.tid,
            name: self.name(&begin.name),
            call: self.name(&call_name),
            args,
            path: path.map(|path| self.name(&path)),
            cause,
            us: ended_ns.saturating_sub(since_ns) / 1000,
            stack: place.frames,
            waker: end.and_then(|end| self.waker(end)),
            ready: end.and_then(|end| end.ready),
            cpu: begin.cpu,
            sampled: false,
            unfinished: end.is_none(),
        }
    }

    fn waker(&mut self, end: &End) -> Option<String> {
        if end.stack.is_empty() && end.waker == 0 {
            return None;
        }
        let place = self.place(&end.stack);
        let frames: Vec<&str> = place.frames.iter().map(|name| &**name).collect();
        Some(match is_interrupt(&frames) || end.waker == 0 {
            true => "interrupt".to_owned(),
            false => format!("{} ({})", end.waker_name, end.waker),
        })
    }

    fn place(&mut self, addresses: &[u64]) -> SleepPoint {
        if let Some(known) = self.stacks.get(addresses) {
            return known.clone();
        }
        let place = SleepPoint::of(&self.symbols.names(addresses));
        self.stacks.insert(addresses.to_vec(), place.clone());
        place
    }

    fn name(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.names.get(text) {
            return Arc::clone(known);
        }
        // A server of very many files must not fill our memory with their names.
        if self.names.len() >= NAMES_MAX {
            self.names.clear();
        }
        let name: Arc<str> = text.into();
        self.names.insert(text.to_owned(), Arc::clone(&name));
        name
    }
}

/// How long records are read at a time.
const POLL_LONGEST: Duration = Duration::from_millis(50);

const NAMES_MAX: usize = 100_000;
/// The size of the kernel's `struct thread`, in words.
const THREAD_WORDS: usize = 31;

/// What the kernel's side calls a thread's `doing` when it sleeps outside a wait.
const BLOCKED: u32 = 2;

/// Two numbers of 32 bits in a word.
fn numbers(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// The block that a thread is in.
fn lasts(thread: u32, words: &[u64; THREAD_WORDS]) -> Option<(u32, u64)> {
    (numbers(words[8]).1 == BLOCKED).then_some((thread, words[0]))
}

/// What a thread waited in, of its descriptor and 1.
fn poller_of(descriptor: u32, is_ring: bool) -> Option<Poller> {
    match is_ring {
        true => Some(Poller::Ring),
        false => Some(Poller::Epoll(descriptor.checked_sub(1)?)),
    }
}

/// The path of what a call is about, as far as the kernel's side could walk it.
fn path_of(begin: &Begin, call: Option<&Call>) -> Option<String> {
    let is_text = call.is_some_and(|call| call.path != 0) && begin.flags & IN_FAULT == 0;
    if is_text && begin.text.starts_with('/') {
        return Some(begin.text.clone());
    }
    let kind = begin.mode & libc::S_IFMT;
    let folder = match kind {
        libc::S_IFSOCK => format!("socket:[{}]", begin.inode),
        libc::S_IFIFO if begin.path.is_empty() => format!("pipe:[{}]", begin.inode),
        _ if begin.path.is_empty() && begin.flags & PATH_WHOLE == 0 => return None,
        _ => {
            let start = if begin.flags & PATH_WHOLE != 0 { "/" } else { "…/" };
            let names: Vec<&str> = begin.path.iter().rev().map(String::as_str).collect();
            format!("{start}{}", names.join("/"))
        }
    };
    Some(match is_text && !begin.text.is_empty() {
        true => format!("{}/{}", folder.trim_end_matches('/'), begin.text),
        false => folder,
    })
}

fn totals_of(gone: Gone) -> ThreadTotals {
    ThreadTotals {
        pid: gone.pid,
        thread: gone.tid,
        name: gone.name,
        is_loop: gone.is_loop,
        poller: poller_of(gone.poller.0, gone.poller.1),
        waits: gone.waits,
        wait_us: gone.wait_ns / 1000,
        blocks: gone.blocks,
        block_us: gone.block_ns / 1000,
        lost: gone.lost,
    }
}

fn describe_calls(kernel: &mut Ebpf) -> Result<(), Error> {
    let calls = kernel.map_mut("calls").expect("the object has it");
    let mut calls: Array<_, u32> = Array::try_from(calls).map_err(refused)?;
    for call in CALLS {
        let events = match call.events {
            Events::No => 0,
            Events::Wait => IS_WAIT,
            Events::Poll => IS_WAIT | IS_POLL,
            Events::Epoll => IS_WAIT | IS_EPOLL,
            Events::Ring => IS_WAIT | IS_RING,
        };
        let places = u32::from(call.path) | u32::from(call.folder) << 8 | u32::from(call.descriptor) << 16;
        calls.set(call.number as u32, places | events, 0).map_err(refused)?;
    }
    Ok(())
}

fn program<'a>(kernel: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint, Error> {
    kernel.program_mut(name).expect("the object has it").try_into().map_err(refused)
}

fn attach(kernel: &mut Ebpf, name: &str, tracepoint: &str, btf: &Btf) -> Result<(), Error> {
    let program = program(kernel, name)?;
    let attached = program.load(tracepoint, btf).and_then(|()| program.attach());
    attached.map(|_| ()).map_err(|error| Error::run(format!("{tracepoint}: {}", chain(&error))))
}

fn refused(error: impl std::error::Error) -> Error {
    Error::run(format!("eBPF: {}", chain(&error)))
}

/// An error with its sources, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    // The verifier's log has many lines; its last but one says what is wrong.
    if std::env::var_os("FLASH_WHY_VERIFIER").is_some() {
        return text;
    }
    text.lines().next().unwrap_or_default().to_owned()
}
