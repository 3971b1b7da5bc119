//! Encodes header blocks without a dynamic table: fields of the static table by number, all others as literals.
//!
//! A block does not depend on those before it, so it is made once and sent on every connection.

use super::{huffman, integer, static_table};

/// Names longer than this are not in the static table.
const NAME_BYTES_MAX: usize = 32;
/// A literal that is not to be kept in a table (RFC 7541 §6.2.2).
const LITERAL: u8 = 0x00;
/// A literal that the peer keeps in its dynamic table (RFC 7541 §6.2.1).
const KEPT_LITERAL: u8 = 0x40;
/// How the block begins that empties the dynamic table, which a peer may ask for (RFC 7541 §4.2).
pub const EMPTY_TABLE: u8 = 0x20;

/// Appends the field `:status`.
pub fn status(out: &mut Vec<u8>, status: u16) {
    let number = match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            integer::write(out, LITERAL, 4, 8);
            let digits = [status / 100 % 10, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
            return literal(out, &digits);
        }
    };
    out.push(0x80 | number);
}

/// Appends a field. Its name is written in lower case (RFC 9113 §8.2.1).
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    write_name(out, name);
    string(out, value);
}

/// The same, and the peer keeps the field in its dynamic table (RFC 7541 §6.2.1). The caller counts what it has kept.
pub(crate) fn kept_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    write_name_as(out, (KEPT_LITERAL, 6), name);
    string(out, value);
}

/// The same as [`field`], without the Huffman code: the value can be written over later. Returns where it begins.
pub fn plain_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) -> usize {
    write_name(out, name);
    literal(out, value);
    out.len() - value.len()
}

/// Appends a field by its number in the static table (RFC 7541 §6.1).
pub fn indexed(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    match static_table::TABLE.iter().position(|field| *field == (name, value)) {
        Some(place) => integer::write(out, 0x80, 7, place + 1),
        None => field(out, name, value),
    }
}

fn write_name(out: &mut Vec<u8>, name: &[u8]) {
    write_name_as(out, (LITERAL, 4), name);
}

fn write_name_as(out: &mut Vec<u8>, (first, prefix): (u8, u32), name: &[u8]) {
    let mut buffer = [0; NAME_BYTES_MAX];
    let number = match buffer.get_mut(..name.len()) {
        Some(lower) => {
            lower.copy_from_slice(name);
            lower.make_ascii_lowercase();
            static_table::number_of(lower)
        }
        None => 0,
    };
    integer::write(out, first, prefix, number);
    if number == 0 {
        match buffer.get(..name.len()) {
            Some(lower) => string(out, lower),
            None => string(out, &name.to_ascii_lowercase()),
        }
    }
}

/// A string in its shorter form (RFC 7541 §5.2).
fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    let coded = huffman::encoded_bytes(bytes);
    if coded < bytes.len() {
        integer::write(out, 0x80, 7, coded);
        huffman::encode(bytes, out);
    } else {
        literal(out, bytes);
    }
}

fn literal(out: &mut Vec<u8>, bytes: &[u8]) {
    integer::write(out, 0, 7, bytes.len());
    out.extend_from_slice(bytes);
}
