//! Configurations of other servers, read and written anew as configurations of Flash.
//!
//! An import is a text, and a list of what was not taken to the letter: which line, why, what to do, and which requests that
//! concerns. The only I/O is to read files that are included. What Flash makes of the text is not known here.

#![forbid(unsafe_code)]

pub mod apache;
pub mod caddy;
pub mod directive;
mod flash;
mod hosts;
mod include;
pub mod nginx;
pub mod note;
mod pattern;
mod scope;
mod target;
mod tls;

use std::collections::HashSet;
use std::fmt::Write;

use directive::Directive;
use flash::Flash;
use note::{Concerns, Note, Paths};
use scope::Context;

/// A configuration of Flash, and what it does not take over.
#[derive(Clone, Debug)]
pub struct Imported {
    pub text: String,
    pub notes: Vec<Note>,
    /// How many lines there were.
    pub directives: usize,
}

impl Imported {
    /// `tree` has all lines. Of those that nobody has looked at, some need nothing, and the others get an advice.
    fn new(
        flash: &Flash,
        context: Context,
        tree: &[&Directive],
        needs_nothing: fn(&str) -> bool,
        advice: fn(&str) -> &'static str,
    ) -> Self {
        let (mut directives, mut unknown) = (0, Vec::new());
        for of in tree {
            count(&context, of, needs_nothing, &mut directives, &mut unknown);
        }
        for of in unknown {
            let concerns = Concerns { paths: Paths::None, ..Concerns::nothing() };
            let text = advice(&of.name).into();
            context.note(Note { source: Some(of.source.clone()), is_left: true, text, concerns });
        }
        Self { text: flash.text(), notes: context.into_notes(), directives }
    }

    /// How many lines were taken.
    pub fn taken(&self) -> usize {
        let left = self.notes.iter().filter(|note| note.is_left);
        let mut lines: Vec<_> =
            left.filter_map(|note| note.source.as_ref()).map(|at| (&at.file, at.line)).collect();
        lines.sort_unstable();
        lines.dedup();
        self.directives.saturating_sub(lines.len())
    }

    /// The whole file, with the list as comments at its end.
    pub fn file(&self) -> String {
        let mut file = self.text.clone();
        let [left, different] =
            [true, false].map(|is_left| self.notes.iter().filter(move |note| note.is_left == is_left));
        for (heading, notes) in
            [("Not taken", left.collect::<Vec<_>>()), ("Taken, with a difference", different.collect())]
        {
            if notes.is_empty() {
                continue;
            }
            _ = write!(file, "\n# {heading}:\n#\n");
            // One line may say the same of several places.
            let mut known = HashSet::new();
            for text in notes.iter().map(ToString::to_string).filter(|text| known.insert(text.clone())) {
                for line in text.lines() {
                    let line = line.replace(char::is_control, " ");
                    _ = writeln!(file, "# {line}");
                }
            }
        }
        file
    }
}

fn count<'t>(
    context: &Context,
    of: &'t Directive,
    needs_nothing: fn(&str) -> bool,
    all: &mut usize,
    unknown: &mut Vec<&'t Directive>,
) {
    // Of lines that every configuration includes, the block counts.
    if of.name == "fastcgi_param" {
        return;
    }
    *all += 1;
    match context.has_seen(of) || needs_nothing(&of.name) {
        true if of.name == "types" => {}
        true => of.block.iter().flatten().for_each(|of| count(context, of, needs_nothing, all, unknown)),
        false => unknown.push(of),
    }
}
