//! Which of several servers gets a request. Numbers go in, and a choice comes out.

use crate::settings::Balance;

/// A server that may get the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) number: usize,
    pub(crate) weight: u64,
    /// Requests that it has.
    pub(crate) under_way: usize,
    /// Of its name.
    pub(crate) hash: u64,
}

/// With hashes, a server has as many requests more than its part at most, in hundredths (bounded loads, arXiv:1608.01350).
const LOAD_PERCENT: u128 = 125;

/// Chooses among candidates. `turn` counts the requests.
pub(crate) fn choose(
    balance: Balance,
    candidates: &[Candidate],
    turn: usize,
    hash: Option<u64>,
) -> Option<usize> {
    match (balance, hash) {
        (Balance::RoundRobin, _) => in_turn(candidates, turn as u64),
        (Balance::Hash, Some(hash)) => hashed(candidates, hash),
        (Balance::LeastRequests | Balance::Hash, _) => least_of_two(candidates, turn as u64),
    }
}

/// Of two that are taken at random, the one with fewer requests for its weight.
fn least_of_two(candidates: &[Candidate], turn: u64) -> Option<usize> {
    let one = at(candidates, scattered(turn) % total(candidates).max(1))?;
    let others: Vec<Candidate> =
        candidates.iter().filter(|other| other.number != one.number).copied().collect();
    let other = at(&others, scattered(!turn) % total(&others).max(1));
    let load = |of: &Candidate, by: &Candidate| (of.under_way as u128 + 1) * u128::from(by.weight);
    let less = other.filter(|other| load(other, one) < load(one, other));
    Some(less.unwrap_or(one).number)
}

fn total(candidates: &[Candidate]) -> u64 {
    candidates.iter().map(|of| of.weight).sum()
}

/// The one in whose part of all weights the point lies.
fn at(candidates: &[Candidate], mut point: u64) -> Option<&Candidate> {
    let found = candidates.iter().find(|of| {
        let is_there = point < of.weight;
        point = point.saturating_sub(of.weight);
        is_there
    });
    found.or(candidates.first())
}

/// In a cycle as short as can be, each has its part, and no server's turns come in a row.
fn in_turn(candidates: &[Candidate], turn: u64) -> Option<usize> {
    let unit = candidates.iter().fold(0, |unit, of| divisor(unit, of.weight)).max(1);
    let total = (total(candidates) / unit).max(1);
    // The golden section scatters best. Without a common divisor no point is left out.
    let step = (total * 5 / 8..=total).find(|step| *step > 0 && divisor(*step, total) == 1).unwrap_or(1);
    let point = u128::from(turn) * u128::from(step) % u128::from(total);
    at(candidates, point as u64 * unit).map(|of| of.number)
}

/// The greatest that both have in common.
fn divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { divisor(other, one % other) }
}

/// Each server draws a number for the request, by its weight, and the highest wins (rendezvous hashing). So a server that comes or goes
/// takes or leaves its own requests alone.
fn hashed(candidates: &[Candidate], hash: u64) -> Option<usize> {
    let requests: usize = candidates.iter().map(|of| of.under_way).sum();
    let (requests, total) = (requests as u128 + 1, u128::from(total(candidates)));
    let has_room = |of: &&Candidate| {
        let load = (of.under_way as u128 + 1) * total * 100;
        // A server has its part, rounded up.
        load < (requests * u128::from(of.weight)) * LOAD_PERCENT + total * 100
    };
    let score = |of: &Candidate| {
        // Between 0 and 1, and neither of them.
        let draw = (scattered(hash ^ of.hash) >> 11) as f64 + 0.5;
        -(draw / (1_u64 << 53) as f64).ln() / of.weight as f64
    };
    let least = |one: &&Candidate, other: &&Candidate| score(one).total_cmp(&score(other));
    let with_room = candidates.iter().filter(has_room).min_by(least);
    with_room.or_else(|| candidates.iter().min_by(least)).map(|of| of.number)
}

/// The same numbers in no order that can be seen (SplitMix64).
pub(crate) fn scattered(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(weights: &[u64]) -> Vec<Candidate> {
        let candidate = |(number, weight): (usize, &u64)| {
            let hash = scattered(number as u64 + 77);
            Candidate { number, weight: *weight, under_way: 0, hash }
        };
        weights.iter().enumerate().map(candidate).collect()
    }

    fn counts(balance: Balance, all: &[Candidate], hash: impl Fn(usize) -> Option<u64>) -> Vec<usize> {
        let mut counts = vec![0; all.len()];
        for turn in 0..6000 {
            counts[choose(balance, all, turn, hash(turn)).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn each_gets_its_part() {
        let all = candidates(&[300, 100, 200]);
        assert_eq!(counts(Balance::RoundRobin, &all, |_| None), [3000, 1000, 2000]);
        let by_hash = counts(Balance::Hash, &all, |turn| Some(scattered(turn as u64)));
        let is_near = |count: &usize, part: usize| count.abs_diff(part) < part / 10;
        assert!(
            by_hash.iter().zip([3000, 1000, 2000]).all(|(count, part)| is_near(count, part)),
            "{by_hash:?}"
        );
        // Requests that last: the parts are those of the requests under way.
        for balance in [Balance::LeastRequests, Balance::Hash] {
            let mut all = all.clone();
            for turn in 0..6000 {
                let number = choose(balance, &all, turn, None).unwrap();
                all[number].under_way += 1;
            }
            let under_way: Vec<usize> = all.iter().map(|of| of.under_way).collect();
            assert!(
                under_way.iter().zip([3000, 1000, 2000]).all(|(count, part)| is_near(count, part)),
                "{under_way:?}"
            );
        }
    }

    #[test]
    fn equal_ones_take_turns() {
        let all = candidates(&[1, 1, 1]);
        let chosen: Vec<usize> =
            (0..6).map(|turn| choose(Balance::RoundRobin, &all, turn, None).unwrap()).collect();
        assert_eq!(chosen[..3], chosen[3..]);
        let mut round = chosen[..3].to_vec();
        round.sort_unstable();
        assert_eq!(round, [0, 1, 2]);
        // Heavier ones do not come in a row.
        let all = candidates(&[2, 1]);
        let chosen: Vec<_> = (0..6).map(|turn| choose(Balance::RoundRobin, &all, turn, None)).collect();
        assert!(chosen.windows(3).all(|three| three.contains(&Some(1))), "{chosen:?}");
    }

    #[test]
    fn the_one_with_fewer_requests_is_asked() {
        let mut all = candidates(&[1, 1]);
        all[0].under_way = 5;
        assert!((0..100).all(|turn| choose(Balance::LeastRequests, &all, turn, None) == Some(1)));
        all[0].weight = 10;
        assert!((0..100).all(|turn| choose(Balance::LeastRequests, &all, turn, None) == Some(0)));
        assert_eq!(choose(Balance::LeastRequests, &[], 7, None), None);
        assert_eq!(choose(Balance::LeastRequests, &all[1..], 7, None), Some(1));
    }

    #[test]
    fn hashes_lead_elsewhere_only_where_a_server_has_gone() {
        let all = candidates(&[1, 1, 1, 1]);
        let choices = |all: &[Candidate]| -> Vec<usize> {
            (0..2000)
                .map(|key| choose(Balance::Hash, all, key, Some(scattered(key as u64))).unwrap())
                .collect()
        };
        let (before, after) = (choices(&all), choices(&all[1..]));
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
        assert!(moved.clone().count() > 400 && moved.clone().all(|(before, _)| *before == 0));
    }

    #[test]
    fn no_server_has_much_more_than_its_part_of_one_hash() {
        let mut all = candidates(&[1, 1, 1, 1]);
        for turn in 0..1000 {
            let number = choose(Balance::Hash, &all, turn, Some(7)).unwrap();
            all[number].under_way += 1;
        }
        let most = all.iter().map(|of| of.under_way).max().unwrap();
        assert!((300..=314).contains(&most), "a quarter more than 250: {most}");
    }

    #[test]
    fn numbers_are_scattered() {
        let mut counts = [0; 5];
        (0..5000).for_each(|number| counts[(scattered(number) % 5) as usize] += 1);
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
