//! Whether a plan can measure what it asks about. A plan whose words make sense may still measure nothing. It may have a rate of
//! 0, a figure that none of its servers has, or a curve of one point.

use std::slice::from_ref;

use super::at::{At, Extent};
use super::check::{Bounds, Check, Finding, Term};
use super::contents::{Axis, Plan};
use super::drawing::{Drawing, Kind};
use super::load::Connections;
use super::workload::{Dynamic, Workload};

/// What is drawn as a distribution, and only so.
const DISTRIBUTIONS: [&str; 3] = ["latency_ms", "ready_events", "runnable"];

/// A number that is above 0, and not infinite.
fn is_some(number: f64) -> bool {
    number.is_finite() && number > 0.0
}

impl Plan {
    /// Why nothing would be measured, or not what the plan asks about, in a sentence.
    pub(super) fn unmeasurable(&self) -> Option<String> {
        self.unmeasurable_load()
            .or_else(|| self.unmeasurable_machine())
            .or_else(|| self.unmeasurable_workload())
            .or_else(|| self.unmeasurable_sweep())
            .or_else(|| self.unmeasurable_place())
            .or_else(|| {
                self.figures.iter().find_map(|drawing| {
                    self.undrawable(drawing).map(|what| format!("figure '{}': {what}", drawing.title))
                })
            })
            .or_else(|| {
                self.findings.iter().find_map(|finding| {
                    self.undecidable(finding).map(|what| format!("finding '{}': {what}", finding.claim))
                })
            })
    }

    fn unmeasurable_load(&self) -> Option<String> {
        let load = &self.load;
        let what = if self.quick.repeats == Some(0) {
            "[quick] repeats = 0: a quick run would measure nothing"
        } else if load.hot_per_second.is_some_and(|rate| !is_some(rate)) {
            "hot_per_second: expected a rate above 0"
        } else if load.connections == Connections::Requests(0) {
            "connections: expected at least one request on each"
        } else if load.conform.is_some_and(|conform| {
            conform.bits_per_second_min == 0 || conform.bits_per_second_min > conform.line_bits_per_second
        }) {
            "conform: expected a rate above 0 that the line can carry"
        } else {
            return None;
        };
        Some(format!("[load] {what}"))
    }

    fn unmeasurable_machine(&self) -> Option<String> {
        let needs = &self.machine;
        let memory = self.cases.iter().map(|case| case.memory_mb).chain([needs.memory_mb]);
        if memory.chain([needs.disk_reads_per_second]).any(|limit| limit == Some(0)) {
            return Some(
                "[machine]: a server without memory, or without reads of its disk, serves nothing".into(),
            );
        }
        if needs.seek_ms.is_some_and(|ms| !is_some(ms)) {
            return Some("[machine] seek_ms: expected a time above 0".into());
        }
        let both = needs.seek_ms.is_some() && needs.arm.is_some();
        both.then(|| "[machine]: a disk has seek_ms or an arm".into())
    }

    fn unmeasurable_workload(&self) -> Option<String> {
        let of_cases = self.cases.iter().flat_map(|case| [Some(&case.workload), case.quick.as_ref()]);
        let mut all = of_cases.chain([self.workload.as_ref(), self.quick.workload.as_ref()]).flatten();
        all.find_map(Workload::nothing).map(|what| format!("workload: {what}"))
    }

    fn unmeasurable_sweep(&self) -> Option<String> {
        let sweep = self.sweep.as_ref()?;
        let is_right = |x: f64| match sweep.axis {
            Axis::Clients | Axis::Helpers | Axis::Loops | Axis::Processes => x >= 1.0 && x.fract() == 0.0,
            Axis::IdleConnections => x.fract() == 0.0,
            Axis::DataSetMegabytes | Axis::LoadLevel => x > 0.0,
            Axis::FileKilobytes | Axis::DeviceMilliseconds => true,
        };
        if let Some(wrong) = sweep.values.iter().find(|x| !is_right(**x)) {
            return Some(format!("[sweep] values: {wrong} {} measure nothing", sweep.axis.label()));
        }
        let ascends = self.quick.values.windows(2).all(|pair| pair[0] < pair[1]);
        (!ascends).then(|| "[quick] values: expected ascending numbers".into())
    }

    /// A place where no server is measured.
    fn unmeasurable_place(&self) -> Option<String> {
        [Extent::Full, Extent::Quick].into_iter().find_map(|extent| {
            let is_empty = |at: &At| !self.servers(extent).any(|entry| self.can(entry.name(), at));
            let empty = self.places(extent).into_iter().find(is_empty)?;
            Some(format!("at {empty} no server is left in a {extent} run"))
        })
    }

    /// Why this plan does not measure a figure.
    fn unmeasured(&self, figure: &str) -> Option<String> {
        let (class, name) =
            figure.split_once('.').map_or((None, figure), |(class, name)| (Some(class), name));
        let workloads =
            || self.cases.iter().map(|case| &case.workload).chain(&self.workload).chain(&self.quick.workload);
        let is_idle = |workload: &Workload| matches!(workload, Workload::Idle);
        let is_php = |workload: &Workload| match workload {
            Workload::Specweb { dynamic, .. } => *dynamic == Some(Dynamic::Php),
            Workload::Program { target, .. } => target.ends_with(".php"),
            _ => false,
        };
        let (is_measured, needs) = match (class, name) {
            (Some("hot" | "cold"), _) => (self.load.hot_per_second.is_some(), "hot_per_second"),
            (_, "conforming_clients") => (self.load.conform.is_some(), "conform"),
            (_, "disk_reads_per_request") => {
                // A cgroup counts them, and there is one where there is a limit.
                let limits = self.machine.memory_mb.or(self.machine.disk_reads_per_second);
                (limits.is_some(), "memory_mb or disk_reads_per_second")
            }
            (_, "optimal_reads_per_request") => (self.machine.memory_mb.is_some(), "memory_mb"),
            (_, "bytes_per_connection") => (workloads().any(is_idle), "a workload of kind 'idle'"),
            (_, "php_us_per_request") => (workloads().any(is_php), "a workload that PHP answers"),
            (_, "memory_mb") => (true, ""),
            _ => (!workloads().all(is_idle), "a workload that is not 'idle'"),
        };
        (!is_measured).then(|| format!("'{figure}' is not measured without {needs}"))
    }

    fn undrawable(&self, drawing: &Drawing) -> Option<String> {
        let name = drawing.y.rsplit('.').next().unwrap_or_default();
        match (drawing.kind, DISTRIBUTIONS.contains(&name)) {
            (Kind::Distribution, false) => Some(format!("'{}' is one number and no distribution", drawing.y)),
            (Kind::Lines | Kind::Bars, true) => Some(format!("'{}' is a distribution", drawing.y)),
            _ => self.unmeasured(&drawing.y),
        }
    }

    fn undecidable(&self, finding: &Finding) -> Option<String> {
        let figures = finding.check.figures();
        if let Some(distribution) = figures.iter().find(|name| DISTRIBUTIONS.contains(name)) {
            return Some(format!("'{distribution}' is a distribution"));
        }
        if let Some(what) = figures.into_iter().find_map(|figure| self.unmeasured(figure)) {
            return Some(what);
        }
        let places = self.places(Extent::Full);
        let count = |is_wanted: &dyn Fn(f64) -> bool| {
            places.iter().filter_map(At::value).filter(|x| is_wanted(*x)).count()
        };
        let is_same = |of: &Term, to: &Term| of == to;
        let what = match &finding.check {
            Check::Ratio { of, to, bounds, .. } => {
                is_same(of, to).then_some("both sides are the same").or(bounds.nothing())
            }
            Check::Value { bounds, .. } => bounds.nothing(),
            Check::Rank { order, .. } => (order.len() < 2).then_some("an order needs two servers"),
            Check::Change { after, bounds, .. } => {
                let both = count(&|x| x > *after) > 0 && count(&|x| x <= *after) > 0;
                (!both)
                    .then_some("expected values of the sweep up to 'after' and beyond it")
                    .or(bounds.nothing())
            }
            Check::Steady { from, to, within, .. } => {
                let enough = count(&|x| (*from..=*to).contains(&x)) > 1;
                (!enough || !(1.0..).contains(within))
                    .then_some("expected two values of the sweep from 'from' to 'to', and 'within' 1 or more")
            }
            Check::Crossing { of, to, bounds, .. } => {
                let senseless = is_same(of, to) || count(&|_| true) == 0;
                senseless.then_some("expected a [sweep], and two sides that differ").or(bounds.nothing())
            }
        };
        what.map(str::to_owned).or_else(|| self.without(finding))
    }

    /// A side of a finding that no server can be measured for.
    fn without(&self, finding: &Finding) -> Option<String> {
        let places = self.places(Extent::Full);
        let can = |servers: &[String], at: &At| servers.iter().any(|server| self.can(server, at));
        finding.check.sides().into_iter().find_map(|(servers, wanted)| {
            let mut wanted: Vec<&At> = wanted.into_iter().collect();
            if wanted.is_empty() {
                wanted = places.iter().collect();
            }
            (!wanted.iter().any(|at| can(servers, at)))
                .then(|| format!("{} cannot be measured at any of its places", servers.join(", ")))
        })
    }
}

impl Bounds {
    fn nothing(&self) -> Option<&'static str> {
        let [least, most] =
            [self.at_least.unwrap_or(f64::NEG_INFINITY), self.at_most.unwrap_or(f64::INFINITY)];
        // A NaN is not within anything either.
        (!(least..=most).contains(&least)).then_some("no number is within its bounds")
    }
}

impl Workload {
    fn nothing(&self) -> Option<&'static str> {
        let is_there = match self {
            Workload::File { kilobytes } => kilobytes.is_finite() && *kilobytes >= 0.0,
            Workload::Log { data_set_mb, .. } => data_set_mb.is_none_or(is_some),
            Workload::Specweb { folders, .. } => *folders > 0,
            Workload::Program { target, .. } => target.starts_with('/'),
            Workload::Synthetic { files, data_set_mb, zipf } => {
                *files > 0 && is_some(*data_set_mb) && zipf.is_finite()
            }
            Workload::Tree { files, kilobytes, .. } => {
                *files > 0 && kilobytes.is_finite() && *kilobytes >= 0.0
            }
            Workload::Idle => true,
        };
        (!is_there).then_some("there is nothing to request: expected files, sizes and targets")
    }
}

impl Check {
    fn figures(&self) -> Vec<&str> {
        let (figure, terms) = match self {
            Check::Ratio { figure, of, to, .. } | Check::Crossing { figure, of, to, .. } => {
                (figure, vec![of, to])
            }
            Check::Value { figure, of, .. } => (figure, vec![of]),
            Check::Rank { figure, .. } | Check::Change { figure, .. } | Check::Steady { figure, .. } => {
                (figure, Vec::new())
            }
        };
        let own = terms.iter().filter_map(|term| term.figure.as_deref());
        match terms.is_empty() {
            true => vec![figure],
            false => own.chain(terms.iter().any(|term| term.figure.is_none()).then_some(&**figure)).collect(),
        }
    }

    /// The servers of each side, and the places that it is about. None are all of them.
    fn sides(&self) -> Vec<(&[String], Vec<&At>)> {
        fn side<'a>(term: &'a Term, at: &'a [At]) -> (&'a [String], Vec<&'a At>) {
            (&term.servers, term.at.as_ref().map_or_else(|| at.iter().collect(), |own| vec![own]))
        }
        match self {
            Check::Ratio { of, to, at, .. } => vec![side(of, at), side(to, at)],
            Check::Crossing { of, to, .. } => vec![side(of, &[]), side(to, &[])],
            Check::Value { of, at, .. } => vec![side(of, at)],
            Check::Rank { order, at, .. } => {
                order.iter().map(|server| (from_ref(server), at.iter().collect())).collect()
            }
            Check::Change { server, .. } | Check::Steady { server, .. } => {
                vec![(from_ref(server), Vec::new())]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::PLAN;

    /// What is said of the plan for tests with some of its text replaced, and more behind it.
    fn said(replace: (&str, &str), more: &str) -> String {
        assert!(PLAN.contains(replace.0), "{replace:?}");
        let text = format!("{}{more}", PLAN.replace(replace.0, replace.1));
        Plan::parse("made-up", &text).expect_err(&format!("{replace:?} {more}")).to_string()
    }

    #[test]
    fn a_plan_that_can_measure_nothing_is_refused() {
        for (old, new, says) in [
            ("repeats = 1", "repeats = 0", "repeats = 0"),
            ("clients = 1,", "clients = 1, hot_per_second = 0,", "a rate above 0"),
            ("clients = 1,", "clients = 1, connections = { requests = 0 },", "one request on each"),
            (
                "clients = 1,",
                "clients = 1, conform = { line_bits_per_second = 1, bits_per_second_min = 2 },",
                "the line can carry",
            ),
            ("repeats = 3", "repeats = 3\nmachine = { memory_mb = 0 }", "without memory"),
            ("repeats = 3", "repeats = 3\nmachine = { seek_ms = 0 }", "seek_ms"),
            ("repeats = 3", "repeats = 3\nmachine = { seek_ms = 8, arm = 'deskstar' }", "an arm"),
            ("kilobytes = 1 ", "kilobytes = -1 ", "nothing to request"),
            (
                "kind = \"file\", kilobytes = 1",
                "kind = \"tree\", files = 0, kilobytes = 1",
                "nothing to request",
            ),
            ("kind = \"file\", kilobytes = 1", "kind = \"specweb\", folders = 0", "nothing to request"),
            ("values = [1, 10, 100]", "values = [0, 1, 100]", "0 clients measure nothing"),
            ("values = [1, 10, 100]", "values = [0.5, 1, 100]", "0.5 clients measure nothing"),
            ("quick = { values = [1, 100]", "quick = { values = [100, 1]", "ascending"),
            (
                "y = \"requests_per_second\"",
                "y = \"hot.latency_p99_ms\"",
                "not measured without hot_per_second",
            ),
            ("y = \"requests_per_second\"", "y = \"conforming_clients\"", "not measured without conform"),
            ("y = \"requests_per_second\"", "y = \"bytes_per_connection\"", "of kind 'idle'"),
            ("y = \"requests_per_second\"", "y = \"latency_ms\"", "is a distribution"),
            ("kind = \"lines\"", "kind = \"distribution\"", "no distribution"),
        ] {
            let error = said((old, new), "");
            assert!(error.contains(says), "{new}: {error}");
        }
    }

    #[test]
    fn a_finding_that_nothing_can_decide_is_refused() {
        let amped = "{ servers = ['amped'] }";
        for (check, says) in [
            ("kind = 'steady', server = 'amped', from = 11, to = 100, within = 1.1".to_owned(), "two values"),
            ("kind = 'steady', server = 'amped', from = 100, to = 1, within = 1.1".to_owned(), "two values"),
            ("kind = 'steady', server = 'amped', from = 1, to = 100, within = 0.9".to_owned(), "1 or more"),
            (
                "kind = 'change', server = 'amped', after = 100, bounds = { at_most = 1 }".to_owned(),
                "beyond it",
            ),
            (
                "kind = 'change', server = 'amped', after = 0, bounds = { at_most = 1 }".to_owned(),
                "up to 'after'",
            ),
            ("kind = 'rank', order = ['amped']".to_owned(), "two servers"),
            (format!("kind = 'ratio', of = {amped}, to = {amped}, bounds = {{ at_most = 1 }}"), "the same"),
            (format!("kind = 'crossing', of = {amped}, to = {amped}, bounds = {{ at_most = 1 }}"), "differ"),
            (format!("kind = 'value', of = {amped}, bounds = {{ at_least = 2, at_most = 1 }}"), "no number"),
            (format!("kind = 'value', of = {amped}, bounds = {{ at_least = nan }}"), "no number"),
        ] {
            let more = |figure| {
                format!(
                    "[[finding]]\nclaim = 'c'\nsource = 's'\ncheck = {{ figure = '{figure}', {check} }}\n"
                )
            };
            let error = said(("Rate", "Rate"), &more("requests_per_second"));
            assert!(error.contains("finding 'c'") && error.contains(says), "{check}: {error}");
            let error = said(("Rate", "Rate"), &more("cold.latency_p99_ms"));
            assert!(error.contains("not measured without hot_per_second"), "{check}: {error}");
        }
    }

    #[test]
    fn a_case_without_its_servers_is_refused() {
        let cases = |without: &str| {
            let sweep = ("sweep = { axis = \"clients\", values = [1, 10, 100] }", "");
            let plan = PLAN
                .replace(sweep.0, sweep.1)
                .replace("values = [1, 100], ", "")
                .replace("\"lines\"", "\"bars\"");
            let plan = plan.replace("workload = { kind = \"file\", kilobytes = 1 }", "");
            let text = format!(
                "{plan}[[case]]\nname = 'one'\nworkload = {{ kind = 'file', kilobytes = 1 }}\nwithout = [{without}]\n\
                 [[finding]]\nclaim = 'c'\nsource = 's'\ncheck = {{ kind = 'value', figure = 'requests_per_second', \
                 of = {{ servers = ['amped'] }}, bounds = {{ at_least = 1 }} }}\n"
            );
            Plan::parse("made-up", &text).map_err(|error| error.to_string())
        };
        assert_eq!(cases("'1999'").map(|plan| plan.name), Ok("made-up".into()));
        let error = cases("'amped'").expect_err("amped is what it is about");
        assert!(error.contains("amped cannot be measured"), "{error}");
        let error = cases("'amped', '1999'").expect_err("no server is left");
        assert!(error.contains("at one no server is left"), "{error}");
    }
}
