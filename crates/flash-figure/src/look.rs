//! Which colour, marker and dash a name has: the same in every figure.
//!
//! Flash's architectures have full markers on full lines, its peers hollow ones on dashed lines. Names that are not in
//! the table get theirs by hash.

/// The looks of one series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// An index into [`COLOURS`].
    pub(crate) colour: usize,
    pub(crate) marker: Marker,
    pub(crate) hollow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Up,
    Diamond,
    Down,
    Left,
    Right,
    Bar,
}

/// Colours on light and on dark paper; each stands out from it by 4.5 to 1 or more (WCAG 2.1, 1.4.3).
pub(crate) const COLOURS: [(&str, &str); 13] = [
    ("#c2410c", "#fb923c"),
    ("#1d4ed8", "#7aa7ff"),
    ("#15803d", "#4ade80"),
    ("#7e22ce", "#c98bff"),
    ("#0e7490", "#22d3ee"),
    ("#854d0e", "#eab308"),
    ("#be185d", "#f472b6"),
    ("#991b1b", "#f87171"),
    ("#3f6212", "#a3e635"),
    ("#475569", "#a8b8cc"),
    ("#0369a1", "#7dd3fc"),
    ("#86198f", "#e879f9"),
    (GREY.0, GREY.1),
];
const GREY: (&str, &str) = ("#57606a", "#9aa4af");
const GREY_AT: usize = COLOURS.len() - 1;

const KNOWN: [(&str, Look); 14] = [
    ("amped", full(0, Marker::Circle)),
    // The papers' Flash is what is called amped here.
    ("flash", full(0, Marker::Circle)),
    ("uring", full(1, Marker::Square)),
    ("sped", full(2, Marker::Up)),
    ("pipelined", full(3, Marker::Diamond)),
    ("mt", full(4, Marker::Down)),
    ("mp", full(5, Marker::Left)),
    ("nginx", hollow(6, Marker::Circle)),
    ("apache", hollow(7, Marker::Square)),
    ("h2o", hollow(8, Marker::Up)),
    ("lighttpd", hollow(9, Marker::Diamond)),
    ("caddy", hollow(10, Marker::Down)),
    ("zeus", hollow(11, Marker::Left)),
    ("floor", hollow(GREY_AT, Marker::Bar)),
];

const fn full(colour: usize, marker: Marker) -> Look {
    Look { colour, marker, hollow: false }
}

const fn hollow(colour: usize, marker: Marker) -> Look {
    Look { colour, marker, hollow: true }
}

/// The looks of names that stand in one figure, each different from the others as long as there are looks left.
pub(crate) fn looks(names: &[&str]) -> Vec<Look> {
    let mut looks: Vec<Option<Look>> = Vec::new();
    for name in names {
        let look = known(name).filter(|look| !looks.contains(&Some(*look)));
        looks.push(look);
    }
    for (at, name) in names.iter().enumerate() {
        if looks[at].is_none() {
            let start = hash(name);
            let free = |look: &Look| !looks.contains(&Some(*look));
            // First a colour that nobody has, then any free pair of colour and marker.
            let fresh = |look: &Look| looks.iter().flatten().all(|other| other.colour != look.colour);
            let every = || (0..GREY_AT * 8 * 2).map(|n| by_number(start, n));
            looks[at] = every().find(fresh).or_else(|| every().find(free)).or(Some(by_number(start, 0)));
        }
    }
    looks.into_iter().flatten().collect()
}

/// The looks of a reference: those of the server that it begins with, or grey.
pub(crate) fn reference(name: &str) -> Look {
    let server = name.split([',', '(']).next().unwrap_or_default();
    known(server).unwrap_or(hollow(GREY_AT, Marker::Circle))
}

fn known(name: &str) -> Option<Look> {
    let name = name.trim().to_ascii_lowercase();
    let name = name.strip_prefix("flash-").unwrap_or(&name);
    KNOWN.iter().find(|(known, _)| *known == name).map(|(_, look)| *look)
}

fn by_number(start: u64, n: usize) -> Look {
    use Marker::*;
    let (start, grey) = (start as usize % (GREY_AT * 8 * 2), GREY_AT);
    let at = start + n;
    let markers = [Circle, Square, Up, Diamond, Down, Left, Right, Bar];
    Look {
        colour: at % grey,
        marker: markers[(at + at / grey) % 8],
        hollow: (at / grey / 8).is_multiple_of(2),
    }
}

/// FNV-1a, which stays the same from build to build.
fn hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_looks_the_same_in_every_company() {
        let alone = looks(&["amped"])[0];
        assert_eq!(looks(&["wonder", "nginx", "amped"])[2], alone);
        assert_eq!(looks(&["AMPED"])[0], alone);
        assert_eq!(reference("AMPED, 1999"), alone);
        assert_eq!(looks(&["flash-sped"]), looks(&["sped"]));
        assert_eq!(looks(&["wonder"]), looks(&["wonder"]));
    }

    #[test]
    fn no_two_series_look_alike() {
        let names: Vec<String> =
            (0..60).map(|n| format!("server {n}")).chain(["flash".into(), "amped".into()]).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let looks = looks(&names);
        assert_eq!(looks.len(), names.len());
        for (at, look) in looks.iter().enumerate() {
            assert!(!looks[..at].contains(look), "{} looks like another", names[at]);
        }
        let colours = |count: usize| {
            looks[..count].iter().map(|look| look.colour).collect::<std::collections::BTreeSet<_>>()
        };
        assert!(colours(10).len() == 10, "ten servers have ten colours");
    }
}
