//! Sections as HTML. Every text that a client may have sent is [escaped](super::escape).

use std::fmt::Write as _;

use super::escape::escape;
use super::figure;
use super::section::{Cell, Column, Condition, Part, Section, Table};

/// A section under its heading, as the page has it at first.
pub(super) fn section(section: &Section) -> String {
    let Section { id, title, .. } = section;
    let content = content(section);
    let hidden = if content.is_empty() { " hidden" } else { "" };
    format!(
        "<section aria-labelledby=\"{id}-title\"{hidden}><h2 id=\"{id}-title\">{title}</h2>\n\
         <div id=\"{id}\">{content}</div></section>\n"
    )
}

/// What is below a section's heading, which events replace. A section without content is hidden.
pub(super) fn content(section: &Section) -> String {
    section.parts.iter().map(part).collect()
}

fn part(part: &Part) -> String {
    match part {
        Part::Pairs(pairs) => {
            let pair = |(name, cell): &(&str, Cell)| {
                format!("<div><dt>{}</dt><dd{}>{}</dd></div>", escape(name), class(cell), shown(cell))
            };
            format!("<dl>{}</dl>", pairs.iter().map(pair).collect::<String>())
        }
        Part::Figure(figure) => figure::svg(figure),
        Part::Table(table) => self::table(table),
        Part::Note(text) => format!("<p class=\"note\">{}</p>", escape(text)),
    }
}

// On a narrow screen the style sheet takes tables apart. The roles keep their meaning for those who listen to the page.
fn table(Table { caption, columns, rows }: &Table) -> String {
    let mut html = format!(
        "<table role=\"table\"><caption>{}</caption><thead role=\"rowgroup\"><tr role=\"row\">",
        escape(caption)
    );
    for Column { title, is_number } in columns {
        let class = if *is_number { " class=\"number\"" } else { "" };
        let _ = write!(html, "<th role=\"columnheader\" scope=\"col\"{class}>{}</th>", escape(title));
    }
    html.push_str("</tr></thead><tbody role=\"rowgroup\">");
    for row in rows {
        html.push_str("<tr role=\"row\">");
        for (place, (cell, Column { title, is_number })) in row.iter().zip(columns).enumerate() {
            let (name, role) = if place == 0 { ("th scope=\"row\"", "rowheader") } else { ("td", "cell") };
            let end = if place == 0 { "th" } else { "td" };
            let class = match (cell.state, is_number) {
                (Condition::Sick, true) => " class=\"number sick\"",
                (Condition::Sick, false) => " class=\"sick\"",
                (Condition::Well, _) => " class=\"well\"",
                (Condition::Plain, true) => " class=\"number\"",
                (Condition::Plain, false) => "",
            };
            let _ = write!(
                html,
                "<{name} role=\"{role}\" data-column=\"{}\"{class}><span>{}</span></{end}>",
                escape(title),
                shown(cell)
            );
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table>");
    html
}

fn class(cell: &Cell) -> &'static str {
    match cell.state {
        Condition::Plain => "",
        Condition::Well => " class=\"well\"",
        Condition::Sick => " class=\"sick\"",
    }
}

/// The text, with a sign for those who see no colours.
fn shown(cell: &Cell) -> String {
    let sign = match cell.state {
        Condition::Plain => "",
        Condition::Well => "<i aria-hidden=\"true\">●</i> ",
        Condition::Sick => "<i aria-hidden=\"true\">▲</i> ",
    };
    format!("{sign}{}", escape(&cell.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "/<script>alert('x\"&')</script>\u{202e}\n";
    const HARMLESS: &str = "/&lt;script&gt;alert(&#39;x&quot;&amp;&#39;)&lt;/script&gt;\\u{202e}\\n";

    #[test]
    fn no_part_of_a_section_passes_markup_on() {
        let cell = || Cell::sick(HOSTILE);
        let parts = vec![
            Part::Note(HOSTILE.into()),
            Part::Pairs(vec![("a", cell())]),
            Part::Table(Table::new(HOSTILE, &["a", "#b"], vec![vec![cell(), Cell::new(HOSTILE)]])),
        ];
        let html = section(&Section { id: "a", title: "A", parts });
        assert!(!html.contains("<script"), "{html}");
        assert_eq!(html.matches(HARMLESS).count(), 5, "{html}");
    }
}
