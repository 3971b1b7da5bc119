//! Folder listings: one object in memory for all requests that read it.
//!
//! A [`Listing`] holds a folder's [`Names`] in order, and pages of finished HTML or JSON. It is made in short steps. Each step is a
//! job that a waiting connection asks for, so a listing without readers makes no progress. Compressing is part of a step. A listing reads no folder, and
//! knows no job: it asks its [`Maker`]. The [listing cache](crate::listing::cache) joins requests for the same listing.

mod batch;
pub mod cache;
mod coder;
mod folder;
mod html;
mod json;
mod made;
mod name;
mod names;
mod order;
mod pages;

pub use self::batch::Batch;
pub use self::folder::{Folder, FolderRead, OpenFolder, Part, TEXT_BYTES_MAX};
pub use self::made::{Listing, Maker, Step, Texts};
pub use self::name::{Details, Kind, NAME_BYTES_MAX, Name, Seen};
pub use self::names::{Names, OverBudget};
pub use self::order::{Column, Format, Order};
