//! The names of a folder in which a name was found missing, as a helper process tells them.
//!
//! They serve for a moment only, since the server cannot look whether the folder has changed. A helper that lies hides files
//! that nobody has asked for yet, and for no longer than it could hide one by its answer.

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

/// Reads the folder in which `name` would be, if at most so many names are in it, and puts it into words.
pub(super) fn write(root: &Root, name: &[u8], names_max: u32, words: &mut Writer) {
    let Some((path, place)) = root.folder_of_missing(name).filter(|_| names_max > 0) else {
        return words.u8(NOTHING);
    };
    let (read_at, mut count, mut listed) = (monotonic(), 0, Writer::default());
    let reading = place.read(names_max, Duration::ZERO, |name, is_file| {
        count += 1;
        listed.u8(is_file.into());
        listed.bytes(name);
        0
    });
    words.u8(match reading {
        Reading::Whole(_) => WHOLE,
        Reading::MoreThan(_) => MORE,
        Reading::Never => NEVER,
        Reading::NotNow => return words.u8(NOTHING),
    });
    words.u32(path.len() as u32);
    match reading {
        Reading::Whole(_) => {
            words.u64(read_at.as_nanos() as u64);
            words.u32(count);
            words.bytes.append(&mut listed.bytes);
        }
        _ => words.u32(names_max),
    }
}

/// Takes what was told, which is the end of the answer. `None` if it makes no sense.
pub(super) fn read(root: &Root, name: &[u8], words: &mut Reader<'_>) -> Option<()> {
    let kind = words.u8()?;
    if kind == NOTHING {
        return Some(());
    }
    let length = usize::try_from(words.u32()?).ok()?;
    let is_above = name.get(length) == Some(&b'/') || length == 0;
    let path = name.get(..length).filter(|_| is_above)?;
    let names = root.names();
    let reading = match kind {
        MORE => Reading::MoreThan(words.u32()?.min(TABLE_NAMES_MAX)),
        NEVER => words.u32().map(|_| Reading::Never)?,
        WHOLE => {
            let age = monotonic().saturating_sub(Duration::from_nanos(words.u64()?));
            let hashes = words.many(TABLE_NAMES_MAX as usize, |words| {
                let is_file = words.bool()?;
                Some(marked(names.hash(words.bytes(NAME_BYTES_MAX)?), is_file))
            })?;
            Reading::Whole(Table::new(hashes, None, Some(Term::new(age, names.briefly()))))
        }
        _ => return None,
    };
    words.end()?;
    root.take_names(path, reading);
    Some(())
}

/// A time that both processes have.
fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
