//! Values that do not stand in the file: `{ env = "NAME" }`, `{ file = "/path" }` and `{ credential = "NAME" }`.
//!
//! Each is a whole value. Nothing is substituted inside a text.

use std::env::VarError;
use std::io::Read;
use std::path::{Path, PathBuf};

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
    let secret = match pair(table)? {
        // What the error says has the value in it.
        ("env", text) => {
            file.has_variable(text);
            std::env::var(text).map_err(|error| match error {
                VarError::NotUnicode(_) => format!("{text}: its value is not UTF-8"),
                error @ VarError::NotPresent => format!("{text}: {error}"),
            })?
        }
        _ => of_file(&path(table, file)?)?,
    };
    let secret = secret.strip_suffix('\n').unwrap_or(&secret);
    Ok(secret.strip_suffix('\r').unwrap_or(secret).into())
}

/// The file that has the value.
///
/// # Errors
/// Why there is none.
pub(crate) fn path(table: &DeTable<'_>, file: &File) -> Result<PathBuf, String> {
    match pair(table)? {
        ("file", text) if !text.is_empty() => Ok(file.absolute(text)),
        // systemd's LoadCredential and SetCredential.
        ("credential", text) if !text.contains('/') && !text.starts_with('.') => {
            let folder = std::env::var_os("CREDENTIALS_DIRECTORY")
                .ok_or("there are no credentials: CREDENTIALS_DIRECTORY is not set")?;
            Ok(Path::new(&folder).join(text))
        }
        _ => Err(FORM.into()),
    }
}

/// The only pair of the table.
fn pair<'t>(table: &'t DeTable<'_>) -> Result<(&'t str, &'t str), String> {
    let mut pairs = table.iter();
    match (pairs.next(), pairs.next()) {
        (Some((name, value)), None) => match value.get_ref() {
            DeValue::String(text) => Ok((name.get_ref(), text)),
            _ => Err(FORM.into()),
        },
        _ => Err(FORM.into()),
    }
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
