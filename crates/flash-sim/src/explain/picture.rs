//! A request's life as SVG: a lane for each state that it was in, time to the right.

use std::fmt::Write as _;

use super::span::{Activity, Span};

const WIDE_PX: f64 = 720.0;
const LEFT_PX: f64 = 170.0;
const RIGHT_PX: f64 = 20.0;
const TOP_PX: f64 = 46.0;
const LANE_PX: f64 = 30.0;

/// Waiting is warm, work is cool; on dark pages text and grid are light.
const STYLE: &str = "\
.l { --ink: #1f2328; --grid: #d8dee4; --paper: #fff; font: 12px sans-serif }
@media (prefers-color-scheme: dark) { .l { --ink: #e6edf3; --grid: #30363d; --paper: #0d1117 } }
.l text { fill: var(--ink) } .l .title { font-size: 15px; font-weight: 600 } .l .grid { stroke: var(--grid) }
.l .paper { fill: var(--paper) } .l .waits { fill: #d9822b } .l .works { fill: #2f81f7 }";

pub(super) fn svg(title: &str, spans: &[Span]) -> String {
    let lanes: Vec<Activity> =
        Activity::ALL.into_iter().filter(|state| spans.iter().any(|span| span.state == *state)).collect();
    let begun_us = spans.first().map_or(0.0, |span| span.from_us);
    let whole_us = spans.last().map_or(1.0, |span| span.to_us - begun_us);
    let x = |us: f64| LEFT_PX + (us - begun_us) / whole_us * (WIDE_PX - LEFT_PX - RIGHT_PX);
    let bottom_px = TOP_PX + LANE_PX * lanes.len() as f64;
    let high_px = bottom_px + 28.0;

    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"l\" role=\"img\" viewBox=\"0 0 {WIDE_PX} {high_px}\" \
         width=\"{WIDE_PX}\" height=\"{high_px}\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{WIDE_PX}\" height=\"{high_px}\"/>\n\
         <text class=\"title\" x=\"14\" y=\"24\">{title}</text>\n",
        title = escaped(title)
    );
    let mut put = |text: String| writeln!(out, "{text}").expect("a String takes everything");
    for part in 0..=4 {
        let us = begun_us + whole_us * f64::from(part) / 4.0;
        let (at, label) = (x(us), time(us - begun_us));
        put(format!("<path class=\"grid\" d=\"M{at:.1} {TOP_PX}V{bottom_px}\"/>"));
        put(format!(
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            bottom_px + 18.0
        ));
    }
    for (lane, state) in lanes.iter().enumerate() {
        let top_px = TOP_PX + LANE_PX * lane as f64;
        put(format!("<text x=\"14\" y=\"{:.1}\">{}</text>", top_px + 20.0, escaped(state.name())));
        let class = match state {
            Activity::Processor | Activity::Reads | Activity::Wire => "works",
            Activity::Queued | Activity::Ready | Activity::WaitsForLock | Activity::WaitsForDisk => "waits",
        };
        for span in spans.iter().filter(|span| span.state == *state) {
            // What is too short to be seen is shown as a line.
            let wide_px = (x(span.to_us) - x(span.from_us)).max(1.0);
            let (at, told) = (x(span.from_us), time(span.to_us - span.from_us));
            put(format!(
                "<rect class=\"{class}\" x=\"{at:.1}\" y=\"{:.1}\" width=\"{wide_px:.1}\" height=\"18\"><title>{told}</title></rect>",
                top_px + 6.0
            ));
        }
    }
    out + "</svg>\n"
}

fn time(us: f64) -> String {
    match us {
        _ if us >= 1e6 => format!("{:.2} s", us / 1e6),
        _ if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        _ => format!("{us:.1} us"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\'', "&#39;")
        .replace('"', "&quot;")
}
