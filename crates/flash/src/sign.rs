//! `flash sign`: a link that a site or a place with `signed` answers.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use flash_auth::LinkTerms;
use flash_core::path::SitePath;

use crate::config;
use crate::failure::Failure;
use crate::flags::{Serve, Sign};
use crate::serve;

pub(crate) fn run(flags: &Sign) -> Result<(), Failure> {
    let Sign { url, expires, prefix, client, rate, config } = flags;
    let wrong = |why: &str| Failure::Usage(format!("{}: {why}", url.text));
    let served: Arc<Serve> = config::look(config)?.into();
    let (raw_path, query) =
        url.target.split_once('?').map_or((&*url.target, None), |(path, query)| (path, Some(query)));
    let path = SitePath::parse(raw_path.as_bytes()).map_err(|_| wrong("its path leads nowhere"))?;
    let links =
        serve::links_at(&served, &url.authority, &path)?.ok_or_else(|| wrong("no links are signed there"))?;
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let terms = LinkTerms {
        expires_s: now_s.saturating_add(expires.as_millis().div_ceil(1000) as u64),
        is_prefix: *prefix,
        client: client.as_deref(),
        rate: rate.as_deref(),
    };
    let signed = links.sign(&path, &terms).map_err(|why| wrong(&why))?;
    let names = |query: &'_ str| {
        query.split('&').map(|pair| pair.split('=').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let of_link = names(&signed);
    if let Some(name) = query.map(names).into_iter().flatten().find(|name| of_link.contains(name)) {
        return Err(wrong(&format!("it has {name} already")));
    }
    let whole = url.text.split('#').next().unwrap_or_default();
    let whole = match query {
        Some(_) => format!("{whole}&{signed}\n"),
        None if whole.ends_with(raw_path) => format!("{whole}?{signed}\n"),
        None => format!("{whole}{raw_path}?{signed}\n"),
    };
    flash_cli::print(whole.as_bytes())
}
