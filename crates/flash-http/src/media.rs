//! Media types by file name: the Content-Type of a file.
//!
//! Flash looks it up once for each file, when the file enters the cache, and never looks at the content. The table is our own
//! for two reasons. Content-Type must come with its charset as one static string. And the table is short: the types of the web,
//! and a few others that people often serve.

use crate::negotiate::Coding;

/// What a file's name says of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media {
    /// The value of Content-Type, with a charset where the type has one.
    pub content_type: &'static str,
    /// The coding that the file itself is in.
    pub coding: Option<Coding>,
    /// Whether a compressed copy is worth having.
    pub compressible: bool,
}

impl Media {
    /// The same with another type.
    #[must_use]
    pub fn typed(self, content_type: &'static str) -> Self {
        let compressible = self.coding.is_none() && compresses(content_type.as_bytes());
        Self { content_type, compressible, ..self }
    }

    /// The same of a file that is in this coding.
    #[must_use]
    pub fn coded(self, coding: Coding) -> Self {
        Self { coding: Some(coding), compressible: false, ..self }
    }
}

/// Extensions with more bytes than this say nothing.
const EXTENSION_BYTES_MAX: usize = 16;

/// Of a file whose name says nothing.
const UNKNOWN: Media = dense("application/octet-stream");
const TEXT: Media = loose("text/plain; charset=utf-8");

/// The type of a file by its name's extension, in any case, or by its whole name; application/octet-stream if it says nothing.
pub fn of(name: &[u8]) -> Media {
    let file = memchr::memrchr(b'/', name).map_or(name, |slash| &name[slash + 1..]);
    let Some(dot) = memchr::memrchr(b'.', file) else { return by_name(file) };
    let extension = &file[dot + 1..];
    let mut lower = [0; EXTENSION_BYTES_MAX];
    let Some(lower) = lower.get_mut(..extension.len()) else { return UNKNOWN };
    lower.copy_from_slice(extension);
    lower.make_ascii_lowercase();
    by_extension(lower)
}

/// Whether content of a type compresses well, by the value of Content-Type. A stream of events does not, because each event is
/// sent for itself.
pub fn compresses(content_type: &[u8]) -> bool {
    let end = memchr::memchr(b';', content_type).unwrap_or(content_type.len());
    let essence = content_type[..end].trim_ascii().to_ascii_lowercase();
    match &essence[..] {
        b"text/event-stream" => false,
        b"application/json" | b"application/javascript" | b"application/x-javascript" => true,
        b"application/xml" | b"application/wasm" | b"application/x-ndjson" => true,
        b"image/svg+xml" | b"image/bmp" | b"image/x-icon" | b"font/ttf" | b"font/otf" => true,
        other => other.starts_with(b"text/") || other.ends_with(b"+json") || other.ends_with(b"+xml"),
    }
}

/// A type that compresses well.
const fn loose(content_type: &'static str) -> Media {
    Media { content_type, coding: None, compressible: true }
}

/// A type that is compressed already, or may be anything.
const fn dense(content_type: &'static str) -> Media {
    Media { content_type, coding: None, compressible: false }
}

/// What projects and mirrors have, and people read in their browsers.
const fn by_name(file: &[u8]) -> Media {
    match file {
        b"README" | b"LICENSE" | b"LICENCE" | b"COPYING" | b"NOTICE" | b"AUTHORS" | b"NEWS" | b"INSTALL" => {
            TEXT
        }
        b"CHANGES" | b"CHANGELOG" | b"ChangeLog" | b"TODO" => TEXT,
        b"MD5SUMS" | b"SHA1SUMS" | b"SHA224SUMS" | b"SHA256SUMS" | b"SHA384SUMS" | b"SHA512SUMS" => TEXT,
        _ => UNKNOWN,
    }
}

#[rustfmt::skip] // One line for each type is how this is read.
#[expect(clippy::too_many_lines, reason = "a table")]
const fn by_extension(lower: &[u8]) -> Media {
    match lower {
        // Pages, and what they are made of.
        b"html" | b"htm" | b"shtml" => loose("text/html; charset=utf-8"),
        b"xhtml" | b"xht" => loose("application/xhtml+xml; charset=utf-8"),
        b"css" => loose("text/css; charset=utf-8"),
        b"js" | b"mjs" | b"cjs" => loose("text/javascript; charset=utf-8"),
        b"json" | b"map" => loose("application/json"),
        b"jsonld" => loose("application/ld+json"),
        b"geojson" => loose("application/geo+json"),
        b"topojson" | b"har" => loose("application/json"),
        b"ndjson" | b"jsonl" => loose("application/x-ndjson"),
        b"webmanifest" => loose("application/manifest+json"),
        b"wasm" => loose("application/wasm"),
        b"xml" | b"xsd" | b"rng" | b"plist" | b"docbook" => loose("application/xml"),
        b"xsl" | b"xslt" => loose("application/xslt+xml"),
        b"dtd" | b"mod" | b"ent" => loose("application/xml-dtd"),
        b"rss" => loose("application/rss+xml"),
        b"atom" => loose("application/atom+xml"),
        b"rdf" | b"owl" => loose("application/rdf+xml"),
        b"ttl" => loose("text/turtle; charset=utf-8"),
        b"n3" => loose("text/n3; charset=utf-8"),
        b"appcache" => loose("text/cache-manifest; charset=utf-8"),

        // Text. A browser shows text/plain and would save most types that are more exact.
        b"txt" | b"text" | b"log" | b"diff" | b"patch" | b"conf" | b"cfg" | b"ini" | b"properties"
        | b"list" | b"readme" | b"changelog" | b"license" | b"asc" | b"pem" | b"in" | b"am" | b"ac" | b"m4"
        | b"c" | b"h" | b"cc" | b"cpp" | b"cxx" | b"hh" | b"hpp" | b"hxx" | b"cs" | b"d" | b"go" | b"java"
        | b"kt" | b"rs" | b"swift" | b"zig" | b"py" | b"pyi" | b"rb" | b"pl" | b"pm" | b"lua" | b"tcl" | b"r"
        | b"jl" | b"hs" | b"ml" | b"mli" | b"scm" | b"lisp" | b"el" | b"clj" | b"erl" | b"ex" | b"exs"
        | b"scala" | b"sh" | b"bash" | b"zsh" | b"fish" | b"awk" | b"sed" | b"bat" | b"ps1" | b"asm" | b"s"
        | b"f" | b"f90" | b"for" | b"pas" | b"ada" | b"adb" | b"ads" | b"v" | b"vhd" | b"sql" | b"proto"
        | b"graphql" | b"cmake" | b"mk" | b"gradle" | b"dockerfile" | b"lock" | b"tsx" | b"jsx" | b"vue"
        | b"svelte" | b"scss" | b"sass" | b"less" | b"rst" | b"adoc" | b"org" | b"pod" | b"po" | b"pot"
        | b"md5" | b"sha1" | b"sha224" | b"sha256" | b"sha384" | b"sha512" | b"b2sum"
        | b"bib" | b"srt" | b"nfo" | b"jsonc" | b"json5" | b"gitignore" | b"env" => loose("text/plain; charset=utf-8"),
        b"md" | b"markdown" => loose("text/markdown; charset=utf-8"),
        b"csv" => loose("text/csv; charset=utf-8"),
        b"tsv" => loose("text/tab-separated-values; charset=utf-8"),
        b"vtt" => loose("text/vtt; charset=utf-8"),
        b"ics" | b"ifb" => loose("text/calendar; charset=utf-8"),
        b"vcf" | b"vcard" => loose("text/vcard; charset=utf-8"),
        b"yaml" | b"yml" => loose("application/yaml"),
        b"toml" => loose("application/toml"),
        b"tex" | b"latex" | b"sty" | b"ltx" => loose("application/x-tex"),
        b"texi" | b"texinfo" => loose("application/x-texinfo"),
        b"man" | b"roff" | b"tr" => loose("text/troff; charset=utf-8"),
        b"rtf" => loose("application/rtf"),

        // Pictures.
        b"svg" => loose("image/svg+xml"),
        b"svgz" => Media { coding: Some(Coding::Gzip), ..dense("image/svg+xml") },
        b"png" => dense("image/png"),
        b"apng" => dense("image/apng"),
        b"jpg" | b"jpeg" | b"jpe" | b"jfif" | b"pjpeg" => dense("image/jpeg"),
        b"gif" => dense("image/gif"),
        b"webp" => dense("image/webp"),
        b"avif" => dense("image/avif"),
        b"jxl" => dense("image/jxl"),
        b"heic" => dense("image/heic"),
        b"heif" => dense("image/heif"),
        b"ico" | b"cur" => loose("image/vnd.microsoft.icon"),
        b"bmp" => loose("image/bmp"),
        b"tif" | b"tiff" => dense("image/tiff"),
        b"pbm" => loose("image/x-portable-bitmap"),
        b"pgm" => loose("image/x-portable-graymap"),
        b"ppm" => loose("image/x-portable-pixmap"),
        b"xpm" => loose("image/x-xpixmap"),
        b"xbm" => loose("image/x-xbitmap"),
        b"psd" => dense("image/vnd.adobe.photoshop"),
        b"djvu" | b"djv" => dense("image/vnd.djvu"),

        // Fonts. The formats made for the web are compressed inside.
        b"woff" => dense("font/woff"),
        b"woff2" => dense("font/woff2"),
        b"ttf" => loose("font/ttf"),
        b"otf" => loose("font/otf"),
        b"ttc" | b"otc" => loose("font/collection"),
        b"eot" => loose("application/vnd.ms-fontobject"),

        // Sound.
        b"mp3" => dense("audio/mpeg"),
        b"m4a" => dense("audio/mp4"),
        b"aac" => dense("audio/aac"),
        b"oga" | b"ogg" | b"opus" | b"spx" => dense("audio/ogg"),
        b"flac" => dense("audio/flac"),
        b"wav" => loose("audio/wav"),
        b"weba" => dense("audio/webm"),
        b"mid" | b"midi" => loose("audio/midi"),
        b"aif" | b"aiff" => loose("audio/aiff"),
        b"m3u" => loose("audio/x-mpegurl"),

        // Moving pictures. `.ts` is a transport stream by registration; browsers run no TypeScript.
        b"mp4" | b"m4v" | b"mp4v" => dense("video/mp4"),
        b"webm" => dense("video/webm"),
        b"ogv" => dense("video/ogg"),
        b"mov" | b"qt" => dense("video/quicktime"),
        b"mkv" => dense("video/matroska"),
        b"avi" => dense("video/x-msvideo"),
        b"wmv" => dense("video/x-ms-wmv"),
        b"flv" => dense("video/x-flv"),
        b"mpg" | b"mpeg" | b"mpe" => dense("video/mpeg"),
        b"3gp" => dense("video/3gpp"),
        b"3g2" => dense("video/3gpp2"),
        b"ts" | b"m2ts" => dense("video/mp2t"),
        b"m4s" => dense("video/iso.segment"),
        b"m3u8" => loose("application/vnd.apple.mpegurl"),
        b"mpd" => loose("application/dash+xml"),

        // Documents.
        b"pdf" => dense("application/pdf"),
        b"ps" | b"eps" | b"ai" => loose("application/postscript"),
        b"epub" => dense("application/epub+zip"),
        b"mobi" => dense("application/x-mobipocket-ebook"),
        b"doc" | b"dot" => loose("application/msword"),
        b"xls" | b"xlt" => loose("application/vnd.ms-excel"),
        b"ppt" | b"pps" => loose("application/vnd.ms-powerpoint"),
        b"docx" => dense("application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        b"xlsx" => dense("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        b"pptx" => dense("application/vnd.openxmlformats-officedocument.presentationml.presentation"),
        b"odt" => dense("application/vnd.oasis.opendocument.text"),
        b"ods" => dense("application/vnd.oasis.opendocument.spreadsheet"),
        b"odp" => dense("application/vnd.oasis.opendocument.presentation"),
        b"odg" => dense("application/vnd.oasis.opendocument.graphics"),
        b"kml" => loose("application/vnd.google-earth.kml+xml"),
        b"kmz" => dense("application/vnd.google-earth.kmz"),
        b"gpx" => loose("application/gpx+xml"),
        b"ipynb" => loose("application/x-ipynb+json"),
        b"eml" => loose("message/rfc822"),
        b"gltf" => loose("model/gltf+json"),
        b"glb" => loose("model/gltf-binary"),
        b"stl" => loose("model/stl"),
        b"obj" => loose("model/obj"),

        // Archives and packages.
        b"zip" => dense("application/zip"),
        b"gz" | b"tgz" => dense("application/gzip"),
        b"zst" => dense("application/zstd"),
        b"bz2" | b"tbz2" => dense("application/x-bzip2"),
        b"xz" | b"txz" => dense("application/x-xz"),
        b"lzma" => dense("application/x-lzma"),
        b"lz" => dense("application/x-lzip"),
        b"br" => dense("application/x-brotli"),
        b"7z" => dense("application/x-7z-compressed"),
        b"rar" => dense("application/vnd.rar"),
        b"tar" => loose("application/x-tar"),
        b"cpio" => loose("application/x-cpio"),
        b"jar" | b"war" => dense("application/java-archive"),
        b"deb" | b"udeb" => dense("application/vnd.debian.binary-package"),
        b"rpm" => dense("application/x-rpm"),
        b"apk" => dense("application/vnd.android.package-archive"),
        b"crx" => dense("application/x-chrome-extension"),
        b"xpi" => dense("application/x-xpinstall"),
        b"iso" => loose("application/x-iso9660-image"),
        b"torrent" => dense("application/x-bittorrent"),
        b"swf" => dense("application/vnd.adobe.flash.movie"),
        b"sqlite" | b"sqlite3" | b"db" => loose("application/vnd.sqlite3"),
        b"crt" | b"cer" => dense("application/pkix-cert"),
        b"crl" => dense("application/pkix-crl"),
        b"p12" | b"pfx" => dense("application/x-pkcs12"),
        b"sig" => dense("application/pgp-signature"),
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_read_in_any_case_and_from_the_end() {
        assert_eq!(of(b"index.HTML").content_type, "text/html; charset=utf-8");
        assert_eq!(of(b"changelog.Debian.gz").content_type, "application/gzip");
        assert_eq!(of(b"jquery.min.js").content_type, "text/javascript; charset=utf-8");
        assert_eq!(of(b"a/b.css").content_type, "text/css; charset=utf-8");
    }

    #[test]
    fn names_that_say_nothing() {
        for name in [
            &b"data"[..],
            b"readme",
            b"README/a",
            b"",
            b".",
            b"a.",
            b"a.unheard-of",
            b"a.html/b",
            b"a.\xff",
            b"a.htmlhtmlhtmlhtmlhtml",
        ] {
            assert_eq!(of(name), UNKNOWN, "{}", name.escape_ascii());
        }
    }

    #[test]
    fn registered_types_of_the_web() {
        for (name, content_type) in [
            ("a.mjs", "text/javascript; charset=utf-8"),
            ("a.json", "application/json"),
            ("a.svg", "image/svg+xml"),
            ("a.wasm", "application/wasm"),
            ("a.avif", "image/avif"),
            ("a.webmanifest", "application/manifest+json"),
            ("a.woff2", "font/woff2"),
            ("a.md", "text/markdown; charset=utf-8"),
            ("a.ts", "video/mp2t"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.iso.sha256", "text/plain; charset=utf-8"),
            ("README", "text/plain; charset=utf-8"),
            ("pool/v1.2/SHA256SUMS", "text/plain; charset=utf-8"),
            ("a.iso.asc", "text/plain; charset=utf-8"),
        ] {
            assert_eq!(of(name.as_bytes()).content_type, content_type, "{name}");
        }
    }

    #[test]
    fn files_that_are_in_a_coding_are_compressed_no_further() {
        let svgz = of(b"a.svgz");
        assert_eq!(
            (svgz.content_type, svgz.coding, svgz.compressible),
            ("image/svg+xml", Some(Coding::Gzip), false)
        );
        let script = of(b"a").typed("text/javascript");
        assert!(script.compressible && !script.coded(Coding::Br).compressible);
        assert!(!script.coded(Coding::Br).typed("text/css").compressible);
    }

    #[test]
    fn content_types_of_programs() {
        for loose in
            ["text/html", "Text/HTML; charset=utf-8", "application/json", "application/problem+json;v=1"]
        {
            assert!(compresses(loose.as_bytes()), "{loose}");
        }
        for dense in
            ["", "image/png", "text/event-stream", "text/event-stream; charset=utf-8", "application/zip"]
        {
            assert!(!compresses(dense.as_bytes()), "{dense}");
        }
    }

    #[test]
    fn what_is_compressed_already_is_not_compressible() {
        for name in ["a.png", "a.woff2", "a.gz", "a.mp4", "a.docx", "a"] {
            assert!(!of(name.as_bytes()).compressible, "{name}");
        }
        for name in ["a.html", "a.svg", "a.wasm", "a.json", "a.ttf"] {
            assert!(of(name.as_bytes()).compressible, "{name}");
        }
    }
}
