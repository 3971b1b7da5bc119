//! Section 3 of the paper: the memory that its servers use for bookkeeping, and the rest, which is the data cache. Table 1,
//! Figures 2 and 3. This module has only formulas, those of the simulator's memory; it runs nothing.
//!
//! A cached file counts as 15 KB with any trace. The paper's own numbers show that it did so throughout. It gives AMPED "8
//! times" PIPELINED's overhead for a trace whose files have 124 KB. That follows from 15 KB, and from nothing larger.

use flash_figure::{Axis, Figure, Series};
use flash_sim::machine::Division;
use flash_sim::{Architecture, Parameters};

use super::table::Table;

pub(super) const KB: f64 = 1024.0;
pub(super) const MB: f64 = 1024.0 * KB;

/// "Approximately 6800" files in 100 MB: the paper's kilobytes have 1,024 bytes.
const FILE_BYTES: f64 = 15.0 * KB;
/// Table 3.
const ENTRY_BYTES: f64 = 850.0;
const PATH_CACHE_BYTES: f64 = 6000.0 * 125.0;
const HELPERS_BYTES: f64 = 3.0 * MB;

/// What is left of the system memory for content: with as many files cached as it holds, overhead and content fill it. The
/// sizes of books, helpers and threads are the paper's, in its units; all else is as given.
pub(super) fn data_cache_bytes(mut parameters: Parameters) -> f64 {
    parameters.machine.data_cache_mb = None;
    parameters.memory.data_entry_bytes = ENTRY_BYTES;
    parameters.memory.helper_mb = HELPERS_BYTES / 2e6;
    parameters.memory.thread_kb = 25.0 * KB / 1e3;
    Division::of(&parameters).content_bytes(FILE_BYTES)
}

/// The same for the paper's defaults.
pub(super) fn data_cache_mb(architecture: Architecture, processors: u32, system_mb: f64) -> f64 {
    let mut parameters = Parameters { architecture, ..Parameters::default() };
    parameters.machine.processors = processors;
    parameters.machine.memory_mb = system_mb * MB / 1e6;
    data_cache_bytes(parameters) / MB
}

/// Table 1, with what its formulas give for 16 processors and the 4 GB of Figure 6(a).
pub(super) fn table1(made: String) -> Table {
    let formulas = [
        "file_entries × 850 × N × P",
        "file_entries × 850 + T × 25K",
        "file_entries × 850 × N",
        "file_entries × 850 × N + 3M × N",
        "file_entries × 850 + 7 × N × 25K",
    ];
    let mut table = Table::new(
        "table1",
        "Table 1. Cache overhead; and at N = 16, with a system memory of 4 GB, P = 16 and T = 32 × N",
        &["architecture", "cache overhead (bytes)", "overhead (MB)", "data cache (MB)"],
        made,
    );
    for (architecture, formula) in Architecture::ALL.into_iter().zip(formulas) {
        let data_cache = data_cache_mb(architecture, 16, 4096.0);
        table.row([
            architecture.name().to_uppercase(),
            formula.to_owned(),
            format!("{:.1}", 4096.0 - data_cache),
            format!("{data_cache:.1}"),
        ]);
    }
    table
}

/// Memory of 1 to 8 Flash servers with a data cache of 100 or 200 MB. The paper measured it; this is what its own numbers
/// add up to.
pub(super) fn figure2(made: &str) -> Vec<(String, Figure)> {
    let panel = |(letter, cache_mb, measured_mb): (char, f64, f64)| {
        let ours = (1..=8).fold(Series::new("AMPED"), |series, servers| {
            series.point(f64::from(servers), flash_servers_mb(f64::from(servers), cache_mb))
        });
        let figure = Figure::lines(
            format!("Figure 2({letter}). Memory of Flash servers with a data cache of {cache_mb:.0} MB"),
            Axis::linear("number of Flash web servers", ""),
            Axis::linear("memory usage", "MB"),
        )
        .about(format!(
            "Bookkeeping grows with the servers, since none shares it with another. The paper measured more. {made}",
        ))
        .with(ours)
        .with(Series::reference("AMPED, measured in 2005").point(8.0, measured_mb));
        (format!("figure2{letter}"), figure)
    };
    [('a', 100.0, 220.0), ('b', 200.0, 400.0)].map(panel).into()
}

/// A data cache that all servers map, and for each of them books, a pathname cache and two helpers.
pub(super) fn flash_servers_mb(servers: f64, data_cache_mb: f64) -> f64 {
    let books = data_cache_mb * MB / FILE_BYTES * ENTRY_BYTES;
    data_cache_mb + servers * (books + PATH_CACHE_BYTES + HELPERS_BYTES) / MB
}

/// Data cache against processors, a line for each system memory.
pub(super) fn figure3(made: &str) -> Vec<(String, Figure)> {
    let panel = |(letter, architecture): (char, Architecture)| {
        let name = architecture.name().to_uppercase();
        let mut figure = Figure::lines(
            format!("Figure 3({letter}). Data cache of a web server process, {name}"),
            Axis::linear("number of processing elements", ""),
            Axis::linear("data cache size", "MB"),
        )
        .about(format!("What bookkeeping leaves of the system memory, which is 100 to 1,000 MB. {made}"));
        for system_mb in (100..=1000).rev().step_by(100) {
            let cache = |n: u32| data_cache_mb(architecture, n, f64::from(system_mb));
            let line = Series::new(format!("{system_mb} MB of system memory"));
            figure = figure.with((1..=16).fold(line, |line, n| line.point(f64::from(n), cache(n))));
        }
        (format!("figure3{letter}"), figure)
    };
    ['a', 'b', 'c', 'd', 'e'].into_iter().zip(Architecture::ALL).map(panel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_and_table_1_s_overhead_fill_the_memory() {
        for (count, system) in [(1, 100.0), (7, 512.0), (16, 5120.0)] {
            let n = f64::from(count);
            for architecture in Architecture::ALL {
                let content = data_cache_mb(architecture, count, system) * MB;
                let entries = content / 15_360.0;
                // Table 1 and Section 4, as they are printed.
                let overhead = match architecture {
                    Architecture::Mp => entries * 850.0 * n * 16.0,
                    Architecture::Mt => entries * 850.0 + 32.0 * n * 25_600.0,
                    Architecture::Sped => entries * 850.0 * n,
                    Architecture::Amped => entries * 850.0 * n + 3_145_728.0 * n,
                    Architecture::Pipelined => entries * 850.0 + 7.0 * n * 25_600.0,
                    later => unreachable!("{later:?} is not in the paper"),
                };
                let filled = (content + overhead) / MB;
                assert!((filled - system).abs() < 1e-6, "{architecture:?} at {n}: {filled} of {system}");
            }
        }
    }

    #[test]
    fn figure_3_by_hand() {
        // 1,000 / (1 + 850 × 16 / 15,360), and so on.
        let close =
            |value: f64, expected: f64| assert!((value - expected).abs() < 0.01, "{value} {expected}");
        close(data_cache_mb(Architecture::Mp, 1, 1000.0), 530.39);
        close(data_cache_mb(Architecture::Mp, 16, 1000.0), 65.93);
        close(data_cache_mb(Architecture::Mt, 16, 1000.0), (1000.0 - 12.5) / 1.055_338_5);
        close(data_cache_mb(Architecture::Sped, 16, 1000.0), 530.39);
        close(data_cache_mb(Architecture::Amped, 16, 1000.0), 0.952 * 530.386_7);
        close(data_cache_mb(Architecture::Pipelined, 16, 1000.0), (1000.0 - 2.734_375) / 1.055_338_5);
        assert_eq!(data_cache_mb(Architecture::Amped, 16, 40.0), 0.0, "48 MB of helpers leave nothing");
    }

    #[test]
    fn figures_have_all_their_points() {
        let figures = figure3("");
        assert_eq!(figures.len(), 5);
        for (name, figure) in &figures {
            assert_eq!(figure.series.len(), 10, "{name}");
            assert!(figure.series.iter().all(|series| series.points.len() == 16), "{name}");
        }
        assert_eq!(figures[2].1.series[0].points[15].y, data_cache_mb(Architecture::Sped, 16, 1000.0));
        let (name, figure) = &figure2("")[0];
        assert_eq!((name.as_str(), figure.series[0].points.len()), ("figure2a", 8));
        // Section 3.1: 8.7 MB for one server, give or take its rounding.
        assert!((figure.series[0].points[0].y - 108.7).abs() < 1.0);
    }
}
