//! SVG as text: a few shapes.
//!
//! Shapes have classes and no colours; `currentColor` is what a series brings along. That keeps the text small, lets
//! one style sheet serve light and dark, and is understood outside browsers too.

use std::fmt::Write as _;

use crate::look::COLOURS;
use crate::text::escaped;

/// SVG under way.
#[derive(Default)]
pub(crate) struct Svg {
    pub(crate) out: String,
}

impl Svg {
    pub(crate) fn line(&mut self, class: &str, from: [f64; 2], to: [f64; 2]) {
        let [x1, y1, x2, y2] = [from[0], from[1], to[0], to[1]].map(px);
        self.put(format_args!("<path class=\"{class}\" d=\"M{x1} {y1}L{x2} {y2}\"/>\n"));
    }

    /// A path, and what a pointer that rests on it is told.
    pub(crate) fn path(&mut self, class: &str, data: &str, told: Option<&str>) {
        match told {
            None => self.put(format_args!("<path class=\"{class}\" d=\"{data}\"/>\n")),
            Some(told) => {
                let told = escaped(told);
                self.put(format_args!("<path class=\"{class}\" d=\"{data}\"><title>{told}</title></path>\n"));
            }
        }
    }

    pub(crate) fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let ([x, y], text) = ([x, y].map(px), escaped(text));
        self.put(format_args!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>\n"));
    }

    /// A group in one of the series' colours, faded or not.
    pub(crate) fn open_colour(&mut self, colour: usize, muted: bool) {
        let (light, _) = COLOURS[colour];
        let mute = if muted { " mute" } else { "" };
        self.put(format_args!("<g class=\"c{colour}{mute}\" color=\"{light}\">\n"));
    }

    pub(crate) fn open_at(&mut self, x: f64, y: f64) {
        let [x, y] = [x, y].map(px);
        self.put(format_args!("<g transform=\"translate({x} {y})\">\n"));
    }

    pub(crate) fn close(&mut self) {
        self.out.push_str("</g>\n");
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("a String takes everything");
    }
}

/// A place, to a tenth of a pixel.
pub(crate) fn px(at: f64) -> String {
    let text = format!("{at:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}
