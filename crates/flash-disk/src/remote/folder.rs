//! The names of a folder that lacks a name, as a helper process reports them.
//!
//! The server uses them for a moment only, because it cannot examine the folder. A helper that lies can hide new
//! names, for no longer than by a wrong reply.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use flash_core::listing::NAME_BYTES_MAX;
use flash_process::codec::{Reader, Writer};

use crate::names::TABLE_NAMES_MAX;
use crate::names::read::Reading;
use crate::names::table::{Table, Term, marked};
use crate::root::Root;

const NOTHING: u8 = 0;
const MORE: u8 = 1;
const NEVER: u8 = 2;
const WHOLE: u8 = 3;

/// Reads the folder that lacks `name`, if it has at most so many names, and encodes them.
pub(super) fn write(root: &Root, name: &[u8], names_max: u32, message: &mut Writer) {
    let Some((path, place)) = root.folder_of_missing(name).filter(|_| names_max > 0) else {
        return message.u8(NOTHING);
    };
    let (read_at, mut count, mut listed) = (monotonic(), 0, Writer::default());
    let reading = place.read(names_max, Duration::ZERO, |name, is_file| {
        count += 1;
        listed.u8(is_file.into());
        listed.bytes(name);
        0
    });
    message.u8(match reading {
        Reading::Whole(_) => WHOLE,
        Reading::MoreThan(_) => MORE,
        Reading::Never => NEVER,
        Reading::NotNow => return message.u8(NOTHING),
    });
    message.u32(path.len() as u32);
    match reading {
        Reading::Whole(_) => {
            message.u64(read_at.as_nanos() as u64);
            message.u32(count);
            message.bytes.append(&mut listed.bytes);
        }
        _ => message.u32(names_max),
    }
}

/// Decodes the names, which are the end of the reply. `None` if they are malformed.
pub(super) fn read(root: &Root, name: &[u8], message: &mut Reader<'_>) -> Option<()> {
    let kind = message.u8()?;
    if kind == NOTHING {
        return Some(());
    }
    let length = usize::try_from(message.u32()?).ok()?;
    let is_above = name.get(length) == Some(&b'/') || length == 0;
    let path = name.get(..length).filter(|_| is_above)?;
    let names = root.names();
    let reading = match kind {
        MORE => Reading::MoreThan(message.u32()?.min(TABLE_NAMES_MAX)),
        NEVER => message.u32().map(|_| Reading::Never)?,
        WHOLE => {
            let age = monotonic().saturating_sub(Duration::from_nanos(message.u64()?));
            let hashes = message.many(TABLE_NAMES_MAX as usize, |message| {
                let is_file = message.bool()?;
                Some(marked(names.hash(message.bytes(NAME_BYTES_MAX)?), is_file))
            })?;
            Reading::Whole(Table::new(hashes, None, Some(Term::new(age, names.briefly()))))
        }
        _ => return None,
    };
    message.end()?;
    root.take_names(path, reading);
    Some(())
}

/// A clock that both processes share.
fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
