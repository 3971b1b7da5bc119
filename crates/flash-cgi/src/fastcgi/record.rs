//! Records: their ids, sizes and types.

/// The id of every request (§3.3: any but 0, and small ones are best).
pub const REQUEST_ID: u16 = 1;

/// A record's head (§3.3).
pub const HEAD_BYTES: usize = 8;

/// What a record holds at most.
pub const CONTENT_BYTES_MAX: usize = 65535;

pub(super) const VERSION: u8 = 1;

/// Types of records (§8), but for those that neither side has a use for.
pub(super) mod kind {
    pub(in super::super) const BEGIN_REQUEST: u8 = 1;
    pub(in super::super) const ABORT_REQUEST: u8 = 2;
    pub(in super::super) const END_REQUEST: u8 = 3;
    pub(in super::super) const PARAMS: u8 = 4;
    pub(in super::super) const STDIN: u8 = 5;
    pub(in super::super) const STDOUT: u8 = 6;
    pub(in super::super) const STDERR: u8 = 7;
    pub(in super::super) const GET_VALUES_RESULT: u8 = 10;
}
