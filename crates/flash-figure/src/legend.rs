//! What tells series apart: markers, line styles, and the names beside the lines' ends or below the figure.

use crate::look::{Look, Marker};
use crate::shapes::{Svg, px};
use crate::{Kind, Series, text};

pub(crate) const NAME_PX: f64 = 13.0;
const ROW_PX: f64 = 17.0;
const SAMPLE_PX: f64 = 26.0;
const LEAD_PX: f64 = 18.0;

/// A series that is drawn, its looks, and where its line ends.
pub(crate) struct Entry<'a> {
    pub(crate) series: &'a Series,
    pub(crate) look: Look,
    pub(crate) end: [f64; 2],
}

impl Entry<'_> {
    pub(crate) fn open(&self, svg: &mut Svg) {
        svg.open_colour(self.look.colour, self.series.kind == Kind::Reference);
    }

    pub(crate) fn line_class(&self) -> &'static str {
        match (self.series.kind, self.look.hollow) {
            (Kind::Reference, _) => "line theirs",
            (Kind::Measured, true) => "line peer",
            (Kind::Measured, false) => "line",
        }
    }

    pub(crate) fn mark(&self, svg: &mut Svg, at: [f64; 2], told: Option<&str>) {
        let (class, size) = match (self.series.kind, self.look.hollow) {
            (Kind::Reference, _) => ("mark hollow", 2.6),
            (Kind::Measured, true) => ("mark hollow", 3.8),
            (Kind::Measured, false) => ("mark", 3.6),
        };
        svg.path(class, &shape(self.look.marker, at, size), told);
    }
}

/// The room that names beside the ends take, or `None` if they belong below.
pub(crate) fn beside_px(entries: &[Entry<'_>], wide_px: f64, high_px: f64) -> Option<f64> {
    let names_px =
        entries.iter().map(|entry| text::width_px(&entry.series.name, NAME_PX)).fold(0.0, f64::max);
    let need_px = LEAD_PX + 12.0 + names_px;
    let room = wide_px >= 480.0 && need_px <= 0.3 * wide_px && entries.len() as f64 * ROW_PX <= high_px;
    (room && !entries.is_empty()).then_some(need_px)
}

/// Each name as near to its line's end as the others allow, with a thin line that leads there.
pub(crate) fn beside(svg: &mut Svg, entries: &[Entry<'_>], left_px: f64, top_px: f64, bottom_px: f64) {
    let mut order: Vec<&Entry<'_>> = entries.iter().collect();
    order.sort_by(|a, b| a.end[1].total_cmp(&b.end[1]));
    let wished: Vec<f64> = order.iter().map(|entry| entry.end[1]).collect();
    for (entry, y) in order.iter().zip(apart(&wished, ROW_PX, top_px, bottom_px)) {
        let x = left_px + LEAD_PX;
        entry.open(svg);
        svg.line("lead", [entry.end[0] + 6.0, entry.end[1]], [x - 2.0, y]);
        entry.mark(svg, [x + 3.0, y], None);
        svg.close();
        svg.text("name", x + 12.0, y + 4.5, &entry.series.name);
    }
}

/// Names in rows, each after a piece of its line. Returns the height.
pub(crate) fn below(svg: &mut Svg, entries: &[Entry<'_>], wide_px: f64, top_px: f64) -> f64 {
    let (mut x, mut y) = (0.0, top_px + ROW_PX / 2.0);
    for entry in entries {
        let name = text::shortened(&entry.series.name, NAME_PX, wide_px - SAMPLE_PX - 6.0);
        let need_px = SAMPLE_PX + 6.0 + text::width_px(&name, NAME_PX);
        if x > 0.0 && x + need_px > wide_px {
            (x, y) = (0.0, y + ROW_PX + 2.0);
        }
        entry.open(svg);
        svg.line(entry.line_class(), [x + 1.0, y], [x + SAMPLE_PX - 1.0, y]);
        entry.mark(svg, [x + SAMPLE_PX / 2.0, y], None);
        svg.close();
        svg.text("name", x + SAMPLE_PX + 6.0, y + 4.5, &name);
        x += need_px + 16.0;
    }
    y + ROW_PX / 2.0 - top_px
}

/// Places at least `gap` apart, as near as can be to those wished for, which are in order. Those that would overlap form
/// a block around their common middle, and blocks that meet become one.
fn apart(wished: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    struct Block {
        first: f64,
        sum: f64,
        count: usize,
    }
    let mut blocks: Vec<Block> = Vec::new();
    for wish in wished {
        let mut block = Block { first: *wish, sum: *wish, count: 1 };
        loop {
            let long = (block.count - 1) as f64 * gap;
            block.first = (block.sum / block.count as f64 - long / 2.0).min(high - long).max(low);
            match blocks.pop_if(|above| above.first + above.count as f64 * gap > block.first) {
                Some(above) => {
                    block.sum += above.sum;
                    block.count += above.count;
                }
                None => break,
            }
        }
        blocks.push(block);
    }
    let places = |block: &Block| (0..block.count).map(|n| n as f64 * gap + block.first).collect::<Vec<_>>();
    blocks.iter().flat_map(places).collect()
}

fn shape(marker: Marker, [x, y]: [f64; 2], size: f64) -> String {
    let at = |dx: f64, dy: f64| format!("{} {}", px(x + dx * size), px(y + dy * size));
    let through = |places: &[[f64; 2]]| {
        let places: Vec<_> = places.iter().map(|[dx, dy]| at(*dx, *dy)).collect();
        format!("M{}Z", places.join("L"))
    };
    match marker {
        Marker::Circle => {
            let (size, twice) = (px(size), px(2.0 * size));
            format!("M{}a{size} {size} 0 1 0 {twice} 0a{size} {size} 0 1 0 -{twice} 0Z", at(-1.0, 0.0))
        }
        Marker::Square => through(&[[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]),
        Marker::Up => through(&[[0.0, -1.2], [1.1, 0.8], [-1.1, 0.8]]),
        Marker::Down => through(&[[0.0, 1.2], [1.1, -0.8], [-1.1, -0.8]]),
        Marker::Left => through(&[[-1.2, 0.0], [0.8, -1.1], [0.8, 1.1]]),
        Marker::Right => through(&[[1.2, 0.0], [-0.8, -1.1], [-0.8, 1.1]]),
        Marker::Diamond => through(&[[0.0, -1.3], [1.3, 0.0], [0.0, 1.3], [-1.3, 0.0]]),
        Marker::Bar => through(&[[-1.2, -0.3], [1.2, -0.3], [1.2, 0.3], [-1.2, 0.3]]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_distance_and_stay_near() {
        assert_eq!(apart(&[10.0, 50.0], 17.0, 0.0, 100.0), [10.0, 50.0]);
        assert_eq!(apart(&[50.0, 50.0, 50.0], 10.0, 0.0, 100.0), [40.0, 50.0, 60.0]);
        assert_eq!(apart(&[0.0, 1.0, 99.0, 100.0], 10.0, 0.0, 100.0), [0.0, 10.0, 90.0, 100.0]);
        // A block that grows meets the one above it.
        assert_eq!(apart(&[30.0, 44.0, 45.0, 46.0], 10.0, 0.0, 100.0), [26.25, 36.25, 46.25, 56.25]);
    }
}
