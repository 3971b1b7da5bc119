//! The encoding of questions and answers: numbers of fixed size in the machine's own order, since both sides run on one
//! machine and are one program, and strings after their length.
//!
//! A [`Reader`] never reads past its end, and never believes a length before it has looked. It knows nothing of jobs.

use flash_core::file::Stamp;

#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

/// What is left to read. All its methods return `None` where the bytes make no sense.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_ne_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_ne_bytes());
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_ne_bytes());
    }

    /// A string of less than 4 GiB.
    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.u32(value.len() as u32);
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn stamp(&mut self, stamp: &Stamp) {
        let Stamp { device, inode, size, modified_ns, changed_ns } = *stamp;
        [device, inode, size].into_iter().for_each(|value| self.u64(value));
        [modified_ns, changed_ns].into_iter().for_each(|value| self.i64(value));
    }
}

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_ne_bytes)
    }

    pub(super) fn bool(&mut self) -> Option<bool> {
        self.u8().filter(|value| *value < 2).map(|value| value == 1)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_ne_bytes)
    }

    pub(super) fn bytes(&mut self, bytes_max: usize) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok().filter(|length| *length <= bytes_max)?;
        let (value, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(value)
    }

    /// So many things; each takes a byte at least.
    pub(super) fn many<T>(
        &mut self,
        count_max: usize,
        mut one: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = usize::try_from(self.u32()?).ok()?;
        if count > count_max.min(self.0.len()) {
            return None;
        }
        (0..count).map(|_| one(self)).collect()
    }

    pub(super) fn stamp(&mut self) -> Option<Stamp> {
        let (device, inode, size) = (self.u64()?, self.u64()?, self.u64()?);
        Some(Stamp { device, inode, size, modified_ns: self.i64()?, changed_ns: self.i64()? })
    }

    /// That was all.
    pub(super) fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}
