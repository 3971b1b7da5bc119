//! The thread that looks where DIR leads: often enough that a new root is seen within `--revalidate`.
//!
//! It looks whether anybody asks for something or not, so that the first request after a pause need not wait. A look is one
//! system call. What changes with a new root is the [disk](flash_disk::Disk::look_at_root)'s business.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash_core::site_id::SiteId;

use crate::document_root;
use crate::server_state::ServerState;

/// With `--revalidate 0`. So DIR itself is looked at fifty times a second at most.
const PERIOD_MIN_MS: u64 = 20;
const STACK_BYTES: usize = 128 << 10;

/// The thread ends with the state. With `logs` it tells the error log what it sees; of several processes one is enough.
pub(crate) fn start(shared: &Arc<ServerState>, logs: bool) -> io::Result<()> {
    // A folder counts as gone at the second look only.
    let period =
        Duration::from_millis((shared.configuration().server.settings.revalidate_ms / 2).max(PERIOD_MIN_MS));
    let state = Arc::downgrade(shared);
    let life = move || {
        loop {
            thread::sleep(period);
            let Some(shared) = state.upgrade() else { return };
            shared.disk.open_sites().into_iter().for_each(|site| look(&shared, site, logs));
        }
    };
    thread::Builder::new().name("root".into()).stack_size(STACK_BYTES).spawn(life).map(drop)
}

fn look(shared: &ServerState, site: SiteId, logs: bool) {
    let open = |folder: &Path| shared.helper_kind.open_root(folder);
    let Some((change, folder)) = shared.disk.look_at_root(site, open) else { return };
    document_root::tell(site, &shared.disk, &shared.configuration().server.hosts);
    if logs {
        shared.error_log.log(format_args!("{}", change.about(&folder)));
    }
}
