//! The status page: what an operator looks at first, as HTML, as text, and as events.
//!
//! All that it shows comes from a [snapshot](super::snapshot) and from the [history](super::history). So nothing is counted
//! here, and the page cannot contradict `/status.json`. The page works without its script, too: it is complete when it is sent.

mod escape;
mod figure;
mod html;
mod number;
mod section;
mod sections;
mod text;

use std::io;
use std::time::Instant;

use flash_os::random;
use serde_json::{Map, Value, json};

use self::section::Section;
use super::history::History;
use super::snapshot::Snapshot;

const PAGE: &str = include_str!("page/status.html");
const STYLE: &str = include_str!("page/status.css");
const SCRIPT: &str = include_str!("page/status.js");

/// What is shown of a server at one moment.
pub(super) struct Page {
    version: String,
    sections: Vec<Section>,
}

impl Page {
    pub(super) fn new(snapshot: &Snapshot, history: &History) -> Self {
        let sections = sections::all(snapshot, history, Instant::now());
        Self { version: snapshot.version.clone(), sections }
    }

    /// The whole page. Its own style and its own script have this nonce.
    pub(super) fn html(&self, nonce: &str) -> String {
        let sections: String = self.sections.iter().map(html::section).collect();
        // The sections come last: what they contain is not looked through.
        let (before, after) = PAGE.split_once("{{sections}}").expect("the page has a place for them");
        let fill = |part: &str| {
            part.replace("{{nonce}}", nonce)
                .replace("{{style}}", STYLE)
                .replace("{{script}}", SCRIPT)
                .replace("{{version}}", &escape::escape(&self.version))
        };
        [&fill(before), &*sections, &fill(after)].concat()
    }

    pub(super) fn text(&self, columns: usize) -> String {
        text::page(&self.sections, columns)
    }

    /// The content of each section, by its name.
    pub(super) fn event(&self) -> String {
        let content = |section: &Section| (section.id.to_owned(), html::content(section).into());
        let sections: Map<String, Value> = self.sections.iter().map(content).collect();
        json!({ "version": self.version, "sections": sections }).to_string()
    }
}

/// Lets the page run its own script and style, and ask its own server. Nothing else.
pub(super) fn content_security_policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// A word that no one can guess.
///
/// # Errors
/// If the kernel gives no random bytes.
pub(super) fn nonce() -> io::Result<String> {
    let mut bytes = [0; 16];
    random::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests;
