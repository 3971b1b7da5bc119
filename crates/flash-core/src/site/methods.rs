//! `methods`: which methods a site or a place answers. All others get 405.

pub use flash_http::method::Method;

/// The methods that are answered. HEAD is one of them wherever GET is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Methods {
    names: Box<[Method]>,
    /// The value of `Allow`.
    allow: Box<[u8]>,
}

/// Those that files have.
pub(crate) const OF_FILES: &[u8] = b"GET, HEAD, OPTIONS";

impl Methods {
    /// `has_programs` says whether a program may answer. Without one, only what files have is left.
    pub fn new(names: impl IntoIterator<Item = Method>, has_programs: bool) -> Self {
        let mut names: Vec<Method> = names.into_iter().collect();
        if names.contains(&Method::Get) && !names.contains(&Method::Head) {
            names.push(Method::Head);
        }
        let is_answered = |method: &&Method| has_programs || !matches!(method, Method::Known(_));
        let allowed: Vec<&str> = names.iter().filter(is_answered).map(|method| method.name()).collect();
        Self { allow: allowed.join(", ").into_bytes().into(), names: names.into() }
    }

    /// # Errors
    /// What to write instead.
    pub fn parse(name: &str) -> Result<Method, String> {
        match Method::named(name) {
            Method::Unknown => {
                Err("there is no such method: write GET, POST or another one in capitals".into())
            }
            Method::Known("CONNECT" | "TRACE") => Err("it is for proxies, and never answered".into()),
            known => Ok(known),
        }
    }

    pub(crate) fn contain(&self, method: Method) -> bool {
        self.names.contains(&method)
    }

    pub(crate) fn allow(&self) -> &[u8] {
        &self.allow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allow_says_what_is_answered() {
        let methods = |names: &[&str], has_programs| {
            Methods::new(names.iter().map(|name| Methods::parse(name).unwrap()), has_programs)
        };
        assert_eq!(methods(&["GET", "POST"], true).allow(), b"GET, POST, HEAD");
        assert_eq!(methods(&["GET", "POST"], false).allow(), b"GET, HEAD");
        assert!(
            methods(&["GET"], false).contain(Method::Head) && !methods(&["HEAD"], false).contain(Method::Get)
        );
        for wrong in ["", "get", "BREW", "TRACE", "CONNECT"] {
            assert!(Methods::parse(wrong).is_err(), "{wrong}");
        }
    }
}
