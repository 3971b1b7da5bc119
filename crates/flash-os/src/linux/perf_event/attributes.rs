//! What `perf_event_open` is asked for: `struct perf_event_attr`, as `linux/perf_event.h` has it.

/// The fifth version of the structure, of Linux 4.8. Fields that are not used have no names of their own.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint: [u32; 5],
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

pub(super) const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
pub(super) const IOC_ENABLE: libc::c_ulong = 0x2400;
pub(super) const IOC_DISABLE: libc::c_ulong = 0x2401;
pub(super) const IOC_SET_FILTER: libc::c_ulong = 0x4008_2406;

const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
const CONTEXT_SWITCHES: u64 = 3;

const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_RAW: u64 = 1 << 10;
const SAMPLE_REGS_USER: u64 = 1 << 12;

const DISABLED: u64 = 1;
const EXCLUDE_HV: u64 = 1 << 6;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
const USE_CLOCKID: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;

/// No stack of a sleep is longer, as far as its cause is concerned.
const STACK_MAX: u16 = 64;

/// The registers that hold a system call's arguments, as the kernel numbers them, and the order in which it writes them.
#[cfg(target_arch = "x86_64")]
pub(super) const ARGUMENTS: (u64, [usize; 6]) = (
    // rdx, rsi, rdi, r8, r9, r10; the arguments are rdi, rsi, rdx, r10, r8, r9.
    1 << 3 | 1 << 4 | 1 << 5 | 1 << 16 | 1 << 17 | 1 << 18,
    [2, 1, 0, 5, 3, 4],
);
/// x0 to x5, or a0 to a5 on RISC-V, whose numbers begin at 10.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ARGUMENTS: (u64, [usize; 6]) =
    (if cfg!(target_arch = "riscv64") { 0x3f << 10 } else { 0x3f }, [0, 1, 2, 3, 4, 5]);

impl Attributes {
    /// Each context switch with its stack, and each switch's direction.
    pub(super) fn context_switches(disabled: bool) -> Attributes {
        let flags = EXCLUDE_HV | SAMPLE_ID_ALL | EXCLUDE_CALLCHAIN_USER | USE_CLOCKID | CONTEXT_SWITCH;
        Attributes {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: CONTEXT_SWITCHES,
            sample_period: 1,
            sample_type: SAMPLE_TIME | SAMPLE_CPU | SAMPLE_CALLCHAIN | SAMPLE_REGS_USER,
            read_format: 0,
            flags: if disabled { flags | DISABLED } else { flags },
            wakeup_events: 0,
            breakpoint: [0; 5],
            branch_sample_type: 0,
            sample_regs_user: ARGUMENTS.0,
            sample_stack_user: 0,
            clockid: libc::CLOCK_MONOTONIC,
            sample_regs_intr: 0,
            aux_watermark: 0,
            sample_max_stack: STACK_MAX,
            reserved: 0,
        }
    }

    /// Each time that a tracepoint is passed, with what it tells. Begins disabled.
    pub(super) fn tracepoint(number: u64) -> Attributes {
        Attributes {
            kind: TYPE_TRACEPOINT,
            config: number,
            sample_type: SAMPLE_RAW,
            flags: DISABLED,
            sample_regs_user: 0,
            ..Attributes::context_switches(true)
        }
    }
}

const _: () = assert!(size_of::<Attributes>() == 112, "the size of the fifth version");
