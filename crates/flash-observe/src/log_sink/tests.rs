//! Logs that follow their paths into folders where their process may not look.

use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use super::rotations::LOOK_PAUSE;
use super::*;

#[test]
fn logs_that_nobody_rotates_are_opened_seldom_and_after_a_rotation_once_each() {
    const LOGS: usize = 200;
    let folder = TempDir::new().unwrap();
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&opened);
    let opener: Opener = Arc::new(move |path| {
        counted.fetch_add(1, Ordering::Relaxed);
        flash_trust::open_log(path)
    });
    let path = |number: usize| folder.path().join(number.to_string());
    let open = |number| LogSink::open_by(Destination::Path(path(number)), Some(Arc::clone(&opener))).unwrap();
    let mut sinks: Vec<LogSink> = (0..LOGS).map(open).collect();
    let (rotations, mut now) = (Rotations::new(), Instant::now());
    sinks.iter_mut().for_each(|sink| sink.rotations = 0);
    let mut opened_in = |seconds: u32| {
        opened.store(0, Ordering::Relaxed);
        for _ in 0..seconds {
            now += Duration::from_secs(1);
            sinks.iter_mut().for_each(|sink| sink.follow_unseen(now, &rotations));
        }
        opened.load(Ordering::Relaxed)
    };
    let pause_s = LOOK_PAUSE.as_secs() as u32;
    assert_eq!(opened_in(10 * pause_s), 10);
    (0..LOGS).for_each(|number| fs::rename(path(number), folder.path().join(format!("{number}.1"))).unwrap());
    let opened = opened_in(pause_s + 1);
    assert!((LOGS..LOGS + 3).contains(&opened), "{opened}");
    assert!((0..LOGS).all(|number| path(number).exists()));
    assert_eq!(opened_in(10 * pause_s), 10);
    // One alone, and not the one that is written first.
    fs::rename(path(7), folder.path().join("7.2")).unwrap();
    opened_in(TURN_PAUSE.as_secs() as u32 + 1);
    assert!(path(7).exists());
    for (number, sink) in sinks.iter_mut().enumerate() {
        assert!(sink.write(b"a line\n").is_ok());
        assert_eq!(fs::read_to_string(path(number)).unwrap(), "a line\n");
    }
}
