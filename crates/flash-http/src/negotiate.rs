//! What a client prefers (RFC 9110 §12.5): which content coding of those that exist, and whether it asks for HTML.
//!
//! Compresses nothing itself.

use crate::{Fields, Values, scan};

/// A content coding, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    Br,
    Zstd,
    Gzip,
}

impl Coding {
    /// In the order of our preference.
    pub const ALL: [Coding; 3] = [Coding::Br, Coding::Zstd, Coding::Gzip];

    /// In the order of the time that they take. Their sizes differ little.
    const FASTEST_FIRST: [Coding; 3] = [Coding::Zstd, Coding::Gzip, Coding::Br];

    /// As in Content-Encoding.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Br => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// The coding of this name.
    pub fn of_name(name: &str) -> Option<Coding> {
        Self::ALL.into_iter().find(|coding| coding.name() == name)
    }

    /// As files are named, with the dot.
    pub const fn suffix(self) -> &'static str {
        match self {
            Coding::Br => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        }
    }
}

/// Some of the codings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CodingSet(u8);

impl CodingSet {
    pub const EMPTY: CodingSet = CodingSet(0);
    pub const ALL: CodingSet = CodingSet((1 << Coding::ALL.len()) - 1);

    /// The set with these [`CodingSet::bits`].
    pub const fn of_bits(bits: u8) -> Option<CodingSet> {
        if bits <= CodingSet::ALL.0 { Some(CodingSet(bits)) } else { None }
    }

    pub const fn bits(self) -> u8 {
        self.0
    }

    #[must_use]
    pub const fn with(self, coding: Coding) -> CodingSet {
        CodingSet(self.0 | 1 << coding as u8)
    }

    #[must_use]
    pub const fn without(self, coding: Coding) -> CodingSet {
        CodingSet(self.0 & !(1 << coding as u8))
    }

    pub const fn contains(self, coding: Coding) -> bool {
        self.0 & 1 << coding as u8 != 0
    }

    #[must_use]
    pub const fn intersection(self, other: CodingSet) -> CodingSet {
        CodingSet(self.0 & other.0)
    }

    #[must_use]
    pub const fn union(self, other: CodingSet) -> CodingSet {
        CodingSet(self.0 | other.0)
    }

    pub const fn contains_all(self, other: CodingSet) -> bool {
        self.0 & other.0 == other.0
    }

    pub fn iter(self) -> impl Iterator<Item = Coding> {
        Coding::ALL.into_iter().filter(move |coding| self.contains(*coding))
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What a client accepts, with weights in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepts {
    /// By [`Coding`]; 0 is not acceptable.
    weights: [u16; 3],
    identity: u16,
}

impl Accepts {
    /// Reads Accept-Encoding. An absent field would allow any coding; for us it means none.
    pub fn of(values: Values<'_>) -> Accepts {
        let mut named = [None; 3];
        let mut identity = None;
        let mut others = None;
        for member in values.lines().flat_map(|line| line.split(|&byte| byte == b',')) {
            let Some((name, weight)) = weighted(member) else { continue };
            match coding(name) {
                Some(coding) => named[coding as usize] = Some(weight),
                None if name == b"*" => others = Some(weight),
                None if name.eq_ignore_ascii_case(b"identity") => identity = Some(weight),
                None => {}
            }
        }
        let or_others = |weight: Option<u16>| weight.or(others).unwrap_or(0);
        Accepts { weights: named.map(or_others), identity: or_others(identity) }
    }

    /// The codings that may be chosen.
    pub fn codings(&self) -> CodingSet {
        let takes = |coding: &Coding| {
            let weight = self.weights[*coding as usize];
            weight > 0 && weight >= self.identity
        };
        Coding::ALL.into_iter().filter(takes).fold(CodingSet::EMPTY, CodingSet::with)
    }

    /// The best of `available`; `None` is the file as it is.
    pub fn choose(&self, available: CodingSet) -> Option<Coding> {
        self.choose_by(Coding::ALL, available)
    }

    /// The best of `available` for a response that is compressed while its client waits.
    pub fn choose_fastest(&self, available: CodingSet) -> Option<Coding> {
        self.choose_by(Coding::FASTEST_FIRST, available)
    }

    fn choose_by(&self, order: [Coding; 3], available: CodingSet) -> Option<Coding> {
        let taken = self.codings();
        order
            .into_iter()
            .rev()
            .filter(|coding| available.contains(*coding) && taken.contains(*coding))
            // Of equals it takes the last, which is the best for being listed backwards.
            .max_by_key(|coding| self.weights[*coding as usize])
    }
}

/// Whether Accept names `text/html`. Browsers do so for pages, and not for images, scripts and styles. `*/*` asks for
/// anything.
pub fn asks_for_html(fields: Fields<'_>) -> bool {
    let lines = fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"accept")).map(|(_, value)| value);
    lines
        .flat_map(|line| line.split(|&byte| byte == b','))
        .filter_map(weighted)
        .any(|(range, weight)| weight > 0 && range.eq_ignore_ascii_case(b"text/html"))
}

fn coding(name: &[u8]) -> Option<Coding> {
    // RFC 9110 §8.4.1.3: x-gzip is gzip.
    if name.eq_ignore_ascii_case(b"x-gzip") {
        return Some(Coding::Gzip);
    }
    Coding::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
}

/// A member of a list and its weight in thousandths (RFC 9110 §12.4.2). One with a malformed weight says nothing.
fn weighted(member: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = member.split(|&byte| byte == b';').map(scan::trim);
    let name = parts.next()?;
    let mut weight = 1000;
    for parameter in parts {
        if let [b'q' | b'Q', b'=', value @ ..] = parameter {
            weight = thousandths(value)?;
        }
    }
    Some((name, weight))
}

/// `0`, `0.7`, `1.000`: at most three digits behind the point, and no more than 1.
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = match value {
        [whole @ (b'0' | b'1')] | [whole @ (b'0' | b'1'), b'.'] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let mut weight = u16::from(whole - b'0');
    for place in 0..3 {
        let digit = fraction.get(place).unwrap_or(&b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        weight = weight * 10 + u16::from(digit - b'0');
    }
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Coding::{Br, Gzip, Zstd};
    use proptest::prelude::*;

    fn all() -> CodingSet {
        CodingSet::EMPTY.with(Br).with(Zstd).with(Gzip)
    }

    #[test]
    fn pages_are_asked_for_as_html() {
        let asks = |lines: &'static str| asks_for_html(Fields::of_checked(lines.as_bytes()));
        for lines in [
            "Accept: text/html\r\n\r\n",
            "accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\r\n",
            "Host: h\r\nAccept: image/png\r\nAccept: */*;q=0.1, Text/HTML ;level=1;q=0.5\r\n\r\n",
        ] {
            assert!(asks(lines), "{lines}");
        }
        for lines in [
            "\r\n",
            "Accept: */*\r\n\r\n",
            "Accept: text/*, image/avif,image/webp,*/*;q=0.8\r\n\r\n",
            "Accept: text/html;q=0, */*\r\n\r\n",
            "Accept: text/html;q=x\r\n\r\n",
            "Accept-Encoding: text/html\r\n\r\n",
        ] {
            assert!(!asks(lines), "{lines}");
        }
    }

    #[test]
    fn sets() {
        assert_eq!(all(), CodingSet::ALL);
        assert_eq!(CodingSet::of_bits(CodingSet::ALL.bits()), Some(CodingSet::ALL));
        assert_eq!(CodingSet::of_bits(8), None);
        let some = CodingSet::EMPTY.with(Br).with(Gzip);
        assert!(all().contains_all(some) && !some.contains_all(all()) && some.contains_all(CodingSet::EMPTY));
        assert_eq!(some.union(CodingSet::EMPTY.with(Zstd)), all());
        assert_eq!(some.iter().collect::<Vec<_>>(), [Br, Gzip]);
    }

    fn choose(value: &str, available: CodingSet) -> Option<Coding> {
        Accepts::of(Values::one(value.as_bytes())).choose(available)
    }

    #[test]
    fn rfc9110_12_5_3_absent_or_empty_is_identity() {
        assert_eq!(Accepts::of(Values::default()).choose(all()), None);
        assert_eq!(choose("", all()), None);
    }

    #[test]
    fn rfc9110_12_5_3_our_order_among_equals() {
        assert_eq!(choose("gzip, deflate, br, zstd", all()), Some(Br));
        assert_eq!(choose("gzip, zstd", all()), Some(Zstd));
        assert_eq!(choose("gzip, deflate, br, zstd", CodingSet::EMPTY.with(Gzip)), Some(Gzip));
        assert_eq!(choose("deflate", all()), None);
        assert_eq!(choose("GZIP", all()), Some(Gzip));
        assert_eq!(choose("x-gzip", all()), Some(Gzip));
    }

    #[test]
    fn the_fastest_of_equals_for_a_client_that_waits() {
        let fastest = |value: &str| Accepts::of(Values::one(value.as_bytes())).choose_fastest(all());
        assert_eq!(fastest("gzip, br, zstd"), Some(Zstd));
        assert_eq!(fastest("gzip, br"), Some(Gzip));
        assert_eq!(fastest("gzip;q=0.9, br"), Some(Br));
    }

    #[test]
    fn rfc9110_12_4_2_weights() {
        assert_eq!(choose("br;q=0.5, gzip;q=0.8", all()), Some(Gzip));
        assert_eq!(choose("br ; Q=0.501 ,gzip;q=0.5", all()), Some(Br));
        assert_eq!(choose("br;q=0, gzip;q=0.000", all()), None);
        for malformed in ["br;q=2", "br;q=0.1234", "br;q=", "br;q=1.001", "br;q=.5", "br;q=0.x", "br;q=-1"] {
            assert_eq!(choose(malformed, all()), None, "{malformed}");
        }
        assert_eq!(choose("br;q=1.000;x=y", all()), Some(Br));
    }

    #[test]
    fn rfc9110_12_5_3_the_star_stands_for_what_is_not_named() {
        assert_eq!(choose("*", all()), Some(Br));
        assert_eq!(choose("br;q=0, *", all()), Some(Zstd));
        assert_eq!(choose("gzip, *;q=0", all()), Some(Gzip));
    }

    #[test]
    fn rfc9110_12_5_3_identity() {
        assert_eq!(choose("identity, br;q=0.5", all()), None);
        assert_eq!(choose("identity;q=0.5, br;q=0.5", all()), Some(Br));
        assert_eq!(choose("identity;q=0", CodingSet::EMPTY), None);
        assert_eq!(choose("identity;q=0", all()), None);
    }

    proptest! {
        #[test]
        fn only_what_is_there_is_chosen(value in "[a-z*;=,.0-9q ]{0,40}", bits in 0..8u8) {
            let available = CodingSet::of_bits(bits).unwrap();
            let accepts = Accepts::of(Values::one(value.as_bytes()));
            let chosen = accepts.choose(available);
            prop_assert!(chosen.is_none_or(|coding| available.contains(coding)));
            let may_be_chosen = available.iter().any(|coding| accepts.codings().contains(coding));
            prop_assert_eq!(chosen.is_some(), may_be_chosen);
        }
    }
}
