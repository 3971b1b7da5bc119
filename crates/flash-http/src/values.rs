//! A list-valued field, which may come in several lines (RFC 9110 §5.3).

use crate::Fields;

/// The values of all lines of one field, in order. Costs nothing extra when there is one line, or none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values<'b> {
    first: Option<&'b [u8]>,
    /// What follows the first line, down to the empty line; only looked at if the field came again.
    after_first: &'b [u8],
    name: &'static str,
    repeated: bool,
}

impl<'b> Values<'b> {
    /// One line's worth of values, for callers that have no head.
    pub const fn one(value: &'b [u8]) -> Values<'b> {
        Values { first: Some(value), after_first: &[], name: "", repeated: false }
    }

    pub const fn is_present(&self) -> bool {
        self.first.is_some()
    }

    /// Each line's value, without the blanks around it.
    pub fn lines(&self) -> Lines<'b> {
        let rest = if self.repeated { self.after_first } else { &[] };
        Lines { first: self.first, rest: Fields::of_checked(rest), name: self.name }
    }

    /// The parser saw a line of this field. `below` is what follows that line in the head.
    #[inline]
    pub(crate) fn add(&mut self, name: &'static str, value: &'b [u8], below: &'b [u8]) {
        if self.first.is_some() {
            self.repeated = true;
        } else {
            *self = Values { first: Some(value), after_first: below, name, repeated: false };
        }
    }
}

/// See [`Values::lines`].
#[derive(Clone, Debug)]
pub struct Lines<'b> {
    first: Option<&'b [u8]>,
    rest: Fields<'b>,
    name: &'static str,
}

impl<'b> Iterator for Lines<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let name = self.name.as_bytes();
        self.rest.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}
