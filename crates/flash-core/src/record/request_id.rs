//! The id of a request: 16 bytes that no other request has, on any loop, in any process, after any restart.
//!
//! A worker draws random bytes once. After that an id costs an addition and some multiplications, and no memory. An id is
//! no secret: who knows some of a worker's ids can compute others.

use std::fmt;

/// The field that carries it, in requests and in responses.
pub(crate) const FIELD: &[u8] = b"X-Request-Id";
/// The same for programs.
pub(crate) const VARIABLE: &[u8] = b"HTTP_X_REQUEST_ID";
/// The id of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// The worker's.
    prefix: u64,
    /// The request's own. Never 0.
    own: u64,
}

/// The id under which a request is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedId {
    Own(RequestId),
    /// A proxy's.
    Given(Box<[u8]>),
}

/// Makes the ids of one worker.
#[derive(Clone, Debug)]
pub struct RequestIds {
    prefix: u64,
    count: u64,
}

impl RequestIds {
    /// `random` differs between all workers of all servers.
    pub fn new(random: [u64; 2]) -> Self {
        Self { prefix: random[0], count: random[1] }
    }

    pub(crate) fn next(&mut self) -> RequestId {
        loop {
            self.count = self.count.wrapping_add(GOLDEN_RATIO);
            let own = mix(self.count);
            if own > 0 {
                return RequestId { prefix: self.prefix, own };
            }
        }
    }
}

impl RequestId {
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.prefix) << 64 | u128::from(self.own)).to_be_bytes()
    }

    pub(crate) fn digits(self) -> [u8; 32] {
        let mut digits = [0; 32];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.to_bytes()) {
            pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        digits
    }

    /// For a span of the request: the part that differs within a worker.
    pub(crate) fn span_id(self) -> [u8; 8] {
        self.own.to_be_bytes()
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// 32 digits.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.prefix, self.own)
    }
}

/// An odd number, so a count that grows by it repeats after all 2^64 values and not before.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of splitmix64. It is a bijection, so different counts have different results.
const fn mix(count: u64) -> u64 {
    let a = (count ^ (count >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_differ_within_a_worker_and_between_workers() {
        let mut all = HashSet::new();
        for random in [[0, 0], [0x1234, 0], [7, GOLDEN_RATIO]] {
            let mut ids = RequestIds::new(random);
            for _ in 0..10_000 {
                let id = ids.next();
                assert!(id.span_id() != [0; 8]);
                assert!(all.insert(id.to_bytes()));
            }
        }
    }

    #[test]
    fn an_id_is_written_in_digits() {
        let id = RequestId { prefix: 0x0123_4567_89ab_cdef, own: 7 };
        assert_eq!(id.to_string(), "0123456789abcdef0000000000000007");
        assert_eq!(id.digits(), id.to_string().as_bytes());
    }

    #[test]
    fn an_id_of_a_request_is_never_zero() {
        // Its count is 0 next, whose mixture is 0.
        let mut ids = RequestIds::new([0, 0u64.wrapping_sub(GOLDEN_RATIO)]);
        assert_ne!(ids.next().span_id(), [0; 8]);
    }
}
