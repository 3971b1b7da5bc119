//! Windows that stay shut: each wait has a deadline, and no client pays for the silence of another's program.

use super::*;

#[test]
fn a_connection_whose_window_stays_shut_is_cut_off() {
    for path in ["/large.bin", "/middle.txt"] {
        let mut world = world();
        let mut client = H2Client::connect(&mut world, WIDE);
        // Eleven of them are more than the connection's first window.
        for count in 0..11 {
            client.get(&mut world, 2 * count + 1, path);
        }
        while !client.jobs.is_empty() {
            client.complete(&mut world, 0);
        }
        let bytes: usize = client.answers.values().map(|answer| answer.body.len()).sum();
        assert_eq!(bytes, 65_535);
        let mut passed_ms = 0;
        while client.pass_ms(&mut world, 1_000) != Waits::Closed {
            passed_ms += 1_000;
            assert!(passed_ms < 300_000, "{path}: a stalled connection stays");
        }
        assert!(client.is_reset());
        drop(client);
        let World { server, local, disk, .. } = world;
        drop((server, local));
        assert_eq!(disk.open_files(), 0, "{path}: something still holds a file");
    }
}
