//! Lines as servers and strangers write them, and every way to pack them.

use std::fs;
use std::io::{Cursor, Write};

use proptest::prelude::*;

use super::lines::{Lines, Taken};
use super::*;

const COMMON: &str = r#"h.example - - [01/Aug/1995:00:00:01 -0400] "GET /a.txt HTTP/1.0" 200 1839"#;
const COMBINED: &str =
    r#"1.2.3.4 - joe [17/May/2015:10:05:03 +0000] "GET /b HTTP/1.1" 304 - "http://r/" "Agent (X) 1""#;
const EPA: &str = r#"h.example [29:23:53:25] "GET /c.html HTTP/1.0" 200 1497"#;
const WORLD_CUP: &str = "1044,30/Apr/1998,22:46:12,/d,e.gif,200,508";

fn request(target: &str, status: u16, bytes: Option<u64>, at_seconds: i64) -> Request<'_> {
    Request { method: b"GET", target: target.as_bytes(), status, bytes, at_seconds }
}

#[test]
fn each_format_says_what_its_line_says() {
    for (format, line, expected) in [
        (Format::Common, COMMON, request("/a.txt", 200, Some(1_839), 807_249_601)),
        (Format::Combined, COMBINED, request("/b", 304, None, 1_431_857_103)),
        (Format::Epa, EPA, request("/c.html", 200, Some(1_497), 29 * 86_400 + 86_005)),
        (Format::WorldCup, WORLD_CUP, request("/d,e.gif", 200, Some(508), 893_976_372)),
    ] {
        assert_eq!(format.parse(line.as_bytes()), Some(expected), "{format}");
        assert_eq!(format.name().parse(), Ok(format));
        // Each of these lines is of one format only.
        for other in Format::ALL.into_iter().filter(|other| *other != format) {
            assert_eq!(other.parse(line.as_bytes()), None, "{format} is no {other}");
        }
    }
    assert_eq!("clf".parse::<Format>(), Err(UnknownFormat("clf".into())));
}

#[test]
fn odd_requests_are_requests() {
    for (text, method, target) in [
        (r#""GET /x"y" HTTP/1.0" 200 5"#, "GET", "/x\"y\""),
        (r#""GET /a b HTTP/1.0" 200 5"#, "GET", "/a"),
        (r#""GET /x" 200 5"#, "GET", "/x"),
        (r#""-" 200 5"#, "-", ""),
        (r#""" 200 5"#, "", ""),
        (r#""\x16\x03" 200 5"#, "\\x16\\x03", ""),
    ] {
        let line = format!("h - - [01/Aug/1995:00:00:01 -0400] {text}");
        let Some(found) = Format::Common.parse(line.as_bytes()) else { panic!("{text}") };
        assert_eq!((found.method, found.target), (method.as_bytes(), target.as_bytes()), "{text}");
    }
}

#[test]
fn odd_lines_are_malformed() {
    for (odd, even) in [
        ("Aug", "Agu"),
        ("01/Aug", "32/Aug"),
        ("01/Aug", "30/Feb"),
        (":00:00:01", ":24:00:01"),
        (":00:00:01", ":00:00:61"),
        (" -0400", ""),
        ("-0400", "04000"),
        (" 200 ", " 20 "),
        (" 200 ", " 2000 "),
        (" 200 ", " "),
        (" 1839", ""),
        ("1839", "1k"),
        ("1839", "-1"),
        ("1839", "99999999999999999999"),
        ("1839", "1839 x"),
    ] {
        let line = COMMON.replace(odd, even);
        assert_eq!(Format::Common.parse(line.as_bytes()), None, "{line}");
    }
    for line in ["h [32:00:00:00] \"GET / HTTP/1.0\" 200 5", "h [29:00:00] \"GET / HTTP/1.0\" 200 5", ""] {
        assert_eq!(Format::Epa.parse(line.as_bytes()), None, "{line}");
    }
    for line in ["1,30/Apr/1998,22:46:12,/d,200", "1,30/Apr/98,22:46:12,/d,200,5", "1,2,3,4,5,6"] {
        assert_eq!(Format::WorldCup.parse(line.as_bytes()), None, "{line}");
    }
}

#[test]
fn the_first_lines_tell_the_format() {
    let recognise = |lines: &[&str]| Format::recognise(lines.iter().map(|line| line.as_bytes()));
    assert_eq!(recognise(&[COMMON, "odd", COMMON]), Some(Format::Common));
    assert_eq!(recognise(&[COMBINED, "odd"]), Some(Format::Combined));
    assert_eq!(recognise(&[EPA]), Some(Format::Epa));
    assert_eq!(recognise(&["client,date", WORLD_CUP, WORLD_CUP]), Some(Format::WorldCup));
    assert_eq!(recognise(&[COMMON, "odd", "odd"]), None);
    assert_eq!(recognise(&[]), None);
}

#[test]
fn lines_have_a_limit() {
    let long = "x".repeat(LINE_BYTES_MAX + 1);
    let text = format!("a\r\n\n{long}\n{}\nlast", &long[1..]);
    let mut text = Cursor::new(text);
    let mut lines = Lines::new(&mut text);
    let mut taken = Vec::new();
    while let Some(line) = lines.take().unwrap() {
        taken.push(line.map(<[u8]>::to_vec));
    }
    let whole = |line: &str| Taken::Whole(line.as_bytes().to_vec());
    assert_eq!(taken, [whole("a"), whole(""), Taken::TooLong, whole(&long[1..]), whole("last")]);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn tar(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        archive.append_data(&mut header, name, *bytes).unwrap();
    }
    archive.into_inner().unwrap()
}

fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut packer = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1)).unwrap();
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// The targets of a log, and what is said about it.
fn read_bytes(bytes: &[u8]) -> Result<(Vec<String>, Report), LogError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let mut targets = Vec::new();
    let report = read(file.path(), None, &mut |request| {
        targets.push(String::from_utf8_lossy(request.target).into_owned());
    })?;
    Ok((targets, report))
}

#[test]
fn a_log_may_be_packed_in_every_way() {
    let log = format!("{COMMON}\n{COMMON}\n").into_bytes();
    for packed in [
        log.clone(),
        gzip(&log),
        [gzip(&log[..30]), gzip(&log[30..])].concat(),
        bzip2(&log),
        xz(&log),
        tar(&[("log", &log)]),
        zip(&[("log", &log)]),
        gzip(&tar(&[("log", &log)])),
        bzip2(&tar(&[("x/log.gz", &gzip(&log))])),
        xz(&tar(&[("._log", b"beside"), ("log", &log)])),
        zip(&[("__MACOSX/log", b"beside"), ("log.bz2", &bzip2(&log))]),
    ] {
        let (targets, report) = read_bytes(&packed).unwrap();
        assert_eq!(targets, ["/a.txt", "/a.txt"]);
        assert_eq!((report.lines, report.malformed, report.no_logs), (2, 0, 0));
    }
}

#[test]
fn an_archive_may_hold_several_logs_and_other_things() {
    let logs =
        [("1", format!("{COMMON}\n")), ("2", format!("odd\n{WORLD_CUP}\n")), ("readme", "hello\n".into())];
    let (targets, report) =
        read_bytes(&tar(&logs.each_ref().map(|(name, log)| (*name, log.as_bytes())))).unwrap();
    assert_eq!(targets, ["/a.txt", "/d,e.gif"]);
    assert_eq!(report.formats, [Format::Common, Format::WorldCup]);
    assert!(report.to_string().ends_with("; 1 other files are no logs"), "{report}");
    let (name, number) = report.first_odd.clone().unwrap();
    assert!(name.ends_with("/2") && number == 1, "{report}");
    assert!(report.to_string().starts_with("3 lines, 1 malformed (the first one is line 1 of "), "{report}");
}

#[test]
fn what_cannot_be_read_says_why() {
    let log = format!("{COMMON}\n").repeat(1_000).into_bytes();
    let damaged = |mut packed: Vec<u8>| {
        packed.truncate(packed.len() / 2);
        packed
    };
    for packed in
        [damaged(gzip(&log)), damaged(bzip2(&log)), damaged(xz(&log)), damaged(zip(&[("log", &log)]))]
    {
        assert!(matches!(read_bytes(&packed), Err(LogError::Read { .. })), "{:?}", &packed[..4]);
    }
    assert!(matches!(read_bytes(b""), Err(LogError::Unrecognised { .. })));
    assert!(matches!(read_bytes(b"no\nlog\n"), Err(LogError::Unrecognised { .. })));
    let deep = (0..=request::DEPTH_MAX).fold(log.clone(), |packed, _| gzip(&packed));
    assert!(matches!(read_bytes(&deep), Err(LogError::TooDeep { .. })));
    assert!(matches!(read_bytes(&gzip(&zip(&[("log", &log)]))), Err(LogError::Read { .. })));
    let nowhere = read(Path::new("/nowhere/log"), None, &mut |_| ()).unwrap_err().to_string();
    assert!(nowhere.starts_with("/nowhere/log: No such file"), "{nowhere}");
}

proptest! {
    #[test]
    fn no_line_is_too_odd(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        for format in Format::ALL {
            let _ = format.parse(&line);
        }
    }

    /// Nor is one that begins well.
    #[test]
    fn no_change_is_too_odd(
        line in prop::sample::select(vec![COMMON, COMBINED, EPA, WORLD_CUP]),
        place in any::<prop::sample::Index>(),
        with in proptest::collection::vec(any::<u8>(), 0..4),
    ) {
        let mut line = line.as_bytes().to_vec();
        let place = place.index(line.len());
        line.splice(place..line.len().min(place + 2), with);
        for format in Format::ALL {
            let _ = format.parse(&line);
        }
    }

    #[test]
    fn what_is_written_is_read(
        target in "/[!#-~]{0,30}",
        status in 100_u16..1_000,
        bytes in proptest::option::of(any::<u64>()),
        day in 0_i64..20_000,
        second in 0_i64..86_400,
        zone_minutes in -720_i64..=720,
    ) {
        let date = time::Date::from_julian_day(day as i32 + 2_440_588).unwrap();
        let month = &date.month().to_string()[..3];
        let date_text = format!("{:02}/{month}/{:04}", date.day(), date.year());
        let clock = format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60);
        let sign = if zone_minutes < 0 { '-' } else { '+' };
        let zone = format!("{sign}{:02}{:02}", zone_minutes.abs() / 60, zone_minutes.abs() % 60);
        let size = bytes.map_or("-".into(), |bytes| bytes.to_string());
        let local = day * 86_400 + second;
        let common = format!("h - - [{date_text}:{clock} {zone}] \"GET {target} HTTP/1.1\" {status} {size}");
        let expected = request(&target, status, bytes, local - zone_minutes * 60);
        prop_assert_eq!(Format::Common.parse(common.as_bytes()), Some(expected));
        let combined = format!("{common} \"-\" \"-\"");
        prop_assert_eq!(Format::Combined.parse(combined.as_bytes()), Some(expected));
        let world_cup = format!("7,{date_text},{clock},{target},{status},{size}");
        let expected = request(&target, status, bytes, local);
        prop_assert_eq!(Format::WorldCup.parse(world_cup.as_bytes()), Some(expected));
        let epa = format!("h [{:02}:{clock}] \"GET {target} HTTP/1.0\" {status} {size}", day % 28 + 1);
        let expected = request(&target, status, bytes, (day % 28 + 1) * 86_400 + second);
        prop_assert_eq!(Format::Epa.parse(epa.as_bytes()), Some(expected));
    }
}
