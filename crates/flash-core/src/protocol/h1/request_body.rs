//! A request's body: where it ends, and which of its bytes are data (RFC 9112 §6).
//!
//! This module keeps no data. The caller decides what to do with the data, and closes the connection if the body is broken.

use flash_http::chunked::{Chunked, Part};
use flash_http::head::{self, Head, Reject};
use flash_http::status::Status;

use crate::exchange::upstream::RequestBodyLength;

/// A body that is being read.
#[derive(Debug)]
pub(crate) enum RequestBody {
    Length {
        left: u64,
    },
    Chunks {
        decoder: Chunked,
        bytes: u64,
    },
    /// The connection goes on with another protocol. What arrives is the upstream's.
    Tunnel,
    Complete,
}

impl RequestBody {
    pub(crate) fn of(head: &Head<'_>) -> Self {
        match head.body {
            head::Body::None => Self::Complete,
            head::Body::Length(left) => Self::Length { left },
            head::Body::Chunked => Self::Chunks { decoder: Chunked::default(), bytes: 0 },
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }

    /// Whether a part of it has not come.
    pub(crate) fn is_awaited(&self) -> bool {
        matches!(self, Self::Length { .. } | Self::Chunks { .. })
    }

    /// What the exchange has to know about the body's length.
    pub(crate) fn length(&self) -> RequestBodyLength {
        match self {
            Self::Complete | Self::Tunnel => RequestBodyLength::None,
            Self::Length { .. } => RequestBodyLength::Known,
            Self::Chunks { .. } => RequestBodyLength::Unknown,
        }
    }

    /// Whether the input contains the rest of the body.
    pub(crate) fn ends_within(&self, input: &[u8]) -> bool {
        match self {
            Self::Complete | Self::Tunnel => true,
            Self::Length { left } => input.len() as u64 >= *left,
            Self::Chunks { decoder, .. } => {
                decoder.clone().decode(input).is_ok_and(|progress| progress.complete)
            }
        }
    }

    /// Drops the rest of a body of known length, if the input contains it.
    pub(crate) fn drop_within(&mut self, input: &mut Vec<u8>) {
        if let Self::Length { left } = *self
            && left <= input.len() as u64
        {
            input.drain(..left as usize);
            *self = Self::Complete;
        }
    }

    /// Takes the body's bytes from the front of `input`, and returns how many they are. Its parts go to `sink` in pieces.
    ///
    /// # Errors
    ///
    /// 400 for broken chunks, 413 for more than `bytes_max` of data in them. A known length was checked with the head.
    pub(crate) fn read(
        &mut self,
        input: &[u8],
        bytes_max: u64,
        mut sink: impl FnMut(Part<'_>),
    ) -> Result<usize, Reject> {
        let (used, complete) = match self {
            Self::Complete => return Ok(0),
            Self::Tunnel => {
                sink(Part::Data(input));
                (input.len(), false)
            }
            Self::Length { left } => {
                let used = (*left).min(input.len() as u64);
                *left -= used;
                sink(Part::Data(&input[..used as usize]));
                (used as usize, *left == 0)
            }
            Self::Chunks { decoder, bytes } => {
                let progress = decoder.read(input, sink)?;
                *bytes += progress.data as u64;
                if *bytes > bytes_max {
                    let (status, reason) = (Status::CONTENT_TOO_LARGE, "the body is too large");
                    return Err(Reject { status, reason });
                }
                (progress.consumed, progress.complete)
            }
        };
        if complete {
            *self = Self::Complete;
        }
        Ok(used)
    }
}
