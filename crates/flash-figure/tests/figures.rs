//! Figures beside the ones that were looked at, in `tests/figures`. `FLASH_BLESS=1` replaces them: look at them again.

#![forbid(unsafe_code)]

mod samples;

use std::path::Path;

#[test]
fn figures_look_as_they_did() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/figures");
    let bless = std::env::var_os("FLASH_BLESS").is_some();
    let mut changed = Vec::new();
    for (name, figure) in samples::all() {
        let path = folder.join(format!("{name}.svg"));
        let now = figure.svg();
        if bless {
            std::fs::write(&path, now).expect("the folder of figures can be written");
        } else if std::fs::read_to_string(&path).unwrap_or_default() != now {
            changed.push(name);
        }
    }
    assert!(changed.is_empty(), "changed: {changed:?}; look at them with FLASH_BLESS=1");
}
