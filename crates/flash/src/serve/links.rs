//! The keys of signed links, outside a server.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use flash_auth::SignedLinks;
use flash_core::path::SitePath;
use flash_core::site::Site;
use flash_core::site::hosts::Hosts;

use super::site_plan::Fault;
use super::{access, named_files};
use crate::failure::Failure;
use crate::flags::{self, NamedUpstream, Signed};

/// The links that are answered at this path of a host.
pub(crate) fn links_at(
    flags: &flags::Serve,
    host: &str,
    path: &SitePath<'_>,
) -> Result<Option<SignedLinks>, Failure> {
    let rules = rules_at(flags, host, path);
    let signed = rules.map_or(&[][..], |flags| &flags.rules.signed);
    let links = access::links(signed)?;
    links.iter().try_for_each(|links| links.read(named_files::open)).map_err(Failure::Run)?;
    Ok(links)
}

/// The rules of the path's place. `None` if no site has this host.
fn rules_at<'f>(flags: &'f flags::Serve, host: &str, path: &SitePath<'_>) -> Option<&'f flags::Serve> {
    if flags.sites.is_empty() {
        return Some(flags);
    }
    let names = flags.sites.iter().map(|site| &site.hosts[..]);
    let hosts = Hosts::on_demand(names, Vec::new(), false, |_, _| Site::default());
    let site = flags.sites.get(hosts.position_of(Some(host.as_bytes()))? as usize)?;
    let name = site.names.of(path);
    let place = site.names.pairs().position(|pair| pair == name).map(|at| &site.places[at]);
    Some(&place.unwrap_or(&site.own).flags)
}

/// Keys that every user of the machine may read. A server says so, and serves.
pub(super) fn check(flags: &flags::Serve) -> impl Iterator<Item = Fault> {
    let of_places = flags.sites.iter().enumerate().flat_map(|(position, site)| {
        let places = site.places.iter().enumerate().map(|(number, place)| (Some(number), place));
        let rules = [(None, &site.own)].into_iter().chain(places);
        rules.map(move |(place, rules)| (Some((position, place)), &*rules.flags))
    });
    let only = flags.sites.is_empty().then_some((None, flags));
    let keys = only.into_iter().chain(of_places).flat_map(|(site, flags)| {
        let of_links = flags.rules.signed.iter().filter_map(Signed::key).map(|path| ("signed", path));
        let of_sessions = flags.programs.http.upstream.iter().filter_map(NamedUpstream::key);
        of_links.chain(of_sessions.map(|path| ("upstream", path))).map(move |(key, path)| (site, key, path))
    });
    let mut seen = HashSet::new();
    keys.filter_map(move |(site, key, path)| {
        let is_public = seen.insert(path) && fs::metadata(path).is_ok_and(|data| data.mode() & 0o004 != 0);
        let shown = path.display();
        let why = || format!("every user of this machine can read the key in {shown}: chmod o= {shown}");
        is_public.then(|| Fault { key, site, failure: Failure::Run(why()) })
    })
}
