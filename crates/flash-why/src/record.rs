//! Records as the kernel's side sends them (`bpf/why.bpf.c`), read field by field.

use flash_sleep::Stack;

/// What the kernel's side tells.
#[derive(Debug)]
pub(crate) enum Record {
    Begin(Begin),
    End(End),
    Gone(Gone),
}

/// A thread falls asleep.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(crate) flags: u32,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) time_ns: u64,
    /// All ones outside of calls.
    pub(crate) call: u64,
    pub(crate) args: [u64; 6],
    pub(crate) inode: u64,
    pub(crate) cpu: u32,
    /// The type of the file, as in `st_mode`.
    pub(crate) mode: u32,
    pub(crate) name: String,
    pub(crate) filesystem: String,
    pub(crate) stack: Vec<u64>,
    /// The text that the call's path argument points to.
    pub(crate) text: String,
    /// Components, innermost first.
    pub(crate) path: Vec<String>,
}

/// It runs again.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) tid: u32,
    pub(crate) since_ns: u64,
    pub(crate) time_ns: u64,
    pub(crate) ready: Option<u32>,
    pub(crate) waker: u32,
    pub(crate) waker_name: String,
    pub(crate) stack: Vec<u64>,
}

/// A thread has ended.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) is_loop: bool,
    /// Its last poller's descriptor and 1, and whether that was a ring.
    pub(crate) poller: (u32, bool),
    pub(crate) waits: u64,
    pub(crate) wait_ns: u64,
    pub(crate) blocks: u64,
    pub(crate) block_ns: u64,
    pub(crate) lost: u64,
    pub(crate) name: String,
}

pub(crate) const THROTTLED: u32 = 1;
pub(crate) const IN_FAULT: u32 = 2;
pub(crate) const PATH_WHOLE: u32 = 4;

const STACK_MAX: usize = 48;
const WAKER_STACK_MAX: usize = 16;
const TEXT_MAX: usize = 256;
const PATH_MAX: usize = 512;

impl Record {
    /// Reads a record, if it is whole and of a known kind.
    pub(crate) fn read(bytes: &[u8]) -> Option<Record> {
        let mut at = Reader(bytes);
        match at.u32()? {
            1 => Begin::read(&mut at).map(Record::Begin),
            2 => End::read(&mut at).map(Record::End),
            3 => Gone::read(&mut at).map(Record::Gone),
            _ => None,
        }
    }
}

impl Begin {
    fn read(at: &mut Reader) -> Option<Begin> {
        let (flags, pid, tid) = (at.u32()?, at.u32()?, at.u32()?);
        let (time_ns, call) = (at.u64()?, at.u64()?);
        let mut args = [0; 6];
        for arg in &mut args {
            *arg = at.u64()?;
        }
        let (_fault_address, inode) = (at.u64()?, at.u64()?);
        let (cpu, _state, mode, stack_bytes) = (at.u32()?, at.u32()?, at.u32()?, at.u32()?);
        let (name, filesystem) = (at.text(16)?, at.text(16)?);
        let stack = at.stack(STACK_MAX, stack_bytes)?;
        let text = at.text(TEXT_MAX)?;
        let path = at.take(PATH_MAX)?;
        Some(Begin {
            flags,
            pid,
            tid,
            time_ns,
            call,
            args,
            inode,
            cpu,
            mode,
            name,
            filesystem,
            stack,
            text,
            path: components(path),
        })
    }

    /// Whether its cgroup had it stop.
    pub(crate) fn is_throttled(&self) -> bool {
        self.flags & THROTTLED != 0
    }
}

impl End {
    fn read(at: &mut Reader) -> Option<End> {
        let (_pid, tid, _cpu) = (at.u32()?, at.u32()?, at.u32()?);
        let (since_ns, time_ns) = (at.u64()?, at.u64()?);
        let ready = u32::try_from(at.u32()? as i32).ok();
        let (waker, stack_bytes, _) = (at.u32()?, at.u32()?, at.u32()?);
        let waker_name = at.text(16)?;
        let stack = at.stack(WAKER_STACK_MAX, stack_bytes)?;
        Some(End { tid, since_ns, time_ns, ready, waker, waker_name, stack })
    }
}

impl Gone {
    fn read(at: &mut Reader) -> Option<Gone> {
        let (pid, tid, is_loop) = (at.u32()?, at.u32()?, at.u32()? != 0);
        let poller = (at.u32()?, at.u32()? != 0);
        let (waits, wait_ns, blocks) = (at.u64()?, at.u64()?, at.u64()?);
        let (block_ns, lost, name) = (at.u64()?, at.u64()?, at.text(16)?);
        Some(Gone { pid, tid, is_loop, poller, waits, wait_ns, blocks, block_ns, lost, name })
    }
}

/// Names that end with a zero, up to the first empty one. What lies behind is of an earlier record.
fn components(bytes: &[u8]) -> Vec<String> {
    let names = bytes.split(|&byte| byte == 0).take_while(|name| !name.is_empty());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_ne_bytes)
    }

    /// Text that ends with a zero, in so many bytes.
    fn text(&mut self, bytes: usize) -> Option<String> {
        let bytes = self.take(bytes)?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    fn stack(&mut self, frames_max: usize, bytes: u32) -> Option<Vec<u64>> {
        let bytes_all = self.take(frames_max * 8)?;
        let frames = bytes_all.chunks_exact(8).take(bytes as usize / 8);
        Some(frames.filter_map(|frame| frame.try_into().ok().map(u64::from_ne_bytes)).collect())
    }
}

/// Whether an interrupt is below the waker, who then had nothing to do with it.
pub(crate) fn is_interrupt(frames: &[&str]) -> bool {
    const INTERRUPTS: [&str; 6] = [
        "asm_common_interrupt",
        "common_interrupt",
        "handle_softirqs",
        "__do_softirq",
        "irq_exit_rcu",
        "__irq_exit_rcu",
    ];
    let stack = Stack::new(frames.iter().copied());
    stack.frames().iter().any(|frame| INTERRUPTS.contains(frame) || frame.starts_with("asm_sysvec_"))
}
