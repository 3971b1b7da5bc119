//! The names of kernel functions at a few addresses, from the lines of `/proc/kallsyms`.
//!
//! A server that slept needs a dozen names once. So nothing but these is kept of the kernel's 200,000.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

/// The functions that addresses lie in. An address is missing if the kernel hides its functions' addresses.
///
/// # Errors
/// Those of the reader.
pub fn function_names(mut lines: impl BufRead, addresses: &[u64]) -> io::Result<BTreeMap<u64, String>> {
    let mut found: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        note(&line, addresses, &mut found);
        line.clear();
    }
    Ok(found.into_iter().map(|(address, (_, name))| (address, name)).collect())
}

/// Keeps the function of a line for each address whose nearest it is so far.
fn note(line: &str, addresses: &[u64], found: &mut BTreeMap<u64, (u64, String)>) {
    let mut words = line.split_ascii_whitespace();
    let begin = words.next().and_then(|word| u64::from_str_radix(word, 16).ok()).unwrap_or(0);
    let (kind, Some(name)) = (words.next(), words.next()) else { return };
    if begin == 0 || !matches!(kind, Some("t" | "T" | "w" | "W")) {
        return;
    }
    for &address in addresses.iter().filter(|&&address| address >= begin) {
        if found.get(&address).is_none_or(|(nearest, _)| *nearest < begin) {
            found.insert(address, (begin, name.to_owned()));
        }
    }
}

#[test]
fn an_address_lies_in_the_function_before_it() {
    let lines = "ffff10 T second\nffff00 t first\nffff08 d data\nffff20 T end\n";
    let names =
        function_names(lines.as_bytes(), &[0xffff0f, 0xffff10, 0xffff99, 1]).expect("no reader fails");
    let names: Vec<_> = names.iter().map(|(&address, name)| (address, &**name)).collect();
    assert_eq!(names, [(0xffff0f, "first"), (0xffff10, "second"), (0xffff99, "end")]);
    let hidden = function_names("0000000000000000 T hidden\n".as_bytes(), &[7]);
    assert_eq!(hidden.expect("no reader fails"), BTreeMap::new());
}
