//! Values that several flags have.

use clap::ValueEnum;
use clap::builder::TypedValueParser;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

pub(super) fn count(min: usize, max: usize) -> impl TypedValueParser<Value = usize> {
    move |text: &str| {
        let number = text.parse().ok().filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| format!("write a number from {min} to {max}"))
    }
}
