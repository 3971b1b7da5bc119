//! Time, events, queues.
