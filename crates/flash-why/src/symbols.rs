//! The kernel's functions by their addresses, from `/proc/kallsyms`.

use std::fs;
use std::sync::Arc;

use crate::error::Error;

/// All functions, in the order of their addresses.
pub(crate) struct Symbols {
    functions: Vec<(u64, Arc<str>)>,
}

impl Symbols {
    /// Reads them all. Fails if the kernel does not tell addresses.
    pub(crate) fn read() -> Result<Symbols, Error> {
        let text = fs::read_to_string("/proc/kallsyms")
            .map_err(|error| Error::run(format!("/proc/kallsyms: {error}")))?;
        Symbols::parse(&text).ok_or_else(|| {
            Error::run("the kernel hides its functions' addresses: CAP_SYSLOG, or sysctl kernel.kptr_restrict=1, would help")
        })
    }

    fn parse(text: &str) -> Option<Symbols> {
        let mut functions: Vec<(u64, Arc<str>)> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
                let name = words.next()?;
                (is_code && address != 0).then(|| (address, name.into()))
            })
            .collect();
        functions.sort_by_key(|(address, _)| *address);
        (!functions.is_empty()).then_some(Symbols { functions })
    }

    /// The function that an address lies in.
    pub(crate) fn name(&self, address: u64) -> Option<&Arc<str>> {
        let after = self.functions.partition_point(|(begin, _)| *begin <= address);
        self.functions.get(after.checked_sub(1)?).map(|(_, name)| name)
    }

    /// The functions of a stack. An address without one is its own name.
    pub(crate) fn names(&self, addresses: &[u64]) -> Vec<Arc<str>> {
        let name = |&address: &u64| match self.name(address) {
            Some(name) => Arc::clone(name),
            None => format!("{address:#x}").into(),
        };
        addresses.iter().map(name).collect()
    }

    /// Where a function begins and the next one does.
    #[cfg(any(target_arch = "x86_64", test))]
    pub(crate) fn range(&self, function: &str) -> Option<(u64, u64)> {
        let at = self.functions.iter().position(|(_, name)| &**name == function)?;
        let begin = self.functions[at].0;
        let end = self.functions[at..].iter().find(|(address, _)| *address > begin)?.0;
        Some((begin, end))
    }
}

#[test]
fn an_address_lies_in_the_function_before_it() {
    let text = "ffffffff81000010 T second\nffffffff81000000 t first\nffffffff81000008 d data\nffffffff81000020 T end\n";
    let symbols = Symbols::parse(text).expect("there are addresses");
    assert_eq!(symbols.name(0xffff_ffff_8100_000f).map(|name| &**name), Some("first"));
    assert_eq!(symbols.name(0xffff_ffff_8100_0010).map(|name| &**name), Some("second"));
    assert_eq!(symbols.name(1), None);
    assert_eq!(symbols.range("first"), Some((0xffff_ffff_8100_0000, 0xffff_ffff_8100_0010)));
    assert!(Symbols::parse("0000000000000000 T hidden\n").is_none());
}
