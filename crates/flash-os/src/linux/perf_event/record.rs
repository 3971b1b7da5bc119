//! Records as the kernel writes them, read word by word.

use super::attributes::ARGUMENTS;
use crate::sleep::Sleep;

/// One record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// Where the thread was when it left its processor.
    Stack(Sleep),
    /// It left. This follows its stack.
    Leaves {
        preempted: bool,
    },
    /// It runs again.
    Arrives {
        time_ns: u64,
    },
    /// So many records found the ring full.
    Lost(u64),
    Other,
}

const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const SWITCH: u32 = 14;

const SWITCH_OUT: u64 = 1 << 13;
const SWITCH_OUT_PREEMPT: u64 = 1 << 14;

/// Marks between a callchain's addresses are the highest numbers.
const CONTEXT_MAX: u64 = u64::MAX - 4094;

impl Record {
    /// Reads a record of whole words, with its head: the kind in the lowest 32 bits, then 16 bits of `misc`.
    pub(super) fn read(words: &[u64]) -> Record {
        let Some((&head, body)) = words.split_first() else { return Record::Other };
        let (kind, misc) = (head as u32, head >> 32);
        match kind {
            SAMPLE => sample(body).map_or(Record::Other, Record::Stack),
            SWITCH if misc & SWITCH_OUT != 0 => Record::Leaves { preempted: misc & SWITCH_OUT_PREEMPT != 0 },
            // Time and processor, which every record ends with.
            SWITCH => Record::Arrives { time_ns: body.first().copied().unwrap_or(0) },
            LOST => Record::Lost(body.get(1).copied().unwrap_or(0)),
            _ => Record::Other,
        }
    }
}

/// Time, processor, callchain, registers.
fn sample(body: &[u64]) -> Option<Sleep> {
    let (&[since_ns, processor, count], rest) = body.split_first_chunk()?;
    let (chain, rest) = rest.split_at_checked(count as usize)?;
    let stack = chain.iter().copied().filter(|&address| address < CONTEXT_MAX).collect();
    let (&abi, registers) = rest.split_first()?;
    let mut arguments = [0; 6];
    if abi != 0 {
        for (argument, &place) in arguments.iter_mut().zip(&ARGUMENTS.1) {
            *argument = *registers.get(place)?;
        }
    }
    Some(Sleep { stack, arguments, preempted: false, processor: processor as u32, since_ns, until_ns: 0 })
}
