//! What the runs gave, and the figures that they make.

use flash_figure::{Figure, Series};
use flash_sim::{Architecture, Outcome};

use super::panel::{Cell, Panel, Varies};

/// All runs of all panels, in the order in which they were asked for.
pub(super) struct Results {
    runs: Vec<(Cell, Outcome)>,
}

/// One quantity over the seeds, in their order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seeds(pub Vec<f64>);

impl Results {
    pub(super) fn new(cells: Vec<Cell>, outcomes: Vec<Outcome>) -> Results {
        Results { runs: cells.into_iter().zip(outcomes).collect() }
    }

    /// A quantity of a point of a panel. Empty where it was not run.
    pub(super) fn at(
        &self,
        panel: &str,
        architecture: Architecture,
        x: u32,
        quantity: impl Fn(&Outcome) -> f64,
    ) -> Seeds {
        let here = |cell: &Cell| cell.panel.name == panel && cell.architecture == architecture && cell.x == x;
        Seeds(self.runs.iter().filter(|(cell, _)| here(cell)).map(|(_, outcome)| quantity(outcome)).collect())
    }

    /// What a panel shows: throughput or bandwidth.
    pub(super) fn shown(&self, panel: &Panel, architecture: Architecture, x: u32) -> Seeds {
        self.at(panel.name, architecture, x, |outcome| match panel.varies {
            Varies::Processors { .. } => outcome.requests_per_s,
            Varies::DataSet | Varies::Clients => outcome.mbit_per_s,
        })
    }

    /// Where a panel was looked at, from the left.
    pub(super) fn xs(&self, panel: &str) -> Vec<u32> {
        let mut xs: Vec<u32> =
            self.runs.iter().filter(|(cell, _)| cell.panel.name == panel).map(|(cell, _)| cell.x).collect();
        xs.sort_unstable();
        xs.dedup();
        xs
    }

    /// `made` says how.
    pub(super) fn figure(&self, panel: &Panel, made: &str) -> Figure {
        let (x, y) = panel.axes();
        let mut figure = Figure::lines(panel.title, x, y);
        for &architecture in panel.architectures() {
            let mut line = Series::new(architecture.name().to_uppercase());
            for x in self.xs(panel.name) {
                let shown = self.shown(panel, architecture, x);
                line = line.spread(f64::from(x), shown.median(), shown.low(), shown.high());
            }
            figure = figure.with(line);
        }
        figure.about(format!(
            "Medians, and what lies between the least and the most of {} seeds. {made}",
            self.seeds()
        ))
    }

    /// Seeds are numbered from 1.
    pub(super) fn seeds(&self) -> usize {
        self.runs.iter().map(|(cell, _)| cell.scenario.run.seed).max().unwrap_or(0) as usize
    }
}

impl Seeds {
    pub(super) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let (count, middle) = (sorted.len(), sorted.len() / 2);
        match count {
            0 => f64::NAN,
            _ if count % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        }
    }

    pub(super) fn low(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::min)
    }

    pub(super) fn high(&self) -> f64 {
        self.0.iter().copied().fold(f64::NAN, f64::max)
    }
}
