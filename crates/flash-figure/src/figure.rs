//! A figure as data: its axes, and the series that they show.

use serde::Serialize;

/// One figure: its axes, and the series that they show.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    pub title: String,
    /// What there is to see, in a sentence or two, for those who cannot see it.
    pub about: String,
    pub x: Across,
    pub y: Axis,
    pub series: Vec<Series>,
}

/// What a figure goes through: a quantity, whose series are lines, or named groups, whose series are bars.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Across {
    Axis(Axis),
    /// The `x` of a point is the index of its group.
    Groups(Vec<String>),
}

/// A quantity, its unit and how it is laid out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    pub label: String,
    /// `s`, `B`, `B/s` and `b/s` are given prefixes where numbers are shown (`1.2 ms`, `64 KB`); others stay as they
    /// are. Empty for a plain number.
    pub unit: String,
    pub scale: Scale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    Linear,
    Log,
}

/// The figures of one server: our own, or from a paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The name of the server, from which its looks follow.
    pub name: String,
    pub kind: Kind,
    pub form: Form,
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Measured,
    /// Numbers of another source, such as a paper: dashed and muted, in the colour of the server that the name begins with
    /// (`AMPED, 1999`).
    Reference,
}

/// How a line goes from point to point. Bars know no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    Straight,
    /// Level up to the next point, as cumulative distributions and histograms are.
    Steps,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// The least and the most that `y` was, where it was taken more than once.
    pub spread: Option<(f64, f64)>,
}

impl Figure {
    /// Lines over a quantity.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), about: String::new(), x: Across::Axis(x), y, series: Vec::new() }
    }

    /// Bars in named groups. With a single series the groups are servers, and have their looks.
    pub fn bars<N: Into<String>>(
        title: impl Into<String>,
        groups: impl IntoIterator<Item = N>,
        y: Axis,
    ) -> Self {
        let groups = Across::Groups(groups.into_iter().map(Into::into).collect());
        Self { title: title.into(), about: String::new(), x: groups, y, series: Vec::new() }
    }

    pub fn about(mut self, about: impl Into<String>) -> Self {
        self.about = about.into();
        self
    }

    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }
}

impl Axis {
    pub fn linear(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { label: label.into(), unit: unit.into(), scale: Scale::Linear }
    }

    pub fn log(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label, unit) }
    }
}

impl Series {
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: Kind::Measured, form: Form::Straight, points: Vec::new() }
    }

    /// Numbers of a paper, or of anybody else.
    pub fn reference(name: impl Into<String>) -> Self {
        Self { kind: Kind::Reference, ..Self::new(name) }
    }

    /// The share of samples, in percent, that are no greater than `x`.
    pub fn cumulative(name: impl Into<String>, samples: impl IntoIterator<Item = f64>) -> Self {
        let mut samples: Vec<f64> = samples.into_iter().filter(|sample| sample.is_finite()).collect();
        samples.sort_by(f64::total_cmp);
        let all = samples.len() as f64;
        let mut series = Self::new(name).steps();
        for (at, sample) in samples.iter().enumerate() {
            if samples.get(at + 1) != Some(sample) {
                series = series.point(*sample, 100.0 * (at + 1) as f64 / all);
            }
        }
        series
    }

    /// The share of samples, in percent, from each edge up to the next one. There is one count fewer than edges.
    pub fn histogram(name: impl Into<String>, edges: &[f64], counts: &[u64]) -> Self {
        let all = counts.iter().sum::<u64>().max(1) as f64;
        let mut series = Self::new(name).steps();
        for (edge, count) in edges.iter().zip(counts) {
            series = series.point(*edge, 100.0 * *count as f64 / all);
        }
        match edges.get(counts.len()) {
            Some(end) => series.point(*end, 0.0),
            None => series,
        }
    }

    pub fn point(mut self, x: f64, y: f64) -> Self {
        self.points.push(Point { x, y, spread: None });
        self
    }

    /// A point that was taken more than once: its median, its least and its most.
    pub fn spread(mut self, x: f64, y: f64, low: f64, high: f64) -> Self {
        self.points.push(Point { x, y, spread: Some((low, high)) });
        self
    }

    pub fn steps(mut self) -> Self {
        self.form = Form::Steps;
        self
    }
}
