//! Any data at all gives a figure that is well-formed, lies within its frame, and whose texts do not overlap.

use proptest::prelude::*;
use roxmltree::{Document, Node};

use crate::{Across, Axis, DESK_PX, Figure, Form, Kind, PHONE_PX, Point, Scale, Series, text};

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("amped".to_owned()),
        Just("AMPED, 1999".to_owned()),
        Just("<a href=\"x\"> & 'b'".to_owned()),
        ".{0,40}",
        "[a-z ]{0,200}",
    ]
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        10 => 0.0..1000.0,
        2 => -10.0..10.0,
        2 => (-300.0..300.0).prop_map(|n: f64| 10f64.powf(n)),
        1 => (0.0..1e-3).prop_map(|n: f64| 1e9 + n),
        1 => any::<f64>(),
        1 => prop::sample::select(vec![0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE]),
    ]
}

fn axis() -> impl Strategy<Value = Axis> {
    let scale = prop::sample::select(vec![Scale::Linear, Scale::Log]);
    let unit = prop::sample::select(vec!["", "s", "B", "b/s", "Mb/s", "%", "<&"]);
    (name(), unit, scale).prop_map(|(label, unit, scale)| Axis { label, unit: unit.into(), scale })
}

fn point() -> impl Strategy<Value = Point> {
    let x = prop_oneof![(0..5u8).prop_map(f64::from), value()];
    let spread = prop::option::of((value(), value()));
    (x, value(), spread).prop_map(|(x, y, spread)| Point { x, y, spread })
}

fn series() -> impl Strategy<Value = Series> {
    let kind = prop::sample::select(vec![Kind::Measured, Kind::Reference]);
    let form = prop::sample::select(vec![Form::Straight, Form::Steps]);
    let count = prop_oneof![0..8usize, 0..80usize];
    let points = count.prop_flat_map(|count| prop::collection::vec(point(), count));
    (name(), kind, form, points).prop_map(|(name, kind, form, points)| Series { name, kind, form, points })
}

fn figure() -> impl Strategy<Value = Figure> {
    let groups = prop::collection::vec(name(), 0..5).prop_map(Across::Groups);
    let across = prop_oneof![axis().prop_map(Across::Axis), groups];
    (name(), name(), across, axis(), prop::collection::vec(series(), 0..14))
        .prop_map(|(title, about, x, y, series)| Figure { title, about, x, y, series })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn any_figure_can_be_read(figure in figure()) {
        for svg in [figure.svg(), figure.inline_svg(PHONE_PX), figure.inline_svg(DESK_PX)] {
            check(&figure, &svg).map_err(TestCaseError::fail)?;
        }
        prop_assert_eq!(figure.svg(), figure.svg());
    }

    #[test]
    fn csv_and_json_hold_every_point(figure in figure()) {
        let json: serde_json::Value = serde_json::from_str(&figure.json()).expect("JSON");
        let count: usize = figure.series.iter().map(|series| series.points.len()).sum();
        let in_json = json["series"].as_array().expect("a list").iter().map(|series| series["points"].as_array().map_or(0, Vec::len));
        prop_assert_eq!(in_json.sum::<usize>(), count);
        let rows = rows(&figure.csv());
        prop_assert_eq!(rows.len(), count + 1);
        prop_assert!(rows.iter().all(|row| row.len() == 6));
        let names = figure.series.iter().flat_map(|series| series.points.iter().map(|_| series.name.as_str()));
        prop_assert!(names.eq(rows[1..].iter().map(|row| row[0].as_str())));
    }
}

/// CSV as RFC 4180 has it.
fn rows(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = csv.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    rows
}

fn check(figure: &Figure, svg: &str) -> Result<(), String> {
    let document = Document::parse(svg).map_err(|wrong| wrong.to_string())?;
    let root = document.root_element();
    let child = |tag: &str| root.children().find(|node| node.tag_name().name() == tag);
    let said = |tag: &str| child(tag).and_then(|node| node.text()).unwrap_or_default().to_owned();
    if root.attribute("role") != Some("img")
        || said("title") != in_xml(&figure.title)
        || said("desc") != in_xml(&figure.about)
    {
        return Err("it does not say what it is".into());
    }
    let frame = numbers(root.attribute("viewBox").unwrap_or_default())?;
    let [_, _, wide, high] = frame[..] else { return Err("no viewBox".into()) };
    let mut boxes: Vec<(String, [f64; 4])> = Vec::new();
    for node in root.descendants() {
        let [dx, dy] = moved(&node)?;
        let places = match node.tag_name().name() {
            "path" => {
                let places = path_places(node.attribute("d").unwrap_or_default())?;
                places.iter().map(|[x, y]| [x + dx, y + dy]).collect()
            }
            "text" => {
                let label = node.text().unwrap_or_default();
                let [left, top, right, bottom] = text_box(&node, label)?;
                let [left, top, right, bottom] = [left + dx, top + dy, right + dx, bottom + dy];
                for (other, [l, t, r, b]) in &boxes {
                    if left < r - 0.1 && *l < right - 0.1 && top < b - 0.1 && *t < bottom - 0.1 {
                        return Err(format!("{label:?} at {left} {top} overlaps {other:?}"));
                    }
                }
                boxes.push((label.to_owned(), [left, top, right, bottom]));
                vec![[left, top], [right, bottom]]
            }
            _ => continue,
        };
        for [x, y] in places {
            let inside = (-0.6..=wide + 0.6).contains(&x) && (-0.6..=high + 0.6).contains(&y);
            if !inside {
                return Err(format!("{:?} lies outside at {x} {y}", &svg[node.range()]));
            }
        }
    }
    Ok(())
}

/// A text as XML can say it.
fn in_xml(text: &str) -> String {
    let escaped = text::escaped(text);
    escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

fn text_box(node: &Node<'_, '_>, label: &str) -> Result<[f64; 4], String> {
    let class = node.attribute("class").unwrap_or_default();
    let size = match class.split(' ').next() {
        Some("title") => 16.0,
        Some("head" | "name") => 13.0,
        _ => 12.0,
    };
    let wide = text::width_px(label, size);
    let [x, y] = ["x", "y"].map(|name| node.attribute(name).unwrap_or_default());
    let [x, y] = [numbers(x)?[0], numbers(y)?[0]];
    let left = if class.ends_with("end") {
        x - wide
    } else if class.ends_with("mid") {
        x - wide / 2.0
    } else {
        x
    };
    Ok([left, y - 0.75 * size, left + wide, y + 0.2 * size])
}

fn moved(node: &Node<'_, '_>) -> Result<[f64; 2], String> {
    let mut sum = [0.0, 0.0];
    for group in node.ancestors().filter_map(|node| node.attribute("transform")) {
        let by = numbers(group.trim_start_matches("translate(").trim_end_matches(')'))?;
        sum = [sum[0] + by[0], sum[1] + by[1]];
    }
    Ok(sum)
}

fn numbers(text: &str) -> Result<Vec<f64>, String> {
    let number = |word: &str| match word.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!("{word:?} in {text:?} is not a number")),
    };
    text.split(' ').map(number).collect()
}

/// The places that a path of M, L, H and V goes through; circles (`a`) start at theirs.
fn path_places(data: &str) -> Result<Vec<[f64; 2]>, String> {
    let (mut places, mut at, mut rest) = (Vec::new(), [0.0, 0.0], data.trim_end_matches('Z'));
    while let Some(command) = rest.chars().next() {
        let end = rest[1..].find(|c: char| c.is_ascii_alphabetic()).map_or(rest.len(), |end| end + 1);
        let values = numbers(&rest[1..end]).map_err(|wrong| format!("{wrong}, {data}"))?;
        match (command, &values[..]) {
            ('M' | 'L', [x, y]) => at = [*x, *y],
            ('H', [x]) => at[0] = *x,
            ('V', [y]) => at[1] = *y,
            ('a', _) => {}
            _ => return Err(format!("odd path {data:?}")),
        }
        places.push(at);
        rest = &rest[end..];
    }
    Ok(places)
}

#[test]
fn distributions_end_at_all_of_them() {
    let series = Series::cumulative("a", [3.0, 1.0, 1.0, f64::NAN, 2.0]);
    let points: Vec<_> = series.points.iter().map(|point| (point.x, point.y)).collect();
    assert_eq!(points, [(1.0, 50.0), (2.0, 75.0), (3.0, 100.0)]);
    assert_eq!(Series::cumulative("a", []).points, []);
    let series = Series::histogram("a", &[0.0, 1.0, 4.0], &[1, 3]);
    let points: Vec<_> = series.points.iter().map(|point| (point.x, point.y)).collect();
    assert_eq!(points, [(0.0, 25.0), (1.0, 75.0), (4.0, 0.0)]);
}
