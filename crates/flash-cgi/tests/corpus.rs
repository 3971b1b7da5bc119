//! Replays the fuzz targets' corpora with an ordinary compiler, so that what was once found stays found.

#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use flash_cgi::fastcgi::{Decoder, Event};
use flash_cgi::response::{self, Parsed};
use flash_cgi::{Ends, Server, Variables};
use flash_http::{Scheme, head};

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let inputs: Vec<_> = entries.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(inputs.len() >= 12, "{} holds only {} inputs", folder.display(), inputs.len());
    inputs
}

#[test]
fn response_heads_get_the_same_verdict_however_they_arrive() {
    let limits = response::Limits { head_bytes_max: 256, fields_max: 8 };
    let mut complete = 0;
    for input in corpus("cgi_response") {
        let mut verdicts = (0..=input.len()).map(|end| response::parse(&input[..end], &limits));
        let first = verdicts.find(|verdict| *verdict != Ok(Parsed::Incomplete));
        let whole = response::parse(&input, &limits);
        assert_eq!(first.unwrap_or(Ok(Parsed::Incomplete)), whole, "{}", input.escape_ascii());
        complete += usize::from(matches!(whole, Ok(Parsed::Complete { .. })));
    }
    assert!(complete >= 8, "only {complete} are heads");
}

#[test]
fn variables_have_one_value_each() {
    for input in corpus("cgi_variables") {
        let parsed = head::parse(&input, &flash_http::Limits::default());
        let Ok(flash_http::Parsed::Complete { head, .. }) = parsed else {
            panic!("{}", input.escape_ascii())
        };
        let variables = Variables::of_request(
            &head,
            head.framing.version.name(),
            Scheme::Http,
            &Server::new(b"Flash", b"/srv"),
            &Ends::Unix,
        );
        for (name, value) in &variables {
            assert_eq!(variables.get(name), Some(value), "{}", name.escape_ascii());
            assert!(name.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_')));
        }
    }
}

#[test]
fn records_are_the_same_in_single_bytes() {
    let mut ended = 0;
    for input in corpus("fastcgi") {
        let answer = &input[1..];
        let whole = read(answer, answer.len());
        assert_eq!(read(answer, 1), whole, "{}", answer.escape_ascii());
        ended += usize::from(whole.is_ok_and(|said| said.contains("end ")));
    }
    assert!(ended >= 6, "only {ended} end");
}

/// What the application says, as text without the places where it was cut.
fn read(answer: &[u8], piece: usize) -> Result<String, &'static str> {
    let mut decoder = Decoder::new();
    let mut said = String::new();
    for mut bytes in answer.chunks(piece) {
        while let Some(event) = decoder.next(&mut bytes).map_err(|error| error.reason)? {
            match event {
                Event::Stdout(bytes) => bytes.iter().for_each(|byte| said += &format!("out {byte:02x} ")),
                Event::Stderr(bytes) => bytes.iter().for_each(|byte| said += &format!("err {byte:02x} ")),
                Event::End(end) => said += &format!("end {end:?}"),
            }
        }
    }
    Ok(said)
}
