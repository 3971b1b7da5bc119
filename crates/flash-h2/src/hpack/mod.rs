//! HPACK (RFC 7541): the fields of a head, compressed.
//!
//! A [`decoder::Decoder`] belongs to a connection, and has its dynamic table. The [`encoder`] has none: it uses the
//! static table and literals. So a block is the same on each connection, and can be made in advance.

pub mod decoder;
mod dynamic_table;
pub mod encoder;
pub mod huffman;
pub(crate) mod integer;
pub(crate) mod static_table;

#[cfg(test)]
mod tests;
