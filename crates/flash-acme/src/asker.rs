//! What asks the authority: its settings, and what it asks with. Several threads have the same one.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use instant_acme::{Account, Error, ExternalAccountKey};

use crate::clock::Clock;
use crate::hook::Hook;
use crate::http_client::{self, Http};
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::store::Store;

/// All files beside the folder have been read.
pub(crate) struct Asker<'a> {
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    pub(crate) http: Http,
    pub(crate) binding: Option<ExternalAccountKey>,
    pub(crate) hook: Option<Hook>,
    pub(crate) clock: Clock<'a>,
    pub(crate) halt: Halt,
    /// Once it is opened.
    pub(crate) account: Mutex<Option<Account>>,
}

/// What ends all orders, wherever they are.
#[derive(Debug, Default)]
pub(crate) struct Halt {
    why: Mutex<Option<fn() -> Refusal>>,
    changed: Condvar,
}

impl Asker<'_> {
    /// Makes a request, which may take a minute.
    pub(crate) fn ask<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Refusal> {
        self.halt.wait(Duration::ZERO)?;
        http_client::now(request).map_err(|error| Refusal::of(&error, http_client::retry_after_s()))
    }
}

impl Halt {
    pub(crate) fn set(&self, why: Option<fn() -> Refusal>) {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
        self.changed.notify_all();
    }

    /// Waits that long. An error as soon as no order may go on.
    pub(crate) fn wait(&self, pause: Duration) -> Result<(), Refusal> {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(why, pause, |why| why.is_none());
        let (why, _) = waited.unwrap_or_else(PoisonError::into_inner);
        why.map_or(Ok(()), |why| Err(why()))
    }
}
