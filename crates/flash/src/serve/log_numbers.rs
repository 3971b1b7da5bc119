//! Where access logs go, and their numbers, for the life of the server: one for each destination, however many sites have it.

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
    destinations: Vec<Destination>,
    numbers: HashMap<Destination, LogNumber>,
}

impl LogNumbers {
    /// The number of the access log of a server, a site or a place.
    pub(super) fn of(&self, flags: &flags::Serve) -> Option<LogNumber> {
        access_log(flags).map(|to| self.number(&to))
    }

    fn number(&self, destination: &Destination) -> LogNumber {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { destinations, numbers } = &mut *known;
        *numbers.entry(destination.clone()).or_insert_with(|| {
            destinations.push(destination.clone());
            LogNumber(destinations.len() as u32 - 1)
        })
    }

    /// The destination of this number.
    pub(super) fn destination(&self, LogNumber(number): LogNumber) -> Option<Destination> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.destinations.get(number as usize).cloned()
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
