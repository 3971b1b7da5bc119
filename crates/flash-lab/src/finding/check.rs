//! One check, asked of the data.

use super::judgement::{Judgement, Verdict};
use crate::data::{Data, Spread};
use crate::plan::{At, Bounds, Check, Pick, Plan, Term};

pub(super) fn judge(plan: &Plan, check: &Check, data: &Data) -> Judgement {
    let asked = Asked { plan, data };
    match check {
        Check::Ratio { figure, of, to, at, bounds } => {
            all(asked.places(at).iter().map(|place| asked.ratio(figure, of, to, place, bounds)).collect())
        }
        Check::Value { figure, of, at, bounds } => {
            all(asked.places(at).iter().map(|place| asked.value(figure, of, place, bounds)).collect())
        }
        Check::Rank { figure, at, order } => {
            let place = at.clone().unwrap_or_else(|| asked.last_place());
            let bounds = Bounds { at_least: Some(1.0), at_most: None };
            let pair = |pair: &[String]| {
                asked.ratio(figure, &Term::one(&pair[0]), &Term::one(&pair[1]), &place, &bounds)
            };
            all(order.windows(2).map(pair).collect())
        }
        Check::Change { figure, server, after, bounds } => {
            let change = asked.in_rounds(|round| {
                let mean = |late: bool| {
                    mean(
                        asked
                            .curve(server, figure, round)
                            .filter(|(x, _)| (*x > *after) == late)
                            .map(|(_, y)| y),
                    )
                };
                Some(mean(true)? / mean(false)?)
            });
            let words = format!("{server} beyond {after}, in parts of what it is up to there:");
            one(change, bounds, &words).judgement
        }
        Check::Steady { figure, server, from, to, within } => {
            let steady = asked.in_rounds(|round| {
                let within = asked.curve(server, figure, round).filter(|(x, _)| x >= from && x <= to);
                let values: Vec<f64> = within.map(|(_, y)| y).collect();
                let spread = Spread::of(values).filter(|spread| spread.count > 1)?;
                Some(spread.high / spread.low)
            });
            let bounds = Bounds { at_least: None, at_most: Some(*within) };
            one(steady, &bounds, &format!("{server} from {from} to {to}, highest ÷ lowest:")).judgement
        }
        Check::Crossing { figure, of, to, bounds } => {
            let crossing = asked.in_rounds(|round| {
                let ratios = asked.data_places().into_iter().filter_map(|place| {
                    let ratio =
                        asked.pick(of, figure, &place, round)? / asked.pick(to, figure, &place, round)?;
                    Some((place.value()?, ratio))
                });
                let ratios: Vec<_> = ratios.collect();
                let below = ratios.iter().find(|(_, ratio)| *ratio < 1.0).map(|(x, _)| *x);
                (!ratios.is_empty()).then(|| below.unwrap_or(f64::INFINITY))
            });
            one(crossing, bounds, &format!("{} falls below {} at", of.words(), to.words())).judgement
        }
    }
}

/// The answer at one place, and how far on the right side of its bounds it lies; below 0 is the wrong side.
struct Answer {
    judgement: Judgement,
    margin: f64,
}

struct Asked<'a> {
    plan: &'a Plan,
    data: &'a Data,
}

impl Asked<'_> {
    /// Those of the places asked for that belong to a run of this extent.
    fn places(&self, wanted: &[At]) -> Vec<At> {
        let mut places = self.data_places();
        places.retain(|place| wanted.is_empty() || wanted.contains(place));
        places
    }

    fn data_places(&self) -> Vec<At> {
        self.plan.places(self.data.run.extent)
    }

    fn last_place(&self) -> At {
        self.data_places().pop().unwrap_or(At::Only)
    }

    fn in_rounds(&self, figure: impl Fn(u32) -> Option<f64>) -> Option<Spread> {
        Spread::of((0..self.data.rounds()).filter_map(figure).collect())
    }

    fn curve(&self, server: &str, figure: &str, round: u32) -> impl Iterator<Item = (f64, f64)> {
        let places = self.data_places();
        let points: Vec<_> = places
            .iter()
            .filter_map(|at| Some((at.value()?, self.data.in_round(server, at, figure, round)?)))
            .collect();
        points.into_iter()
    }

    /// The figure of a term in a round. Which of several servers counts is decided by the medians of all rounds.
    fn pick(&self, term: &Term, figure: &str, place: &At, round: u32) -> Option<f64> {
        let (place, figure) = term.seen_at(place, figure);
        let measured = term
            .servers
            .iter()
            .filter_map(|server| Some((server, self.data.spread(server, place, figure)?.median)));
        let by_median = |a: &(&String, f64), b: &(&String, f64)| a.1.total_cmp(&b.1);
        let (server, _) = match term.pick {
            Pick::Highest => measured.max_by(by_median),
            Pick::Lowest => measured.min_by(by_median),
        }?;
        self.data.in_round(server, place, figure, round)
    }

    /// The term without those servers that have no such figure: what is said names only what was compared.
    fn measured(&self, term: &Term, figure: &str, place: &At) -> Term {
        let (place, figure) = term.seen_at(place, figure);
        let is_measured = |server: &&String| self.data.spread(server, place, figure).is_some();
        let servers: Vec<_> = term.servers.iter().filter(is_measured).cloned().collect();
        match servers.is_empty() {
            true => term.clone(),
            false => Term { servers, ..term.clone() },
        }
    }

    fn ratio(&self, figure: &str, of: &Term, to: &Term, place: &At, bounds: &Bounds) -> Answer {
        let (of, to) = (&self.measured(of, figure, place), &self.measured(to, figure, place));
        let ratio = self.in_rounds(|round| {
            Some(self.pick(of, figure, place, round)? / self.pick(to, figure, place, round)?)
        });
        one(ratio, bounds, &format!("{}{} ÷ {}:", before(place), of.words(), to.words()))
    }

    fn value(&self, figure: &str, of: &Term, place: &At, bounds: &Bounds) -> Answer {
        let of = &self.measured(of, figure, place);
        let value = self.in_rounds(|round| self.pick(of, figure, place, round));
        one(value, bounds, &format!("{}{}:", before(place), of.words()))
    }
}

impl Term {
    fn one(server: &str) -> Term {
        Term { servers: vec![server.to_owned()], pick: Pick::Highest, at: None, figure: None }
    }

    /// The place and the figure that it is about: its own, or those of the check.
    fn seen_at<'t>(&'t self, place: &'t At, figure: &'t str) -> (&'t At, &'t str) {
        (self.at.as_ref().unwrap_or(place), self.figure.as_deref().unwrap_or(figure))
    }

    fn words(&self) -> String {
        let which = match (&self.servers[..], self.pick) {
            ([server], _) => server.clone(),
            (servers, Pick::Highest) => format!("the highest of {}", servers.join(", ")),
            (servers, Pick::Lowest) => format!("the lowest of {}", servers.join(", ")),
        };
        self.at.as_ref().map_or_else(|| which.clone(), |at| format!("{which} at {at}"))
    }
}

fn before(place: &At) -> String {
    match place {
        At::Only => String::new(),
        place => format!("at {place}, "),
    }
}

/// What one number says to its bounds.
fn one(number: Option<Spread>, bounds: &Bounds, words: &str) -> Answer {
    let Some(spread) = number else {
        let measured = format!("{words} not measured");
        return Answer {
            judgement: Judgement { verdict: Verdict::CannotTell, number: None, measured },
            margin: 0.0,
        };
    };
    let inside = |number: f64| bounds.margin(number) >= 0.0;
    let verdict = match (inside(spread.median), inside(spread.low) && inside(spread.high)) {
        (true, true) => Verdict::Holds,
        (false, _) if !inside(spread.low) && !inside(spread.high) && spread.same_side(bounds) => {
            Verdict::DoesNotHold
        }
        _ => Verdict::CannotTell,
    };
    let measured = format!("{words} {}", spread.words());
    Answer {
        judgement: Judgement { verdict, number: Some(spread), measured },
        margin: bounds.margin(spread.median),
    }
}

/// The answer of them all: the one that speaks most against the claim.
fn all(answers: Vec<Answer>) -> Judgement {
    let rank = |verdict| match verdict {
        Verdict::DoesNotHold => 0,
        Verdict::CannotTell => 1,
        Verdict::Holds => 2,
    };
    let worst = answers.into_iter().min_by(|a, b| {
        rank(a.judgement.verdict).cmp(&rank(b.judgement.verdict)).then(a.margin.total_cmp(&b.margin))
    });
    worst.map_or_else(
        || Judgement {
            verdict: Verdict::CannotTell,
            number: None,
            measured: "this run has none of the places it is about".into(),
        },
        |answer| answer.judgement,
    )
}

impl Bounds {
    /// How far a number lies within, in parts of the nearer bound; below 0 it lies outside.
    fn margin(&self, number: f64) -> f64 {
        let part = |difference: f64, bound: f64| difference / if bound == 0.0 { 1.0 } else { bound.abs() };
        let above = self.at_least.map_or(f64::INFINITY, |bound| part(number - bound, bound));
        let below = self.at_most.map_or(f64::INFINITY, |bound| part(bound - number, bound));
        above.min(below)
    }
}

impl Spread {
    /// Whether all repeats miss the same bound.
    fn same_side(&self, bounds: &Bounds) -> bool {
        bounds.at_least.is_some_and(|bound| self.high < bound)
            || bounds.at_most.is_some_and(|bound| self.low > bound)
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
