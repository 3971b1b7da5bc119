//! A small figure of a value for each second: as SVG, and as a line of text.

use std::fmt::Write as _;

use super::escape::escape;
use super::section::Figure;
use crate::admin::history::SECONDS_MAX;

/// Seconds that a figure shows.
const SECONDS: usize = SECONDS_MAX;
const HEIGHT: f64 = 60.0;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of the line of text.
const BARS_MAX: usize = 60;

/// The figure with its caption: the latest value, and the highest one.
pub(super) fn svg(figure: &Figure) -> String {
    let Figure { title, values, shown } = figure;
    let (latest, highest) = ends(values);
    let words = escape(&format!("{title}: {} now, {} at most", shown(latest), shown(highest)));
    let mut line = String::new();
    let first = SECONDS.saturating_sub(values.len());
    for (place, value) in values.iter().enumerate() {
        let y = HEIGHT - 1.0 - *value as f64 / highest.max(1) as f64 * (HEIGHT - 4.0);
        let _ = write!(line, "{} {y:.1} ", first + place);
    }
    let area = match values.len() {
        0 => String::new(),
        count => format!("M{first} {HEIGHT} L{line}L{} {HEIGHT} Z", first + count - 1),
    };
    format!(
        "<figure><figcaption>{} <b>{}</b> <small>at most {}</small></figcaption>\
         <svg role=\"img\" aria-label=\"{words}\" viewBox=\"0 0 {} {HEIGHT}\" preserveAspectRatio=\"none\">\
         <path class=\"grid\" d=\"M0 {HEIGHT}H{SECONDS}M60 0v{HEIGHT}M120 0v{HEIGHT}M180 0v{HEIGHT}M240 0v{HEIGHT}\"/>\
         <path class=\"area\" d=\"{area}\"/><polyline points=\"{}\"/></svg>\
         <p class=\"axis\" aria-hidden=\"true\"><span>5 minutes ago</span><span>now</span></p></figure>\n",
        escape(title),
        escape(&shown(latest)),
        escape(&shown(highest)),
        SECONDS - 1,
        line.trim_end(),
    )
}

/// `Requests  ▁▂▅█  120/s now, 300/s at most in 5 minutes`.
pub(super) fn line(figure: &Figure, columns: usize) -> String {
    let Figure { title, values, shown } = figure;
    let (latest, highest) = ends(values);
    let width = SECONDS / BARS_MAX;
    let bars: String = values
        .rchunks(width)
        .map(|chunk| chunk.iter().sum::<u64>() as f64 / chunk.len() as f64)
        .map(|value| BARS[((value / highest.max(1) as f64 * 7.0).round() as usize).min(7)])
        .collect();
    let bars: String = bars.chars().rev().collect();
    let ends = format!("  {} now, {} at most", shown(latest), shown(highest));
    let room = columns.saturating_sub(11 + ends.chars().count()).min(BARS_MAX);
    // The latest ones.
    let left_out = bars.chars().count().saturating_sub(room);
    let bars: String = bars.chars().skip(left_out).collect();
    format!("{title:<10} {bars:▁>room$}{ends}")
}

/// The latest value, and the highest.
fn ends(values: &[u64]) -> (u64, u64) {
    (values.last().copied().unwrap_or_default(), values.iter().copied().max().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(values: Vec<u64>) -> Figure {
        Figure { title: "Requests", values, shown: super::super::number::rate }
    }

    #[test]
    fn the_latest_value_is_at_the_right() {
        let svg = svg(&figure(vec![0, 5, 10]));
        assert!(svg.contains("points=\"297 59.0 298 31.0 299 3.0\""), "{svg}");
        assert!(svg.contains("Requests: 10/s now, 10/s at most"), "{svg}");
        let line = line(&figure(vec![0, 0, 0, 0, 0, 7, 7, 7, 7, 7]), usize::MAX);
        assert!(line.ends_with("▁▁█  7/s now, 7/s at most"), "{line}");
    }

    #[test]
    fn no_value_is_no_error() {
        assert!(svg(&figure(Vec::new())).contains("0/s now"));
        assert!(line(&figure(vec![0; SECONDS]), usize::MAX).contains("0/s now"));
    }
}
