//! A semaphore: posting never waits, so a loop may do it.

pub use crate::system::semaphore::Semaphore;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_post_lets_one_through() {
        let semaphore = Arc::new(Semaphore::default());
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let semaphore = Arc::clone(&semaphore);
                thread::spawn(move || (0..1000).filter(|_| semaphore.wait(Duration::from_secs(30))).count())
            })
            .collect();
        (0..4000).for_each(|_| semaphore.post());
        let let_through: usize = waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum();
        assert_eq!(let_through, 4000);
        assert!(!semaphore.wait(Duration::from_millis(1)), "none is left over");
    }
}
