//! Windows: helpers bring them into memory. The asker gets the range that is ready, or the bytes themselves.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use flash_core::file::{File, Window};
use flash_core::job::{self, Done, Job};
use flash_core::site::id::SiteId;
use rustix::fs::fstat;

use super::Daemon;
use super::find::{clipped, is_complete};
use crate::answer::{Sent, kind_of_failure, of_file, with_file, with_memory};
use crate::protocol::{AnswerKind, QuestionKind, flag};
use crate::questions::{Load, Stage};

/// The kernel sets a time of access anew after a day. An hour less, because clocks differ a little.
const ACCESS_SECONDS: i64 = 23 * 3600;

impl Daemon {
    /// Loads a window of the file that came with the question.
    pub(super) fn load_of(&mut self, key: usize, serial: u64, file: OwnedFd) {
        match self.service.disk().adopt(file) {
            Ok(file) => self.load(serial, &file, true),
            Err(file) => {
                if self.close_refused(key, [file]) {
                    self.answer_plainly(serial, AnswerKind::Refused);
                }
            }
        }
    }

    /// Loads the question's window of this file, which an asker may have opened.
    pub(super) fn load(&mut self, serial: u64, file: &Arc<File>, is_askers: bool) {
        let (_, now) = self.service.read_clock();
        let Some(pending) = self.questions.get_mut(serial) else { return };
        let (client, is_find) = (pending.asker.1, pending.question.kind == QuestionKind::Find);
        let window = clipped(&pending.question.window, file.size());
        let mut copy = pending.question.copy && !is_find;
        let root = self.service.disk().site_root(SiteId(pending.question.root));
        let notes_access = root.is_none_or(|root| root.notes_access());
        match Sent::of(file, self.service.disk()) {
            _ if window.is_empty() => return self.answer_with_window(serial, file, window),
            // No helper is needed, so a device whose helpers all hang holds up no hot file.
            Sent::Open(open)
                if !(copy || is_find || notes_access && is_access_due(&open, now.unix_ms))
                    && is_complete(open.as_fd(), window.clone()) =>
            {
                return self.answer_with_window(serial, file, window);
            }
            Sent::Open(_) => {}
            Sent::Windows => copy = true,
            // The whole file is in memory.
            Sent::Snapshot(_) | Sent::Copy(_) => return self.answer_with_all(serial, file),
        }
        pending.stage = Stage::Loading(Arc::clone(file));
        let load = Load { stamp: file.stamp, window: window.clone(), copy, is_askers };
        let Some(token) = self.questions.join(load, serial) else { return };
        // The asker may want the whole file.
        let (file, goes_to) = (Arc::clone(file), file.size());
        let job = Job::Load(job::Load { site: None, file, window, goes_to, copy, completes: None });
        if let Err(failure) = self.service.ask_helper(job, token, client) {
            for serial in self.questions.loaded(token).map(|(_, waiting)| waiting).unwrap_or_default() {
                self.answer_plainly(serial, kind_of_failure(failure));
            }
        }
    }

    /// A load is over. It went through the file of the first of these questions. If an asker has opened that, it may have made it
    /// unfit since, as with `O_DIRECT`. So each other question's window is looked for, and loaded, through its own file.
    pub(super) fn load_is_over(&mut self, load: &Load, waiting: Vec<u64>, done: &Done) {
        let is_for_all = match done {
            Done::Window(window) => !load.is_askers || matches!(window, Window::Copied(_) | Window::Changed),
            _ => true,
        };
        for (place, serial) in waiting.into_iter().enumerate() {
            match self.questions.get_mut(serial).map(|pending| &pending.stage) {
                Some(Stage::Loading(file)) if place > 0 && !is_for_all => {
                    let file = Arc::clone(file);
                    self.load(serial, &file, true);
                }
                _ => self.loaded(serial, done),
            }
        }
    }

    /// A load that this question waited for is over.
    fn loaded(&mut self, serial: u64, done: &Done) {
        let Some(pending) = self.questions.get_mut(serial) else { return };
        let Stage::Loading(file) = &pending.stage else { return };
        let file = Arc::clone(file);
        let is_find = pending.question.kind == QuestionKind::Find;
        let asked = clipped(&pending.question.window, file.size());
        let is_copied = pending.question.copy && !is_find;
        let window = match done {
            Done::Window(Window::Copied(bytes))
                if is_copied || matches!(Sent::of(&file, self.service.disk()), Sent::Windows) =>
            {
                return self.answer_with_bytes(serial, &file, asked.start, bytes);
            }
            Done::Window(Window::Copied(bytes)) => asked.start..asked.start + bytes.len() as u64,
            Done::Window(Window::Resident(range)) => range.clone(),
            Done::Window(Window::Warmed) => asked,
            // The asker has an open file, and finds the change when it asks for the next window.
            Done::Window(Window::Changed) if is_find => asked.start..asked.start,
            Done::Window(Window::Changed) => return self.answer_plainly(serial, AnswerKind::Changed),
            Done::Failed(failure) => return self.answer_plainly(serial, kind_of_failure(*failure)),
            _ => return self.answer_plainly(serial, AnswerKind::Failed),
        };
        match is_find {
            true => self.answer_with_file(serial, &file, window),
            false => self.answer_with_window(serial, &file, window),
        }
    }

    fn answer_with_window(&mut self, serial: u64, file: &File, window: Range<u64>) {
        let Some(pending) = self.questions.get_mut(serial) else { return };
        let (root, id) = (pending.question.root, pending.question.id);
        self.answer(serial, of_file(AnswerKind::Window, root, id, file, window).into());
    }

    fn answer_with_bytes(&mut self, serial: u64, file: &File, start: u64, bytes: &[u8]) {
        let Some(pending) = self.questions.get_mut(serial) else { return };
        let (root, id) = (pending.question.root, pending.question.id);
        let window = start..start + bytes.len() as u64;
        let outgoing = with_memory(of_file(AnswerKind::Window, root, id, file, window), bytes);
        self.answer_with(serial, outgoing);
    }

    /// The whole file, for an asker that asked for a window of it.
    fn answer_with_all(&mut self, serial: u64, file: &File) {
        let Some(pending) = self.questions.get_mut(serial) else { return };
        let mut answer =
            of_file(AnswerKind::Window, pending.question.root, pending.question.id, file, 0..file.size());
        let outgoing = match Sent::of(file, self.service.disk()) {
            Sent::Snapshot(open) => {
                answer.flags |= flag::MEMORY;
                with_file(&answer, &open)
            }
            Sent::Copy(bytes) => with_memory(answer, &bytes),
            Sent::Open(_) | Sent::Windows => Err(AnswerKind::Failed),
        };
        self.answer_with(serial, outgoing);
    }
}

/// Whether the next read sets the file's time of access, as with `relatime`. That may wait, so a helper does it.
fn is_access_due(file: impl AsFd, unix_ms: u64) -> bool {
    let Ok(stat) = fstat(file) else { return true };
    let accessed = (stat.st_atime, stat.st_atime_nsec);
    let is_newest =
        accessed > (stat.st_mtime, stat.st_mtime_nsec) && accessed > (stat.st_ctime, stat.st_ctime_nsec);
    !is_newest || unix_ms as i64 / 1000 - stat.st_atime >= ACCESS_SECONDS
}
