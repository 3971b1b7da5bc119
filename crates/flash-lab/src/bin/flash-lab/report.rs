//! `flash lab report`: writes the page, and says where it lies.

use std::path::Path;

use anyhow::Context as _;

pub(crate) fn report(out: &Path) -> anyhow::Result<()> {
    let page = flash_lab::report::report(out)?;
    let path = out.join("report.html");
    std::fs::write(&path, page).with_context(|| path.display().to_string())?;
    Ok(flash_cli::print(format!("{}\n", path.display()))?)
}
