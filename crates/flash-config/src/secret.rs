//! Values that do not stand in the file: `{ env = "NAME" }`, `{ file = "/path" }` and `{ credential = "NAME" }`.
//!
//! Each is a whole value. Nothing is substituted inside a text.

use std::env::VarError;
use std::io::Read;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::file::File;

/// How many bytes a secret's file may have.
const BYTES_MAX: u64 = 64 << 10;

const FORM: &str = "write { env = \"NAME\" }, { file = \"/path\" } or { credential = \"NAME\" }";

/// The value, without the line break at its end.
///
/// # Errors
/// Why there is none.
pub(crate) fn read(table: &DeTable<'_>, file: &File) -> Result<String, String> {
    let mut pairs = table.iter();
    let (Some((name, value)), None) = (pairs.next(), pairs.next()) else { return Err(FORM.into()) };
    let DeValue::String(text) = value.get_ref() else { return Err(FORM.into()) };
    let secret = match &**name.get_ref() {
        // What the error says has the value in it.
        "env" => {
            file.has_variable(text);
            std::env::var(&**text).map_err(|error| match error {
                VarError::NotUnicode(_) => format!("{text}: its value is not UTF-8"),
                error @ VarError::NotPresent => format!("{text}: {error}"),
            })?
        }
        "file" if !text.is_empty() => of_file(&file.absolute(text))?,
        // systemd's LoadCredential and SetCredential.
        "credential" if !text.contains('/') && !text.starts_with('.') => {
            let folder = std::env::var_os("CREDENTIALS_DIRECTORY")
                .ok_or("there are no credentials: CREDENTIALS_DIRECTORY is not set")?;
            of_file(&Path::new(&folder).join(&**text))?
        }
        _ => return Err(FORM.into()),
    };
    let secret = secret.strip_suffix('\n').unwrap_or(&secret);
    Ok(secret.strip_suffix('\r').unwrap_or(secret).into())
}

fn of_file(path: &Path) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
    let mut secret = String::new();
    let file = flash_trust::open(path).map_err(|error| failed(&error))?;
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut secret).map_err(|error| failed(&error))?;
    match read as u64 > BYTES_MAX {
        true => Err(failed(&format_args!("it is larger than {BYTES_MAX} bytes"))),
        false => Ok(secret),
    }
}
