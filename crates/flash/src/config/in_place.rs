//! What a process has read in a configuration file, as bytes for one that may not read it. Equal words are there once.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use flash_core::site::hosts::HostName;
use flash_core::site::places::PlaceNames;
use flash_process::codec::{Reader, Writer};

use crate::flags::{OfFile, RulesOfFile, SiteOfFile};

/// More than a message of processes can hold.
const MANY: usize = 1 << 24;

const EXACT: u8 = 0;
const BELOW: u8 = 1;
const ANY: u8 = 2;

pub(super) fn encode(of_file: &OfFile) -> Vec<u8> {
    let (mut numbers, mut sites) = (HashMap::new(), Writer::default());
    sites.u32(of_file.sites.len() as u32);
    for site in &of_file.sites {
        write_site(site, &mut numbers, &mut sites);
    }
    let mut words: Vec<(&Arc<[OsString]>, u32)> = numbers.into_iter().collect();
    words.sort_unstable_by_key(|(_, number)| *number);
    let mut message = Writer::default();
    write_words(&of_file.words, &mut message);
    message.u32(words.len() as u32);
    words.into_iter().for_each(|(words, _)| write_words(words, &mut message));
    message.bytes.append(&mut sites.bytes);
    message.bytes
}

/// `None` if another program has encoded it.
pub(super) fn decode(bytes: &[u8]) -> Option<OfFile> {
    let mut message = Reader(bytes);
    let of_server = read_words(&mut message)?;
    let known = message.many(MANY, |message| Some(Arc::from(read_words(message)?)))?;
    let sites = message.many(MANY, |message| read_site(message, &known))?;
    message.end()?;
    // The values are in the words. Its files were opened by the process that has encoded it.
    Some(OfFile { words: of_server, sites, environment: Vec::new(), files: Vec::new() })
}

fn write_words(words: &[OsString], message: &mut Writer) {
    message.u32(words.len() as u32);
    words.iter().for_each(|word| message.bytes(word.as_bytes()));
}

fn read_words(message: &mut Reader<'_>) -> Option<Vec<OsString>> {
    message.many(MANY, |message| Some(OsStr::from_bytes(message.bytes(MANY)?).into()))
}

fn write_site<'f>(
    SiteOfFile { hosts, own, names, places }: &'f SiteOfFile,
    numbers: &mut HashMap<&'f Arc<[OsString]>, u32>,
    message: &mut Writer,
) {
    message.u32(hosts.len() as u32);
    for host in hosts {
        let (kind, name): (u8, &[u8]) = match host {
            HostName::Exact(name) => (EXACT, name),
            HostName::Below(name) => (BELOW, name),
            HostName::Any => (ANY, b""),
        };
        message.u8(kind);
        message.bytes(name);
    }
    let prefixes: Vec<_> =
        names.pairs().filter(|name| name.suffix.is_none()).filter_map(|name| name.prefix).collect();
    let suffixes: Vec<_> =
        names.pairs().filter(|name| name.prefix.is_none()).filter_map(|name| name.suffix).collect();
    let exact = names.pairs().filter_map(|name| name.exact).collect();
    for list in [exact, prefixes, suffixes] {
        message.u32(list.len() as u32);
        list.into_iter().for_each(|name| message.bytes(name));
    }
    // There is one for each pair of names.
    for RulesOfFile { root, words, of_files } in [own].into_iter().chain(places) {
        message.bool(root.is_some());
        message.bytes(root.as_ref().map_or(b"", |root| root.as_os_str().as_bytes()));
        for words in [words, of_files] {
            let next = numbers.len() as u32;
            message.u32(*numbers.entry(words).or_insert(next));
        }
    }
}

fn read_site(message: &mut Reader<'_>, known: &[Arc<[OsString]>]) -> Option<SiteOfFile> {
    let hosts = message.many(MANY, |message| {
        let (kind, name) = (message.u8()?, message.bytes(MANY)?);
        Some(match kind {
            EXACT => HostName::Exact(name.into()),
            BELOW => HostName::Below(name.into()),
            ANY => HostName::Any,
            _ => return None,
        })
    })?;
    let mut list = || message.many(MANY, |message| message.bytes(MANY).map(Box::from));
    let names = PlaceNames::new(list()?, list()?, list()?);
    let mut rules = || {
        let (has_root, root) = (message.bool()?, Path::new(OsStr::from_bytes(message.bytes(MANY)?)));
        let mut words = || known.get(usize::try_from(message.u32()?).ok()?).map(Arc::clone);
        Some(RulesOfFile { root: has_root.then(|| root.into()), words: words()?, of_files: words()? })
    };
    let own = rules()?;
    let places = names.pairs().map(|_| rules()).collect::<Option<_>>()?;
    Some(SiteOfFile { hosts, own, names: Arc::new(names), places })
}
