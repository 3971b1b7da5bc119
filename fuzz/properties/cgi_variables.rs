//! Variables. For every head of a client the pairs are complete, and each name is valid and appears once. The records of a
//! FastCGI request have the same content.

use std::collections::HashSet;

use flash_cgi::fastcgi::Encoder;
use flash_cgi::script::{self, Found};
use flash_cgi::{Ends, Server, Variables};
use flash_http::{Limits, Parsed, Scheme, Target, head};

pub(crate) fn check(input: &[u8]) {
    let Ok(Parsed::Complete { head, .. }) = head::parse(input, &Limits::default()) else { return };
    let mut variables = Variables::of_request(
        &head,
        head.framing.version.name(),
        Scheme::Http,
        &Server::new(b"Flash", b"/srv"),
        &Ends::Unix,
    );
    let path = if let Target::Origin { path, .. } = head.target { path } else { b"/" };
    if let Some(split) = script::suffixed(path, b".php").next() {
        assert_eq!([split.name, split.info].concat(), path);
        variables.add_script(&split, Some(b"/srv/a.php"));
    }
    let looked = script::find(path, b"/", |name| if name.len() > 3 { Ok(Found::Script) } else { Err(()) });
    assert!(looked.is_err() || looked.iter().flatten().all(|split| split.name.len() > 4));

    let mut names = HashSet::new();
    for (name, value) in &variables {
        assert!(
            name.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_')) && name != b"HTTP_PROXY"
        );
        assert!(names.insert(name) && !value.contains(&0));
    }
    let block = variables.env_block();
    assert_eq!(block.iter().filter(|&&byte| byte == 0).count(), 1 + names.len());
    assert_eq!(Variables::from_pairs(variables.as_pairs().to_vec()).as_ref(), Some(&variables));

    let mut records = Vec::new();
    Encoder.begin(&variables, true, &mut records);
    let begin = 16;
    let pairs = variables.as_pairs();
    assert_eq!(&records[begin + 8..begin + 8 + pairs.len()], pairs);
}
