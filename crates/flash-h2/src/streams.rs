//! The streams of a connection: their windows, which sides have ended, and which of them sends next (RFC 9113 §5.1 and §5.2,
//! RFC 9218 §10).
//!
//! A stream is here from its request until both its response and its user are done with it. What a stream has to send is its
//! user's business.

use crate::error::ErrorCode;
use crate::frame::STREAM_MAX;
use crate::priority::Priority;
use crate::settings::WINDOW_BYTES;

/// A stream whose request has arrived, with what its user keeps for it.
#[derive(Debug)]
pub struct Stream<T> {
    pub id: u32,
    pub priority: Priority,
    pub user: T,
    /// How much more the peer takes. A smaller initial window can make it negative.
    send_window: i64,
    /// How much more the peer may send, and how much of what it has sent is free again.
    pub(crate) receive_window: u32,
    pub(crate) consumed: u32,
    /// The peer has ended its side.
    pub(crate) has_ended: bool,
}

#[derive(Debug)]
pub struct Streams<T> {
    /// By their numbers.
    // Boxed, because streams move out of the middle.
    #[allow(clippy::vec_box)]
    all: Vec<Box<Stream<T>>>,
    send_window: i64,
    initial_window: i64,
    /// The stream of each urgency that has sent last.
    last_served: [u32; 8],
}

const WINDOW_MAX: i64 = STREAM_MAX as i64;

impl<T> Stream<T> {
    /// Whether the peer has ended its side.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Whether the peer's window for this stream is used up.
    pub fn is_stalled(&self) -> bool {
        self.send_window <= 0
    }

    /// How many bytes the peer takes on this stream.
    pub fn window(&self) -> u64 {
        self.send_window.max(0) as u64
    }
}

impl<T> Streams<T> {
    pub(crate) fn new() -> Self {
        Self {
            all: Vec::new(),
            send_window: WINDOW_BYTES.into(),
            initial_window: WINDOW_BYTES.into(),
            last_served: [0; 8],
        }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Stream<T>> {
        self.all.iter().map(|stream| &**stream)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream<T>> {
        self.all.iter_mut().map(|stream| &mut **stream)
    }

    pub fn get(&self, id: u32) -> Option<&Stream<T>> {
        self.place(id).map(|place| &*self.all[place])
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut Stream<T>> {
        self.place(id).map(|place| &mut *self.all[place])
    }

    fn place(&self, id: u32) -> Option<usize> {
        self.all.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    /// Adds the stream of the request that has come last.
    pub(crate) fn insert(&mut self, id: u32, priority: Priority, has_ended: bool, user: T) -> &mut Stream<T> {
        debug_assert!(self.all.last().is_none_or(|last| last.id < id));
        self.all.push(Box::new(Stream {
            id,
            priority,
            user,
            send_window: self.initial_window,
            receive_window: WINDOW_BYTES,
            consumed: 0,
            has_ended,
        }));
        self.all.last_mut().expect("it was pushed")
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<Box<Stream<T>>> {
        self.place(id).map(|place| self.all.remove(place))
    }

    /// How many bytes of this stream the peer takes now.
    pub fn window(&self, id: u32) -> usize {
        let window = self.get(id).map_or(self.initial_window, |stream| stream.send_window);
        window.min(self.send_window).max(0) as usize
    }

    /// How many bytes the peer takes on the whole connection.
    pub fn window_of_all(&self) -> u64 {
        self.send_window.max(0) as u64
    }

    /// Whether the peer's window for the whole connection is used up.
    pub fn is_stalled(&self) -> bool {
        self.send_window <= 0
    }

    /// Counts bytes that were sent on a stream, which may be over already.
    pub fn sent(&mut self, id: u32, bytes: usize) {
        self.send_window -= bytes as i64;
        if let Some(stream) = self.get_mut(id) {
            stream.send_window -= bytes as i64;
        }
    }

    /// The most urgent of the streams that are ready. Among equals, each has its turn.
    pub fn next(&self, is_ready: impl Fn(&Stream<T>) -> bool) -> Option<u32> {
        let ready = self.iter().filter(|stream| is_ready(stream));
        let turn = |stream: &Stream<T>| {
            let urgency = stream.priority.urgency;
            (urgency, stream.id <= self.last_served[usize::from(urgency & 7)], stream.id)
        };
        ready.min_by_key(|stream| turn(stream)).map(|stream| stream.id)
    }

    /// The stream has had its turn.
    pub fn served(&mut self, id: u32) {
        if let Some(stream) = self.get(id) {
            self.last_served[usize::from(stream.priority.urgency & 7)] = id;
        }
    }

    /// The connection's window grows (RFC 9113 §6.9.1).
    pub(crate) fn grow(&mut self, increment: u32) -> Result<(), ErrorCode> {
        grow(&mut self.send_window, increment.into())
    }

    pub(crate) fn grow_stream(&mut self, id: u32, increment: u32) -> Result<(), ErrorCode> {
        self.get_mut(id).map_or(Ok(()), |stream| grow(&mut stream.send_window, increment.into()))
    }

    /// The peer has another initial window (RFC 9113 §6.9.2).
    pub(crate) fn set_initial_window(&mut self, bytes: u32) -> Result<(), ErrorCode> {
        let change = i64::from(bytes) - self.initial_window;
        self.initial_window = bytes.into();
        self.iter_mut().try_for_each(|stream| grow(&mut stream.send_window, change))
    }
}

fn grow(window: &mut i64, change: i64) -> Result<(), ErrorCode> {
    *window += change;
    if *window > WINDOW_MAX { Err(ErrorCode::FLOW_CONTROL_ERROR) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(urgencies: &[(u32, u8)]) -> Streams<bool> {
        let mut streams = Streams::new();
        for (id, urgency) in urgencies {
            streams.insert(*id, Priority { urgency: *urgency, incremental: false }, true, true);
        }
        streams
    }

    fn turns(streams: &mut Streams<bool>, count: usize) -> Vec<u32> {
        let turn = |_| {
            let id = streams.next(|stream| stream.user)?;
            streams.served(id);
            Some(id)
        };
        (0..count).filter_map(turn).collect()
    }

    #[test]
    fn the_urgent_come_first_and_equals_in_turn() {
        let mut streams = streams(&[(1, 3), (3, 1), (5, 3), (7, 1), (9, 7)]);
        assert_eq!(turns(&mut streams, 4), [3, 7, 3, 7]);
        streams.get_mut(3).unwrap().user = false;
        assert_eq!(turns(&mut streams, 2), [7, 7]);
        streams.remove(7);
        assert_eq!(turns(&mut streams, 5), [1, 5, 1, 5, 1]);
        streams.get_mut(9).unwrap().priority.urgency = 0;
        assert_eq!(turns(&mut streams, 2), [9, 9]);
    }

    #[test]
    fn windows_shrink_and_grow_and_have_a_limit() {
        let mut streams = streams(&[(1, 3), (3, 3)]);
        streams.sent(1, 60_000);
        assert_eq!(
            (streams.window(1), streams.window(3)),
            (5_535, 5_535),
            "the connection's window is the least"
        );
        streams.grow(100_000).unwrap();
        assert_eq!((streams.window(1), streams.window(3)), (5_535, 65_535));
        streams.set_initial_window(0).unwrap();
        assert_eq!((streams.window(1), streams.window(3)), (0, 0));
        assert!(streams.get(1).unwrap().is_stalled());
        streams.grow_stream(1, 60_001).unwrap();
        assert_eq!(streams.window(1), 1);
        assert_eq!(streams.grow(STREAM_MAX), Err(ErrorCode::FLOW_CONTROL_ERROR));
        assert_eq!(streams.set_initial_window(STREAM_MAX), Err(ErrorCode::FLOW_CONTROL_ERROR));
        assert_eq!(streams.grow_stream(9, STREAM_MAX), Ok(()), "a stream that is over");
    }
}
