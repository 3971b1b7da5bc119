//! Bars in groups. Each bar is a row, with its name before it and its value behind it. So they need no legend, and fit on a
//! phone.
//!
//! A logarithmic axis has no zero where a bar could start, so its rows have markers instead of bars.

use crate::legend::{Entry, NAME_PX};
use crate::lines;
use crate::look::{self, Look};
use crate::number::bare;
use crate::scale::{self, Apart, Span, TICK_PX};
use crate::shapes::{Svg, px};
use crate::{Axis, Figure, Kind, Point, Scale, Series, table, text};

const ROW_PX: f64 = 21.0;
const BAR_PX: f64 = 13.0;
const HEAD_PX: f64 = 24.0;

struct Row<'a> {
    name: &'a str,
    series: &'a Series,
    look: Look,
    point: &'a Point,
}

pub(crate) fn draw(figure: &Figure, groups: &[String], svg: &mut Svg, wide_px: f64) -> f64 {
    let axis = &figure.y;
    let blocks = blocks(figure, groups);
    let rows = || blocks.iter().flat_map(|(_, rows)| rows);
    let shown = || rows().filter(|row| scale::shows(axis.scale, row.point.y));
    let spreads = shown().filter_map(|row| lines::spread(axis, row.point)).flatten();
    let values: Vec<f64> = shown().map(|row| row.point.y).chain(spreads).collect();

    let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
    let names_px = widest(&mut rows().map(|row| text::width_px(row.name, NAME_PX))).min(0.4 * wide_px);
    let values_px = widest(&mut rows().map(|row| text::width_px(&bare(row.point.y, &axis.unit), TICK_PX)));
    let (span, ticks) = scale::with_edges(|edge_px| {
        let left_px = edge_px.max(names_px + 8.0);
        let right_px = (wide_px - edge_px.max(values_px + 12.0)).max(left_px + 60.0);
        scale::rounded(axis, &values, [left_px, right_px], Apart::Across)
    });
    let left_px = span.start_px;

    let heads = blocks.iter().filter(|(head, _)| head.is_some()).count() as f64;
    let high_px = (heads * HEAD_PX + rows().count() as f64 * ROW_PX).max(ROW_PX);
    let mut y = 0.0;
    for (head, rows) in &blocks {
        if let Some(head) = head {
            svg.text("head", 0.0, y + HEAD_PX - 7.0, &text::shortened(head, NAME_PX * 1.08, wide_px));
            y += HEAD_PX;
        }
        let bottom = y + rows.len() as f64 * ROW_PX;
        for tick in &ticks {
            svg.line("grid", [tick.at_px, y], [tick.at_px, bottom]);
        }
        svg.line("axis", [span.base_px(), y], [span.base_px(), bottom]);
        for row in rows {
            row.draw(svg, axis, &span, left_px, y + ROW_PX / 2.0);
            y += ROW_PX;
        }
    }
    if blocks.is_empty() {
        svg.text("muted", left_px + 4.0, ROW_PX / 2.0 + 4.0, "no data");
    }
    for tick in &ticks {
        svg.line("axis", [tick.at_px, high_px], [tick.at_px, high_px + 4.0]);
        svg.text("muted mid", tick.at_px, high_px + 17.0, &tick.label);
    }
    let mut end_px = high_px + 22.0;
    for line in text::lines(&lines::title(axis), TICK_PX, wide_px - left_px) {
        end_px += 15.0;
        svg.text("muted mid", (left_px + wide_px) / 2.0, end_px - 3.0, &line);
    }
    end_px + 4.0
}

impl Row<'_> {
    fn draw(&self, svg: &mut Svg, axis: &Axis, span: &Span, left_px: f64, middle_px: f64) {
        let name = text::shortened(self.name, NAME_PX, left_px - 8.0);
        svg.text("name end", left_px - 8.0, middle_px + 4.5, &name);
        let mut end_px = span.base_px();
        if scale::shows(axis.scale, self.point.y) {
            let to_px = span.place(self.point.y);
            svg.open_colour(self.look.colour, self.series.kind == Kind::Reference);
            match axis.scale {
                Scale::Linear => {
                    let (top, bottom) = (px(middle_px - BAR_PX / 2.0), px(middle_px + BAR_PX / 2.0));
                    let (from, to) = (px(span.base_px()), px(to_px));
                    svg.path(self.class(), &format!("M{from} {top}H{to}V{bottom}H{from}Z"), None);
                }
                Scale::Log => {
                    svg.line("lead", [left_px, middle_px], [to_px, middle_px]);
                    let entry = Entry { series: self.series, look: self.look, end: [0.0, 0.0] };
                    entry.mark(svg, [to_px, middle_px], None);
                }
            }
            svg.close();
            end_px = end_px.max(to_px + 4.0);
            if let Some([low, high]) = lines::spread(axis, self.point) {
                let [low_px, high_px] = [low, high].map(|end| span.place(end));
                let [low, high, top, y, bottom] =
                    [low_px, high_px, middle_px - 3.0, middle_px, middle_px + 3.0].map(px);
                svg.path(
                    "spread",
                    &format!("M{low} {top}V{bottom}M{low} {y}H{high}M{high} {top}V{bottom}"),
                    None,
                );
                end_px = end_px.max(high_px);
            }
        }
        svg.text("", end_px + 6.0, middle_px + 4.0, &bare(self.point.y, &axis.unit));
    }

    fn class(&self) -> &'static str {
        match (self.series.kind, self.look.hollow) {
            (Kind::Reference, _) => "bar dotted",
            (Kind::Measured, true) => "bar outline",
            (Kind::Measured, false) => "bar",
        }
    }
}

/// The groups that have rows. A single group needs no heading, and neither do groups of a single row.
fn blocks<'a>(figure: &'a Figure, groups: &'a [String]) -> Vec<(Option<&'a str>, Vec<Row<'a>>)> {
    if let [series] = figure.series.as_slice() {
        let names: Vec<&str> = groups.iter().map(String::as_str).collect();
        let looks = look::looks(&names);
        let named = |point| Some((table::group(groups, point)?, point as usize));
        let rows = series.points.iter().filter_map(|point| {
            let (name, at) = named(point.x)?;
            Some(Row { name, series, look: looks[at], point })
        });
        let rows: Vec<_> = rows.collect();
        return if rows.is_empty() { Vec::new() } else { vec![(None, rows)] };
    }
    let looks = lines::looks(figure);
    let block = |(at, group): (usize, &'a String)| {
        let mut rows: Vec<Row<'a>> = Vec::new();
        // Below the server that it is about, a reference need not name it again.
        let mut server = "";
        for (series, look) in &looks {
            let name = match series.kind {
                Kind::Measured => series.name.as_str(),
                Kind::Reference => {
                    let rest = series.name.strip_prefix(server).filter(|_| !server.is_empty());
                    rest.and_then(|rest| rest.strip_prefix(", ")).unwrap_or(&series.name)
                }
            };
            let here = series.points.iter().filter(|point| point.x == at as f64);
            let before = rows.len();
            rows.extend(here.map(|point| Row { name, series, look: *look, point }));
            if series.kind == Kind::Measured {
                server = if rows.len() > before { name } else { "" };
            }
        }
        ((groups.len() > 1).then_some(group.as_str()), rows)
    };
    groups.iter().enumerate().map(block).filter(|(_, rows)| !rows.is_empty()).collect()
}
