//! Settings (RFC 9113 §6.5.2): what a peer says about itself.

use crate::error::{ConnectionError, ErrorCode};
use crate::frame::PAYLOAD_BYTES_MAX;

pub const HEADER_TABLE_SIZE: u16 = 0x1;
pub const ENABLE_PUSH: u16 = 0x2;
pub const MAX_CONCURRENT_STREAMS: u16 = 0x3;
pub const INITIAL_WINDOW_SIZE: u16 = 0x4;
pub const MAX_FRAME_SIZE: u16 = 0x5;
pub const MAX_HEADER_LIST_SIZE: u16 = 0x6;
/// RFC 9218 §2.1.
pub const NO_RFC7540_PRIORITIES: u16 = 0x9;

/// The initial window, and the initial size of a dynamic table, unless a side says otherwise.
pub const WINDOW_BYTES: u32 = 65_535;
pub const TABLE_BYTES: u32 = 4_096;

/// What the peer has said, as far as this side acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    pub initial_window: u32,
    pub table_bytes: u32,
    pub streams_max: u32,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self { initial_window: WINDOW_BYTES, table_bytes: TABLE_BYTES, streams_max: u32::MAX }
    }
}

impl PeerSettings {
    /// Takes the payload of a SETTINGS frame. Values count in their order, and unknown ones do not.
    ///
    /// # Errors
    /// FRAME_SIZE_ERROR, FLOW_CONTROL_ERROR and PROTOCOL_ERROR, as the RFC says for each value.
    pub fn take(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        let (settings, []) = payload.as_chunks::<6>() else {
            return Err(ConnectionError::size("a SETTINGS frame with a part of a setting"));
        };
        for setting in settings {
            let id = u16::from_be_bytes([setting[0], setting[1]]);
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            match (id, value) {
                (HEADER_TABLE_SIZE, _) => self.table_bytes = value,
                (MAX_CONCURRENT_STREAMS, _) => self.streams_max = value,
                (ENABLE_PUSH, 2..) => {
                    return Err(ConnectionError::protocol("ENABLE_PUSH is neither 0 nor 1"));
                }
                (INITIAL_WINDOW_SIZE, 0x8000_0000..) => {
                    let reason = "INITIAL_WINDOW_SIZE is too large";
                    return Err(ConnectionError::new(ErrorCode::FLOW_CONTROL_ERROR, reason));
                }
                (INITIAL_WINDOW_SIZE, _) => self.initial_window = value,
                // Frames of this side are never larger than what every peer accepts.
                (MAX_FRAME_SIZE, value) if !(PAYLOAD_BYTES_MAX as u32..1 << 24).contains(&value) => {
                    return Err(ConnectionError::protocol("MAX_FRAME_SIZE is out of its range"));
                }
                (NO_RFC7540_PRIORITIES, 2..) => {
                    return Err(ConnectionError::protocol("NO_RFC7540_PRIORITIES is neither 0 nor 1"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9113_6_5_2_values_have_their_ranges() {
        let take = |id: u16, value: u32| {
            let mut settings = PeerSettings::default();
            settings.take(&[&id.to_be_bytes()[..], &value.to_be_bytes()].concat()).map(|()| settings)
        };
        let code = |id, value| take(id, value).map_err(|error| error.code);
        assert_eq!(take(INITIAL_WINDOW_SIZE, 7).map(|settings| settings.initial_window), Ok(7));
        assert_eq!(take(HEADER_TABLE_SIZE, 0).map(|settings| settings.table_bytes), Ok(0));
        assert_eq!(code(INITIAL_WINDOW_SIZE, 1 << 31), Err(ErrorCode::FLOW_CONTROL_ERROR));
        for (id, value) in [(ENABLE_PUSH, 2), (MAX_FRAME_SIZE, 16_383), (MAX_FRAME_SIZE, 1 << 24)] {
            assert_eq!(code(id, value), Err(ErrorCode::PROTOCOL_ERROR), "{id} {value}");
        }
        assert!(take(0xabcd, 9).is_ok() && take(MAX_FRAME_SIZE, (1 << 24) - 1).is_ok());
        let error = PeerSettings::default().take(&[0; 7]).unwrap_err();
        assert_eq!(error.code, ErrorCode::FRAME_SIZE_ERROR);
    }
}
