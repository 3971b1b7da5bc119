//! Who may have what: password files, their hashes, the memory of log-ins that were right, signed links, and signed cookies.
//!
//! A [`PasswordFile`] is read at the start and at each reload. It answers the request path at once if it remembers a log-in, and
//! else with a check, which takes a processor for long. Which thread runs the check is not known here. [`SignedLinks`]
//! and [`StickyCookies`] always answer at once.

#![forbid(unsafe_code)]

mod hash;
mod links;
mod password_file;
mod sticky_cookies;
mod successes;

pub use links::secure_link::{Arguments, Expression, SecureLink};
pub use links::{Form, LinkTerms, SignedLinks};
pub use password_file::PasswordFile;
pub use sticky_cookies::{SameSite, StickyCookies, StickyTerms};
pub use successes::Successes;
