//! What clients have to pass, as the flags say it.

use std::io;
use std::sync::Arc;

use flash_auth::{Form, SecureLink, SignedLinks, Successes};
use flash_core::clients::Clients;
use flash_core::clients::link::Links;
use flash_core::clients::login::Users;
use flash_core::site::access::{AccessNetworks, AccessRules};
use flash_core::site::field_rules::FieldRules;
use flash_os::random;
use flash_os::shared_array::SharedWords;

use crate::failure::{Failure, cannot};
use crate::flags::{self, Denial, LinkForm, Satisfy, Signed};

/// The rules of a site, if there are any.
pub(super) fn rules(
    flags: &flags::Serve,
    links: Option<Arc<dyn Links>>,
    users: Option<Arc<dyn Users>>,
    fields: Option<Arc<FieldRules>>,
) -> Option<AccessRules> {
    let denied: Vec<_> = flags.deny.iter().filter_map(Denial::network).collect();
    let networks = AccessNetworks::new(&flags.allow, &denied);
    let satisfy_any = flags.rules.satisfy == Satisfy::Any;
    let rules = AccessRules { networks, fields, limit: flags.limit, links, users, satisfy_any };
    (!rules.is_empty()).then_some(rules)
}

/// What each client has used of its limits, in memory that all processes share. `descriptors` is how many connections there may
/// be.
pub(super) fn clients(flags: &flags::Serve, is_limited: bool, descriptors: usize) -> io::Result<Clients> {
    let mut clients = rates_again(Clients::unlimited(), is_limited)?;
    // A program may say a rate where no site has one. The kernel takes no memory for words that no client has.
    clients = clients.with_byte_rates(Arc::new(SharedWords::zeroed(Clients::RATE_WORDS)?));
    if let Some(connections_max) = flags.connections_per_client {
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

/// The links that are signed as these values say. Their keys are read later.
pub(super) fn links(signed: &[Signed]) -> Result<Option<SignedLinks>, Failure> {
    if matches!(signed, [] | [Signed::Off]) {
        return Ok(None);
    }
    let (mut keys, mut form, mut expression, mut arguments) = (Vec::new(), LinkForm::Flash, None, None);
    for value in signed {
        match value {
            Signed::Off => return Err(Failure::Usage("either links are signed, or off".into())),
            Signed::Key(path) => keys.push(&**path),
            Signed::Form(named) => form = *named,
            Signed::Md5(said) => expression = Some(said.clone()),
            Signed::Link(said) => arguments = Some(said.clone()),
        }
    }
    let form = match (form, expression) {
        (LinkForm::Flash, None) if arguments.is_none() => Ok(Form::Flash),
        (LinkForm::Flash, _) => Err("md5 and link are for form = \"nginx\"".into()),
        (LinkForm::Nginx, None) => Err("form = \"nginx\" needs md5, the value of its secure_link_md5".into()),
        (LinkForm::Nginx, Some(expression)) => {
            SecureLink::new(arguments.unwrap_or_default(), expression).map(Form::Nginx)
        }
    };
    let form = form.map_err(Failure::Usage)?;
    if keys.is_empty() {
        return Err(Failure::Usage(
            "signed links need a key, as in key = { file = \"/etc/flash/links.key\" }".into(),
        ));
    }
    Ok(Some(SignedLinks::new(form, &keys)))
}
