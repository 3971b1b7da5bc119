//! What an HTTP server behind this one is told in place of what the client has said.

/// A field's name and its value.
pub type ProxyField = (Box<[u8]>, Box<[u8]>);

/// The rules of a route to HTTP servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyRules {
    /// The `Host` that is asked. `None`: the client's.
    pub host: Option<Box<[u8]>>,
    /// What stands before each path, without a slash at its end.
    pub base: Box<[u8]>,
    /// Fields that are set, or with an empty value left out.
    pub fields: Vec<ProxyField>,
}

impl ProxyRules {
    /// Whether a rule says what becomes of the field.
    pub(crate) fn names(&self, name: &[u8]) -> bool {
        self.fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    }
}
