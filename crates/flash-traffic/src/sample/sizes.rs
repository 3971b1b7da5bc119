//! Lognormal sizes with the tail cut, and where a data set's size is given, rescaled to it.

use std::fmt;

use rand::Rng;
use rand_distr::{Distribution, LogNormal};

/// No size is further above the mean of ln(size), in standard deviations. Of a million files one is at 4.75. Among fewer files
/// one so large would be most of the data set, and each seed would give another data set.
const TAIL_MAX_SD: f64 = 4.0;

/// The sizes of synthetic files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// The mean of ln(bytes).
    pub ln_mean: f64,
    /// The standard deviation of ln(bytes).
    pub ln_sd: f64,
    /// What all of them weigh together, to the byte. None leaves them as they are drawn.
    pub bytes_total: Option<u64>,
}

/// Why there are no such sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// A mean that is no number, or a standard deviation that is none or below 0, or sizes beyond what files can have.
    Distribution,
    /// Every file has at least one byte.
    TotalBelowFiles,
}

impl Sizes {
    /// The sizes of so many files, each at least one byte.
    pub fn draw(&self, files: u32, random: &mut impl Rng) -> Result<Vec<u64>, SizeError> {
        let drawn = LogNormal::new(self.ln_mean, self.ln_sd).map_err(|_| SizeError::Distribution)?;
        let largest = (self.ln_mean + TAIL_MAX_SD * self.ln_sd).exp();
        // Whole numbers below 2^53 are exact in f64.
        if !self.ln_sd.is_sign_positive() || !(f64::MIN_POSITIVE..(1_u64 << 53) as f64).contains(&largest) {
            return Err(SizeError::Distribution);
        }
        let sizes = (0..files).map(|_| {
            loop {
                let size = drawn.sample(random);
                if size <= largest * (1.0 + f64::EPSILON) {
                    break size;
                }
            }
        });
        match self.bytes_total {
            None => Ok(sizes.map(|size| (size.round() as u64).max(1)).collect()),
            Some(total) => rescale(&sizes.collect::<Vec<f64>>(), total),
        }
    }
}

/// One byte to each file, and the rest of `total` in proportion to its size. Rounding the sums, not the sizes, lets no byte
/// get lost.
fn rescale(sizes: &[f64], total: u64) -> Result<Vec<u64>, SizeError> {
    let rest = total.checked_sub(sizes.len() as u64).ok_or(SizeError::TotalBelowFiles)?;
    let scale = rest as f64 / sizes.iter().sum::<f64>();
    let (mut sum, mut given) = (0.0, 0);
    let mut rescaled: Vec<u64> = sizes
        .iter()
        .map(|size| {
            sum += size;
            let upto = ((sum * scale).round() as u64).clamp(given, rest);
            let bytes = 1 + upto - given;
            given = upto;
            bytes
        })
        .collect();
    // What the sums' own rounding left.
    if let Some(last) = rescaled.last_mut() {
        *last += rest - given;
    }
    Ok(rescaled)
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Distribution => {
                "no lognormal distribution of file sizes has this mean and standard deviation"
            }
            Self::TotalBelowFiles => {
                "the data set has fewer bytes than files, and every file has at least one"
            }
        })
    }
}

impl std::error::Error for SizeError {}
