//! The scratch buffers of a thread: ciphertext on its way in or out, within one call. No connection holds them.

use std::cell::RefCell;

/// The buffers of one thread.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Ciphertext from the client, decrypted in place.
    pub(crate) incoming: Vec<u8>,
    /// Records to the client.
    pub(crate) outgoing: Vec<u8>,
    /// The plaintext of a record that comes from several slices.
    pub(crate) plaintext: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Lends the thread's buffers, which are empty. A call within this call gets other buffers.
pub(crate) fn with<T>(call: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = SCRATCH.take();
    let result = call(&mut scratch);
    scratch.incoming.clear();
    scratch.outgoing.clear();
    scratch.plaintext.clear();
    SCRATCH.set(scratch);
    result
}

/// Frees the thread's buffers, for a thread that rests.
pub fn release() {
    SCRATCH.take();
}
