//! Folder listings: one object in memory for all requests that read it.
//!
//! A [`Listing`] holds a folder's [`Names`] in order, and pages of finished HTML. It is made in short steps, and each step
//! is a job that a waiting connection asks for. A listing that no connection waits for therefore goes no further.
//! The [`ListingCache`] joins requests for the same listing. It reads no folder; the disk side does that.

mod cache;
mod html;
mod made;
mod names;

pub use self::cache::ListingCache;
pub use self::made::{Listing, Maker, Step};
pub use self::names::{Batch, Kind, NAME_BYTES_MAX, Name, Names, OverBudget};

/// The order of the rows, from the query: `?sort=size&order=desc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Order {
    pub by: Column,
    pub descending: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Column {
    #[default]
    Name,
    Size,
    Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Details {
    pub size: u64,
    /// Seconds since the Unix epoch.
    pub modified: i64,
}

/// What a look at a name finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub details: Details,
    pub folder: bool,
}

impl Order {
    pub(crate) fn of_query(query: Option<&[u8]>) -> Self {
        let mut order = Self::default();
        for pair in query.unwrap_or_default().split(|&byte| byte == b'&') {
            match pair {
                b"sort=size" => order.by = Column::Size,
                b"sort=time" => order.by = Column::Time,
                b"order=desc" => order.descending = true,
                _ => {}
            }
        }
        order
    }

    fn compare(self, a: &Name<'_>, b: &Name<'_>) -> std::cmp::Ordering {
        let details = |name: &Name<'_>| name.details.unwrap_or(Details { size: 0, modified: 0 });
        let by_column = match self.by {
            Column::Name => std::cmp::Ordering::Equal,
            Column::Size => details(a).size.cmp(&details(b).size),
            Column::Time => details(a).modified.cmp(&details(b).modified),
        };
        let order = by_column.then_with(|| a.name.cmp(b.name));
        let order = if self.descending { order.reverse() } else { order };
        // Folders stay in front in either direction.
        b.folder.cmp(&a.folder).then(order)
    }
}

#[cfg(test)]
mod tests;
