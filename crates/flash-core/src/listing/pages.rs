//! The pages of a listing whose names are known.
//!
//! A page can be written again at any time, and is kept as long as the budget allows. If pages are compressed, each continues the
//! one before, so they are written in order and stay.

use std::sync::Mutex;

use bytes::Bytes;

use super::batch::Batch;
use super::coder::Coder;
use super::folder::{FolderRead, Part};
use super::made::{LOOKS, Listing, Maker, PAGE_BYTES_MAX, Page, Ready, Step, Texts, lock, try_lock};
use super::name::{Kind, Name, Seen};
use super::order::Format;
use super::{html, json};
use crate::cache::memory_budget::{BudgetedBytes, Reservation};
use crate::job::failure::Failure;

impl Listing {
    /// Returns a page from memory, or writes it now.
    pub(super) fn written(&self, ready: &Ready, number: usize, maker: &mut dyn Maker) -> Result<Bytes, Step> {
        if let Some(page) = lock(&ready.pages).get(number).and_then(Page::written) {
            return Ok(page.clone());
        }
        match &self.coder {
            Some(coder) => self.coded(ready, number, coder, maker),
            None => {
                let written = self.write(ready, number, maker)?;
                Ok(self.keep(ready, number, &written, maker))
            }
        }
    }

    /// Compresses all pages up to this one that are not.
    fn coded(
        &self,
        ready: &Ready,
        number: usize,
        coder: &Mutex<Coder>,
        maker: &mut dyn Maker,
    ) -> Result<Bytes, Step> {
        let mut coder = try_lock(coder).ok_or(Step::Taken)?;
        while coder.next <= number {
            let (at, is_last) = (coder.next, coder.next + 1 == ready.starts.len());
            let written = self.write(ready, at, maker)?;
            let coded = coder.code(&written, is_last).ok_or(Step::Failed(Failure::OverBudget))?;
            self.has_progressed();
            self.keep(ready, at, &coded, maker);
            if maker.is_over() && at < number {
                return Err(Step::Unready);
            }
        }
        self.page_now(number as u32).ok_or(Step::Unready)
    }

    /// Keeps a page for its other readers, if there is room.
    fn keep(&self, ready: &Ready, number: usize, written: &[u8], maker: &mut dyn Maker) -> Bytes {
        let before = self.before.upgrade().and_then(|before| before.page_now(number as u32));
        let bytes = written.len() as u64;
        let page = match (before.filter(|before| *before == written), self.budget.reserve(bytes)) {
            (Some(before), _) => before,
            (None, Some(room)) => Bytes::from_owner(BudgetedBytes::new(maker.hold(written), room)),
            (None, None) if self.coder.is_some() => {
                let room = self.room_for_coded(bytes, maker);
                Bytes::from_owner(BudgetedBytes::new(maker.hold(written), room))
            }
            // Only the requests that wait for this page now get it.
            (None, None) => return maker.hold(written),
        };
        let place = &mut lock(&ready.pages)[number];
        if let Page::Written(page) = place {
            // Another helper was faster.
            return page.clone();
        }
        *place = Page::Written(page.clone());
        page
    }

    /// A page that is compressed cannot be written again, so it stays even beyond the budget.
    fn room_for_coded(&self, bytes: u64, maker: &mut dyn Maker) -> Reservation {
        while maker.make_room() {
            if let Some(room) = self.budget.reserve(bytes) {
                return room;
            }
        }
        self.budget.reserve_beyond(bytes)
    }

    /// The details of the page's names that the listing does not know. If the step's time ends, the next step continues
    /// with the details so far.
    fn looked(
        &self,
        ready: &Ready,
        number: usize,
        mut seen: Vec<Option<Seen>>,
        maker: &mut dyn Maker,
    ) -> Result<Vec<Option<Seen>>, Step> {
        let names = ready.rows(number).map(|row| ready.names.get(row));
        let is_unknown = |name: &Name<'_>| self.looks_at_all(maker) || name.details.is_none();
        let unknown: Vec<_> = names.filter(is_unknown).collect();
        while seen.len() < unknown.len() {
            let mut batch = Batch::default();
            for name in unknown[seen.len()..].iter().take(LOOKS) {
                batch.push(name.name, if name.folder { Kind::Folder } else { Kind::File });
            }
            match self.look(batch, maker) {
                Ok(looked) => seen.extend(looked),
                Err(step) => return Err(self.left(ready, number, seen, step)),
            }
            if maker.is_over() && seen.len() < unknown.len() {
                return Err(self.left(ready, number, seen, Step::Unready));
            }
        }
        Ok(seen)
    }

    fn left(&self, ready: &Ready, number: usize, seen: Vec<Option<Seen>>, step: Step) -> Step {
        let place = &mut lock(&ready.pages)[number];
        if place.written().is_none() {
            *place = Page::Begun(seen);
        }
        step
    }

    /// Whether rows say more than the names are known to be.
    fn looks_at_all(&self, maker: &dyn Maker) -> bool {
        self.order.format == Format::Json && maker.tells_digests()
    }

    /// Writes a page as it is.
    fn write(&self, ready: &Ready, number: usize, maker: &mut dyn Maker) -> Result<Vec<u8>, Step> {
        let begun = match lock(&ready.pages).get_mut(number) {
            Some(Page::Begun(seen)) => std::mem::take(seen),
            Some(_) => Vec::new(),
            None => return Err(Step::Failed(Failure::Broken)),
        };
        let (is_first, is_last) = (number == 0, number + 1 == ready.starts.len());
        let seen = self.looked(ready, number, begun, maker)?;
        let text = match self.order.format {
            Format::Html if is_first || is_last => maker.texts(),
            Format::Html | Format::Json => Texts::default(),
        };
        let header = self.text(text.header.filter(|_| is_first), maker)?;
        let footer = self.text(text.footer.filter(|_| is_last), maker)?;
        let looks_at_all = self.looks_at_all(maker);
        let (mut seen, format) = (seen.into_iter(), self.order.format);
        let mut out = Vec::with_capacity(PAGE_BYTES_MAX / 2);
        match format {
            _ if !is_first => {}
            Format::Html => html::write_start(self.path.as_bytes(), self.order, &header, &mut out),
            Format::Json => json::write_start(&mut out),
        }
        let mut is_empty = is_first;
        for name in ready.rows(number).map(|row| ready.names.get(row)) {
            let row = match name.details.filter(|_| !looks_at_all) {
                Some(details) => Some((details, name.folder, None)),
                None => seen.next().flatten().map(|seen| (seen.details(), seen.folder, seen.digest)),
            };
            // A name that has vanished since, or that leads out of the root, has no row.
            if let Some((details, folder, digest)) = row {
                let name = Name { folder, ..name };
                match format {
                    Format::Html => html::row(&name, details, &mut out),
                    Format::Json => json::row(&name, (details, digest.as_ref()), is_empty, &mut out),
                }
                is_empty = false;
            }
        }
        match format {
            Format::Html if is_last => html::write_end(&ready.names, &footer, &mut out),
            Format::Json if is_last => json::write_end(&ready.names, is_empty, &mut out),
            Format::Json if is_empty => json::write_nothing(&mut out),
            Format::Html | Format::Json => {}
        }
        Ok(out)
    }

    /// What a file says above or below the rows. Nothing, if it is not there.
    fn text(&self, name: Option<Box<[u8]>>, maker: &mut dyn Maker) -> Result<String, Step> {
        let Some(name) = name else { return Ok(String::new()) };
        match self.ask(Part::Text(name.clone()), maker)? {
            FolderRead::Text(text) => Ok(text.map_or_else(String::new, |text| html::fragment(&name, &text))),
            FolderRead::Names { .. } | FolderRead::Details(_) => Err(Step::Failed(Failure::Broken)),
        }
    }
}
