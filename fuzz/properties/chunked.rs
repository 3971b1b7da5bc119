//! Chunked bodies: no input may panic, and pieces are read as the whole is. The first byte says how long a piece is.

use flash_http::Reject;
use flash_http::chunked::Chunked;

pub(crate) fn check(input: &[u8]) {
    let [piece, body @ ..] = input else { return };
    assert_eq!(read(body, usize::from(*piece).max(1)), read(body, body.len().max(1)));
}

/// Bytes consumed, bytes of data, and whether the body came to its end.
fn read(body: &[u8], piece: usize) -> Result<(usize, usize, bool), Reject> {
    let mut decoder = Chunked::new();
    let (mut consumed, mut data) = (0, 0);
    for bytes in body.chunks(piece) {
        let progress = decoder.decode(bytes)?;
        assert!(progress.data <= progress.consumed && progress.consumed <= bytes.len());
        consumed += progress.consumed;
        data += progress.data;
        if progress.complete {
            assert!(body[..consumed].ends_with(b"\r\n"));
            return Ok((consumed, data, true));
        }
        assert_eq!(progress.consumed, bytes.len());
    }
    Ok((consumed, data, false))
}
