//! What asks the authority: its settings, and what it asks with.

use std::time::Duration;

use instant_acme::{Error, ExternalAccountKey};

use crate::hook::Hook;
use crate::http_client::{Http, now};
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
    /// Waits. Meanwhile it puts challenges on the board, and keeps the lease. An error if that is lost, or the server is gone.
    pub(crate) wait: &'a dyn Fn(Duration) -> Result<(), Refusal>,
}

impl Asker<'_> {
    /// Makes a request. The lease is renewed before, because one may take a minute.
    pub(crate) fn ask<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Refusal> {
        (self.wait)(Duration::ZERO)?;
        now(request).map_err(|error| Refusal::of(&error, self.http.retry_after_s()))
    }
}
