//! From quantities to places: what an axis spans, and the ticks that there is room for.

use crate::{Axis, Scale, number, text};

/// The size of the labels' font.
pub(crate) const TICK_PX: f64 = 12.0;

/// An axis with its ends, laid from `start_px` to `end_px`.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    scale: Scale,
    low: f64,
    high: f64,
    pub(crate) start_px: f64,
    pub(crate) end_px: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) at_px: f64,
    pub(crate) label: String,
}

impl Tick {
    pub(crate) fn wide_px(&self) -> f64 {
        text::width_px(&self.label, TICK_PX)
    }
}

/// Whether an axis can show a value. Beyond 1e±300 differences would leave what a number can hold.
pub(crate) fn shows(scale: Scale, value: f64) -> bool {
    match scale {
        Scale::Linear => value.abs() <= 1e300,
        Scale::Log => (1e-300..=1e300).contains(&value),
    }
}

impl Span {
    /// Where a value lies. It must be one that the axis shows.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            // Logarithms first: a quotient could leave what a number can hold.
            Scale::Log => (value.log10() - self.low.log10()) / (self.high.log10() - self.low.log10()),
        };
        self.start_px + share.clamp(0.0, 1.0) * (self.end_px - self.start_px)
    }

    /// The place that bars and steps rise from.
    pub(crate) fn base_px(&self) -> f64 {
        match self.scale {
            Scale::Linear => self.place(0.0),
            Scale::Log => self.start_px,
        }
    }
}

/// An axis that is read off: from zero, so that lengths compare, and up to a round number.
pub(crate) fn rounded(axis: &Axis, values: &[f64], ends_px: [f64; 2], apart: Apart) -> (Span, Vec<Tick>) {
    let (low, high) = ends(axis.scale, values);
    let span = |low, high| Span { scale: axis.scale, low, high, start_px: ends_px[0], end_px: ends_px[1] };
    match axis.scale {
        Scale::Log => {
            let span = span(round_below(low), round_above(high));
            let ticks = ticks(&span, axis, apart);
            (span, ticks)
        }
        Scale::Linear => {
            let (low, high) = (low.min(0.0), high.max(0.0));
            for step in steps((high - low) / 12.0) {
                let span = span((low / step).floor() * step, (high / step).ceil() * step);
                let ticks = every(&span, step, &axis.unit);
                if apart.holds(&ticks) {
                    return (span, ticks);
                }
            }
            (span(low, high), Vec::new())
        }
    }
}

/// An axis that is gone through, from the first value to the last. `values` are in order, each once.
pub(crate) fn fitted(axis: &Axis, values: &[f64], ends_px: [f64; 2], apart: Apart) -> (Span, Vec<Tick>) {
    let (mut low, mut high) = ends(axis.scale, values);
    let span = |low, high| Span { scale: axis.scale, low, high, start_px: ends_px[0], end_px: ends_px[1] };
    match axis.scale {
        Scale::Linear => {
            if low > 0.0 && low <= high / 4.0 {
                low = 0.0;
            }
            let span = span(low, high);
            let ticks = ticks(&span, axis, apart);
            (span, ticks)
        }
        Scale::Log => {
            // Sizes and counts that were chosen for the measurement are the best ticks.
            if (2..=12).contains(&values.len()) {
                let span = span(low, high);
                let ticks: Vec<_> = values.iter().map(|value| single(&span, *value, &axis.unit)).collect();
                if apart.holds(&ticks) {
                    return (span, ticks);
                }
            }
            (low, high) = (round_below(low), round_above(high));
            let span = span(low, high);
            let ticks = ticks(&span, axis, apart);
            (span, ticks)
        }
    }
}

/// How far apart ticks must be so that their labels do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Apart {
    /// Labels side by side.
    Across,
    /// Labels above each other.
    Down,
}

impl Apart {
    fn holds(self, ticks: &[Tick]) -> bool {
        ticks.windows(2).all(|pair| {
            let need_px = match self {
                Self::Down => 30.0,
                Self::Across => (pair[0].wide_px() + pair[1].wide_px()) / 2.0 + TICK_PX,
            };
            (pair[1].at_px - pair[0].at_px).abs() >= need_px && pair[0].label != pair[1].label
        })
    }
}

/// An axis laid out so that half a label at its ends has room. `lay` is given that room.
pub(crate) fn with_edges(lay: impl Fn(f64) -> (Span, Vec<Tick>)) -> (Span, Vec<Tick>) {
    const USUAL_PX: f64 = 28.0;
    let laid = lay(USUAL_PX);
    let half_px = laid.1.iter().map(|tick| tick.wide_px() / 2.0).fold(0.0, f64::max);
    if half_px <= USUAL_PX { laid } else { lay(half_px) }
}

/// The least and the most, or a pair around a single value.
fn ends(scale: Scale, values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match scale {
        _ if low > high => (1.0, 10.0),
        // What differs in the tenth digit is one value.
        Scale::Linear if high - low > 1e-9 * high.abs().max(low.abs()) => (low, high),
        Scale::Linear if low == 0.0 => (0.0, 1.0),
        Scale::Linear => (low - low.abs() / 2.0, high + high.abs() / 2.0),
        Scale::Log if high / low > 1.0 + 1e-9 => (low, high),
        Scale::Log => (low / 2.0, high * 2.0),
    }
}

/// The most ticks that fit.
fn ticks(span: &Span, axis: &Axis, apart: Apart) -> Vec<Tick> {
    match axis.scale {
        Scale::Linear => steps((span.high - span.low) / 12.0)
            .map(|step| every(span, step, &axis.unit))
            .find(|ticks| apart.holds(ticks))
            .unwrap_or_default(),
        Scale::Log => {
            let decades = || span.low.log10().floor() as i32..=span.high.log10().ceil() as i32;
            let inside = |value: &f64| (span.low * 0.999..=span.high * 1.001).contains(value);
            let at = |value| single(span, value, &axis.unit);
            let fine = decades().flat_map(|n| [power(n), 2.0 * power(n), 5.0 * power(n)]);
            let fine: Vec<_> = fine.filter(inside).map(at).collect();
            if apart.holds(&fine) {
                return fine;
            }
            (1..=decades().count())
                .map(|nth| decades().step_by(nth).map(power).filter(inside).map(at).collect::<Vec<_>>())
                .find(|ticks| apart.holds(ticks))
                .unwrap_or_default()
        }
    }
}

fn every(span: &Span, step: f64, unit: &str) -> Vec<Tick> {
    let most = span.low.abs().max(span.high.abs());
    let first = (span.low / step - 1e-6).ceil();
    let count = ((span.high / step + 1e-6).floor() - first) as i64;
    (0..=count)
        .map(|n| {
            let value = (first + n as f64) * step;
            Tick { at_px: span.place(value), label: number::tick(value, step, most, unit) }
        })
        .collect()
}

fn single(span: &Span, value: f64, unit: &str) -> Tick {
    Tick { at_px: span.place(value), label: number::bare(value, unit) }
}

/// Round steps from `least` on, and on: 1, 2 and 5 times powers of ten.
fn steps(least: f64) -> impl Iterator<Item = f64> {
    let n = least.log10().floor() as i32;
    (n..n + 4).flat_map(|n| [power(n), 2.0 * power(n), 5.0 * power(n)]).filter(move |step| *step >= least)
}

fn round_below(value: f64) -> f64 {
    let n = value.log10().floor() as i32;
    let rounds = [5.0 * power(n), 2.0 * power(n), power(n)];
    rounds.into_iter().find(|round| *round <= value * (1.0 + 1e-9)).unwrap_or(value)
}

fn round_above(value: f64) -> f64 {
    let n = value.log10().floor() as i32;
    let rounds = [power(n), 2.0 * power(n), 5.0 * power(n), power(n + 1)];
    rounds.into_iter().find(|round| *round >= value * (1.0 - 1e-9)).unwrap_or(value)
}

/// A power of ten as it would be written, which `powi` misses by a bit.
fn power(n: i32) -> f64 {
    format!("1e{n}").parse().expect("a number by its form")
}
