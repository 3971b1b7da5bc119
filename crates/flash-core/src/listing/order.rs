//! The order of a listing's rows, their format, and their coding. The query chooses the first two, and the client takes the third.

use std::cmp::Ordering;

use flash_http::negotiate::Coding;

use super::name::{Details, Name};

/// The form of a listing. The query chooses its order: `?sort=size;order=desc`, or with `&`, which links would have to escape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Order {
    pub by: Column,
    pub descending: bool,
    pub format: Format,
    pub coding: Option<Coding>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// For people.
    #[default]
    Html,
    /// For programs: `?format=json`.
    Json,
}

impl Format {
    pub(crate) fn content_type(self) -> &'static [u8] {
        match self {
            Self::Html => b"text/html; charset=utf-8",
            Self::Json => b"application/json",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Column {
    #[default]
    Name,
    Size,
    Time,
}

impl Order {
    /// For people.
    pub const fn new(by: Column, descending: bool) -> Self {
        Self { by, descending, format: Format::Html, coding: None }
    }

    pub(crate) fn of_query(query: Option<&[u8]>, coding: Option<Coding>) -> Self {
        let mut order = Self { coding, ..Self::default() };
        for pair in query.unwrap_or_default().split(|byte| b"&;".contains(byte)) {
            match pair {
                b"sort=size" => order.by = Column::Size,
                b"sort=time" => order.by = Column::Time,
                b"order=desc" => order.descending = true,
                b"format=json" => order.format = Format::Json,
                _ => {}
            }
        }
        order
    }

    pub(super) fn compare(self, a: &Name<'_>, b: &Name<'_>) -> Ordering {
        let details = |name: &Name<'_>| name.details.unwrap_or(Details { size: 0, modified: 0 });
        let by_column = match self.by {
            Column::Name => Ordering::Equal,
            Column::Size => details(a).size.cmp(&details(b).size),
            Column::Time => details(a).modified.cmp(&details(b).modified),
        };
        let order = by_column.then_with(|| a.name.cmp(b.name));
        let order = if self.descending { order.reverse() } else { order };
        // Folders stay in front in either direction.
        b.folder.cmp(&a.folder).then(order)
    }
}
