//! The report as one HTML page. It has figures of sleeps over time and by cause, and a flame graph of sleeping stacks. It also
//! lists the paths with the most sleep, and what each thread did. It loads no other files.

use flash_figure::{Axis, DESK_PX, Figure, PHONE_PX, Series};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::advice::advice;
use crate::block::ThreadTotals;
use crate::flame;
use crate::lost::Lost;
use crate::summary::{Row, STEP_US, Summary};
use crate::text::{length, loops};

const STYLE: &str = include_str!("page.css");
/// Points of a line over time.
const POINTS_MAX: u64 = 120;
const CAUSES_MAX: usize = 6;
const PATHS_MAX: usize = 30;

/// The page of a watch that took so many seconds. `head` says what was watched, and how.
pub fn page(head: &str, summary: &Summary, threads: &[ThreadTotals], seconds: f64, lost: Lost) -> String {
    let loops = loops(threads);
    let has_loops = !loops.is_empty();
    let shown = |thread: u32| !has_loops || loops.contains(&thread);
    let rows = summary.rows(&shown);
    let whole = summary.total(&shown);
    let sentence = advice(&rows, whole, loops.len());
    let whose = if has_loops { "loops" } else { "threads" };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "flash why: " (head) }
                style { (PreEscaped(STYLE)) (PreEscaped(flash_figure::STYLE)) }
            }
            body {
                h1 { "What puts the " (whose) " to sleep" }
                p { (head) ", " (format!("{seconds:.1} s")) }
                p.sentence { (sentence) }
                @if !lost.is_none() {
                    p.lost { "Lost: " (lost) "." }
                }
                @if whole.count > 0 {
                    h2 { "Sleeps over time" }
                    (figure(&over_time(summary, &shown, seconds, loops.len().max(1))))
                    h2 { "Sleeps by cause" }
                    (figure(&by_cause(summary, &shown)))
                    h2 { "Where in the kernel" }
                    p { "Each bar is a function, as wide as the time asleep in what it called. Callers are below." }
                    (PreEscaped(flame::graph(&summary.stacks(&shown), f64::from(DESK_PX))))
                    h2 { "By call, cause and path" }
                    (table(&rows))
                }
                h2 { "Threads" }
                (of_threads(threads, seconds))
            }
        }
    };
    page.into_string()
}

fn figure(figure: &Figure) -> Markup {
    html! {
        figure {
            div.desk { (PreEscaped(figure.inline_svg(DESK_PX))) }
            div.phone { (PreEscaped(figure.inline_svg(PHONE_PX))) }
            figcaption { (figure.about) }
        }
    }
}

fn over_time(summary: &Summary, shown: &dyn Fn(u32) -> bool, seconds: f64, loops: usize) -> Figure {
    let causes = summary.over_time(shown);
    let steps = ((seconds * 1e6) as u64).div_ceil(STEP_US).max(1);
    // Several steps make a point, so that a long watch stays legible.
    let together = steps.div_ceil(POINTS_MAX);
    let mut figure = Figure::lines(
        "Sleeps over time",
        Axis::linear("time", "s"),
        Axis::linear("share of the time asleep", "%"),
    )
    .about("The share of time that blocks of each cause took, where they began.");
    let mut by_weight: Vec<_> = causes.into_iter().collect();
    by_weight
        .sort_by_key(|(_, steps)| std::cmp::Reverse(steps.values().map(|weight| weight.us).sum::<u64>()));
    for (cause, weights) in by_weight.into_iter().take(CAUSES_MAX) {
        let mut series = Series::new(cause.name()).steps();
        for point in 0..steps.div_ceil(together) {
            let within = weights.range(point * together..(point + 1) * together);
            let us: u64 = within.map(|(_, weight)| weight.us).sum();
            let of_us = (together * STEP_US * loops as u64) as f64;
            series = series.point((point * together * STEP_US) as f64 / 1e6, us as f64 * 100.0 / of_us);
        }
        figure = figure.with(series);
    }
    figure
}

fn by_cause(summary: &Summary, shown: &dyn Fn(u32) -> bool) -> Figure {
    let mut causes: Vec<(&str, f64)> = summary
        .over_time(shown)
        .into_iter()
        .map(|(cause, steps)| {
            (cause.name(), steps.values().map(|weight| weight.us).sum::<u64>() as f64 / 1e3)
        })
        .collect();
    causes.sort_by(|a, b| b.1.total_cmp(&a.1));
    causes.truncate(CAUSES_MAX + 2);
    let mut series = Series::new("time asleep");
    for (at, (_, ms)) in causes.iter().enumerate() {
        series = series.point(at as f64, *ms);
    }
    Figure::bars("Sleeps by cause", causes.iter().map(|(name, _)| *name), Axis::linear("time asleep", "ms"))
        .about("All blocks of the watch.")
        .with(series)
}

fn table(rows: &[Row]) -> Markup {
    html! {
        div.wide {
            table {
                tr {
                    @for name in ["call", "cause", "count", "p50", "p99", "max", "ready", "path"] {
                        th { (name) }
                    }
                }
                @for row in rows.iter().take(PATHS_MAX) {
                    tr {
                        td { (row.call) }
                        td { (row.cause.name()) }
                        td.n { (row.weight.count) }
                        td.n { (length(row.p50_us)) }
                        td.n { (length(row.p99_us)) }
                        td.n { (length(row.max_us)) }
                        td.n { (row.ready.map_or_else(String::new, |ready| format!("{ready:.1}"))) }
                        td.path { (row.path.as_deref().unwrap_or_default()) }
                    }
                }
            }
        }
        @if rows.len() > PATHS_MAX {
            p { (rows.len() - PATHS_MAX) " more lines." }
        }
    }
}

fn of_threads(threads: &[ThreadTotals], seconds: f64) -> Markup {
    let share = |us: u64| format!("{:.1} %", us as f64 / 10_000.0 / seconds.max(1e-6));
    html! {
        div.wide {
            table {
                tr {
                    @for name in ["process", "thread", "name", "loop", "waits", "share", "blocks", "share", "lost"] {
                        th { (name) }
                    }
                }
                @for thread in threads {
                    tr {
                        td.n { (thread.pid) }
                        td.n { (thread.thread) }
                        td { (thread.name) }
                        td { (if thread.is_loop { "yes" } else { "no" }) }
                        td.n { (thread.waits) }
                        td.n { (share(thread.wait_us)) }
                        td.n { (thread.blocks) }
                        td.n { (share(thread.block_us)) }
                        td.n { (thread.lost) }
                    }
                }
            }
        }
    }
}
