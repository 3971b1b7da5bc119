//! Certificates that clients get compressed (RFC 8879): a handshake with fewer bytes, and sometimes with fewer round trips.
//!
//! The first handshake that needs a certificate in a coding compresses it, and an endpoint keeps the result. A loop makes that
//! handshake, so the quick levels are used.

use rustls::compress::{
    BROTLI_COMPRESSOR, CertCompressor, CompressionCache, CompressionFailed, CompressionLevel, ZLIB_COMPRESSOR,
};
use rustls::{CertificateCompressionAlgorithm, ServerConfig};
use std::sync::Arc;

/// In the order of preference.
const COMPRESSORS: [&dyn CertCompressor; 2] = [&Quick(BROTLI_COMPRESSOR), &Quick(ZLIB_COMPRESSOR)];

/// A compressor that never takes long. rustls asks for the highest level, because it keeps the result.
#[derive(Debug)]
struct Quick(&'static dyn CertCompressor);

/// Has handshakes compress the certificates of an endpoint with so many of them.
pub(crate) fn set_up(config: &mut ServerConfig, certificates: usize) {
    config.cert_compressors = COMPRESSORS.to_vec();
    config.cert_compression_cache = Arc::new(CompressionCache::new(COMPRESSORS.len() * certificates));
    // What clients show is small. Nothing that they have compressed is worth unpacking.
    config.cert_decompressors = Vec::new();
}

impl CertCompressor for Quick {
    fn compress(&self, certificates: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        #[cfg(test)]
        COMPRESSED.with(|count| count.set(count.get() + 1));
        self.0.compress(certificates, CompressionLevel::Interactive)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        self.0.algorithm()
    }
}

#[cfg(test)]
thread_local! {
    /// How often this thread has compressed a certificate.
    pub(crate) static COMPRESSED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
