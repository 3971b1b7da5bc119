//! Lines and steps over a quantity.

use std::fmt::Write as _;

use crate::legend::{self, Entry};
use crate::look::{self, Look};
use crate::number::{has_prefixes, quantity};
use crate::scale::{self, Apart, Span, TICK_PX, Tick};
use crate::shapes::{Svg, px};
use crate::{Axis, Figure, Form, Kind, Point, Series, table, text};

/// Above so many points spreads are a band, below it whiskers.
const WHISKERS_MAX: usize = 16;
/// Above so many points only some have markers.
const MARKERS_MAX: usize = 30;

pub(crate) fn draw(figure: &Figure, x_axis: &Axis, svg: &mut Svg, wide_px: f64) -> f64 {
    let y_axis = &figure.y;
    let points = figure.series.iter().flat_map(|series| &series.points);
    let points: Vec<&Point> = points.filter(|point| is_shown(x_axis, y_axis, point)).collect();
    let mut xs: Vec<f64> = points.iter().map(|point| point.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let spreads = points.iter().flat_map(|point| spread(y_axis, point)).flatten();
    let ys: Vec<f64> = points.iter().map(|point| point.y).chain(spreads).collect();

    let mut top_px = 0.0;
    for line in text::lines(&title(y_axis), TICK_PX, wide_px) {
        top_px += 15.0;
        svg.text("muted", 0.0, top_px - 4.0, &line);
    }
    top_px += 10.0;
    let high_px = (wide_px * 0.5).clamp(200.0, 340.0);
    let bottom_px = top_px + high_px;

    let (y, y_ticks) = scale::rounded(y_axis, &ys, [bottom_px, top_px], Apart::Down);
    let labels_px = y_ticks.iter().map(Tick::wide_px).fold(0.0, f64::max);
    let mut entries = entries(figure, x_axis);
    let beside_px = legend::beside_px(&entries, wide_px, high_px);
    let (x, x_ticks) = scale::with_edges(|edge_px| {
        let ends_px = [edge_px.max(labels_px + 8.0), wide_px - beside_px.unwrap_or(0.0).max(edge_px)];
        scale::fitted(x_axis, &xs, ends_px, Apart::Across)
    });
    let (left_px, right_px) = (x.start_px, x.end_px);
    let middle_px = (left_px + right_px) / 2.0;

    for tick in &y_ticks {
        svg.line("grid", [left_px, tick.at_px], [right_px, tick.at_px]);
        svg.text("muted end", left_px - 6.0, tick.at_px + 4.0, &tick.label);
    }
    svg.line("axis", [left_px, y.base_px()], [right_px, y.base_px()]);
    for tick in &x_ticks {
        svg.line("axis", [tick.at_px, bottom_px], [tick.at_px, bottom_px + 4.0]);
        svg.text("muted mid", tick.at_px, bottom_px + 17.0, &tick.label);
    }
    let mut end_px = bottom_px + 24.0;
    for line in text::lines(&title(x_axis), TICK_PX, right_px - left_px) {
        end_px += 15.0;
        svg.text("muted mid", middle_px, end_px - 3.0, &line);
    }

    let plot = Plot { x_axis, y_axis, x, y };
    for (nth, entry) in entries.iter_mut().enumerate() {
        entry.open(svg);
        entry.end = plot.series(svg, entry, nth);
        svg.close();
    }
    if entries.is_empty() {
        svg.text("muted mid", middle_px, top_px + high_px / 2.0, "no data");
    } else if beside_px.is_some() {
        legend::beside(svg, &entries, right_px, top_px, bottom_px);
    } else {
        end_px += 6.0 + legend::below(svg, &entries, wide_px, end_px + 6.0);
    }
    for line in notes(figure, x_axis).iter().flat_map(|note| text::lines(note, TICK_PX, wide_px)) {
        end_px += 16.0;
        svg.text("muted", 0.0, end_px, &line);
    }
    end_px + 4.0
}

/// The axes, and the places that they give to what is drawn.
struct Plot<'a> {
    x_axis: &'a Axis,
    y_axis: &'a Axis,
    x: Span,
    y: Span,
}

/// A point where it is drawn.
struct Dot {
    at: [f64; 2],
    /// From the greatest to the least.
    spread_px: Option<[f64; 2]>,
    point: Point,
}

impl Plot<'_> {
    /// Draws the `nth` series, and tells where it ends.
    fn series(&self, svg: &mut Svg, entry: &Entry<'_>, nth: usize) -> [f64; 2] {
        let series = entry.series;
        let runs = self.runs(series);
        let count: usize = runs.iter().map(Vec::len).sum();
        let whiskers = count <= WHISKERS_MAX;
        for run in &runs {
            if !whiskers && let Some(band) = band(run) {
                svg.path("band", &band, None);
            }
            if run.len() > 1 {
                let base_px = (series.form == Form::Steps).then(|| self.y.base_px());
                svg.path(entry.line_class(), &track(run, base_px), None);
            }
        }
        let dots: Vec<&Dot> = runs.iter().flatten().collect();
        for [x, top, bottom] in dots.iter().filter(|_| whiskers).filter_map(|dot| dot.whisker()) {
            let [left, right, top, bottom] = [x - 3.0, x + 3.0, top, bottom].map(px);
            let x = px(x);
            svg.path(
                "whisker",
                &format!("M{left} {top}H{right}M{x} {top}V{bottom}M{left} {bottom}H{right}"),
                None,
            );
        }
        // Where there are many, a few markers, not at the same places as those of the next series.
        let nth_marked = if count > MARKERS_MAX { count.div_ceil(8) } else { 1 };
        let first = nth * nth_marked.div_ceil(3) % nth_marked;
        for dot in dots.iter().skip(first).step_by(nth_marked) {
            entry.mark(svg, dot.at, Some(&self.told(series, &dot.point)));
        }
        dots.last().map(|dot| dot.at).unwrap_or_default()
    }

    /// The points of a series where they are drawn, in runs without gaps. Points that fall on one place are one.
    fn runs(&self, series: &Series) -> Vec<Vec<Dot>> {
        let mut runs: Vec<Vec<Dot>> = vec![Vec::new()];
        for point in &series.points {
            if !is_shown(self.x_axis, self.y_axis, point) {
                runs.push(Vec::new());
                continue;
            }
            let at = [self.x.place(point.x), self.y.place(point.y)];
            let spread_px =
                spread(self.y_axis, point).map(|[low, high]| [self.y.place(high), self.y.place(low)]);
            let run = runs.last_mut().expect("there is always one");
            let same = |dot: &Dot| (dot.at[0] - at[0]).abs() < 1.0 && (dot.at[1] - at[1]).abs() < 1.0;
            if !run.last().is_some_and(same) {
                run.push(Dot { at, spread_px, point: *point });
            }
        }
        runs
    }

    fn told(&self, series: &Series, point: &Point) -> String {
        let y = quantity(point.y, &self.y_axis.unit);
        let mut told = format!("{}: {y} at {}", series.name, quantity(point.x, &self.x_axis.unit));
        if let Some((low, high)) = point.spread {
            let [low, high] = [low, high].map(|end| quantity(end, &self.y_axis.unit));
            write!(told, " ({low} to {high})").expect("a String takes everything");
        }
        told
    }
}

impl Dot {
    /// Unless the marker covers it.
    fn whisker(&self) -> Option<[f64; 3]> {
        self.spread_px
            .filter(|[top, bottom]| bottom - top > 4.0)
            .map(|[top, bottom]| [self.at[0], top, bottom])
    }
}

/// From point to point, or in steps from a base.
fn track(run: &[Dot], base_px: Option<f64>) -> String {
    let mut path = String::new();
    for (nth, Dot { at, .. }) in run.iter().enumerate() {
        let [x, y] = at.map(px);
        match (nth, base_px) {
            (0, None) => path = format!("M{x} {y}"),
            (0, Some(base_px)) => path = format!("M{x} {}V{y}", px(base_px)),
            (_, None) => path += &format!("L{x} {y}"),
            (_, Some(_)) => path += &format!("H{x}V{y}"),
        }
    }
    path
}

fn band(run: &[Dot]) -> Option<String> {
    let edges: Vec<_> =
        run.iter().filter_map(|dot| dot.spread_px.map(|spread| (dot.at[0], spread))).collect();
    let there = edges.iter().map(|(x, [top, _])| format!("{} {}", px(*x), px(*top)));
    let back = edges.iter().rev().map(|(x, [_, bottom])| format!("{} {}", px(*x), px(*bottom)));
    let places: Vec<_> = there.chain(back).collect();
    (edges.len() > 1).then(|| format!("M{}Z", places.join("L")))
}

/// The series that have something to show, references first, so that they lie below the others.
fn entries<'a>(figure: &'a Figure, x_axis: &Axis) -> Vec<Entry<'a>> {
    let drawn = |series: &&Series| series.points.iter().any(|point| is_shown(x_axis, &figure.y, point));
    let end = [0.0, 0.0];
    let mut entries: Vec<Entry<'_>> = looks(figure)
        .into_iter()
        .filter(|(series, _)| drawn(series))
        .map(|(series, look)| Entry { series, look, end })
        .collect();
    entries.sort_by_key(|entry| entry.series.kind == Kind::Measured);
    entries
}

/// All series with their looks, which do not depend on what there is to show of them.
pub(crate) fn looks(figure: &Figure) -> Vec<(&Series, Look)> {
    let measured = figure.series.iter().filter(|series| series.kind == Kind::Measured);
    let names: Vec<&str> = measured.map(|series| series.name.as_str()).collect();
    let mut looks = look::looks(&names).into_iter();
    let mut look = |series: &Series| match series.kind {
        Kind::Measured => looks.next().expect("a look for each"),
        Kind::Reference => look::reference(&series.name),
    };
    figure.series.iter().map(|series| (series, look(series))).collect()
}

/// What the figure had to leave out.
fn notes(figure: &Figure, x_axis: &Axis) -> Vec<String> {
    let mut notes = Vec::new();
    let missing =
        |series: &&Series| !series.points.iter().any(|point| point.x.is_finite() && point.y.is_finite());
    let names: Vec<_> = figure.series.iter().filter(missing).map(|series| series.name.as_str()).collect();
    if !names.is_empty() && names.len() < figure.series.len() {
        notes.push(format!("No data: {}.", names.join(", ")));
    }
    let points = figure.series.iter().flat_map(|series| &series.points);
    let outside =
        |point: &&Point| point.x.is_finite() && point.y.is_finite() && !is_shown(x_axis, &figure.y, point);
    match points.filter(outside).count() {
        0 => {}
        count => {
            let points = if count == 1 { "a point" } else { &format!("{count} points") };
            notes
                .push(format!("Not shown: {points} beyond what the axes hold, such as zero on a logarithm."));
        }
    }
    notes
}

fn is_shown(x: &Axis, y: &Axis, point: &Point) -> bool {
    scale::shows(x.scale, point.x) && scale::shows(y.scale, point.y)
}

/// The least and the most, if both can be shown.
pub(crate) fn spread(y: &Axis, point: &Point) -> Option<[f64; 2]> {
    let (low, high) = point.spread?;
    (scale::shows(y.scale, low) && scale::shows(y.scale, high)).then_some([low.min(high), low.max(high)])
}

/// An axis's title; a unit that has prefixes stands with the ticks instead.
pub(crate) fn title(axis: &Axis) -> String {
    if has_prefixes(&axis.unit) { axis.label.clone() } else { table::column(axis) }
}
