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
            let (late, early) = (asked.xs(|x| x > *after), asked.xs(|x| x <= *after));
            let change = asked.in_rounds(|round| {
                let mean = |xs: &[f64]| mean(&asked.curve(server, figure, xs, round)?);
                Some(mean(&late)? / mean(&early)?)
            });
            let words = format!("{server} at {}, in parts of what it is at {}:", list(&late), list(&early));
            one(change, bounds, &words).judgement
        }
        Check::Steady { figure, server, from, to, within } => {
            let xs = asked.xs(|x| (*from..=*to).contains(&x));
            let steady = asked.in_rounds(|round| {
                let values = asked.curve(server, figure, &xs, round)?;
                let spread = Spread::of(values).filter(|spread| spread.count > 1)?;
                Some(spread.high / spread.low)
            });
            let bounds = Bounds { at_least: None, at_most: Some(*within) };
            one(steady, &bounds, &format!("{server} at {}, highest ÷ lowest:", list(&xs))).judgement
        }
        Check::Crossing { figure, of, to, bounds } => {
            let xs = asked.xs(|_| true);
            let crossing = asked.in_rounds(|round| {
                for x in &xs {
                    let side = |term| asked.pick(term, figure, &At::Value(*x), round);
                    // Where nothing was measured, it may have fallen below.
                    if side(of)? / side(to)? < 1.0 {
                        return Some(*x);
                    }
                }
                (!xs.is_empty()).then_some(f64::INFINITY)
            });
            let words = format!("of {}, {} falls below {} at", list(&xs), of.words(), to.words());
            one(crossing, bounds, &words).judgement
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

    /// Those of the sweep's values that a run of this extent measures.
    fn xs(&self, is_wanted: impl Fn(f64) -> bool) -> Vec<f64> {
        self.data_places().iter().filter_map(At::value).filter(|x| is_wanted(*x)).collect()
    }

    /// The figure at each of these. None where one is missing, since a part of a curve says nothing about the rest.
    fn curve(&self, server: &str, figure: &str, xs: &[f64], round: u32) -> Option<Vec<f64>> {
        xs.iter().map(|x| self.data.in_round(server, &At::Value(*x), figure, round)).collect()
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
        Verdict::Holds => 2,
        _ => 1,
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

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// `1, 10, 100`.
fn list(xs: &[f64]) -> String {
    xs.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
}
