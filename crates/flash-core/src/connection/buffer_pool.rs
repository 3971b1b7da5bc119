//! Buffers that connections reuse. Each driver thread has a pool: busy connections borrow memory, and idle ones hold none.

use crate::connection::output::Output;

#[derive(Debug, Default)]
pub struct BufferPool {
    // Boxed, because outputs move in and out of connections, and an idle connection has room for a pointer only.
    #[allow(clippy::vec_box)]
    outputs: Vec<Box<Output>>,
    inputs: Vec<Vec<u8>>,
    /// What heads of HTTP/2 are decoded into, one at a time.
    scratch: flash_h2::Scratch,
}

/// The pool returns buffers beyond this number to the allocator.
const KEPT_MAX: usize = 64;
const INPUT_BYTES_KEPT_MAX: usize = 64 << 10;

impl BufferPool {
    pub(crate) fn output(&mut self) -> Box<Output> {
        self.outputs.pop().unwrap_or_default()
    }

    pub(crate) fn give_back_output(&mut self, mut output: Box<Output>) {
        if self.outputs.len() < KEPT_MAX {
            output.recycle();
            self.outputs.push(output);
        }
    }

    /// Lends the buffers for the head of one request. They come back with [`BufferPool::give_back_scratch`].
    pub(crate) fn scratch(&mut self) -> flash_h2::Scratch {
        std::mem::take(&mut self.scratch)
    }

    pub(crate) fn give_back_scratch(&mut self, scratch: flash_h2::Scratch) {
        self.scratch = scratch;
    }

    pub(crate) fn input(&mut self) -> Vec<u8> {
        self.inputs.pop().unwrap_or_default()
    }

    pub(crate) fn give_back_input(&mut self, mut input: Vec<u8>) {
        if self.inputs.len() < KEPT_MAX && input.capacity() <= INPUT_BYTES_KEPT_MAX {
            input.clear();
            self.inputs.push(input);
        }
    }
}
