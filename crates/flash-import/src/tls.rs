//! The certificates of a site, and those that its clients show.

use crate::directive::Directive;
use crate::flash::{Settings, Value, set};

/// What a server says of TLS, in lines that have a file's name each.
pub(crate) struct Tls<'t> {
    pub(crate) certificates: Vec<&'t Directive>,
    /// Of each certificate. Its own file may have its key, too.
    pub(crate) keys: Vec<&'t Directive>,
    /// Whether clients show certificates: the line about it, and its meaning.
    pub(crate) clients: Option<(&'t Directive, &'static str)>,
    pub(crate) authorities: Option<&'t Directive>,
}

impl Tls<'_> {
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::new();
        let text = |of: &Directive| Value::Text(of.words.first().cloned().unwrap_or_default());
        let pair = |(at, certificate): (usize, &&Directive)| {
            let key = self.keys.get(at).unwrap_or(certificate);
            Value::Named(vec![("certificate", text(certificate)), ("key", text(key))])
        };
        let mut pairs: Vec<Value> = self.certificates.iter().enumerate().map(pair).collect();
        let value = match pairs.len() {
            0 | 1 => pairs.pop(),
            _ => Some(Value::Many(pairs)),
        };
        if let Some(value) = value {
            set(&mut settings, "tls", value, self.certificates.first().copied());
        }
        if let Some((line, how)) = self.clients {
            if let Some(of) = self.authorities {
                set(&mut settings, "client-ca", text(of), Some(of));
            }
            // Without authorities, a check says so, and nobody gets in.
            set(&mut settings, "client-certificate", Value::Text(how.into()), Some(line));
        }
        settings
    }
}
