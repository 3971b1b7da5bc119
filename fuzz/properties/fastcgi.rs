//! FastCGI records: no input may panic, and pieces are read as the whole is. The first byte says how long a piece is.

use flash_cgi::fastcgi::{Decoder, End, Error, Event};

pub(crate) fn check(input: &[u8]) {
    let [piece, answer @ ..] = input else { return };
    assert_eq!(read(answer, usize::from(*piece).max(1)), read(answer, answer.len().max(1)));
}

/// The two streams, the end, and how many bytes came before the end.
type Whole = (Vec<u8>, Vec<u8>, Option<End>, usize);

fn read(answer: &[u8], piece: usize) -> Result<Whole, Error> {
    let mut decoder = Decoder::new();
    let (mut stdout, mut stderr, mut consumed) = (Vec::new(), Vec::new(), 0);
    for mut bytes in answer.chunks(piece) {
        let before = bytes.len();
        while let Some(event) = decoder.next(&mut bytes)? {
            match event {
                Event::Stdout(piece) => stdout.extend_from_slice(piece),
                Event::Stderr(piece) => stderr.extend_from_slice(piece),
                Event::End(end) => return Ok((stdout, stderr, Some(end), consumed + before - bytes.len())),
            }
        }
        assert!(bytes.is_empty());
        consumed += before;
    }
    assert!(stdout.len() + stderr.len() <= answer.len());
    Ok((stdout, stderr, None, consumed))
}
