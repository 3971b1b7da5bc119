//! What links say, in whatever form: what a new one is to say, and the arguments of one that has come.

use flash_core::clients::link::BadLink;
use flash_http::percent;

/// What a new link says.
#[derive(Debug, Default)]
pub struct LinkTerms<'t> {
    /// The last second in which it is right, since the Unix epoch.
    pub expires_s: u64,
    /// It opens all that lies below its path, too.
    pub is_prefix: bool,
    /// The only clients that it is for: an address or a network.
    pub client: Option<&'t str>,
    /// How fast a client gets what it opens, in place of the rate of the site or place.
    pub rate: Option<&'t str>,
}

/// The value of an argument, decoded. A link that has it twice is wrong, because programs may take either of them.
pub(super) fn argument(query: &[u8], name: &str) -> Result<Option<Vec<u8>>, BadLink> {
    let value = |argument: &'_ [u8]| match argument.strip_prefix(name.as_bytes()) {
        Some([]) => Some(Some(Vec::new())),
        Some([b'=', value @ ..]) => Some(percent::decode(value)),
        _ => None,
    };
    let mut values = query.split(|&byte| byte == b'&').filter_map(value);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(Some(value)), None) => Ok(Some(value)),
        _ => Err(BadLink::Wrong),
    }
}
