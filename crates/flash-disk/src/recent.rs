//! What was found out lately, up to a number of things. What is asked for stays, and the rest leaves.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;
use std::sync::{Mutex, PoisonError, TryLockError};

/// Two maps in turn: when the younger is full, the older is dropped.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    maps: Mutex<[HashMap<K, V>; 2]>,
    each_max: usize,
}

impl<K: Copy + Eq + Hash, V: Copy> Recent<K, V> {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { maps: Mutex::new([HashMap::new(), HashMap::new()]), each_max: entries_max / 2 }
    }

    /// Never waits. `None` also while another thread has the lock.
    pub(crate) fn get_now(&self, key: &K) -> Option<V> {
        let maps = match self.maps.try_lock() {
            Ok(maps) => maps,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        maps.iter().find_map(|map| map.get(key)).copied()
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let [young, old] = &*maps;
        if let Some(value) = young.get(key) {
            return Some(*value);
        }
        let value = *old.get(key)?;
        drop(maps);
        self.put(*key, value);
        Some(value)
    }

    pub(crate) fn put(&self, key: K, value: V) {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let [young, old] = &mut *maps;
        young.insert(key, value);
        if young.len() >= self.each_max {
            let dropped = mem::replace(old, mem::take(young));
            drop(maps);
            drop(dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_number_is_bounded() {
        let recent = Recent::new(8);
        recent.put(0, 'a');
        for key in 1..100 {
            recent.put(key, 'b');
            assert_eq!(recent.get(&0), Some('a'));
            let maps = recent.maps.lock().unwrap();
            assert!(maps[0].len() + maps[1].len() <= 8);
        }
        assert_eq!((recent.get(&99), recent.get(&50), recent.get_now(&99)), (Some('b'), None, Some('b')));
        let _locked = recent.maps.lock().unwrap();
        assert_eq!(recent.get_now(&99), None);
    }
}
