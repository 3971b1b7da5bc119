//! Header blocks. No bytes may cause a panic, and no block may decode to more than its share. What was decoded is the same after
//! another round.

use flash_h2::hpack::decoder::Decoder;
use flash_h2::hpack::encoder;
use flash_h2::settings::TABLE_BYTES;

pub(crate) fn check(input: &[u8]) {
    // Two blocks, because the second depends on the first.
    let Some((cut, blocks)) = input.split_first() else { return };
    let (first, second) = blocks.split_at(usize::from(*cut).min(blocks.len()));
    let mut decoder = Decoder::new(TABLE_BYTES as usize);
    for block in [first, second] {
        let (mut scratch, mut again) = (Vec::new(), Vec::new());
        let mut fields = Vec::new();
        let result = decoder.decode(block, &mut scratch, |name, value| {
            encoder::field(&mut again, name, value);
            fields.push((name.to_ascii_lowercase(), value.to_vec()));
        });
        assert!(scratch.len() <= block.len() * 8 / 5 + 1, "{} of {}", scratch.len(), block.len());
        let mut others = Vec::new();
        let decoded = Decoder::new(TABLE_BYTES as usize)
            .decode(&again, &mut scratch, |name, value| others.push((name.to_vec(), value.to_vec())));
        assert_eq!((decoded, others), (Ok(()), fields));
        if result.is_err() {
            return;
        }
    }
}
