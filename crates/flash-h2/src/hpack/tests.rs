//! The examples of RFC 7541 Appendix C, and a decoder and an encoder that others wrote.

use proptest::prelude::*;

use super::decoder::{Decoder, Error};
use super::encoder;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Error> {
    let mut fields = Vec::new();
    decoder.decode(block, &mut Vec::new(), |name, value| {
        fields.push(format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
    })?;
    Ok(fields)
}

#[track_caller]
fn examples(table_bytes: usize, examples: &[(&str, &[&str])]) {
    let mut decoder = Decoder::new(table_bytes);
    for (block, fields) in examples {
        assert_eq!(decoded(&mut decoder, &hex(block)).unwrap(), *fields, "{block}");
    }
}

#[test]
fn rfc7541_c_2_single_fields() {
    examples(
        4096,
        &[(
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            &["custom-key: custom-header"],
        )],
    );
    examples(4096, &[("040c 2f73 616d 706c 652f 7061 7468", &[":path: /sample/path"])]);
    examples(4096, &[("1008 7061 7373 776f 7264 0673 6563 7265 74", &["password: secret"])]);
    examples(4096, &[("82", &[":method: GET"])]);
}

const REQUESTS: [&[&str]; 3] = [
    &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"],
    &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"],
    &[
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ],
];

#[test]
fn rfc7541_c_3_and_c_4_requests() {
    examples(
        4096,
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", REQUESTS[0]),
            ("8286 84be 5808 6e6f 2d63 6163 6865", REQUESTS[1]),
            ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", REQUESTS[2]),
        ],
    );
    examples(
        4096,
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", REQUESTS[0]),
            ("8286 84be 5886 a8eb 1064 9cbf", REQUESTS[1]),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", REQUESTS[2]),
        ],
    );
}

const LOCATION: &str = "location: https://www.example.com";
const RESPONSES: [&[&str]; 3] = [
    &[":status: 302", "cache-control: private", "date: Mon, 21 Oct 2013 20:13:21 GMT", LOCATION],
    &[":status: 307", "cache-control: private", "date: Mon, 21 Oct 2013 20:13:21 GMT", LOCATION],
    &[
        ":status: 200",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:22 GMT",
        LOCATION,
        "content-encoding: gzip",
        "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    ],
];

#[test]
fn rfc7541_c_5_and_c_6_responses_evict() {
    examples(
        256,
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 \
             3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                RESPONSES[0],
            ),
            ("4803 3330 37c1 c0bf", RESPONSES[1]),
            (
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 \
             7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 \
             6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
                RESPONSES[2],
            ),
        ],
    );
    examples(
        256,
        &[
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
             1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                RESPONSES[0],
            ),
            ("4883 640e ffc1 c0bf", RESPONSES[1]),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 \
             e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                RESPONSES[2],
            ),
        ],
    );
}

#[test]
fn malformed_blocks_are_refused() {
    for (block, reason) in [
        ("80", "the field with the number 0"),
        ("be", "a field that no table has"),
        ("7f", "a malformed number"),
        ("7f00", "a field that no table has"),
        ("823f", "a malformed number"),
        ("8220", "a table size in the middle of a block"),
        ("3fe2 1f", "a table size beyond the limit"),
        ("400a 63", "a string without its end"),
        ("0001 6181 00", "a string whose code is malformed"),
        ("4001", "a string without its end"),
        ("40", "a malformed number"),
    ] {
        let error = match block {
            "7f00" => hex("7f00 00"),
            _ => hex(block),
        };
        assert_eq!(decoded(&mut Decoder::new(4096), &error), Err(Error::Malformed(reason)), "{block}");
    }
}

/// A name of 4,000 bytes in the table, and then a field of two bytes that copies it, again and again.
#[test]
fn a_block_that_fills_its_table_again_and_again_is_too_much_work() {
    let long_name = [&[0x40, 0x7f, 0xa1, 0x1e][..], &[b'x'; 4_000], &[0]].concat();
    let copies = |count: usize| [&long_name[..], &[0x7e, 0].repeat(count)].concat();
    let mut scratch = Vec::new();
    let mut shown = 0;
    let result = Decoder::new(4096).decode(&copies(6_000), &mut scratch, |name, _| shown += name.len());
    assert_eq!(result, Err(Error::TooMuchWork));
    assert!(shown < 300_000, "{shown}");
    assert!(decoded(&mut Decoder::new(4096), &copies(10)).is_ok());
    // Many fields are no such work.
    let many: Vec<u8> = (0..400u32)
        .flat_map(|n| [&[0x40, 4][..], format!("n{n:03}").as_bytes(), &[1, b'v']].concat())
        .collect();
    assert_eq!(decoded(&mut Decoder::new(4096), &many).unwrap().len(), 400);
}

#[test]
fn table_sizes_at_the_beginning_of_a_block_are_taken() {
    let mut decoder = Decoder::new(4096);
    decoded(&mut decoder, &hex("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572")).unwrap();
    assert_eq!(decoded(&mut decoder, &hex("be")).unwrap(), ["custom-key: custom-header"]);
    assert_eq!(decoded(&mut decoder, &hex("20 3fe1 1f 82")).unwrap(), [":method: GET"]);
    assert!(decoded(&mut decoder, &hex("be")).is_err(), "the size 0 has emptied the table");
}

fn fields() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop_oneof![
        Just("date".to_owned()),
        Just("content-type".to_owned()),
        Just(":status".to_owned()),
        "[a-z-]{1,40}"
    ];
    let value = prop_oneof!["[ -~]{0,60}", "[\\x00-\\xff]{0,20}", Just("200".to_owned())];
    prop::collection::vec((name, value), 0..30)
}

proptest! {
    #[test]
    fn what_is_encoded_others_decode(fields in fields()) {
        let mut block = Vec::new();
        fields.iter().for_each(|(name, value)| encoder::field(&mut block, name.as_bytes(), value.as_bytes()));
        let got = hpack::Decoder::new().decode(&block).unwrap();
        let expected: Vec<_> =
            fields.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes())).collect();
        prop_assert_eq!(&got, &expected);
        let mut own = Vec::new();
        let scratch = &mut Vec::new();
        Decoder::new(4096).decode(&block, scratch, |name, value| own.push((name.to_vec(), value.to_vec()))).unwrap();
        prop_assert_eq!(&own, &expected);
    }

    /// The peer's encoder uses its dynamic table for every field.
    #[test]
    fn what_others_encode_is_decoded(heads in prop::collection::vec(fields(), 1..6)) {
        let (mut theirs, mut own) = (hpack::Encoder::new(), Decoder::new(4096));
        for fields in heads {
            let block = theirs.encode(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
            let mut got = Vec::new();
            let scratch = &mut Vec::new();
            let shown = own.decode(&block, scratch, |name, value| got.push((name.to_vec(), value.to_vec())));
            prop_assert_eq!(shown, Ok(()));
            let expected: Vec<_> =
                fields.iter().map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes())).collect();
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn no_block_is_a_panic(block in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut shown = 0;
        let _ = Decoder::new(4096).decode(&block, &mut Vec::new(), |name, value| shown += name.len() + value.len());
        prop_assert!(shown <= block.len() * 4096);
    }
}

#[test]
fn statuses_are_encoded_for_every_decoder() {
    for status in 100..600 {
        let mut block = Vec::new();
        encoder::status(&mut block, status);
        let got = hpack::Decoder::new().decode(&block).unwrap();
        assert_eq!(got, [(b":status".to_vec(), status.to_string().into_bytes())]);
    }
}

#[test]
fn a_plain_value_can_be_written_over() {
    let mut block = Vec::new();
    let at = encoder::plain_field(&mut block, b"Date", b"---");
    block[at..].copy_from_slice(b"now");
    encoder::indexed(&mut block, b":method", b"GET");
    encoder::indexed(&mut block, b":method", b"PUT");
    let fields = decoded(&mut Decoder::new(0), &block).unwrap();
    assert_eq!(fields, ["date: now", ":method: GET", ":method: PUT"]);
}
