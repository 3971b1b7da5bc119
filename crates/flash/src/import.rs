//! `flash import`: another server's configuration as one of Flash.

use crate::failure::Failure;
use crate::flags::{ForeignServer, Import};

pub(crate) fn run(Import { server, file }: &Import) -> Result<(), Failure> {
    let imported = match server {
        ForeignServer::Apache => flash_import::apache::import_file(file),
        ForeignServer::Caddyfile => flash_import::caddy::import_file(file),
        ForeignServer::Nginx => flash_import::nginx::import_file(file),
    };
    let imported = imported.map_err(Failure::Run)?;
    flash_cli::print(imported.file().as_bytes())?;
    let (taken, all) = (imported.taken(), imported.directives);
    let others = if taken < all { ", and the others are listed at the end" } else { "" };
    flash_cli::say(format_args!("flash: {taken} of {all} lines were taken{others}"));
    Ok(())
}
