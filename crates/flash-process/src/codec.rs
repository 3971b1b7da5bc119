//! The codec of messages between processes of one server. Numbers have a fixed size and the machine's own byte order, because
//! both sides are one program on one machine. A string follows its length.
//!
//! A [`Reader`] never reads past its end, and never believes a length before it has looked. It knows no message.

#[derive(Debug, Default)]
pub struct Writer {
    pub bytes: Vec<u8>,
}

/// What is left to read. All its methods return `None` where the bytes make no sense.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl Writer {
    pub fn array<const N: usize>(&mut self, value: [u8; N]) {
        self.bytes.extend_from_slice(&value);
    }

    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn bool(&mut self, value: bool) {
        self.u8(value.into());
    }

    pub fn u16(&mut self, value: u16) {
        self.array(value.to_ne_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.array(value.to_ne_bytes());
    }

    pub fn i32(&mut self, value: i32) {
        self.array(value.to_ne_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.array(value.to_ne_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.array(value.to_ne_bytes());
    }

    /// A string of less than 4 GiB.
    pub fn bytes(&mut self, value: &[u8]) {
        self.u32(value.len() as u32);
        self.bytes.extend_from_slice(value);
    }
}

impl<'a> Reader<'a> {
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_ne_bytes)
    }

    pub fn bool(&mut self) -> Option<bool> {
        self.u8().filter(|value| *value < 2).map(|value| value == 1)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_ne_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    pub fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_ne_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_ne_bytes)
    }

    pub fn bytes(&mut self, bytes_max: usize) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok().filter(|length| *length <= bytes_max)?;
        let (value, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(value)
    }

    /// So many things; each takes a byte at least.
    pub fn many<T>(
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

    /// That was all.
    pub fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}
