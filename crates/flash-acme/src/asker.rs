//! What asks the authority: its settings, and what it asks with.

use std::time::Duration;

use instant_acme::ExternalAccountKey;

use crate::hook::Hook;
use crate::http_client::Http;
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
    /// Waits. Meanwhile it puts challenges on the board, and keeps the lease. An error if the server is gone.
    pub(crate) wait: &'a dyn Fn(Duration) -> Result<(), Refusal>,
}

impl Asker<'_> {
    pub(crate) fn refusal(&self, error: &instant_acme::Error) -> Refusal {
        Refusal::of(error, self.http.retry_after_s())
    }
}
