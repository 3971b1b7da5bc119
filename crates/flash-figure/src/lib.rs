//! Figures of measurements: lines, steps and bars with their spread, and what a paper saw beside them.
//!
//! A [`Figure`] is plain data. It becomes an SVG ([`Figure::svg`], or [`Figure::inline_svg`] inside a page), CSV
//! ([`Figure::csv`]) or JSON ([`Figure::json`]), the same bytes each time.
//!
//! ```
//! use flash_figure::{Axis, Figure, Series};
//!
//! let figure = Figure::lines(
//!     "One cached file, asked for again and again",
//!     Axis::linear("file size", "KB"),
//!     Axis::linear("bandwidth", "Mb/s"),
//! )
//! .about("Bandwidth rises with the size of the file; the architectures differ little.")
//! .with(Series::new("amped").spread(1.0, 95.0, 93.0, 99.0).spread(10.0, 540.0, 520.0, 548.0))
//! .with(Series::new("nginx").point(1.0, 88.0).point(10.0, 500.0))
//! .with(Series::reference("AMPED, 1999").point(1.0, 20.0).point(10.0, 120.0));
//! assert!(figure.svg().starts_with("<svg"));
//! assert!(figure.csv().starts_with("series,kind,file size (KB),bandwidth (Mb/s),low,high\n"));
//! ```
//!
//! **Looks.** A server has the same colour and marker in every figure, by its name. No two series of a figure share them. A
//! figure is laid out for a given width, not scaled to it. So its text is as large on a phone as on a desk. Colours follow
//! `prefers-color-scheme`, and no meaning depends on colour alone.
//!
//! **Numbers.** A figure draws every value that it can. A value that is not a number leaves a gap. A note below the figure
//! counts the values that an axis cannot show, such as zero on a logarithmic axis.
//!
//! It leaves out everything else: other kinds of plots, interaction, other file formats. Widths of text are estimates
//! on the safe side, because no font is at hand.
#![forbid(unsafe_code)]

mod bars;
mod figure;
mod legend;
mod lines;
mod look;
mod number;
mod scale;
mod shapes;
mod svg;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use figure::{Across, Axis, Figure, Form, Kind, Point, Scale, Series};
pub use number::{bare, quantity};
pub use svg::{DESK_PX, PHONE_PX, STYLE};
