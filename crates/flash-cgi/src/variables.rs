//! The meta-variables: what a program is told of a request (RFC 3875 §4.1).
//!
//! They are built into one buffer, as the name-value pairs that FastCGI sends (FastCGI §3.4). So FastCGI, the frequent case,
//! needs no second encoding. A CGI program's environment is made from the same pairs.
//!
//! If RFC 3875 leaves a choice, users' expectations decide; [`request`] gives each reason. This module knows nothing of the
//! disk: the code that finds the script adds its variables with [`Variables::add_script`].

mod pairs;
mod request;

use std::fmt;
use std::net::{IpAddr, SocketAddr};

pub use self::pairs::Pairs;
use crate::script::Split;

/// Where programs are looked for that a CGI script starts. It is the same wherever Flash was started from: nothing of
/// the server's own environment reaches a program.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variable that says where the site is, as an absolute path without a slash at its end.
const DOCUMENT_ROOT: &[u8] = b"DOCUMENT_ROOT";

/// Names and values, in order. A name is there once.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables {
    /// FastCGI §3.4: length of the name, length of the value, name, value.
    pairs: Vec<u8>,
}

/// The variables that are the same for every request, encoded once.
#[derive(Clone, Debug)]
pub struct Server {
    variables: Variables,
}

/// The two ends of a client's connection; `None` where they are a Unix socket's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    Inet {
        local: SocketAddr,
        peer: SocketAddr,
    },
    /// A Unix socket, whose proxy says who the client is.
    Proxied {
        client: IpAddr,
    },
    Unix,
}

impl Server {
    /// `software` is what the `Server` field says; `document_root` is an absolute path without a slash at its end.
    pub fn new(software: &[u8], document_root: &[u8]) -> Server {
        let mut variables = Variables::default();
        // §4.1.4. FastCGI programs are told the same, by every server.
        variables.push(b"GATEWAY_INTERFACE", b"CGI/1.1");
        // §4.1.17.
        variables.push(b"SERVER_SOFTWARE", software);
        // Not in the RFC, and in every server: programs find their files with it.
        variables.push(DOCUMENT_ROOT, document_root);
        Server { variables }
    }
}

impl Variables {
    /// Appends a pair. The name is not among them yet, and is one or more bytes, none of them `=` or NUL.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        debug_assert!(is_name(name));
        pairs::push(&mut self.pairs, name, value);
    }

    /// The same, in place of the pair with this name if there is one.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.remove(&[name]);
        self.push(name, value);
    }

    /// Removes the pairs with these names, if there are any.
    pub fn remove(&mut self, names: &[&[u8]]) {
        if !self.iter().any(|(name, _)| names.contains(&name)) {
            return;
        }
        let mut kept = Vec::with_capacity(self.pairs.len());
        for (name, value) in self.iter().filter(|(name, _)| !names.contains(name)) {
            pairs::push(&mut kept, name, value);
        }
        self.pairs = kept;
    }

    /// What is known when the script has been found. `file` is its absolute path, for a program that reads scripts
    /// itself or wants to know where it lies. The site's root is among the variables already.
    pub fn add_script(&mut self, split: &Split<'_>, file: Option<&[u8]>) {
        // §4.1.13: decoded, as §4.1.5 has PATH_INFO. The encoded whole is in REQUEST_URI.
        self.push(b"SCRIPT_NAME", split.name);
        if let Some(file) = file {
            // Not in the RFC; php-fpm runs what it names.
            self.push(b"SCRIPT_FILENAME", file);
        }
        // Absent rather than empty, as with Apache and lighttpd: programs ask whether it is there.
        if !split.info.is_empty() {
            self.push(b"PATH_INFO", split.info);
            // §4.1.6.
            let document_root = self.get(DOCUMENT_ROOT).unwrap_or_default().to_vec();
            pairs::push_joined(&mut self.pairs, b"PATH_TRANSLATED", [&document_root, split.info]);
        }
    }

    pub fn iter(&self) -> Pairs<'_> {
        Pairs::of(&self.pairs)
    }

    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|&(other, _)| other == name).map(|(_, value)| value)
    }

    /// All pairs as FastCGI §3.4 has them, without records around them.
    pub fn as_pairs(&self) -> &[u8] {
        &self.pairs
    }

    /// From what [`Self::as_pairs`] returned, perhaps in another process; `None` for anything that cannot have been
    /// returned there.
    pub fn from_pairs(bytes: Vec<u8>) -> Option<Variables> {
        let mut pairs = Pairs::of(&bytes);
        let named = pairs.by_ref().all(|(name, _)| is_name(name));
        (named && pairs.rest().is_empty()).then_some(Variables { pairs: bytes })
    }

    /// A CGI program's environment: `NAME=value`, a NUL, and so on; [`PATH`] is the first.
    pub fn env_block(&self) -> Vec<u8> {
        // A long pair has eight bytes of lengths, a short one two, which are `=` and NUL here.
        let mut block = Vec::with_capacity(self.pairs.len() + "PATH=".len() + PATH.len() + 1);
        block.extend_from_slice(b"PATH=");
        block.extend_from_slice(PATH.as_bytes());
        block.push(0);
        for (name, value) in self.iter() {
            block.extend_from_slice(name);
            block.push(b'=');
            // No head and no path holds a NUL. If one came from elsewhere it ends the value, so that what stands behind
            // it cannot become a variable of its own.
            let end = memchr::memchr(0, value).unwrap_or(value.len());
            block.extend_from_slice(&value[..end]);
            block.push(0);
        }
        block
    }
}

/// What an environment can hold as a name.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.iter().any(|byte| matches!(byte, b'=' | 0))
}

impl<'v> IntoIterator for &'v Variables {
    type Item = (&'v [u8], &'v [u8]);
    type IntoIter = Pairs<'v>;

    fn into_iter(self) -> Pairs<'v> {
        self.iter()
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        f.debug_map().entries(self.iter().map(|(name, value)| (text(name), text(value)))).finish()
    }
}

#[cfg(test)]
mod tests;
