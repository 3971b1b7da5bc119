//! What a client has to pass before a request is answered: networks, a limit of requests, a signed link, and a
//! log-in.
//!
//! The order of networks never matters. The longest network that holds the client's address decides, and of two equal ones the
//! denial. An address that no network holds may come, unless some networks are allowed.

use std::sync::Arc;

use crate::clients::Rate;
use crate::clients::link::Links;
use crate::clients::login::Users;
use crate::record::Peer;
use crate::site::field_rules::FieldRules;
use crate::site::network::Network;

/// The rules of a site or a place about its clients.
#[derive(Clone, Debug, Default)]
pub struct AccessRules {
    pub networks: AccessNetworks,
    /// What fields of requests say.
    pub fields: Option<Arc<FieldRules>>,
    /// The limit of each client's requests.
    pub limit: Option<Rate>,
    /// The links that lead here. Without any, every link does.
    pub links: Option<Arc<dyn Links>>,
    /// Those who may log in. Without any, nobody has to.
    pub users: Option<Arc<dyn Users>>,
    /// A network that is allowed needs no log-in, and a log-in no such network.
    pub satisfy_any: bool,
}

impl AccessRules {
    /// Whether a client may be refused or counted that the others have let pass.
    pub(crate) fn adds_to(&self, others: Option<&Self>) -> bool {
        let Self { networks, fields, limit, links, users, satisfy_any } = self;
        !(networks.is_open() || others.is_some_and(|others| others.networks == *networks))
            || *satisfy_any != others.is_some_and(|others| others.satisfy_any)
            || is_other(fields.as_ref(), others.and_then(|others| others.fields.as_ref()))
            || limit.is_some_and(|limit| others.and_then(|others| others.limit) != Some(limit))
            || is_other(links.as_ref(), others.and_then(|others| others.links.as_ref()))
            || is_other(users.as_ref(), others.and_then(|others| others.users.as_ref()))
    }

    /// Whether a log-in takes the place of an allowed network.
    pub(crate) fn may_log_in_instead(&self) -> bool {
        self.satisfy_any && self.users.is_some()
    }

    /// Whether this client's network takes the place of a log-in.
    pub(crate) fn needs_no_log_in(&self, client: Peer) -> bool {
        self.satisfy_any && !self.networks.is_open() && self.networks.allows(client)
    }

    /// Whether only some clients get what is here, by a log-in or by a link.
    pub(crate) fn are_private(&self) -> bool {
        self.links.is_some() || self.users.is_some()
    }

    /// Whether requests are counted.
    pub fn have_limits(&self) -> bool {
        self.limit.is_some() || self.fields.as_ref().is_some_and(|fields| fields.have_limits())
    }

    /// Whether there is any rule.
    pub fn is_empty(&self) -> bool {
        self.networks.is_open() && self.fields.is_none() && self.limit.is_none() && !self.are_private()
    }
}

/// Whether one rule is there, and is not the other one.
fn is_other<Rule: ?Sized>(rule: Option<&Arc<Rule>>, other: Option<&Arc<Rule>>) -> bool {
    rule.is_some_and(|rule| !other.is_some_and(|other| Arc::ptr_eq(rule, other)))
}

/// Networks that are allowed and denied. Without any, every client may come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessNetworks {
    /// The longest first, and a denial before an equal network that is allowed.
    rules: Box<[(Network, Verdict)]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Denied,
    Allowed,
}

impl AccessNetworks {
    pub fn new(allowed: &[Network], denied: &[Network]) -> Self {
        let allowed = allowed.iter().map(|network| (*network, Verdict::Allowed));
        let denied = denied.iter().map(|network| (*network, Verdict::Denied));
        let mut rules: Box<[_]> = allowed.chain(denied).collect();
        rules.sort_by_key(|(network, verdict)| (std::cmp::Reverse(network.bits()), *verdict));
        Self { rules }
    }

    #[inline]
    pub fn is_open(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether this client may come.
    pub fn allows(&self, client: Peer) -> bool {
        let decides = self.rules.iter().find(|(network, _)| network.holds(client));
        match decides {
            Some((_, verdict)) => *verdict == Verdict::Allowed,
            None => self.rules.iter().all(|(_, verdict)| *verdict == Verdict::Denied),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(allowed: &[&str], denied: &[&str]) -> AccessNetworks {
        let networks = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        AccessNetworks::new(&networks(allowed), &networks(denied))
    }

    fn allows(access: &AccessNetworks, ip: &str) -> bool {
        access.allows(Peer::Inet((ip.parse::<std::net::IpAddr>().unwrap(), 1).into()))
    }

    #[test]
    fn the_longest_network_decides() {
        let open = access(&[], &[]);
        assert!(open.is_open() && allows(&open, "192.0.2.1") && open.allows(Peer::Unix));
        let only = access(&["192.0.2.0/24", "2001:db8::/32"], &[]);
        assert!(
            allows(&only, "192.0.2.1") && allows(&only, "2001:db8::1") && allows(&only, "::ffff:192.0.2.1")
        );
        assert!(!allows(&only, "192.0.3.1") && !allows(&only, "::1") && !only.allows(Peer::Unix));
        let but = access(&[], &["192.0.2.0/24"]);
        assert!(!allows(&but, "192.0.2.1") && allows(&but, "192.0.3.1") && but.allows(Peer::Unix));
        let nested = access(&["10.0.0.0/8", "10.1.2.0/24"], &["10.1.0.0/16", "10.1.2.3"]);
        for (ip, admitted) in [
            ("10.2.0.1", true),
            ("10.1.0.1", false),
            ("10.1.2.1", true),
            ("10.1.2.3", false),
            ("11.0.0.1", false),
        ] {
            assert_eq!(allows(&nested, ip), admitted, "{ip}");
        }
        assert!(!allows(&access(&["10.0.0.1"], &["10.0.0.1"]), "10.0.0.1"), "a denial wins");
        assert!(access(&["unix"], &[]).allows(Peer::Unix));
    }
}
