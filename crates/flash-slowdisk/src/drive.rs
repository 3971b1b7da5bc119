//! Disk drives with an arm, as their makers and others have measured them: where a byte lies, and how long the arm takes to get there.

use std::time::Duration;

/// A drive whose tracks all have the same length.
#[derive(Debug, PartialEq)]
pub(crate) struct Drive {
    pub(crate) name: &'static str,
    cylinders: u64,
    /// Each has a track on every cylinder.
    heads: u64,
    sectors_per_track: u64,
    rotations_per_minute: f64,
    /// A seek over at most so many cylinders is a short one.
    short_seek_max: u64,
    /// Milliseconds: those of the constant, and those for the square root of the distance.
    short_seek: (f64, f64),
    /// Milliseconds: those of the constant, and those for each cylinder.
    long_seek: (f64, f64),
    /// From one track of a cylinder to another.
    head_switch: Duration,
    /// What the controller takes before the arm moves.
    pub(crate) overhead: Duration,
    /// While nobody asks, the drive reads on and keeps this much.
    pub(crate) buffer_bytes: u64,
    /// From its buffer to the machine.
    pub(crate) bus_bytes_per_second: f64,
}

const SECTOR_BYTES: u64 = 512;
/// A part of a rotation.
const JUST: f64 = 1e-6;

/// Those that a rule can name.
pub(crate) static DRIVES: [Drive; 2] = [
    // Of 1991, with 4,002 rotations a minute. C. Ruemmler, J. Wilkes, An introduction to disk drive modeling (1994), tables 1 and 2; D. Kotz,
    // S. B. Toh, S. Radhakrishnan, A detailed simulation model of the HP 97560 disk drive (1994), for overhead and switch.
    Drive {
        name: "hp97560",
        cylinders: 1_962,
        heads: 19,
        sectors_per_track: 72,
        rotations_per_minute: 4_002.0,
        short_seek_max: 383,
        short_seek: (3.24, 0.400),
        long_seek: (8.00, 0.008),
        head_switch: Duration::from_micros(1_600),
        overhead: Duration::from_micros(2_200),
        buffer_bytes: 128 << 10,
        bus_bytes_per_second: 10e6,
    },
    // Of 2000, with 7,200 rotations a minute: IBM, Deskstar 40GV & 75GXP hard disk drive specifications, 4.4.2: 8.5 ms for a seek in the
    // mean, 14.7 ms for the longest, 1.2 ms for a switch of heads; 76.8 GB, 37 MB/s at the outer edge. The curve through these has the form of
    // the one above, and the tracks are as long as they are in the mean.
    Drive {
        name: "deskstar",
        cylinders: 28_400,
        heads: 10,
        sectors_per_track: 528,
        rotations_per_minute: 7_200.0,
        short_seek_max: 5_500,
        short_seek: (1.109, 0.0906),
        long_seek: (6.179, 0.000_300),
        head_switch: Duration::from_micros(1_200),
        overhead: Duration::from_micros(300),
        buffer_bytes: 2 << 20,
        bus_bytes_per_second: 100e6,
    },
];

/// Where a byte lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Position {
    pub(crate) cylinder: u64,
    track: u64,
    /// From 0 up to 1: how far the platter has turned when the byte is under the head.
    angle: f64,
}

impl Drive {
    pub(crate) fn find(name: &str) -> Option<&'static Drive> {
        DRIVES.iter().find(|drive| drive.name == name)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.cylinders * self.heads * self.track_bytes()
    }

    pub(crate) fn rotation(&self) -> Duration {
        Duration::from_secs_f64(60.0 / self.rotations_per_minute)
    }

    /// The first byte of each track comes under its head when the switch from the track before is over.
    pub(crate) fn position(&self, byte: u64) -> Position {
        let sector = byte / SECTOR_BYTES;
        let (all_tracks, sector) = (sector / self.sectors_per_track, sector % self.sectors_per_track);
        let skew = self.head_switch.as_secs_f64() / self.rotation().as_secs_f64();
        let angle = sector as f64 / self.sectors_per_track as f64 + all_tracks as f64 * skew;
        Position { cylinder: all_tracks / self.heads, track: all_tracks % self.heads, angle: angle.fract() }
    }

    /// From one cylinder to another this many away.
    pub(crate) fn seek(&self, distance: u64) -> Duration {
        let ms = match distance {
            0 => 0.0,
            short if short <= self.short_seek_max => {
                self.short_seek.0 + self.short_seek.1 * (short as f64).sqrt()
            }
            long => self.long_seek.0 + self.long_seek.1 * long as f64,
        };
        Duration::from_secs_f64(ms / 1e3)
    }

    /// From the end of one read until the first byte of another is under the head. The platter turns all the time.
    pub(crate) fn positioning(&self, from: Position, now: Duration, to: Position) -> Duration {
        let move_arm = match from.cylinder.abs_diff(to.cylinder) {
            0 if from.track == to.track => Duration::ZERO,
            0 => self.head_switch,
            distance => self.seek(distance),
        };
        let rotation = self.rotation().as_secs_f64();
        // What comes under the head just when the arm is there is not missed.
        let angle = (now + move_arm).as_secs_f64() / rotation - JUST;
        move_arm + Duration::from_secs_f64((to.angle - angle).rem_euclid(1.0) * rotation)
    }

    /// While so many bytes pass under the heads, one track after the other.
    pub(crate) fn transfer(&self, from: u64, bytes: u64) -> Duration {
        let track_bytes = self.track_bytes();
        let switches = (from + bytes.max(1) - 1) / track_bytes - from / track_bytes;
        let tracks = bytes as f64 / track_bytes as f64;
        self.rotation().mul_f64(tracks) + self.head_switch * u32::try_from(switches).unwrap_or(u32::MAX)
    }

    /// The same after the byte before them.
    pub(crate) fn goes_on(&self, from: u64, bytes: u64) -> Duration {
        let begins_track = bytes > 0 && from.is_multiple_of(self.track_bytes());
        self.transfer(from, bytes) + if begins_track { self.head_switch } else { Duration::ZERO }
    }

    fn track_bytes(&self) -> u64 {
        self.sectors_per_track * SECTOR_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: Duration) -> f64 {
        time.as_secs_f64() * 1e3
    }

    fn assert_near(found: f64, published: f64, what: &str) {
        assert!((found / published - 1.0).abs() < 0.05, "{what}: {found:.2} in place of {published}");
    }

    /// The mean over all pairs of two cylinders, as makers publish it.
    fn mean_seek_ms(drive: &Drive) -> f64 {
        let all = (1..drive.cylinders).map(|distance| ((drive.cylinders - distance) as f64, distance));
        let (sum, weight) = all.fold((0.0, 0.0), |(sum, all), (weight, distance)| {
            (sum + weight * ms(drive.seek(distance)), all + weight)
        });
        sum / weight
    }

    #[test]
    fn the_hp_97560_seeks_as_it_was_measured() {
        let drive = Drive::find("hp97560").unwrap();
        assert_eq!(drive.bytes(), 1_374_216_192);
        // Points of the published curve: a track, a tenth of the way, its bend, and the whole way.
        for (distance, published) in
            [(1, 3.64), (196, 8.84), (383, 11.07), (384, 11.07), (981, 15.85), (1_961, 23.69)]
        {
            assert_near(ms(drive.seek(distance)), published, &format!("{distance} cylinders"));
        }
        // Their mean for 8 KB somewhere, without the controller's part.
        let somewhere = mean_seek_ms(drive) + ms(drive.rotation()) / 2.0 + ms(drive.transfer(0, 8 << 10));
        assert_near(somewhere, 22.8, "8 KB");
    }

    #[test]
    fn the_deskstar_seeks_as_its_maker_says() {
        let drive = Drive::find("deskstar").unwrap();
        assert_near(drive.bytes() as f64, 76.8e9, "bytes");
        assert_near(ms(drive.seek(1)), 1.2, "a track");
        assert_near(ms(drive.seek(drive.cylinders - 1)), 14.7, "all of them");
        assert_near(mean_seek_ms(drive), 8.5, "the mean");
    }

    #[test]
    fn curves_have_no_step_and_never_fall() {
        for drive in &DRIVES {
            let bend = drive.short_seek_max;
            let step = ms(drive.seek(bend + 1)) - ms(drive.seek(bend));
            assert!(step.abs() < 0.05, "{}: {step}", drive.name);
            let mut before = Duration::ZERO;
            for distance in 0..drive.cylinders {
                let now = drive.seek(distance);
                assert!(now + Duration::from_micros(50) >= before, "{}: {distance}", drive.name);
                before = now;
            }
        }
    }

    #[test]
    fn a_byte_comes_by_once_in_a_rotation_and_the_next_track_is_reached_in_time() {
        for drive in &DRIVES {
            let rotation = drive.rotation();
            let track = drive.track_bytes();
            let at = drive.position(track / 2);
            // The same byte again, which has just passed.
            let again = drive.positioning(at, rotation.mul_f64(at.angle + 0.001), at);
            assert_near(ms(again), ms(rotation) * 0.999, drive.name);
            // After the last byte of a track, the first of the next is there when the heads are switched.
            let next = drive.position(track);
            let end = rotation.mul_f64(drive.position(0).angle + 1.0);
            let wait = drive.positioning(drive.position(0), end, next);
            assert_near(ms(wait), ms(drive.head_switch), drive.name);
            let two = drive.transfer(0, 2 * track);
            assert_near(ms(two), 2.0 * ms(rotation) + ms(drive.head_switch), drive.name);
        }
    }
}
