//! CGI response heads. No output of a program may cause a panic, and cutting it must not change the verdict. The fields that
//! the client gets must be well-formed.

use flash_cgi::response::{self, Bad, Kind, Limits, Parsed};

/// Small, so that inputs run into them.
const LIMITS: Limits = Limits { head_bytes_max: 256, fields_max: 8 };

pub(crate) fn check(input: &[u8]) {
    let whole = response::parse(input, &LIMITS);
    // Every cut of a long input would take long and teach little.
    if input.len() <= 512 {
        assert_eq!(first_verdict(input), whole);
    }
    if let Ok(Parsed::Complete { head, bytes }) = whole {
        assert!(bytes <= LIMITS.head_bytes_max && input[..bytes].ends_with(b"\n"));
        assert!(
            (200..600).contains(&head.status.0) && !head.reason.iter().any(|byte| b"\r\n\0".contains(byte))
        );
        if let Kind::LocalRedirect(path) = head.kind {
            assert!(path.starts_with(b"/") && !path.starts_with(b"//"));
            let mut request = [&b"GET "[..], path, b" HTTP/1.0\r\n"].concat();
            head.write_fields(&mut request);
            read_on(&request, &head);
        }
        let mut request = b"GET / HTTP/1.0\r\n".to_vec();
        head.write_fields(&mut request);
        read_on(&request, &head);
    }
}

/// What the shortest prefix says that says anything.
fn first_verdict(input: &[u8]) -> Result<Parsed<'_>, Bad> {
    let mut seen = 0;
    for end in 0..=input.len() {
        let now = response::parse(&input[..end], &LIMITS);
        // A refusal may wait for its line's end, but nobody may be left waiting whose head is complete.
        let reason = response::may_progress(&input[..end], seen, &LIMITS);
        assert!(reason || !matches!(now, Ok(Parsed::Complete { .. })));
        seen = end;
        if now != Ok(Parsed::Incomplete) {
            return now;
        }
    }
    Ok(Parsed::Incomplete)
}

/// Fields of a response are fields of a request, but for those that a request may not repeat.
fn read_on(request: &[u8], head: &response::Head<'_>) {
    let limits = flash_http::Limits::default();
    let request = [request, b"\r\n"].concat();
    match flash_http::head::parse(&request, &limits) {
        Ok(flash_http::Parsed::Complete { head: other, bytes }) => {
            assert!(bytes == request.len() && other.fields.eq(head.fields()));
        }
        Ok(flash_http::Parsed::Incomplete) => panic!("a head without end"),
        Err(reject) => assert!(reject.reason.contains("Host"), "{}", reject.reason),
    }
}
