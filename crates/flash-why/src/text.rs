//! The report as text.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::advice::advice;
use crate::block::ThreadTotals;
use crate::lost::Lost;
use crate::summary::{Row, Summary};

/// Lines of tables.
const PATHS_MAX: usize = 8;
const CAUSES_MAX: usize = 12;
const THREADS_MAX: usize = 16;

/// The report: what put loops to sleep, what put other threads to sleep, what each thread did, and a sentence.
pub fn report(summary: &Summary, threads: &[ThreadTotals], seconds: f64, lost: Lost) -> String {
    let loops = loops(threads);
    let of_loops = |thread| loops.contains(&thread);
    let of_others = |thread| !loops.contains(&thread);
    let mut text = String::new();
    let rows = summary.rows(&of_loops);
    if !rows.is_empty() {
        let of_seconds = seconds * loops.len() as f64;
        let _ = writeln!(text, "{}", table(&summary.rows_by_cause(&of_loops), CAUSES_MAX, of_seconds));
        let _ = writeln!(text, "Paths:\n{}", table(&rows, PATHS_MAX, of_seconds));
    }
    let others = summary.rows_by_cause(&of_others);
    if !others.is_empty() {
        let title =
            if loops.is_empty() { "No thread has a loop. All sleeps:" } else { "Threads without a loop:" };
        let count = threads.iter().filter(|thread| !thread.is_loop).count().max(1);
        let _ = writeln!(text, "{title}\n{}", table(&others, CAUSES_MAX, seconds * count as f64));
    }
    text.push_str(&of_threads(threads, seconds));
    if !lost.is_none() {
        let _ = writeln!(text, "Lost: {lost}. Counts by thread are whole, tables are not.");
    }
    let ready = summary.ready(&of_loops);
    if ready > 0 {
        let total = summary.total(&of_loops);
        let _ = writeln!(
            text,
            "\nWhen a block ended, {:.1} other connections were ready on average ({ready} waits in all).",
            ready as f64 / total.count.max(1) as f64
        );
    }
    let of_others = || advice(&summary.rows(&of_others), summary.total(&of_others), 0);
    let of_loops = (summary.total(&of_loops), loops.len());
    let _ = match of_loops {
        (_, 0) => writeln!(text, "\n{}", of_others()),
        // Processes with a loop often have workers that do what is slow.
        (total, loops) if total.count == 0 && !others.is_empty() => {
            writeln!(text, "\n{} Of the threads without one: {}", advice(&rows, total, loops), of_others())
        }
        (total, loops) => writeln!(text, "\n{}", advice(&rows, total, loops)),
    };
    text
}

pub(crate) fn loops(threads: &[ThreadTotals]) -> BTreeSet<u32> {
    threads.iter().filter(|thread| thread.is_loop).map(|thread| thread.thread).collect()
}

/// Rows in columns. Shares are of so many seconds.
pub fn table(rows: &[Row], rows_max: usize, seconds: f64) -> String {
    let mut text = format!(
        "{:<14} {:<29} {:>8} {:>9} {:>9} {:>9} {:>7} {:>6}  PATH\n",
        "CALL", "CAUSE", "COUNT", "P50", "P99", "MAX", "SHARE", "READY"
    );
    for row in rows.iter().take(rows_max) {
        let _ = writeln!(
            text,
            "{:<14} {:<29} {:>8} {:>9} {:>9} {:>9} {:>7} {:>6}  {}",
            row.call,
            row.cause,
            row.weight.count,
            length(row.p50_us),
            length(row.p99_us),
            length(row.max_us),
            share(row.weight.us, seconds),
            row.ready.map_or_else(String::new, |ready| format!("{ready:.1}")),
            row.path.as_deref().unwrap_or_default(),
        );
    }
    if rows.len() > rows_max {
        let (mut count, mut us) = (0, 0);
        for row in &rows[rows_max..] {
            count += row.weight.count;
            us += row.weight.us;
        }
        let name = format!("({} more lines)", rows.len() - rows_max);
        let _ = writeln!(text, "{name:<44} {count:>8} {:>29} {:>7}", "", share(us, seconds));
    }
    text
}

fn of_threads(threads: &[ThreadTotals], seconds: f64) -> String {
    let mut sorted: Vec<&ThreadTotals> = threads.iter().collect();
    sorted.sort_by_key(|thread| (!thread.is_loop, std::cmp::Reverse(thread.block_us)));
    let mut text = format!(
        "{:<8} {:<16} {:<5} {:>9} {:>8} {:>9} {:>8}\n",
        "THREAD", "NAME", "LOOP", "WAITS", "SHARE", "BLOCKS", "SHARE"
    );
    for thread in sorted.iter().take(THREADS_MAX) {
        let _ = writeln!(
            text,
            "{:<8} {:<16} {:<5} {:>9} {:>8} {:>9} {:>8}",
            thread.thread,
            thread.name,
            if thread.is_loop { "yes" } else { "no" },
            thread.waits,
            share(thread.wait_us, seconds),
            thread.blocks,
            share(thread.block_us, seconds),
        );
    }
    if sorted.len() > THREADS_MAX {
        let _ = writeln!(text, "({} more threads)", sorted.len() - THREADS_MAX);
    }
    text
}

fn share(us: u64, seconds: f64) -> String {
    format!("{:.1} %", us as f64 / 10_000.0 / seconds.max(1e-6))
}

/// A length of time in three digits.
pub(crate) fn length(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..10_000 => format!("{:.2} ms", us as f64 / 1e3),
        10_000..100_000 => format!("{:.1} ms", us as f64 / 1e3),
        100_000..1_000_000 => format!("{:.0} ms", us as f64 / 1e3),
        _ => format!("{:.2} s", us as f64 / 1e6),
    }
}
