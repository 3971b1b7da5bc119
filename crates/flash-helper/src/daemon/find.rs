//! Questions that lead to a file by its path: *find*, and *load* without a descriptor.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use flash_core::file::entry::{Entry, Resource, STALE_AFTER};
use flash_core::file::{Content, File};
use flash_core::job::{Done, Failure, Find, Job, Worth};
use flash_core::path::SitePath;
use flash_core::site::id::SiteId;
use flash_os::cachestat;
use flash_os::residency::{self, Residency};
use flash_os::system_calls::{Call, has};

use super::Daemon;
use crate::answer::{Sent, choose, codings_of, kind_of, kind_of_failure, of_file, with_file, with_memory};
use crate::protocol::{AnswerKind, QuestionKind, WINDOW_BYTES_MAX, flag};

/// Of a local file the asker gets the file itself, so its content is not worth a copy.
const LOCAL: Worth = Worth { content_bytes_max: 0, free_bytes: 0, open: true };

impl Daemon {
    /// Looks for a question's path: in the cache, at once, or by a helper.
    pub(super) fn find(&mut self, serial: u64) {
        let (_, now) = self.service.read_clock();
        let Some(pending) = self.questions.get_mut(serial) else { return };
        let site = SiteId(pending.question.root);
        let client = pending.asker.1;
        // It is decoded already, and holds no way up.
        let Some(path) = SitePath::of_decoded(&pending.question.path) else {
            return self.answer_plainly(serial, AnswerKind::Refused);
        };
        let codings = codings_of(pending.question.accepts);
        let find = Find { asked_ms: now.ms(), codings, ..Find::first(site, path) };
        let mut find = match self.service.server().look_up(find, &mut self.local, &now) {
            Ok(entry) => return self.lead_to(serial, &entry, false),
            Err(find) => find,
        };
        if self.service.disk().device_for(&Job::Find(find.clone())).class.is_local() {
            find.worth = LOCAL;
        }
        if let Some(outcome) = self.service.ask(Job::Find(find), serial, client) {
            self.found(serial, outcome.done, false);
        }
    }

    /// A look-up is over. A helper has also read the file's first window.
    pub(super) fn found(&mut self, serial: u64, done: Done, by_helper: bool) {
        let settings = &self.service.server().settings;
        match done {
            Done::Found(entry) => self.lead_to(serial, &entry, by_helper),
            Done::Unchecked { known, .. }
                if known.age_ms(self.now_ms) < STALE_AFTER * settings.revalidate_ms =>
            {
                self.lead_to(serial, &known, false);
            }
            Done::Unchecked { failure, .. } | Done::Failed(failure) => {
                self.answer_plainly(serial, kind_of_failure(failure));
            }
            _ => self.answer_plainly(serial, kind_of_failure(Failure::Broken)),
        }
    }

    fn lead_to(&mut self, serial: u64, entry: &Arc<Entry>, by_helper: bool) {
        let Some(pending) = self.questions.get_mut(serial) else { return };
        let root = pending.question.root;
        let generation = self.roots[root as usize].generation.get();
        if entry.generation() < generation && !std::mem::replace(&mut pending.is_second, true) {
            // The look-up had begun before the root changed.
            return self.find(serial);
        }
        let Resource::File(variants) = &entry.resource else {
            return self.answer_plainly(serial, kind_of(&entry.resource));
        };
        let file = choose(variants, pending.question.accepts);
        let is_known = pending.question.known == Some(file.stamp);
        match (pending.question.kind, is_known) {
            (QuestionKind::Find, true) => self.answer_plainly(serial, AnswerKind::Unchanged),
            (QuestionKind::Find, false) => self.send_file(serial, file, by_helper),
            (QuestionKind::Load, true) => self.load(serial, file, false),
            (QuestionKind::Load, false) => self.answer_plainly(serial, AnswerKind::Changed),
        }
    }

    fn send_file(&mut self, serial: u64, file: &Arc<File>, by_helper: bool) {
        let Some(pending) = self.questions.get_mut(serial) else { return };
        let window = clipped(&pending.question.window, file.size());
        match Sent::of(file, self.service.disk()) {
            Sent::Open(open) => {
                // A helper has read the beginning, or the whole content of a small file.
                let is_read = by_helper && (window.start == 0 || matches!(file.content, Content::Memory(_)));
                let is_ready = window.is_empty() || is_read || is_complete(open.as_fd(), window.clone());
                match is_ready {
                    true => self.answer_with_file(serial, file, window),
                    false => self.load(serial, file, false),
                }
            }
            _ => self.answer_with_file(serial, file, window),
        }
    }

    /// The answer to a find, with what is in memory of the file.
    pub(super) fn answer_with_file(&mut self, serial: u64, file: &Arc<File>, window: Range<u64>) {
        let Some(pending) = self.questions.get_mut(serial) else { return };
        let (root, id) = (pending.question.root, pending.question.id);
        let whole = 0..file.size();
        let index = if pending.question.path.ends_with(b"/") { flag::INDEX } else { 0 };
        let answer = |window, flags| {
            let mut answer = of_file(AnswerKind::File, root, id, file, window);
            answer.flags = flags | index;
            answer
        };
        let outgoing = match Sent::of(file, self.service.disk()) {
            Sent::Open(open) => with_file(&answer(window, 0), &open),
            Sent::Snapshot(open) => with_file(&answer(whole, flag::MEMORY), &open),
            Sent::Copy(bytes) if bytes.is_empty() => Ok(answer(whole, 0).into()),
            Sent::Copy(bytes) => with_memory(answer(whole, 0), &bytes),
            Sent::Windows => Ok(answer(0..0, flag::REMOTE).into()),
        };
        self.answer_with(serial, outgoing);
    }
}

/// Whether a window is in memory. Pages that are still being read count for the first look, and not for the second.
pub(super) fn is_complete(file: BorrowedFd<'_>, window: Range<u64>) -> bool {
    if !has(Call::Cachestat) {
        return residency::holds(file, window);
    }
    let bytes = window.end - window.start;
    cachestat::holds(file, window.clone()).is_ok_and(|held| held)
        && Residency::new(file, window.end).is_ok_and(|look| look.resident_bytes(window) == bytes)
}

/// What of a window is loaded at a time.
pub(super) fn clipped(window: &Range<u64>, size: u64) -> Range<u64> {
    let start = window.start.min(size);
    start..window.end.min(size).min(start + WINDOW_BYTES_MAX)
}
