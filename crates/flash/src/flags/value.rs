//! Values that several flags have.

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

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

/// One of these names, each with its help and its value.
pub(super) fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    choices: [(&'static str, &'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    let names = choices.map(|(name, help, _)| PossibleValue::new(name).help(help));
    let value =
        move |text: String| choices.into_iter().find_map(|(name, _, value)| (name == text).then_some(value));
    PossibleValuesParser::new(names).map(move |text| value(text).expect("it is one of the names"))
}
