//! What clients have to pass, as the flags say it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use flash_auth::{PasswordFile, Successes};
use flash_core::clients::Clients;
use flash_core::clients::login::Users;
use flash_core::site::access::{AccessNetworks, AccessRules};
use flash_os::random;
use flash_os::shared_array::SharedWords;

use super::named_files::OpenNamed;
use crate::failure::{Failure, cannot};
use crate::flags::{self, Denial};

/// The rules of a site, if there are any.
pub(super) fn rules(flags: &flags::Serve, users: Option<Arc<dyn Users>>) -> Option<AccessRules> {
    let denied: Vec<_> = flags.deny.iter().filter_map(Denial::network).collect();
    let networks = AccessNetworks::new(&flags.allow, &denied);
    let rules = AccessRules { networks, limit: flags.limit, links: None, users };
    (!rules.is_empty()).then_some(rules)
}

/// What each client has used of its limits, in memory that all processes share. `descriptors` is how many connections there may
/// be.
pub(super) fn clients(flags: &flags::Serve, is_limited: bool, descriptors: usize) -> io::Result<Clients> {
    let mut clients = rates_again(Clients::unlimited(), is_limited)?;
    if let Some(connections_max) = flags.connections_per_client {
        // The kernel takes no memory for words that no client has.
        let connections = flags.connections_max.unwrap_or(usize::MAX).min(descriptors).min(1 << 24);
        let words = SharedWords::zeroed((connections.max(512) * 2).next_power_of_two())?;
        clients = clients.with_connections(connections_max as u32, Arc::new(words));
    }
    Ok(clients)
}

/// The same connections after a reload, with rates if there are limits by now. Open connections are counted in their table.
pub(super) fn rates_again(clients: Clients, is_limited: bool) -> io::Result<Clients> {
    Ok(match is_limited {
        true => clients.with_rates(Arc::new(SharedWords::zeroed(Clients::RATE_WORDS)?)),
        false => clients.without_rates(),
    })
}

/// Log-ins that were right a moment ago, in memory that all processes share.
pub(super) fn successes() -> Result<Successes, Failure> {
    let make = || -> io::Result<_> {
        let mut key = [0; 32];
        random::fill(&mut key)?;
        Ok(Successes::new(key, Arc::new(SharedWords::zeroed(Successes::WORDS)?)))
    };
    make().map_err(|error| cannot(format_args!("make a key for log-ins"), &error))
}

/// Those who may log in.
pub(super) fn users(
    path: &Path,
    open: &OpenNamed<'_>,
    successes: &Successes,
) -> Result<Arc<dyn Users>, Failure> {
    match PasswordFile::read(path, open, successes.clone()) {
        Ok(file) => Ok(Arc::new(file)),
        Err(why) => Err(Failure::Run(why)),
    }
}
