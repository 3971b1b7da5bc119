//! The parameter file: values with the reasons above them.

use std::fmt::Write as _;

use super::Calibration;
use super::costs::{costs, disk, disk_requests_at_once, line, memory};
use super::disk::READERS;
use super::requests::{ARCHITECTURES, CLIENTS, COLD_BYTES, FEW, SIZES_BYTES};
use super::rounds::Rounds;
use flash_sim::parameters::{ByArchitecture, Costs};

/// How wide comments become.
const WIDE: usize = 110;

/// Text of a parameter file as it grows.
#[derive(Default)]
struct File(String);

impl File {
    /// A comment, broken into lines between words.
    fn comment(&mut self, text: &str) -> &mut File {
        let mut line = String::from("#");
        for word in text.split_whitespace() {
            if line.len() + 1 + word.len() > WIDE {
                self.line(&line);
                line = String::from("#");
            }
            line.push(' ');
            line.push_str(word);
        }
        self.line(&line)
    }

    fn section(&mut self, name: &str) -> &mut File {
        self.line("").line(&format!("[{name}]"))
    }

    /// Four digits that mean something are more than was measured.
    fn value(&mut self, name: &str, value: f64) -> &mut File {
        let digits = 3 - value.abs().max(1e-2).log10().floor() as i32;
        self.line(&format!("{name} = {value:.0$}", digits.max(1) as usize))
    }

    fn line(&mut self, line: &str) -> &mut File {
        writeln!(self.0, "{line}").expect("a String takes everything");
        self
    }
}

/// What files of each size took, and what the line through them says.
fn sizes(sized: &[Rounds]) -> String {
    let line = line(sized);
    let sizes = SIZES_BYTES.iter().zip(sized);
    let sizes =
        sizes.map(|(&bytes, us)| format!("{} KiB {us} us (by the line {:.2})", bytes >> 10, line.us(bytes)));
    sizes.collect::<Vec<_>>().join(", ")
}

impl Calibration {
    /// The file's text.
    pub(crate) fn text(&self) -> String {
        let mut file = File::default();
        let facts = &self.facts;
        let processor = facts.processor.as_deref().unwrap_or("unknown processors");
        file.comment(&format!(
            "Measured by 'flash sim calibrate' on {}: {} of {processor}, Linux {}.",
            facts.date, facts.processors, facts.kernel
        ));
        file.comment(
            "Figures in comments are medians of all rounds, with the least and the most in brackets. Times of requests are \
             processor time of the whole server, on one processor, its clients on another. Unless said, many files are asked for \
             in turn.",
        );
        self.machine(&mut file);
        self.costs(&mut file);
        self.memory(&mut file);
        file.0
    }

    fn machine(&self, file: &mut File) {
        let (disk, times) = (disk(&self.disk), &self.disk);
        file.section("machine").comment("As many as there are.");
        file.line(&format!("processors = {}", self.facts.processors));
        if let Some(bytes) = self.facts.memory_bytes {
            file.comment("All that there is.").value("memory_mb", bytes as f64 / 1e6);
        }
        let name = self.facts.disk.as_ref().map_or("?", |disk| &disk.name);
        file.comment(&format!(
            "{name}, reads at random past the page cache by one reader: 4 KiB in {} us, 1 MiB in {} us; the difference is \
             transfer. What a host of this machine has in its own memory it reads from there.",
            times.small_us, times.large_us
        ));
        file.line(&format!(
            "disks = [{{ access_ms = {:.4}, transfer_mbit_s = {:.0} }}]",
            disk.access_ms, disk.transfer_mbit_s
        ));
        file.comment(&format!(
            "{READERS} such readers of 4 KiB had {} reads a second, against one reader's.",
            times.crowded_per_s
        ));
        file.line(&format!("disk_requests_at_once = {}", disk_requests_at_once(times)));
    }

    #[expect(clippy::too_many_lines, reason = "a list of costs")]
    fn costs(&self, file: &mut File) {
        let costs = costs(&self.requests, &self.turns);
        let (requests, turns) = (&self.requests, &self.turns);
        let (smallest, smallest_paged) = (&requests.sized[0], &requests.paged[0]);
        file.section("costs");
        file.comment(&format!(
            "A request of 1 KiB with a connection for each, {} us, against {smallest} us; round by round.",
            requests.connecting
        ));
        file.value("connection_us", costs.connection_us);
        file.comment("All of a request that is told apart by none of the others: waiting for events, receiving, parsing, sending.");
        file.value("read_request_us", costs.read_request_us);
        file.comment(&format!(
            "Finding one of 6,000 names in a table under a lock, a loop in this program: {} us alone, {} us each where two \
             processors do nothing else. The simulator queues at locks, but knows nothing of memory that moves between \
             processors: for many of them take the second.",
            turns.look_up_us, turns.contended_us
        ));
        file.value("path_lookup_us", costs.path_lookup_us);
        file.comment(&format!(
            "A request of 1 KiB with --file-cache-bytes 0 --path-cache 0, {} us, against {smallest_paged} us.",
            requests.nameless
        ));
        file.value("translate_us", costs.translate_us);
        file.comment("Whether a file is in memory is asked for each window.");
        file.value("data_lookup_us", costs.data_lookup_us);
        file.comment(&format!("A line through sped's kept connections: {}.", sizes(&requests.sized)));
        file.value("transmit_us_per_512_bytes", costs.transmit_us_per_512_bytes);
        file.comment(&format!(
            "The same from the page cache, with --file-cache-bytes 0: {}. What it takes more for a file, and for 512 bytes.",
            sizes(&requests.paged)
        ));
        file.value("page_window_us", costs.page_window_us);
        file.comment("And for each 512 bytes.");
        file.line(&format!("page_us_per_512_bytes = {:.5}", costs.page_us_per_512_bytes));
        self.reading(file, &costs);
        let (inline, helped) = (&requests.inline, &requests.helped);
        file.comment(&format!(
            "amped --path-cache 0 --offload always, {} us, {} jobs and {} switches a request, against --offload needed, {} us, \
             {} jobs and {} switches; less the switches, for going there and coming back.",
            helped.us, helped.jobs, helped.switches, inline.us, inline.jobs, inline.switches
        ));
        file.value("hand_off_us", costs.hand_off_us);
        file.comment(&format!(
            "A byte that goes to and fro between threads on one processor, less writing and reading it: {} us.",
            turns.thread_switch_us
        ));
        file.value("thread_switch_us", costs.thread_switch_us);
        file.comment(&format!("The same between processes: {} us.", turns.process_switch_us));
        file.value("process_switch_us", costs.process_switch_us);
        file.comment(&format!(
            "What clients took of their own processor, of which they have one: {}.",
            sizes(&requests.clients)
        ));
        file.value("client_us", costs.client_us);
        file.comment("And for each 512 bytes.");
        file.line(&format!("client_us_per_512_bytes = {:.5}", costs.client_us_per_512_bytes));
        let others =
            ARCHITECTURES.iter().zip(&requests.architectures).map(|(name, us)| format!("{name} {us} us"));
        file.comment(&format!(
            "A few files of 1 KiB: {}. Costs above are sped's. What others take more than sped is here, without the hand-offs and \
             switches of their models under the same load.",
            others.collect::<Vec<_>>().join(", ")
        ));
        let ByArchitecture { mp, mt, amped, pipelined } = costs.more_us;
        let taken_over = costs.take_over_us;
        file.line(&format!(
            "more_us = {{ mp = {mp:.3}, mt = {mt:.3}, amped = {amped:.3}, pipelined = {pipelined:.3} }}"
        ));
        file.comment(&format!(
            "The same with {FEW} threads or processes for {CLIENTS} clients: mt {} us, mp {} us.",
            requests.crowded_mt, requests.crowded_mp
        ));
        file.line(&format!("take_over_us = {{ mp = {:.3}, mt = {:.3} }}", taken_over.mp, taken_over.mt));
    }

    fn reading(&self, file: &mut File, costs: &Costs) {
        let cold = &self.requests.cold;
        if cold.iter().any(Rounds::is_empty) {
            file.comment("What the processor does for a disk's reads is not known without root.");
        } else {
            let cold = COLD_BYTES.iter().zip(cold).map(|(&bytes, us)| format!("{} KiB {us} us", bytes >> 10));
            file.comment(&format!(
                "Cold files, each asked for once, with less memory than they have together: {}. What it takes more than the page \
                 cache and looking a name up.",
                cold.collect::<Vec<_>>().join(", ")
            ));
        }
        file.value("read_us", costs.read_us);
        file.comment("And for each 512 bytes.");
        file.line(&format!("read_us_per_512_bytes = {:.5}", costs.read_us_per_512_bytes));
    }

    fn memory(&self, file: &mut File) {
        let (memory, requests) = (memory(&self.requests), &self.requests);
        file.section("memory");
        let kernel = match &requests.kernel_entry_bytes {
            Some(bytes) => format!("{bytes} B in the kernel's"),
            None => "what the kernel keeps is not known without root".into(),
        };
        file.comment(&format!(
            "By 4,000 cached files: {} B in the server's memory, {kernel}.",
            requests.entry_bytes
        ));
        file.value("data_entry_bytes", memory.data_entry_bytes);
        file.comment("Helpers are threads.").value("helper_mb", memory.helper_mb);
        file.comment(&format!(
            "mt with 72 threads against 8, after each had read a file of 1 MiB into memory: {} B for one; after 1 KiB from \
             memory: {} B. A process, mp with 72 against 8: {} B.",
            requests.reading_thread_bytes, requests.thread_bytes, requests.process_bytes
        ));
        file.value("thread_kb", memory.thread_kb);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use flash_rig::Facts;

    use super::*;
    use crate::calibrate::costs::tests::{known, known_disk};
    use crate::scenario::Draft;

    #[test]
    fn a_file_is_read_as_what_was_measured() {
        let (requests, turns) = known();
        let facts = Facts::collect(Path::new("."), Path::new("."));
        let calibration = Calibration { facts, requests, turns, disk: known_disk() };
        let text = calibration.text();
        let read = Draft::read("calibrated", &text).and_then(|draft| draft.with(&[]));
        let read = read.unwrap_or_else(|error| panic!("{error}:\n{text}")).parameters();
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-3 * b.abs();
        assert_eq!(read.machine.processors as usize, calibration.facts.processors);
        assert!(near(read.machine.disks[0].access_ms, 0.09), "{text}");
        assert!(near(read.machine.disks[0].transfer_mbit_s, 4_000.0), "{text}");
        assert_eq!(read.machine.disk_requests_at_once, 8);
        let costs = costs(&calibration.requests, &calibration.turns);
        for (ours, theirs) in [
            (read.costs.connection_us, costs.connection_us),
            (read.costs.read_request_us, costs.read_request_us),
            (read.costs.path_lookup_us, costs.path_lookup_us),
            (read.costs.translate_us, costs.translate_us),
            (read.costs.data_lookup_us, costs.data_lookup_us),
            (read.costs.transmit_us_per_512_bytes, costs.transmit_us_per_512_bytes),
            (read.costs.page_window_us, 3.0),
            (read.costs.page_us_per_512_bytes, 0.05),
            (read.costs.read_us, 10.0),
            (read.costs.client_us, 6.0),
            (read.costs.client_us_per_512_bytes, 0.02),
            (read.costs.read_us_per_512_bytes, 0.2),
            (read.costs.more_us.mt, costs.more_us.mt),
            (read.costs.take_over_us.mp, 30.0),
            (read.costs.hand_off_us, costs.hand_off_us),
            (read.costs.thread_switch_us, costs.thread_switch_us),
            (read.costs.process_switch_us, costs.process_switch_us),
            (read.memory.data_entry_bytes, 1_600.0),
            (read.memory.thread_kb, 20.0),
            (read.memory.helper_mb, 0.02),
        ] {
            assert!(near(ours, theirs), "{ours} {theirs}\n{text}");
        }
        // Every value stands below a reason, and no line is too wide to be read.
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2) {
            let reason = pair[0].starts_with('#') || !pair[1].contains(" = ") || pair[1].starts_with('#');
            assert!(reason && pair[1].chars().count() <= WIDE, "{pair:?}");
        }
    }
}
