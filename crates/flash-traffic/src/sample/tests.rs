//! Draws against what theory says of them. Seeds are fixed, so none of these can fail by chance.

use std::time::Instant;

use rand::RngExt;

use super::*;

/// The sum of (seen - expected)^2 / expected, which for `expected.len() - 1` degrees of freedom f has mean f and
/// variance 2 f.
fn chi_square(seen: &[u64], expected: &[f64]) -> f64 {
    seen.iter().zip(expected).map(|(&seen, &expected)| (seen as f64 - expected).powi(2) / expected).sum()
}

fn holds(seen: &[u64], expected: &[f64]) {
    let freedom = (expected.len() - 1) as f64;
    let sum = chi_square(seen, expected);
    assert!(sum <= freedom + 4.0 * (2.0 * freedom).sqrt(), "{sum} at {freedom} degrees of freedom");
}

fn mean_sd(of: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = of.clone().count() as f64;
    let mean = of.clone().sum::<f64>() / count;
    (mean, (of.map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
}

#[test]
fn ranks_are_drawn_as_zipf_says() {
    for (ranks, exponent) in [(1, 1.0), (10, 0.0), (100, 0.61), (50, 1.0), (300, 1.3), (20, 2.5)] {
        let zipf = Zipf::new(ranks, exponent).unwrap();
        let mut random = generator(1, u64::from(ranks));
        let draws = 400_000;
        let mut seen = vec![0; ranks as usize];
        for _ in 0..draws {
            seen[zipf.draw(&mut random) as usize] += 1;
        }
        let whole: f64 = (0..ranks).map(|rank| f64::from(rank + 1).powf(-exponent)).sum();
        let expected: Vec<f64> =
            (0..ranks).map(|rank| f64::from(draws) * f64::from(rank + 1).powf(-exponent) / whole).collect();
        holds(&seen, &expected);
    }
}

#[test]
fn no_zipf_without_ranks_or_with_nonsense_for_an_exponent() {
    assert!(Zipf::new(0, 1.0).is_none());
    for exponent in [-0.1, f64::NAN, f64::INFINITY] {
        assert!(Zipf::new(10, exponent).is_none(), "{exponent}");
    }
}

#[test]
fn a_million_ranks_are_cheap() {
    let begun = Instant::now();
    let zipf = Zipf::new(1_000_000, 0.8).unwrap();
    let mut random = generator(3, 0);
    let sum: u64 = (0..1_000_000).map(|_| u64::from(zipf.draw(&mut random))).sum();
    // It takes a thirtieth of this in an unoptimised build; what grew with ranks × draws would take hours.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    let moment = |power: f64| (1..=1_000_000).map(|rank| f64::from(rank).powf(power)).sum::<f64>();
    let mean = sum as f64 / 1e6;
    let expected = moment(0.2) / moment(-0.8) - 1.0;
    // The standard deviation of one draw is 259,000, of the mean of a million 259.
    assert!((mean - expected).abs() < 1_000.0, "{mean} {expected}");
}

#[test]
fn streams_repeat_and_differ() {
    let numbers = |seed, stream| -> Vec<u64> {
        let mut random = generator(seed, stream);
        (0..4).map(|_| random.random()).collect()
    };
    assert_eq!(numbers(7, 3), numbers(7, 3));
    let mut firsts: Vec<u64> =
        (0..100).flat_map(|seed| (0..100).map(move |stream| numbers(seed, stream)[0])).collect();
    firsts.sort_unstable();
    firsts.dedup();
    assert_eq!(firsts.len(), 10_000);
}

#[test]
fn sizes_are_lognormal_with_a_cut_tail() {
    let sizes = Sizes { ln_mean: 9.0, ln_sd: 1.8, bytes_total: None };
    let drawn = sizes.draw(200_000, &mut generator(5, 0)).unwrap();
    let (mean, sd) = mean_sd(drawn.iter().map(|&size| (size as f64).ln()));
    assert!((mean - 9.0).abs() < 0.02 && (sd - 1.8).abs() < 0.02, "{mean} {sd}");
    let largest = *drawn.iter().max().unwrap() as f64;
    assert!(largest <= (9.0_f64 + 4.0 * 1.8).exp() + 1.0, "{largest}");
}

#[test]
fn sizes_add_up_to_the_byte() {
    for (files, total, ln_sd) in
        [(1, 1, 1.0), (3, 3, 2.0), (28_864, 320_000_000, 1.5), (9_129, 208_000_007, 2.0)]
    {
        let sizes = Sizes { ln_mean: 8.0, ln_sd, bytes_total: Some(total) };
        let drawn = sizes.draw(files, &mut generator(5, 1)).unwrap();
        assert_eq!(drawn.iter().sum::<u64>(), total);
        assert!(drawn.iter().all(|&size| size > 0));
        if files > 1_000 {
            let (_, sd) = mean_sd(drawn.iter().map(|&size| (size as f64).ln()));
            assert!((sd - ln_sd).abs() < 0.05, "{sd}");
        }
    }
    assert_eq!(
        Sizes { ln_mean: 8.0, ln_sd: 0.0, bytes_total: Some(40) }.draw(4, &mut generator(0, 0)),
        Ok(vec![10; 4])
    );
}

#[test]
fn impossible_sizes_are_refused() {
    let draw =
        |ln_mean, ln_sd, bytes_total| Sizes { ln_mean, ln_sd, bytes_total }.draw(10, &mut generator(0, 0));
    assert_eq!(draw(8.0, 1.0, Some(9)), Err(SizeError::TotalBelowFiles));
    for (ln_mean, ln_sd) in
        [(f64::NAN, 1.0), (8.0, f64::NAN), (8.0, -1.0), (800.0, 1.0), (f64::INFINITY, 0.0)]
    {
        assert_eq!(draw(ln_mean, ln_sd, None), Err(SizeError::Distribution), "{ln_mean} {ln_sd}");
    }
}

#[test]
fn recency_is_a_list_with_a_moving_front() {
    let mut random = generator(11, 0);
    let mut order = Recency::new(40);
    let mut list: Vec<u32> = Vec::new();
    for _ in 0..2_000 {
        let file = random.random_range(0..40);
        let place = list.iter().position(|&other| other == file);
        assert_eq!(order.touch(file), place.map(|place| place as u32 + 1));
        if let Some(place) = place {
            list.remove(place);
        }
        list.insert(0, file);
        assert_eq!(order.files() as usize, list.len());
        for (place, &file) in list.iter().enumerate() {
            assert_eq!(order.at(place as u32 + 1), Some(file));
        }
        assert_eq!((order.at(0), order.at(list.len() as u32 + 1)), (None, None));
    }
}

#[test]
fn a_stack_asks_again_at_lognormal_distances() {
    let (ln_mean, ln_sd) = (4.0, 1.0);
    let zipf = Zipf::new(5_000, 1.05).unwrap();
    let mut random = generator(13, 0);
    let mut stack = LruStack::new(&zipf, Distances { ln_mean, ln_sd, share: 1.0 }, &mut random).unwrap();
    let mut seen = Recency::new(5_000);
    let distances: Vec<f64> =
        (0..200_000).filter_map(|_| seen.touch(stack.draw(&mut random))).map(f64::from).collect();
    // Almost all files are asked for a second time, and then their distance is the one that was drawn.
    assert!(distances.len() > 195_000);
    let (mean, sd) = mean_sd(distances[50_000..].iter().map(|distance| distance.ln()));
    assert!((mean - ln_mean).abs() < 0.03 && (sd - ln_sd).abs() < 0.03, "{mean} {sd}");
}

#[test]
fn a_stack_begins_in_the_order_of_zipf_draws_seen_backwards() {
    let zipf = Zipf::new(6, 1.0).unwrap();
    let mut random = generator(17, 0);
    let mut tops = [0; 6];
    for _ in 0..60_000 {
        // So short a distance that the first draw is the top.
        let distances = Distances { ln_mean: 0.0, ln_sd: 0.0, share: 1.0 };
        tops[LruStack::new(&zipf, distances, &mut random).unwrap().draw(&mut random) as usize] += 1;
    }
    let whole: f64 = (1..=6).map(|rank| 1.0 / f64::from(rank)).sum();
    let expected: Vec<f64> = (1..=6).map(|rank| 60_000.0 / f64::from(rank) / whole).collect();
    holds(&tops, &expected);
}

#[test]
fn a_stack_that_no_distance_meets_is_refused() {
    let zipf = Zipf::new(100, 1.0).unwrap();
    for (ln_mean, ln_sd) in
        [(20.0, 1.0), (-9.0, 1.0), (f64::NAN, 1.0), (4.0, f64::NAN), (4.0, -1.0), (4.0, f64::INFINITY)]
    {
        let distances = Distances { ln_mean, ln_sd, share: 1.0 };
        assert!(LruStack::new(&zipf, distances, &mut generator(0, 0)).is_none(), "{distances:?}");
    }
}
