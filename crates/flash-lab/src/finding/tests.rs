//! Every kind of check, in all three outcomes, on made-up measurements.

use super::{Verdict, judge};
use crate::data::Data;
use crate::fixtures::{measurement, plan, run};
use crate::plan::Extent;
use crate::record::{Measurement, Outcome};

use Verdict::{CannotTell, DoesNotHold, Holds, SeemsNotToHold, SeemsToHold};

/// Rates of amped and 1999 at 1, 10 and 100 clients, a line for each repeat.
type Rates = [([f64; 3], [f64; 3])];

fn ask(check: &str, rates: &Rates) -> (Verdict, Option<f64>) {
    let finding = format!("[[finding]]\nclaim = 'c'\nsource = 's'\ncheck = {check}\n");
    let plan = plan(&finding);
    let data = Data { run: run(&plan, Extent::Full), measurements: measurements(rates) };
    let (_, judgement) = judge(&plan, &data).remove(0);
    (judgement.verdict, judgement.number.map(|number| number.median))
}

fn measurements(rates: &Rates) -> Vec<Measurement> {
    let mut all = Vec::new();
    for (repeat, (amped, old)) in rates.iter().enumerate() {
        for (place, x) in [1.0, 10.0, 100.0].into_iter().enumerate() {
            all.push(measurement("amped", x, repeat as u32, amped[place]));
            all.push(measurement("1999", x, repeat as u32, old[place]));
        }
    }
    all
}

#[test]
fn a_ratio_is_taken_within_rounds_and_the_worst_place_counts() {
    let check = "{ kind = 'ratio', figure = 'requests_per_second', of = { servers = ['amped'] }, \
                 to = { servers = ['1999'] }, bounds = { at_least = 1.5 } }";
    // The machine is twice as fast in the second round; the ratios know nothing of it.
    let twice = [([20.0, 20.0, 18.0], [10.0; 3]), ([40.0, 40.0, 36.0], [20.0; 3])];
    assert_eq!(ask(check, &twice), (Holds, Some(1.8)));
    let level = [([20.0, 20.0, 10.0], [10.0; 3]), ([20.0, 20.0, 11.0], [10.0; 3])];
    assert_eq!(ask(check, &level), (DoesNotHold, Some(1.05)));
    let torn = [([20.0, 20.0, 10.0], [10.0; 3]), ([20.0, 20.0, 19.0], [10.0; 3])];
    assert_eq!(ask(check, &torn), (CannotTell, Some(1.45)));
    assert_eq!(ask(check, &[]), (CannotTell, None));
    let elsewhere = check.replace("bounds", "at = [1], bounds");
    assert_eq!(ask(&elsewhere, &level).0, Holds);
}

#[test]
fn the_best_of_several_counts_and_places_may_differ() {
    let best = "{ kind = 'ratio', figure = 'requests_per_second', at = [100], of = { servers = ['amped'] }, \
                to = { servers = ['amped', '1999'], pick = 'PICK', at = 1 }, bounds = { at_most = 1 } }";
    let rates = [([10.0, 10.0, 15.0], [20.0, 20.0, 20.0])];
    assert_eq!(ask(&best.replace("PICK", "highest"), &rates), (Holds, Some(0.75)));
    assert_eq!(ask(&best.replace("PICK", "lowest"), &rates), (DoesNotHold, Some(1.5)));
}

#[test]
fn a_value_has_bounds_that_still_hold() {
    let check = "{ kind = 'value', figure = 'requests_per_second', of = { servers = ['amped'] }, at = [1], \
                 bounds = { at_most = 0 } }";
    let value = |rate: f64| [([rate, 1.0, 1.0], [1.0; 3])];
    assert_eq!(ask(check, &value(0.0)), (Holds, Some(0.0)));
    assert_eq!(ask(check, &value(3.0)), (DoesNotHold, Some(3.0)));
    assert_eq!(ask(check, &[value(0.0)[0], value(3.0)[0]]).0, CannotTell);
}

#[test]
fn a_rank_needs_every_neighbour_in_order() {
    let check = "{ kind = 'rank', figure = 'requests_per_second', order = ['1999', 'amped'] }";
    let last = |amped: f64, old: f64| ([1.0, 1.0, amped], [1.0, 1.0, old]);
    assert_eq!(ask(check, &[last(1.0, 2.0), last(1.0, 3.0)]), (Holds, Some(2.5)));
    assert_eq!(ask(check, &[last(2.0, 1.0)]), (DoesNotHold, Some(0.5)));
    assert_eq!(ask(check, &[last(2.0, 1.0), last(1.0, 2.0), last(1.0, 2.0)]).0, CannotTell);
}

#[test]
fn a_change_compares_what_lies_beyond_with_what_lies_before() {
    let check = "{ kind = 'change', figure = 'requests_per_second', server = 'amped', after = 10, \
                 bounds = { at_most = 0.8 } }";
    let falls = |last: f64| ([10.0, 10.0, last], [1.0; 3]);
    assert_eq!(ask(check, &[falls(5.0)]), (Holds, Some(0.5)));
    assert_eq!(ask(check, &[falls(9.0), falls(9.5)]).0, DoesNotHold);
    assert_eq!(ask(check, &[falls(5.0), falls(9.0)]).0, CannotTell);
}

#[test]
fn what_is_steady_stays_within_a_factor() {
    let check = "{ kind = 'steady', figure = 'requests_per_second', server = 'amped', from = 10, to = 100, \
                 within = 1.2 }";
    assert_eq!(ask(check, &[([1.0, 10.0, 11.0], [1.0; 3])]), (Holds, Some(1.1)));
    assert_eq!(ask(check, &[([1.0, 10.0, 20.0], [1.0; 3])]), (DoesNotHold, Some(2.0)));
}

/// What is said of a curve of amped from 1 to 100, of which these places were measured by a run of this extent.
fn said(check: &str, extent: Extent, xs: &[f64]) -> (Verdict, String) {
    let plan = plan(&format!("[[finding]]\nclaim = 'c'\nsource = 's'\ncheck = {check}\n"));
    let mut all = measurements(&[([10.0; 3], [5.0; 3])]);
    all.retain(|one| one.x.value().is_some_and(|x| xs.contains(&x)));
    let (_, judgement) = judge(&plan, &Data { run: run(&plan, extent), measurements: all }).remove(0);
    (judgement.verdict, judgement.measured)
}

#[test]
fn a_curve_is_said_to_be_what_was_measured_of_it() {
    let steady = "{ kind = 'steady', figure = 'requests_per_second', server = 'amped', from = 0, to = 1000, \
                  within = 1.2 }";
    let change = "{ kind = 'change', figure = 'requests_per_second', server = 'amped', after = 1, \
                  bounds = { at_most = 0.8 } }";
    let crossing = "{ kind = 'crossing', figure = 'requests_per_second', of = { servers = ['amped'] }, \
                    to = { servers = ['1999'] }, bounds = { at_least = 200 } }";
    let full = |check| said(check, Extent::Full, &[1.0, 10.0, 100.0]);
    assert_eq!(full(steady), (Holds, "amped at 1, 10, 100, highest ÷ lowest: 1.00 (once)".into()));
    assert_eq!(full(change).1, "amped at 10, 100, in parts of what it is at 1: 1.00 (once)");
    assert_eq!(full(crossing).1, "of 1, 10, 100, amped falls below 1999 at nowhere (once)");
    for check in [steady, change, crossing] {
        assert_eq!(said(check, Extent::Full, &[1.0, 10.0]).0, CannotTell, "a place is missing: {check}");
    }
    let quick = |check| said(check, Extent::Quick, &[1.0, 100.0]);
    assert_eq!(quick(steady), (SeemsToHold, "amped at 1, 100, highest ÷ lowest: 1.00 (once)".into()));
    assert_eq!((quick(change).0, quick(crossing).0), (SeemsNotToHold, SeemsToHold));
}

#[test]
fn what_is_no_result_or_only_a_lower_bound_decides_nothing() {
    let check = "[[finding]]\nclaim = 'c'\nsource = 's'\ncheck = { kind = 'ratio', figure = 'requests_per_second', \
                 of = { servers = ['amped'] }, to = { servers = ['1999'] }, bounds = { at_least = 1 } }";
    let plan = plan(check);
    let judged = |spoil: fn(&mut crate::record::Figures)| {
        let mut all = measurements(&[([2.0; 3], [1.0; 3])]);
        let Outcome::Done(done) = &mut all[2].outcome else { panic!("it is done") };
        spoil(done);
        let data = Data { run: run(&plan, Extent::Full), measurements: all };
        (
            judge(&plan, &data)[0].1.verdict,
            data.spread("amped", &crate::plan::At::Value(10.0), "requests_per_second"),
        )
    };
    assert_eq!(judged(|_| {}).0, Holds);
    assert_eq!(judged(|done| done.invalid = Some(flash_load::Invalid::Full)), (CannotTell, None));
    let (verdict, shown) = judged(|done| _ = done.at_least.insert("requests_per_second".into()));
    assert!(verdict == CannotTell && shown.is_some_and(|spread| spread.at_least));
}

#[test]
fn a_crossing_is_the_first_place_where_one_falls_below_the_other() {
    let check = "{ kind = 'crossing', figure = 'requests_per_second', of = { servers = ['amped'] }, \
                 to = { servers = ['1999'] }, bounds = { at_least = 10, at_most = 100 } }";
    assert_eq!(ask(check, &[([2.0, 0.5, 0.5], [1.0; 3])]), (Holds, Some(10.0)));
    assert_eq!(ask(check, &[([0.5, 0.5, 0.5], [1.0; 3])]), (DoesNotHold, Some(1.0)));
    assert_eq!(ask(check, &[([2.0; 3], [1.0; 3])]), (DoesNotHold, Some(f64::INFINITY)));
}

#[test]
fn a_quick_run_decides_on_the_places_that_it_has() {
    let check = "[[finding]]\nclaim = 'c'\nsource = 's'\ncheck = { kind = 'ratio', figure = 'requests_per_second', \
                 of = { servers = ['amped'] }, to = { servers = ['1999'] }, bounds = { at_least = 1 } }";
    let plan = plan(check);
    let mut all = measurements(&[([2.0; 3], [1.0; 3])]);
    all.retain(|one| one.x.value() != Some(10.0));
    let mut data = Data { run: run(&plan, Extent::Quick), measurements: all };
    assert_eq!(judge(&plan, &data)[0].1.verdict, SeemsToHold);
    // A full run without them has not measured what it is asked for.
    data.run.extent = Extent::Full;
    assert_eq!(judge(&plan, &data)[0].1.verdict, CannotTell);
    data.run.extent = Extent::Quick;
    data.measurements[0].outcome = Outcome::Failed("the port is taken".into());
    let (_, judgement) = judge(&plan, &data).remove(0);
    assert_eq!((judgement.verdict, judgement.number), (CannotTell, None));
}
