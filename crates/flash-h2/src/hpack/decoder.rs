//! Decodes header blocks (RFC 7541 §3 and §6). Each field is shown once, as borrowed bytes.
//!
//! A block is decoded to its end even if its user has no use for the rest: later blocks build on its dynamic table.

use super::dynamic_table::{DynamicTable, FIELD_BYTES};
use super::{huffman, integer, static_table};

#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    /// What this side allows the table to take.
    table_bytes_max: usize,
}

/// Why a block cannot be decoded. Nor can any later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A connection error of the type COMPRESSION_ERROR.
    Malformed(&'static str),
    /// The block fills the table again and again: a connection error of the type ENHANCE_YOUR_CALM.
    TooMuchWork,
}

/// How many bytes a block may write into the table for each of its own,
const INSERTED_PER_BYTE_MAX: usize = 8;
/// and how many whole tables beside that.
const INSERTED_TABLES_MAX: usize = 16;

/// A name or a value, where it lies.
enum Text<'b> {
    Block(&'b [u8]),
    /// Decoded, in the scratch from here on to here.
    Scratch(usize, usize),
    /// The name of a field of a table, by its number.
    Table(usize),
}

impl Decoder {
    pub fn new(table_bytes_max: usize) -> Self {
        Self { table: DynamicTable::new(table_bytes_max), table_bytes_max }
    }

    /// Shows each field of a block. `scratch` takes what is decoded on the way, at most 8 bytes for each 5 of the block.
    ///
    /// # Errors
    /// If the block is malformed, or fills the table again and again.
    pub fn decode(
        &mut self,
        mut block: &[u8],
        scratch: &mut Vec<u8>,
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        let mut is_first = true;
        let mut insertable = INSERTED_PER_BYTE_MAX * block.len() + INSERTED_TABLES_MAX * self.table_bytes_max;
        while let Some(&first) = block.first() {
            match first {
                0x80.. => {
                    let number = number(&mut block, 7)?;
                    let (name, value) = self.field(number)?;
                    field(name, value);
                }
                0x20..0x40 => {
                    let size = number(&mut block, 5)?;
                    // RFC 7541 §4.2 and §6.3.
                    if !is_first {
                        return Err(Error::Malformed("a table size in the middle of a block"));
                    }
                    if size > self.table_bytes_max {
                        return Err(Error::Malformed("a table size beyond the limit"));
                    }
                    self.table.set_size_max(size);
                    continue;
                }
                _ => {
                    let inserted = self.literal(&mut block, first & 0x40 != 0, scratch, &mut field)?;
                    insertable = insertable.checked_sub(inserted).ok_or(Error::TooMuchWork)?;
                }
            }
            is_first = false;
        }
        Ok(())
    }

    /// Returns how many bytes go into the table.
    fn literal(
        &mut self,
        block: &mut &[u8],
        is_indexed: bool,
        scratch: &mut Vec<u8>,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<usize, Error> {
        scratch.clear();
        let name = match number(block, if is_indexed { 6 } else { 4 })? {
            0 => string(block, scratch)?,
            number => Text::Table(number),
        };
        let value = string(block, scratch)?;
        let value = match value {
            Text::Block(bytes) => bytes,
            Text::Scratch(start, end) => &scratch[start..end],
            Text::Table(_) => &[],
        };
        let name_bytes = match name {
            Text::Block(bytes) => bytes,
            Text::Scratch(start, end) => &scratch[start..end],
            Text::Table(number) => self.field(number)?.0,
        };
        field(name_bytes, value);
        if !is_indexed {
            return Ok(0);
        }
        let inserted = name_bytes.len() + value.len() + FIELD_BYTES;
        match name {
            Text::Table(number) => match number.checked_sub(static_table::COUNT + 1) {
                Some(number) => self.table.insert_with_name_of(number, value),
                None => self.table.insert(static_table::TABLE[number - 1].0, value),
            },
            Text::Block(bytes) => self.table.insert(bytes, value),
            Text::Scratch(start, end) => self.table.insert(&scratch[start..end], value),
        }
        Ok(inserted)
    }

    /// The field with this number, of either table (RFC 7541 §2.3.3).
    fn field(&self, number: usize) -> Result<(&[u8], &[u8]), Error> {
        let place = number.checked_sub(1).ok_or(Error::Malformed("the field with the number 0"))?;
        match static_table::TABLE.get(place) {
            Some(field) => Ok(*field),
            None => self
                .table
                .get(place - static_table::COUNT)
                .ok_or(Error::Malformed("a field that no table has")),
        }
    }
}

fn number(block: &mut &[u8], prefix: u32) -> Result<usize, Error> {
    integer::read(block, prefix).ok_or(Error::Malformed("a malformed number"))
}

/// RFC 7541 §5.2.
fn string<'b>(block: &mut &'b [u8], scratch: &mut Vec<u8>) -> Result<Text<'b>, Error> {
    let is_coded = block.first().is_some_and(|first| first & 0x80 != 0);
    let length = number(block, 7)?;
    let (bytes, rest) = block.split_at_checked(length).ok_or(Error::Malformed("a string without its end"))?;
    *block = rest;
    if !is_coded {
        return Ok(Text::Block(bytes));
    }
    let start = scratch.len();
    huffman::decode(bytes, scratch).map_err(|_| Error::Malformed("a string whose code is malformed"))?;
    Ok(Text::Scratch(start, scratch.len()))
}
