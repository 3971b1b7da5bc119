//! What the operator adds to responses: fields for all of them, and pages for errors.

use flash_core::header::HeaderTemplate;
use flash_core::page::Pages;

use crate::failure::{Failure, cannot};
use crate::flags;

pub(super) fn template(flags: &flags::Serve) -> HeaderTemplate {
    let line = |field: &flags::Field| format!("{}: {}\r\n", field.name, field.value).into_bytes();
    HeaderTemplate {
        fields: flags.header.iter().flat_map(line).collect(),
        cache_control: flags.cache_rules(),
        padding: flags.experiments.header_padding == flags::Switch::On,
        uncached: flags.experiments.header_cache == flags::Switch::Off,
    }
}

pub(super) fn pages(flags: &flags::Serve) -> Result<Pages, Failure> {
    let Some(folder) = &flags.error_pages else { return Ok(Pages::default()) };
    let own = flash_disk::error_pages(folder)
        .map_err(|error| cannot(format_args!("read error pages from {}", folder.display()), &error))?;
    Ok(Pages::new(own))
}

/// Whether the operator's fields fit into a response's head.
pub(super) fn check_fields(flags: &flags::Serve) -> Result<(), Failure> {
    let (bytes, most) = (template(flags).bytes(), HeaderTemplate::BYTES_MAX);
    let what = "bytes of --header and --cache-control for every response";
    match bytes > most {
        true => Err(Failure::Usage(format!("{bytes} {what}: {most} are the most (see flash serve --help)"))),
        false => Ok(()),
    }
}
