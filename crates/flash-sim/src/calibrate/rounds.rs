//! One quantity, measured several times: its median, and how far the others lie from it.

use std::fmt;

/// The figures of all rounds; one at least, before anything is asked of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    pub(crate) fn add(&mut self, figure: f64) {
        self.0.push(figure);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn median(&self) -> f64 {
        let (sorted, middle) = (self.sorted(), self.0.len() / 2);
        match sorted.len() % 2 {
            0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
            _ => sorted[middle],
        }
    }

    /// Round by round: what slowed all of a round down is not in the difference.
    pub(crate) fn less(&self, other: &Rounds) -> Rounds {
        self.0.iter().zip(&other.0).map(|(ours, theirs)| ours - theirs).collect()
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

impl FromIterator<f64> for Rounds {
    fn from_iter<T: IntoIterator<Item = f64>>(figures: T) -> Rounds {
        Rounds(figures.into_iter().collect())
    }
}

/// The median, and in brackets the least and the most.
impl fmt::Display for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sorted = self.sorted();
        let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
        write!(f, "{:.2} [{least:.2} to {most:.2}]", self.median())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        let rounds: Rounds = [9.0, 1.0, 2.0].into_iter().collect();
        assert_eq!(rounds.median(), 2.0);
        assert_eq!(rounds.to_string(), "2.00 [1.00 to 9.00]");
        assert_eq!([4.0, 1.0, 2.0, 9.0].into_iter().collect::<Rounds>().median(), 3.0);
        // A slow round is slow for both.
        let others: Rounds = [7.0, 0.0, 1.0].into_iter().collect();
        assert_eq!(rounds.less(&others).to_string(), "1.00 [1.00 to 2.00]");
    }
}
