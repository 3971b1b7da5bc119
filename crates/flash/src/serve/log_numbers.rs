//! Where access logs go, and their numbers: one for each destination, however many sites have it. A log keeps its number over
//! reloads, and the number of one that has ended is given again.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};

use flash_core::record::log_choice::LogNumber;
use flash_observe::Destination;

use crate::flags;

#[derive(Clone, Default)]
pub(super) struct LogNumbers(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    /// By their numbers.
    destinations: Vec<Option<Destination>>,
    free: Vec<LogNumber>,
    numbers: HashMap<Destination, LogNumber>,
}

impl LogNumbers {
    /// The number of the access log of a server, a site or a place.
    pub(super) fn of(&self, flags: &flags::Serve) -> Option<LogNumber> {
        access_log(flags).map(|to| self.number(&to))
    }

    fn number(&self, destination: &Destination) -> LogNumber {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { destinations, free, numbers } = &mut *known;
        *numbers.entry(destination.clone()).or_insert_with(|| {
            let number = free.pop().unwrap_or_else(|| {
                destinations.push(None);
                LogNumber(destinations.len() as u32 - 1)
            });
            destinations[number.0 as usize] = Some(destination.clone());
            number
        })
    }

    /// The numbers of other logs may be given again from now on.
    pub(super) fn keep(&self, is_used: impl Fn(LogNumber) -> bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { destinations, free, numbers } = &mut *known;
        numbers.retain(|_, number| {
            let is_used = is_used(*number);
            if !is_used {
                destinations[number.0 as usize] = None;
                free.push(*number);
            }
            is_used
        });
    }

    /// The destination of this number.
    pub(super) fn destination(&self, LogNumber(number): LogNumber) -> Option<Destination> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.destinations.get(number as usize).cloned().flatten()
    }
}

/// Someone at a terminal previews a site, and sees each request.
pub(super) fn is_preview(flags: &flags::Serve) -> bool {
    flags.access_log.is_none() && io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Where the access log of a server, a site or a place goes.
pub(super) fn access_log(flags: &flags::Serve) -> Option<Destination> {
    match &flags.access_log {
        Some(to) => to.destination(),
        None => is_preview(flags).then_some(Destination::Stdout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_log_that_has_ended_is_given_again() {
        let numbers = LogNumbers::default();
        let path = |name: &str| Destination::Path(name.into());
        let of = |name: &str| numbers.number(&path(name));
        let [first, second, third] = ["a", "b", "c"].map(of);
        assert_eq!([first, second, third], [0, 1, 2].map(LogNumber));
        numbers.keep(|number| number != second);
        assert_eq!((of("a"), of("c")), (first, third));
        assert_eq!(numbers.destination(second), None);
        assert_eq!((of("d"), numbers.destination(second)), (second, Some(path("d"))));
        assert_eq!(of("b"), LogNumber(3));
    }
}
