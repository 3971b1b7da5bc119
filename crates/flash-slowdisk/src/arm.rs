//! The arm of a disk: which of the waiting reads it does next, and how long that takes. It reads no clock: its callers say how much time
//! has passed.

use std::fmt;
use std::time::Duration;

use crate::drive::Drive;

/// In which order the arm does what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they came.
    Fifo,
    /// The next one in the direction of growing positions, and then from the lowest one on.
    CLook,
    /// The one that it reaches first, by seek and rotation.
    Shortest,
}

impl Order {
    const ALL: [(&str, Order); 3] =
        [("fifo", Order::Fifo), ("c-look", Order::CLook), ("shortest", Order::Shortest)];

    fn name(self) -> &'static str {
        Order::ALL.iter().find(|(_, order)| *order == self).map_or("", |(name, _)| name)
    }
}

/// What a rule says of the arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ArmRule {
    pub(crate) drive: &'static Drive,
    order: Order,
    /// Of what waits, the drive knows so many, the oldest ones.
    depth: usize,
}

/// As many as drives with a queue of their own have.
const DEPTH: usize = 32;

impl ArmRule {
    /// Reads `DRIVE [ORDER [DEPTH]]`.
    pub(crate) fn parse(words: &[&str]) -> Result<ArmRule, String> {
        let [name, ref words @ ..] = *words else { return Err("expected a drive".into()) };
        let drive = Drive::find(name).ok_or("the drives are hp97560 and deskstar")?;
        let order = words.first().copied().unwrap_or("c-look");
        let order = Order::ALL.iter().find(|(name, _)| *name == order);
        let (_, order) = *order.ok_or("the orders are fifo, c-look and shortest")?;
        let depth = words.get(1).map_or(Some(DEPTH), |depth| depth.parse().ok().filter(|depth| *depth > 0));
        match depth {
            Some(depth) if words.len() <= 2 => Ok(ArmRule { drive, order, depth }),
            _ => Err("after the order comes a number of reads that the drive knows".into()),
        }
    }
}

impl fmt::Display for ArmRule {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {} {}", self.drive.name, self.order.name(), self.depth)
    }
}

/// A part of the disk that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) byte: u64,
    pub(crate) bytes: u64,
}

impl Extent {
    fn end(self) -> u64 {
        self.byte + self.bytes
    }
}

#[derive(Debug)]
pub(crate) struct Arm {
    pub(crate) rule: ArmRule,
    /// The end of the last read, and when it passed under its head.
    last_byte: u64,
    last_at: Duration,
}

impl Arm {
    /// It rests at the disk's beginning.
    pub(crate) fn new(rule: ArmRule) -> Arm {
        Arm { rule, last_byte: 0, last_at: Duration::ZERO }
    }

    /// Which of these comes next, of those that have waited for longest first.
    pub(crate) fn choose(&self, now: Duration, waiting: impl Iterator<Item = Extent>) -> Option<usize> {
        let mut known = waiting.take(self.rule.depth).enumerate();
        let begins = now + self.rule.drive.overhead;
        let chosen = match self.rule.order {
            Order::Fifo => known.next(),
            Order::CLook => known.min_by_key(|(_, extent)| (extent.byte < self.last_byte, extent.byte)),
            Order::Shortest => {
                known.min_by_key(|(_, extent)| self.passes(begins, Extent { bytes: 0, ..*extent }))
            }
        };
        chosen.map(|(place, _)| place)
    }

    /// Reads a part, and says for how long.
    pub(crate) fn read(&mut self, now: Duration, extent: Extent) -> Duration {
        let drive = self.rule.drive;
        let begins = now + drive.overhead;
        let bus = Duration::from_secs_f64(extent.bytes as f64 / drive.bus_bytes_per_second);
        (self.last_byte, self.last_at) = (extent.end(), self.passes(begins, extent));
        self.last_at.max(begins + bus) - now
    }

    /// When the last byte of a part passes under its head. That may have been before `begins`: the drive goes on reading after a read, until
    /// its buffer is full. It fills the place that a read from the buffer leaves before the reader comes to it.
    fn passes(&self, begins: Duration, extent: Extent) -> Duration {
        let drive = self.rule.drive;
        let seek = |from: u64, to: u64| {
            begins
                + drive.positioning(drive.position(from), begins, drive.position(to))
                + drive.transfer(to, extent.end() - to)
        };
        let kept_end = self.last_byte + drive.buffer_bytes;
        if !(self.last_byte..=kept_end).contains(&extent.byte) {
            return seek(self.last_byte, extent.byte);
        }
        let is_full = begins > self.last_at + drive.goes_on(self.last_byte, drive.buffer_bytes);
        if is_full && extent.end() > kept_end {
            return seek(kept_end, kept_end);
        }
        self.last_at + drive.goes_on(self.last_byte, extent.end() - self.last_byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::draw;

    fn arm(rule: &str) -> Arm {
        Arm::new(ArmRule::parse(&rule.split(' ').collect::<Vec<_>>()).expect(rule))
    }

    /// Reads all of these, which wait from the beginning on: their order, and the time that they take.
    fn read_all(mut arm: Arm, mut waiting: Vec<Extent>) -> (Vec<u64>, Duration) {
        let (mut now, mut order) = (Duration::ZERO, Vec::new());
        while let Some(place) = arm.choose(now, waiting.iter().copied()) {
            let extent = waiting.remove(place);
            order.push(extent.byte);
            now += arm.read(now, extent);
        }
        (order, now)
    }

    fn at(bytes: &[u64]) -> Vec<Extent> {
        bytes.iter().map(|&byte| Extent { byte, bytes: 4096 }).collect()
    }

    /// So many, each somewhere on the drive.
    fn scattered(arm: &Arm, count: u64) -> Vec<Extent> {
        let pages = (arm.rule.drive.bytes() / 4096) as f64;
        at(&(0..count).map(|number| (draw(5, number) * pages) as u64 * 4096).collect::<Vec<_>>())
    }

    #[test]
    fn the_order_is_that_of_the_rule() {
        const MB: u64 = 1 << 20;
        let came = at(&[900 * MB, 100 * MB, 1000 * MB, 500 * MB]);
        let order = |rule| read_all(arm(rule), came.clone()).0;
        assert_eq!(order("hp97560 fifo"), [900 * MB, 100 * MB, 1000 * MB, 500 * MB]);
        assert_eq!(order("hp97560 c-look"), [100 * MB, 500 * MB, 900 * MB, 1000 * MB]);
        // It knows two at a time, and turns back for what lies behind it.
        assert_eq!(order("hp97560 c-look 2"), [100 * MB, 900 * MB, 1000 * MB, 500 * MB]);
    }

    #[test]
    fn orders_pay_the_deeper_the_queue_is() {
        let took = |rule: &str| {
            let arm = arm(rule);
            let waiting = scattered(&arm, 200);
            read_all(arm, waiting).1.as_secs_f64() / 200.0 * 1e3
        };
        let fifo = took("hp97560 fifo");
        // 12.8 ms of seeking, half a rotation of 15 ms, 1.7 ms for the bytes, 2.2 ms of the controller.
        assert!((23.0..25.5).contains(&fifo), "{fifo}");
        let look = ["hp97560 c-look 4", "hp97560 c-look 16", "hp97560 c-look 64"].map(took);
        let shortest = ["hp97560 shortest 4", "hp97560 shortest 16", "hp97560 shortest 64"].map(took);
        for orders in [look, shortest] {
            assert!(fifo > orders[0] && orders[0] > orders[1] && orders[1] > orders[2], "{fifo} {orders:?}");
        }
        assert!(shortest[2] < look[2] && shortest[2] < fifo * 0.6, "{shortest:?} {look:?}");
    }

    #[test]
    fn what_follows_is_read_while_nobody_asks() {
        const READ: u64 = 64 << 10;
        for name in ["hp97560", "deskstar"] {
            let mut arm = arm(name);
            let drive = arm.rule.drive;
            // Each read is asked for a moment after the one before it has come.
            let mut now = Duration::ZERO;
            let reads = 100;
            for number in 0..reads {
                now +=
                    arm.read(now, Extent { byte: number * READ, bytes: READ }) + Duration::from_micros(200);
            }
            let media = drive.transfer(0, reads * READ);
            assert!(now >= media, "{name}: {now:?}");
            assert!(now <= media + 2 * drive.rotation(), "{name}: {now:?} in place of {media:?}");
            // What it keeps has an end.
            let later = now + Duration::from_secs(1);
            let next = Extent { byte: reads * READ, bytes: READ };
            assert!(arm.passes(later, next) < later, "{name}");
            let beyond = Extent { byte: next.byte + drive.buffer_bytes, bytes: READ };
            assert!(arm.passes(later, beyond) >= later + drive.transfer(beyond.byte, READ), "{name}");
        }
    }

    #[test]
    fn nonsense_is_no_arm() {
        let parse = |line: &str| ArmRule::parse(&line.split_whitespace().collect::<Vec<_>>());
        for line in ["", "ssd", "hp97560 sstf", "hp97560 fifo 0", "hp97560 fifo x", "hp97560 fifo 1 2"] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert_eq!(parse("deskstar").unwrap().to_string(), "deskstar c-look 32");
    }
}
