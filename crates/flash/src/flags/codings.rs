//! The value of `--compress`: content codings, or none.

use flash_http::negotiate::{Coding, CodingSet};

/// The default of `--compress`.
pub(super) const ALL: &str = "br,zstd,gzip";
pub(super) const OFF: &str = "off";

/// Codings with commas between them, or `off`.
pub(super) fn parse(text: &str) -> Result<CodingSet, String> {
    if text == OFF {
        return Ok(CodingSet::EMPTY);
    }
    text.split(',').map(str::trim).try_fold(CodingSet::EMPTY, |codings, name| {
        let coding = Coding::of_name(name).ok_or_else(|| format!("write some of {ALL}, or {OFF}"))?;
        Ok(codings.with(coding))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_all_or_none() {
        assert_eq!(parse(ALL), Ok(CodingSet::ALL));
        assert_eq!(parse("gzip, br"), Ok(CodingSet::EMPTY.with(Coding::Gzip).with(Coding::Br)));
        assert_eq!(parse("off"), Ok(CodingSet::EMPTY));
        for wrong in ["", "on", "deflate", "br;gzip", "br,", "off,br"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
