//! The dynamic table of a decoder (RFC 7541 §2.3.2): the fields that a peer wants to name again.
//!
//! Names and values lie one after the other in one buffer, which is at most twice as large as the table. An unused table
//! holds no memory.

use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct DynamicTable {
    bytes: Vec<u8>,
    /// The oldest is in front.
    fields: VecDeque<Field>,
    /// As RFC 7541 §4.1 counts it.
    size: usize,
    size_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    /// Where its name begins. Its value follows.
    at: u32,
    name_bytes: u32,
    value_bytes: u32,
}

/// What RFC 7541 §4.1 counts for each field beside its bytes.
pub(crate) const FIELD_BYTES: usize = 32;

impl Field {
    fn size(&self) -> usize {
        (self.name_bytes + self.value_bytes) as usize + FIELD_BYTES
    }

    fn end(&self) -> usize {
        (self.at + self.name_bytes + self.value_bytes) as usize
    }
}

impl DynamicTable {
    pub(crate) fn new(size_max: usize) -> Self {
        Self { size_max, ..Self::default() }
    }

    /// The field with this number. The newest is number 0.
    pub(crate) fn get(&self, number: usize) -> Option<(&[u8], &[u8])> {
        let field = self.fields.get(self.fields.len().checked_sub(number + 1)?)?;
        let bytes = &self.bytes[field.at as usize..field.end()];
        Some(bytes.split_at(field.name_bytes as usize))
    }

    pub(crate) fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict();
    }

    pub(crate) fn insert(&mut self, name: &[u8], value: &[u8]) {
        if self.makes_room(name.len() + value.len()) {
            let at = self.bytes.len();
            self.bytes.extend_from_slice(name);
            self.add(at, name.len(), value);
        }
    }

    /// Inserts a field with the name of another one in the table.
    pub(crate) fn insert_with_name_of(&mut self, number: usize, value: &[u8]) {
        let Some((name, _)) = self.get(number) else { return };
        let name_bytes = name.len();
        if !self.makes_room(name_bytes + value.len()) {
            return;
        }
        let start = self.fields[self.fields.len() - 1 - number].at as usize;
        let at = self.bytes.len();
        self.bytes.extend_from_within(start..start + name_bytes);
        self.add(at, name_bytes, value);
    }

    /// RFC 7541 §4.4: a field that is larger than the table empties it.
    fn makes_room(&mut self, bytes: usize) -> bool {
        let fits = bytes + FIELD_BYTES <= self.size_max;
        if !fits {
            self.fields.clear();
            self.size = 0;
            self.bytes.clear();
        }
        fits
    }

    fn add(&mut self, at: usize, name_bytes: usize, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        let field = Field { at: at as u32, name_bytes: name_bytes as u32, value_bytes: value.len() as u32 };
        self.size += field.size();
        self.fields.push_back(field);
        self.evict();
    }

    fn evict(&mut self) {
        while self.size > self.size_max
            && let Some(oldest) = self.fields.pop_front()
        {
            self.size -= oldest.size();
        }
        let start = self.fields.front().map_or(self.bytes.len(), |oldest| oldest.at as usize);
        if start > self.size_max {
            self.bytes.drain(..start);
            self.fields.iter_mut().for_each(|field| field.at -= start as u32);
        }
    }

    #[cfg(test)]
    pub(crate) fn sizes(&self) -> (usize, usize, usize) {
        (self.fields.len(), self.size, self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_memory_is_bounded_whatever_is_inserted() {
        let mut table = DynamicTable::new(4096);
        for number in 0..10_000usize {
            let value = vec![b'v'; number * 37 % 3000];
            match number % 3 {
                0 => table.insert_with_name_of(0, &value),
                _ => table.insert(format!("name-{number}").as_bytes(), &value),
            }
            let (fields, size, bytes) = table.sizes();
            assert!(size <= 4096 && fields * FIELD_BYTES <= 4096 && bytes <= 2 * 4096 + 3000);
        }
        assert!(table.get(1000).is_none());
        table.set_size_max(0);
        assert_eq!(table.sizes().0, 0);
        table.insert(b"a", b"b");
        assert!(table.get(0).is_none());
    }

    #[test]
    fn a_name_outlives_the_field_that_it_was_taken_from() {
        let mut table = DynamicTable::new(80);
        table.insert(b"name", b"first");
        table.insert_with_name_of(0, &[b'x'; 40]);
        assert_eq!(table.get(0), Some((&b"name"[..], &[b'x'; 40][..])));
        assert!(table.get(1).is_none());
        table.insert_with_name_of(0, &[b'y'; 77]);
        assert!(table.get(0).is_none(), "what is too large empties the table");
    }
}
