//! Where access logs go, and their numbers, for the life of the server: one for each destination, however many sites have it.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};

use flash_core::record::log_choice::LogNumber;
use flash_observe::Destination;

use crate::failure::Failure;
use crate::flags;

#[derive(Clone, Default)]
pub(super) struct LogNumbers(Arc<Mutex<Vec<Destination>>>);

impl LogNumbers {
    /// The number of the access log of a server, a site or a place.
    ///
    /// # Errors
    /// If all numbers have been given out.
    pub(super) fn of(&self, flags: &flags::Serve) -> Result<Option<LogNumber>, Failure> {
        access_log(flags).map(|to| self.number(&to)).transpose()
    }

    fn number(&self, destination: &Destination) -> Result<LogNumber, Failure> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|other| other == destination).unwrap_or(known.len());
        let Ok(number) = u16::try_from(at) else {
            let why = format!("there have been {at} access logs since the start: more need a restart");
            return Err(Failure::Run(why));
        };
        if at == known.len() {
            known.push(destination.clone());
        }
        Ok(LogNumber(number))
    }

    /// The destination of this number.
    pub(super) fn destination(&self, LogNumber(number): LogNumber) -> Option<Destination> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(usize::from(number)).cloned()
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
    fn no_two_logs_have_one_number() {
        let log = |number: usize| Destination::Path(format!("/log{number}").into());
        let numbers = LogNumbers(Arc::new(Mutex::new((0..65_535).map(log).collect())));
        assert_eq!(numbers.number(&log(65_535)).ok(), Some(LogNumber(65_535)));
        assert!(numbers.number(&log(65_536)).is_err());
        assert_eq!(numbers.number(&log(65_534)).ok(), Some(LogNumber(65_534)));
    }
}
