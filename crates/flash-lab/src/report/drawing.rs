//! A plan's drawing, with data: the figure, and the same numbers as a table.

use flash_figure::{Axis, Figure, Kind as SeriesKind, Scale as FigureScale, Series, bare, quantity};

use crate::data::Spread;
use crate::experiment::Experiment;
use crate::plan::{At, Drawing, Kind, Scale};
use crate::record::describe;

/// What a figure shows, in rows.
pub(super) struct Table {
    /// What the numbers are, with their unit.
    pub(super) what: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
}

pub(super) struct Row {
    pub(super) name: String,
    pub(super) theirs: bool,
    pub(super) cells: Vec<Cell>,
}

/// A number, and its spread below it.
#[derive(Default)]
pub(super) struct Cell {
    pub(super) median: String,
    pub(super) spread: Option<String>,
}

/// What is measured, and in what it is shown: times and sizes in units that take prefixes.
struct Quantity {
    words: String,
    unit: &'static str,
    factor: f64,
}

impl Quantity {
    fn of(drawing: &Drawing) -> Quantity {
        let described = describe(&drawing.y);
        let unit = described.as_ref().map_or("", |described| described.unit);
        let words = drawing.y_label.clone().or(described.map(|described| described.words));
        let words = words.unwrap_or_else(|| drawing.y.clone());
        let (unit, factor) = match unit {
            // A label of the plan's own has the unit in it.
            _ if drawing.y_label.is_some() => ("", 1.0),
            "ms" => ("s", 1e-3),
            "µs" => ("s", 1e-6),
            "MB" => ("B", 1e6),
            unit => (unit, 1.0),
        };
        Quantity { words, unit, factor }
    }

    fn axis(&self, scale: Scale) -> Axis {
        Axis { scale: figure_scale(scale), ..Axis::linear(&self.words, self.unit) }
    }

    fn title(&self) -> String {
        // Units with prefixes stand with the numbers.
        match self.unit {
            "" | "s" | "B" => self.words.clone(),
            unit => format!("{}, {unit}", self.words),
        }
    }

    fn cell(&self, spread: Option<Spread>) -> Cell {
        let Some(spread) = spread else { return Cell { median: "–".into(), spread: None } };
        let shown = |value: f64| bare(value * self.factor, self.unit);
        let lowest_to_highest = || format!("{} – {}", shown(spread.low), shown(spread.high));
        let at_least = if spread.at_least { "≥ " } else { "" };
        let median = format!("{at_least}{}", shown(spread.median));
        Cell { median, spread: (spread.count > 1).then(lowest_to_highest) }
    }
}

fn figure_scale(scale: Scale) -> FigureScale {
    match scale {
        Scale::Linear => FigureScale::Linear,
        Scale::Log => FigureScale::Log,
    }
}

impl Experiment {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.data.run.servers.iter().map(|server| server.name.as_str())
    }

    fn places(&self) -> Vec<At> {
        self.plan.places(self.data.run.extent)
    }

    /// Where a distribution is looked at. In a quick run that may be another place than the plan's.
    fn place(&self, drawing: &Drawing) -> At {
        let places = self.places();
        let wished = drawing.at.clone().filter(|at| places.contains(at));
        wished.or(places.last().cloned()).unwrap_or(At::Only)
    }

    pub(super) fn figure(&self, drawing: &Drawing) -> Figure {
        let figure = match drawing.kind {
            Kind::Lines => self.lines(drawing),
            Kind::Bars => self.bars(drawing),
            Kind::Distribution => self.distribution(drawing),
        };
        let about = match drawing.kind {
            Kind::Distribution => format!("Shares of all measured {}.", figure_x_label(&figure)),
            Kind::Lines | Kind::Bars => self.in_words(drawing),
        };
        figure.about(about)
    }

    fn lines(&self, drawing: &Drawing) -> Figure {
        let shown = Quantity::of(drawing);
        let (label, unit) = split_unit(self.plan.x_label());
        let x = Axis { scale: figure_scale(drawing.x_scale), ..Axis::linear(label, unit) };
        let mut figure = Figure::lines(&drawing.title, x, shown.axis(drawing.y_scale));
        for name in self.names() {
            let mut series = Series::new(name);
            for at in self.places() {
                if let (Some(x), Some(y)) = (at.value(), self.data.spread(name, &at, &drawing.y)) {
                    series = add(series, x, y, shown.factor);
                }
            }
            figure = figure.with(series);
        }
        for paper in drawing.paper.iter().filter(|paper| !paper.points.is_empty()) {
            let points = paper.points.iter();
            let series = Series::reference(&paper.name);
            figure = figure.with(points.fold(series, |series, (x, y)| series.point(*x, y * shown.factor)));
        }
        figure
    }

    fn bars(&self, drawing: &Drawing) -> Figure {
        let shown = Quantity::of(drawing);
        let places = self.places();
        let groups = places.iter().map(|at| self.place_words(at));
        let mut figure = Figure::bars(&drawing.title, groups, shown.axis(drawing.y_scale));
        for name in self.names() {
            let mut series = Series::new(name);
            for (group, at) in places.iter().enumerate() {
                if let Some(y) = self.data.spread(name, at, &drawing.y) {
                    series = add(series, group as f64, y, shown.factor);
                }
            }
            figure = figure.with(series);
            // A paper's number stands below that of the server it belongs to.
            for paper in &drawing.paper {
                if let Some(y) = paper.bars.get(name) {
                    let series = Series::reference(format!("{name}, {}", paper.name));
                    figure = figure.with(series.point(0.0, y * shown.factor));
                }
            }
        }
        figure
    }

    fn distribution(&self, drawing: &Drawing) -> Figure {
        let shown = Quantity::of(drawing);
        let at = self.place(drawing);
        let mut title = drawing.title.clone();
        if at != At::Only {
            title += &format!(", at {}", self.place_words(&at));
        }
        let mut figure =
            Figure::lines(title, shown.axis(drawing.x_scale), Axis::linear("share that is no more", "%"));
        for name in self.names() {
            let counts = self.data.distribution(name, &at, &drawing.y);
            let all: u64 = counts.iter().map(|(_, count)| count).sum();
            let (mut series, mut sum) = (Series::new(name).steps(), 0);
            for (value, count) in counts {
                sum += count;
                series = series.point(value * shown.factor, 100.0 * sum as f64 / all as f64);
            }
            figure = figure.with(series);
        }
        figure
    }

    /// The medians at the last place, from the highest on.
    fn in_words(&self, drawing: &Drawing) -> String {
        let shown = Quantity::of(drawing);
        let Some(at) = self.places().pop() else { return String::new() };
        let median = |name| Some((name, self.data.spread(name, &at, &drawing.y)?.median));
        let mut medians: Vec<(&str, f64)> = self.names().filter_map(median).collect();
        medians.sort_by(|a, b| b.1.total_cmp(&a.1));
        let words =
            |(name, median): &(&str, f64)| format!("{name} {}", quantity(median * shown.factor, shown.unit));
        let medians: Vec<String> = medians.iter().map(words).collect();
        let at = if at == At::Only { String::new() } else { format!(" at {}", self.place_words(&at)) };
        format!("{}{at}: {}.", shown.words, medians.join(", "))
    }

    pub(super) fn table(&self, drawing: &Drawing) -> Table {
        match drawing.kind {
            Kind::Lines | Kind::Bars => self.medians(drawing),
            Kind::Distribution => self.quantiles(drawing),
        }
    }

    fn medians(&self, drawing: &Drawing) -> Table {
        let shown = Quantity::of(drawing);
        let places = self.places();
        let columns = places.iter().map(|at| self.place_words(at)).collect();
        let mut rows = Vec::new();
        for name in self.names() {
            let cells = places.iter().map(|at| shown.cell(self.data.spread(name, at, &drawing.y))).collect();
            rows.push(Row { name: name.to_owned(), theirs: false, cells });
            for paper in drawing.paper.iter().filter(|paper| paper.bars.contains_key(name)) {
                let cell = shown.cell(once(paper.bars[name]));
                rows.push(Row { name: format!("{name}, {}", paper.name), theirs: true, cells: vec![cell] });
            }
        }
        for paper in drawing.paper.iter().filter(|paper| !paper.points.is_empty()) {
            let at = |at: &At| paper.points.iter().find(|(x, _)| at.value() == Some(*x)).map(|(_, y)| *y);
            let cells = places.iter().map(|place| shown.cell(at(place).and_then(once))).collect();
            rows.push(Row { name: paper.name.clone(), theirs: true, cells });
        }
        Table { what: shown.title(), columns, rows }
    }

    fn quantiles(&self, drawing: &Drawing) -> Table {
        const QUANTILES: [(&str, f64); 5] =
            [("median", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("99.9 %", 0.999), ("most", 1.0)];
        let shown = Quantity::of(drawing);
        let at = self.place(drawing);
        let row = |name: &str| {
            let counts = self.data.distribution(name, &at, &drawing.y);
            let all: u64 = counts.iter().map(|(_, count)| count).sum();
            let cells = QUANTILES.iter().map(|(_, quantile)| {
                let mut left = (quantile * all as f64).ceil() as u64;
                let reached = counts.iter().find(|(_, count)| {
                    left = left.saturating_sub(*count);
                    left == 0
                });
                shown.cell(reached.and_then(|(value, _)| once(*value)))
            });
            Row { name: name.to_owned(), theirs: false, cells: cells.collect() }
        };
        let columns = QUANTILES.iter().map(|(words, _)| (*words).to_owned()).collect();
        Table { what: shown.title(), columns, rows: self.names().map(row).collect() }
    }

    fn place_words(&self, at: &At) -> String {
        match at {
            At::Only => String::new(),
            At::Case(name) => name.clone(),
            At::Value(value) => {
                let (_, unit) = split_unit(self.plan.x_label());
                quantity(*value, unit)
            }
        }
    }
}

/// A number that was told once.
fn once(value: f64) -> Option<Spread> {
    Spread::of(vec![value])
}

fn add(series: Series, x: f64, y: Spread, factor: f64) -> Series {
    match y.count {
        1 => series.point(x, y.median * factor),
        _ => series.spread(x, y.median * factor, y.low * factor, y.high * factor),
    }
}

/// `file size, KB` as what it is and its unit. What follows the last comma is a unit if it is a single word.
fn split_unit(label: &str) -> (&str, &str) {
    match label.rsplit_once(", ") {
        Some((words, unit)) if !unit.contains(' ') => (words, unit),
        _ => (label, ""),
    }
}

fn figure_x_label(figure: &Figure) -> &str {
    match &figure.x {
        flash_figure::Across::Axis(axis) => &axis.label,
        flash_figure::Across::Groups(_) => "",
    }
}

/// Whether a figure has numbers of others in it.
pub(super) fn has_reference(figure: &Figure) -> bool {
    figure.series.iter().any(|series| series.kind == SeriesKind::Reference)
}
