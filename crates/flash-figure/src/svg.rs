//! A figure as SVG: a file of its own, or a part of a page. The shapes in it are drawn elsewhere.

use crate::figure::{Across, Figure};
use crate::shapes::Svg;
use crate::text::{self, escaped};
use crate::{bars, lines};

/// The widths that pages show figures at, side by side or on a phone.
pub const PHONE_PX: u32 = 330;
pub const DESK_PX: u32 = 720;
/// A file of its own has no company that would say how wide it is: legible on a phone, handsome on a desk.
const FILE_PX: u32 = 560;

const TITLE_PX: f64 = 16.0;
const MARGIN_PX: f64 = 14.0;

/// The style sheet of figures, for pages that hold [`Figure::inline_svg`]. All of it is below `.fig`.
pub const STYLE: &str = concat!(include_str!("style.css"), include_str!("dark.css"));

impl Figure {
    /// A file of its own, with title and styles.
    pub fn svg(&self) -> String {
        let inner_px = f64::from(FILE_PX) - 2.0 * MARGIN_PX;
        let mut body = Svg::default();
        body.open_at(MARGIN_PX, MARGIN_PX);
        let mut top_px = 0.0;
        for line in text::lines(&self.title, TITLE_PX * 1.06, inner_px) {
            top_px += TITLE_PX * 1.3;
            body.text("title", 0.0, top_px - 5.0, &line);
        }
        body.open_at(0.0, top_px + 6.0);
        let height_px = self.draw(&mut body, inner_px) + top_px + 6.0 + 2.0 * MARGIN_PX;
        body.close();
        body.close();
        let (wide, high) = (FILE_PX, height_px.ceil());
        let head = format!(r#"<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}""#);
        let paper =
            format!("<rect class=\"paper\" width=\"{wide}\" height=\"{high}\" rx=\"6\" fill=\"#fff\"/>\n");
        let style = format!("<style>\n{STYLE}</style>\n{paper}");
        self.framed(&head, wide, high, &style, &body.out)
    }

    /// A part of a page that has [`STYLE`] and says the title itself, laid out to be shown at the given width.
    pub fn inline_svg(&self, wide_px: u32) -> String {
        let mut body = Svg::default();
        let height_px = self.draw(&mut body, f64::from(wide_px));
        self.framed("<svg", wide_px, height_px.ceil(), "", &body.out)
    }

    fn framed(&self, head: &str, wide_px: u32, high_px: f64, style: &str, body: &str) -> String {
        let (title, about) = (escaped(&self.title), escaped(&self.about));
        format!(
            "{head} viewBox=\"0 0 {wide_px} {high_px}\" class=\"fig\" role=\"img\" color=\"#1f2328\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<title>{title}</title>\n<desc>{about}</desc>\n\
             {style}{body}</svg>\n"
        )
    }

    fn draw(&self, svg: &mut Svg, wide_px: f64) -> f64 {
        match &self.x {
            Across::Axis(x) => lines::draw(self, x, svg, wide_px),
            Across::Groups(groups) => bars::draw(self, groups, svg, wide_px),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::COLOURS;

    #[test]
    fn the_style_sheet_knows_every_colour() {
        for (at, (light, dark)) in COLOURS.iter().enumerate() {
            for colour in [light, dark] {
                assert!(STYLE.contains(&format!(".fig .c{at} {{ color: {colour}; }}")), "c{at} {colour}");
            }
        }
    }
}
