//! A flame graph of sleeping stacks, as SVG: callers below, callees above, widths by time.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::block::Frames;
use crate::summary::Weight;
use crate::text::length;

const BAR_PX: f64 = 18.0;
/// Narrower ones are left out, because they would be invisible.
const WIDTH_MIN_PX: f64 = 1.0;
/// About the width of a letter.
const LETTER_PX: f64 = 6.0;

#[derive(Default)]
struct Node<'a> {
    us: u64,
    count: u64,
    callees: BTreeMap<&'a str, Node<'a>>,
}

/// The graph, so many pixels wide.
pub(crate) fn graph(stacks: &[(Frames, Weight)], wide_px: f64) -> String {
    let mut root = Node::default();
    for (stack, weight) in stacks {
        let mut node = &mut root;
        node.add(weight);
        for function in stack.iter().rev() {
            node = node.callees.entry(function).or_default();
            node.add(weight);
        }
    }
    let px_per_us = wide_px / root.us.max(1) as f64;
    let depth = root.depth(px_per_us);
    let high_px = depth as f64 * BAR_PX;
    let mut svg = format!(
        "<svg class=\"flame\" viewBox=\"0 0 {wide_px:.0} {high_px:.0}\" width=\"{wide_px:.0}\" role=\"img\">\
         <title>Sleeping stacks</title>\n"
    );
    root.draw_callees(&mut svg, 0.0, high_px, px_per_us, root.us);
    svg.push_str("</svg>\n");
    svg
}

impl<'a> Node<'a> {
    fn add(&mut self, weight: &Weight) {
        self.us += weight.us;
        self.count += weight.count;
    }

    fn depth(&self, px_per_us: f64) -> usize {
        let seen = self.callees.values().filter(|callee| callee.us as f64 * px_per_us >= WIDTH_MIN_PX);
        seen.map(|callee| 1 + callee.depth(px_per_us)).max().unwrap_or(0)
    }

    fn draw_callees(&self, svg: &mut String, mut left_px: f64, floor_px: f64, px_per_us: f64, whole_us: u64) {
        for (name, callee) in &self.callees {
            let wide_px = callee.us as f64 * px_per_us;
            if wide_px < WIDTH_MIN_PX {
                continue;
            }
            let top_px = floor_px - BAR_PX;
            let name = escaped(name);
            let percent = callee.us as f64 * 100.0 / whole_us.max(1) as f64;
            let _ = write!(
                svg,
                "<g><title>{name}: {} in {} sleeps, {percent:.1} %</title>\
                 <rect x=\"{left_px:.1}\" y=\"{top_px:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                length(callee.us),
                callee.count,
                (wide_px - 0.5).max(0.5),
                BAR_PX - 1.0,
                colour(&name),
            );
            let letters = (wide_px / LETTER_PX) as usize;
            if letters > 3 {
                let shown: String = name.chars().take(letters - 1).collect();
                let _ =
                    write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{shown}</text>", left_px + 3.0, top_px + 13.0);
            }
            svg.push_str("</g>\n");
            callee.draw_callees(svg, left_px, top_px, px_per_us, whole_us);
            left_px += wide_px;
        }
    }
}

/// A warm colour, the same for the same name; dark text is legible on each.
fn colour(name: &str) -> String {
    let sum = name.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("hsl({} 80% {}%)", 20 + sum % 35, 66 + sum / 35 % 12)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[test]
fn callers_are_as_wide_as_what_they_called() {
    use std::sync::Arc;

    let stack = |names: &[&str]| names.iter().map(|&name| Arc::from(name)).collect::<Vec<Arc<str>>>().into();
    let stacks = [
        (stack(&["io_schedule", "read", "entry"]), Weight { count: 1, us: 750 }),
        (stack(&["mutex<T>", "open", "entry"]), Weight { count: 1, us: 250 }),
    ];
    let svg = graph(&stacks, 400.0);
    assert!(svg.contains("entry: 1.00 ms in 2 sleeps, 100.0 %"), "{svg}");
    assert!(svg.contains("width=\"299.5\"") && svg.contains("mutex&lt;T&gt;"), "{svg}");
    assert!(svg.contains("viewBox=\"0 0 400 54\""), "{svg}");
}
