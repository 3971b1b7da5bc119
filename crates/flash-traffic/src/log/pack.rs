//! What logs come packed in, told by their first bytes and not by their names: gzip, bzip2, xz, tar and zip, one within
//! another.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use tar::Archive;
use zip::ZipArchive;

use super::request::{DEPTH_MAX, LogError};

/// What `xz -9` needs is 65 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 256 << 10;

const BUFFER_BYTES: usize = 64 << 10;

/// Where tar has its magic bytes, and where they end.
const TAR_MAGIC: std::ops::Range<usize> = 257..262;

/// Gets the name of a text within a file, and the text.
type EachText<'a> = dyn FnMut(&str, &mut dyn BufRead) -> Result<(), LogError> + 'a;

enum Pack {
    Gzip,
    Bzip2,
    Xz,
    Tar,
    Zip,
    None,
}

/// Hands out every text in a file: the file itself, or what is packed in it.
pub(super) fn each_text(path: &Path, each: &mut EachText) -> Result<(), LogError> {
    let name = path.display().to_string();
    let failed = |source| LogError::Read { name: name.clone(), source };
    let mut file = File::open(path).map_err(failed)?;
    let first = peek(&mut file).map_err(failed)?;
    match Pack::of(&first) {
        Pack::Zip => {
            let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| failed(error.into()))?;
            for index in 0..archive.len() {
                let mut entry = archive.by_index(index).map_err(|error| failed(error.into()))?;
                if entry.is_file() && !is_beside(entry.name_raw()) {
                    let name = format!("{name}/{}", String::from_utf8_lossy(entry.name_raw()));
                    unpack(&name, &mut entry, 1, each)?;
                }
            }
            Ok(())
        }
        _ => unpack(&name, &mut Cursor::new(first).chain(file), 0, each),
    }
}

fn unpack(name: &str, packed: &mut dyn Read, depth: u32, each: &mut EachText) -> Result<(), LogError> {
    let failed = |source| LogError::Read { name: name.into(), source };
    if depth > DEPTH_MAX {
        return Err(LogError::TooDeep { name: name.into() });
    }
    let first = peek(packed).map_err(failed)?;
    let pack = Pack::of(&first);
    let mut packed = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(first).chain(packed));
    match pack {
        Pack::Gzip => unpack(name, &mut MultiGzDecoder::new(packed), depth + 1, each),
        Pack::Bzip2 => unpack(name, &mut MultiBzDecoder::new(packed), depth + 1, each),
        Pack::Xz => {
            unpack(name, &mut XzReader::new_mem_limit(packed, true, XZ_MEMORY_KIB_MAX), depth + 1, each)
        }
        Pack::Tar => {
            for entry in Archive::new(packed).entries().map_err(failed)? {
                let mut entry = entry.map_err(failed)?;
                if entry.header().entry_type().is_file() && !is_beside(&entry.path_bytes()) {
                    let name = format!("{name}/{}", String::from_utf8_lossy(&entry.path_bytes()));
                    unpack(&name, &mut entry, depth + 1, each)?;
                }
            }
            Ok(())
        }
        Pack::Zip => {
            let why = "a zip archive that is itself packed; unpack it first";
            Err(failed(io::Error::new(io::ErrorKind::Unsupported, why)))
        }
        Pack::None => each(name, &mut packed),
    }
}

/// As many bytes as tell what follows.
fn peek(packed: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut first = Vec::with_capacity(TAR_MAGIC.end);
    packed.take(TAR_MAGIC.end as u64).read_to_end(&mut first)?;
    Ok(first)
}

impl Pack {
    fn of(first: &[u8]) -> Self {
        match first {
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [b'P', b'K', 3, 4, ..] => Self::Zip,
            _ if first.get(TAR_MAGIC) == Some(b"ustar") => Self::Tar,
            _ => Self::None,
        }
    }
}

/// Files that systems put into archives on their own, such as `__MACOSX/._log`.
fn is_beside(name: &[u8]) -> bool {
    let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    last.starts_with(b".") || name.starts_with(b"__MACOSX/")
}
