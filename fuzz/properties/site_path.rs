//! Paths: no input may panic, and what is accepted is canonical: it leads nowhere but down, and means itself.

use flash_core::path::SitePath;
use flash_http::percent;

pub(crate) fn check(input: &[u8]) {
    let Ok(path) = SitePath::parse(input) else { return };
    let bytes = path.as_bytes();
    assert!(bytes.starts_with(b"/") && !bytes.contains(&0));
    let inner = path.relative();
    assert!(
        inner.is_empty() || inner.split(|&byte| byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
    );
    let mut encoded = Vec::new();
    percent::encode_path(bytes, &mut encoded);
    assert_eq!(SitePath::parse(&encoded).as_ref().map(SitePath::as_bytes), Ok(bytes));
}
