//! The report as one HTML page. It has figures of sleeps over time and by cause, and a flame graph of sleeping stacks. It also
//! lists the paths with the most sleep, and what each thread did. It loads no other files.

use flash_figure::{Axis, DESK_PX, Figure, PHONE_PX, Series};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::advice::advice;
use crate::block::ThreadTotals;
use crate::flame;
use crate::lost::Lost;
use crate::summary::{Row, Summary};
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
    let count = if has_loops { loops.len() } else { threads.len() };
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
                    (figure(&over_time(summary, &shown, seconds, count)))
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

fn over_time(summary: &Summary, shown: &dyn Fn(u32) -> bool, seconds: f64, threads: usize) -> Figure {
    let causes = summary.over_time(shown);
    let (whole_us, step_us) = ((seconds * 1e6) as u64, summary.step_us());
    // Several steps make a point, so that a long watch stays legible.
    let together = whole_us.div_ceil(step_us).div_ceil(POINTS_MAX).max(1);
    let mut figure = Figure::lines(
        "Sleeps over time",
        Axis::linear("time", "s"),
        Axis::linear("share of the time asleep", "%"),
    )
    .about("The share of time that blocks of each cause took.");
    let mut by_weight: Vec<_> = causes.into_iter().collect();
    by_weight.sort_by_key(|(_, steps)| std::cmp::Reverse(steps.values().sum::<u64>()));
    for (cause, steps) in by_weight.into_iter().take(CAUSES_MAX) {
        let mut series = Series::new(cause.name()).steps();
        for from_us in (0..whole_us).step_by((together * step_us) as usize) {
            let first = from_us / step_us;
            let us: u64 = steps.range(first..first + together).map(|(_, us)| us).sum();
            let of_us = (whole_us - from_us).min(together * step_us) * threads.max(1) as u64;
            series = series.point(from_us as f64 / 1e6, us as f64 * 100.0 / of_us as f64);
        }
        figure = figure.with(series);
    }
    figure
}

fn by_cause(summary: &Summary, shown: &dyn Fn(u32) -> bool) -> Figure {
    let mut causes: Vec<(&str, f64)> = summary
        .over_time(shown)
        .into_iter()
        .map(|(cause, steps)| (cause.name(), steps.values().sum::<u64>() as f64 / 1e3))
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

#[test]
fn no_share_is_above_the_whole() {
    use crate::block::Block;

    let mut summary = Summary::default();
    // Four threads that slept for all of five seconds, one of them from before a step until after it.
    for thread in 1..=4 {
        summary.add(&Block { time_us: 20_000, us: 4_980_000, ..Block::of_thread(thread) });
    }
    let figure = over_time(&summary, &|_| true, 5.0, 4);
    let shares: Vec<f64> =
        figure.series.iter().flat_map(|series| &series.points).map(|point| point.y).collect();
    assert_eq!(shares.len(), 50);
    assert!((shares[0] - 80.0).abs() < 1e-9 && shares[1..].iter().all(|share| (share - 100.0).abs() < 1e-9));
}
