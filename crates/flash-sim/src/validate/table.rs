//! The comparison as a page.

use std::fmt::Write as _;

use flash_sim::Architecture;
use flash_sim::parameters::Disk;

use super::cell::{Cell, Figures, MEMORY_BYTES, READS_PER_SECOND, Validation};

/// One of the figures.
type Of = fn(&Figures) -> f64;

const THROUGHPUT_ERROR_MAX: f64 = 0.25;
const READS_ERROR_MAX: f64 = 0.02;

/// Predicted against measured: 0.1 is a tenth too much.
fn error(cell: &Cell, of: Of) -> f64 {
    of(&cell.predicted) / of(&cell.measured) - 1.0
}

/// A prediction that one can decide by.
fn is_good(cell: &Cell) -> bool {
    let reads = cell.predicted.reads_per_request - cell.measured.reads_per_request;
    error(cell, |figures| figures.requests_per_s).abs() <= THROUGHPUT_ERROR_MAX
        && reads.abs() <= READS_ERROR_MAX
}

/// The mean of errors' absolute values.
fn mean_error<'a>(cells: impl Iterator<Item = &'a Cell>, of: Of) -> f64 {
    let errors: Vec<f64> = cells.map(|cell| error(cell, of).abs()).collect();
    errors.iter().sum::<f64>() / errors.len() as f64
}

const MEANS: [(&str, Of); 4] = [
    ("throughput", |figures| figures.requests_per_s),
    ("mean latency", |figures| figures.mean_ms),
    ("p50", |figures| figures.p50_ms),
    ("p99", |figures| figures.p99_ms),
];

fn name(cell: &Cell) -> String {
    match cell.failed {
        0 => cell.architecture.name().into(),
        failed => format!("{} ({failed} failed)", cell.architecture.name()),
    }
}

pub(super) fn markdown(validation: &Validation) -> String {
    let mut page = String::new();
    let mut line = |text: &str| writeln!(page, "{text}").expect("a String takes everything");
    let facts = &validation.facts;
    line(&format!(
        "{}: {} of {}, Linux {}. The server has one processor, {} MiB of memory and {READS_PER_SECOND} reads a second.",
        facts.date,
        facts.processors,
        facts.processor.as_deref().unwrap_or("unknown processors"),
        facts.kernel,
        MEMORY_BYTES >> 20
    ));
    line("");
    let Disk { access_ms, transfer_mbit_s, .. } = validation.disk.disk;
    line(&format!(
        "Its disk takes {:.0} µs and {:.0} µs for 128 KiB more, for {} requests at a time.",
        access_ms * 1e3,
        f64::from(128 << 13) / transfer_mbit_s,
        validation.disk.requests_at_once
    ));
    line("");
    line("Each pair is measured, then predicted.");
    line("");
    line(
        "| data set, MB | clients | architecture | requests/s | error | mean, ms | p50, ms | p99, ms | reads a request | processor busy |",
    );
    line("|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|");
    for cell in &validation.cells {
        let pair = |of: Of, digits: usize| {
            format!("{:.digits$} · {:.digits$}", of(&cell.measured), of(&cell.predicted))
        };
        line(&format!(
            "| {} | {} | {} | {} | {:+.0} % | {} | {} | {} | {} | {} |",
            cell.data_set_mb,
            cell.clients,
            name(cell),
            pair(|figures| figures.requests_per_s, 0),
            100.0 * error(cell, |figures| figures.requests_per_s),
            pair(|figures| figures.mean_ms, 2),
            pair(|figures| figures.p50_ms, 2),
            pair(|figures| figures.p99_ms, 2),
            pair(|figures| figures.reads_per_request, 3),
            pair(|figures| figures.busy, 2),
        ));
    }
    line("");
    let good = validation.cells.iter().filter(|cell| is_good(cell)).count();
    line(&format!(
        "{good} of {} predictions are within {:.0} % in throughput and {READS_ERROR_MAX} in reads a request.",
        validation.cells.len(),
        100.0 * THROUGHPUT_ERROR_MAX
    ));
    line("");
    line("Mean of the errors, without their signs:");
    line("");
    let names: Vec<&str> = MEANS.iter().map(|(name, _)| *name).collect();
    line(&format!("| architecture | {} |", names.join(" | ")));
    line("|---|--:|--:|--:|--:|");
    let mut means = |name: &str, cells: &dyn Fn(&&Cell) -> bool| {
        let percent = |(_, of): &(&str, Of)| {
            format!("{:.0} %", 100.0 * mean_error(validation.cells.iter().filter(cells), *of))
        };
        let figures: Vec<String> = MEANS.iter().map(percent).collect();
        line(&format!("| {name} | {} |", figures.join(" | ")));
    };
    for architecture in Architecture::ALL {
        means(architecture.name(), &|cell| cell.architecture == architecture);
    }
    means("all", &|_| true);
    page
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use flash_rig::Facts;
    use flash_sim::Parameters;

    use super::*;
    use crate::validate::cell::FreeDisk;

    fn figures(requests_per_s: f64) -> Figures {
        Figures {
            requests_per_s,
            mean_ms: 1e3 / requests_per_s,
            p50_ms: 1.0,
            p99_ms: 2.0,
            busy: 1.0,
            reads_per_request: 0.25,
        }
    }

    #[test]
    fn errors_are_signed_in_cells_and_not_in_means() {
        let cell = |architecture, predicted| Cell {
            architecture,
            data_set_mb: 40,
            clients: 8,
            server_mb: 1.0,
            failed: 0,
            measured: figures(100.0),
            predicted: figures(predicted),
        };
        let mut cells = Vec::new();
        for architecture in Architecture::ALL {
            cells.extend([cell(architecture, 80.0), cell(architecture, 140.0)]);
        }
        let facts = Facts::collect(Path::new("."), Path::new("."));
        let disk = FreeDisk { disk: Disk::FAST, requests_at_once: 1 };
        let page = markdown(&Validation { facts, disk, parameters: Parameters::default(), cells });
        assert!(page.contains("| 40 | 8 | mp | 100 · 80 | -20 % | 10.00 · 12.50 | "), "{page}");
        assert!(page.contains("| 40 | 8 | sped | 100 · 140 | +40 % | 10.00 · 7.14 | "), "{page}");
        // (20 + 40) / 2, and (25 + 29) / 2.
        assert!(page.contains("| amped | 30 % | 27 % | 0 % | 0 % |"), "{page}");
        // Of each pair, 20 % too little is good, and 40 % too much is not.
        assert!(
            page.contains("5 of 10 predictions are within 25 % in throughput and 0.02 in reads"),
            "{page}"
        );
        assert!(page.contains("| all | 30 % | 27 % | 0 % | 0 % |"), "{page}");
    }
}
