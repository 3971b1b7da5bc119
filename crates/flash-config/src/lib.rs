//! The configuration file: text becomes settings, or all of its errors at once, each with its place.
//!
//! This crate knows the form of the file. The [table of keys](Keys) says which keys there are, what their values look like, and
//! who validates a value. The command line makes that table of its flags. So the file, the help, the [schema](schema()) and the
//! [page](page()) are of one source.
//!
//! Only [`Files::read`], [`Config::parse`] and [`Config::check`] look at the disk: for the file, for what it includes and its
//! secrets, and for folders. Nothing here starts, opens or changes anything.

#![forbid(unsafe_code)]

mod config;
mod document;
mod file;
mod host;
mod include;
mod key;
mod kind;
mod page;
mod place;
mod problem;
mod schema;
mod secret;

pub use config::{Config, Place, Setting, Site, Value};
pub use file::{File, Files, Open};
pub use host::Host;
pub use key::{Key, Keys, Stands, Validate, nearest};
pub use kind::{Kind, Named};
pub use page::page;
pub use place::PlaceName;
pub use problem::{Location, Problem};
pub use schema::schema;
