//! The text of the control file: commands to the disk, and its state, while it runs.

use std::fmt::Write;
use std::str;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::queue::Queue;
use crate::rules::Kind;

/// The name of the control file, at the mount's root.
pub const CONTROL: &str = ".slowdisk";

pub(crate) struct Control {
    queue: Arc<Queue>,
    /// Why the last lines were refused, if they were.
    refused: Mutex<Option<String>>,
}

impl Control {
    pub(crate) fn new(queue: Arc<Queue>) -> Control {
        Control { queue, refused: Mutex::new(None) }
    }

    /// Puts lines in force: all, or none.
    pub(crate) fn write(&self, text: &[u8]) -> Result<(), String> {
        let said = str::from_utf8(text)
            .map_err(|_| "not UTF-8".to_owned())
            .and_then(|lines| self.queue.change(|rules| rules.with(lines)));
        *self.refused.lock() = said.as_ref().err().cloned();
        said
    }

    /// The rules in force, and in comments what was counted, so that the text can be written back.
    pub(crate) fn show(&self) -> String {
        let counters = self.queue.counters();
        let mut text = format!("clear\n{}", self.queue.rules());
        let answered = Kind::ALL.map(|kind| format!("{}={}", kind.name(), counters.answered(kind)));
        let _ = writeln!(text, "# answered: {}", answered.join(" "));
        let _ = writeln!(text, "# now: waiting={} hung={}", counters.waiting, counters.hung);
        if let Some(why) = &*self.refused.lock() {
            let _ = writeln!(text, "# refused: {why}");
        }
        text
    }
}
