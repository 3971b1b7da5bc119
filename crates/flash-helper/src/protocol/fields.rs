//! Numbers and stamps of messages, little-endian. Which fields a message has is not known here.

use flash_core::file::Stamp;

pub(super) struct Reader<'a>(&'a [u8]);

pub(super) struct Writer(Vec<u8>);

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    pub(super) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    pub(super) fn stamp(&mut self) -> Option<Stamp> {
        let (size, modified_ns, changed_ns) = (self.u64()?, self.i64()?, self.i64()?);
        Some(Stamp { size, modified_ns, changed_ns, inode: self.u64()?, device: self.u64()? })
    }

    /// All that has not been taken yet.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

impl Writer {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Text in a field of a fixed length.
    pub(super) fn padded(&mut self, text: &[u8], length: usize) -> &mut Self {
        let end = self.0.len() + length;
        self.bytes(text).0.resize(end, 0);
        self
    }

    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(super) fn stamp(&mut self, stamp: &Stamp) -> &mut Self {
        self.u64(stamp.size).bytes(&stamp.modified_ns.to_le_bytes()).bytes(&stamp.changed_ns.to_le_bytes());
        self.u64(stamp.inode).u64(stamp.device)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
