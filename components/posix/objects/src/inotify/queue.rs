//! [`EventQueue`]: events of an inotify instance, waiting to be read. Pure; the instance's lock guards it.
//!
//! An event equal to the last one is dropped. One more than [`EVENTS_MAX`] becomes a single
//! overflow event. Layout of what a read gives:
//!
//! ```text
//!  0 wd  4 mask  8 cookie  12 length  16 name, NULs up to a multiple of 16
//! ```
use alloc::{collections::VecDeque, sync::Arc, vec::Vec};
use linux_raw_sys::general as raw;
use memory::setting::Setting;

/// The greatest number of waiting events of instances made from now on (`/proc/sys/fs/inotify/max_queued_events`).
pub static EVENTS_MAX: Setting = Setting::count(16_384);
/// Bytes of an event without its name.
const HEAD_BYTES: usize = 16;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Number of the watch, -1 for none.
    pub watch: i32,
    /// The event bits.
    pub mask: u32,
    /// Joins the halves of a rename.
    pub cookie: u32,
    /// The name in the watched directory, if the event is about one.
    pub name: Option<Arc<[u8]>>,
}

impl Event {
    /// Makes an event about the watched vnode itself.
    pub fn own(watch: i32, mask: u32) -> Event {
        Event { watch, mask, cookie: 0, name: None }
    }
    /// Returns the number of bytes that a read returns for it.
    pub fn bytes(&self) -> usize {
        let name = self.name.as_ref().map_or(0, |name| name.len() + 1);
        HEAD_BYTES + name.next_multiple_of(HEAD_BYTES)
    }
    /// Appends the bytes that a read returns for it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.bytes();
        out.extend_from_slice(&self.watch.to_le_bytes());
        out.extend_from_slice(&self.mask.to_le_bytes());
        out.extend_from_slice(&self.cookie.to_le_bytes());
        out.extend_from_slice(&((self.bytes() - HEAD_BYTES) as u32).to_le_bytes());
        out.extend_from_slice(self.name.as_deref().unwrap_or_default());
        out.resize(end, 0);
    }
    fn says_the_same(&self, other: &Event) -> bool {
        let is_end = self.mask & raw::IN_IGNORED != 0;
        !is_end && (self.watch, self.mask, &self.name) == (other.watch, other.mask, &other.name)
    }
}

/// Events in the order they happened.
#[derive(Debug, Default)]
pub struct EventQueue {
    events: VecDeque<Event>,
    bytes: usize,
    has_overflow: bool,
    /// Greatest number of waiting events.
    most: usize,
}

impl EventQueue {
    /// Makes an empty queue.
    pub fn new() -> EventQueue {
        EventQueue {
            events: VecDeque::new(),
            bytes: 0,
            has_overflow: false,
            most: EVENTS_MAX.size(),
        }
    }
    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
    /// Returns the number of bytes that a read of everything returns (`FIONREAD`).
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Adds an event; `false` if nothing was added.
    pub fn push(&mut self, event: Event) -> bool {
        if self.events.len() >= self.most {
            let is_first = !core::mem::replace(&mut self.has_overflow, true);
            if is_first {
                self.append(Event::own(-1, raw::IN_Q_OVERFLOW));
            }
            return is_first;
        }
        if self.events.back().is_some_and(|last| event.says_the_same(last)) {
            return false;
        }
        self.append(event);
        true
    }
    fn append(&mut self, event: Event) {
        self.bytes += event.bytes();
        self.events.push_back(event);
    }
    /// Takes the first event if it is at most `room` bytes long.
    pub fn take(&mut self, room: usize) -> Option<Event> {
        if self.events.front()?.bytes() > room {
            return None;
        }
        let event = self.events.pop_front()?;
        self.bytes -= event.bytes();
        if event.mask & raw::IN_Q_OVERFLOW != 0 {
            self.has_overflow = false;
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &[u8]) -> Event {
        Event { watch: 3, mask: raw::IN_CREATE, cookie: 0, name: Some(Arc::from(name)) }
    }

    #[test]
    fn names_are_filled_up_with_nuls() {
        let mut out = Vec::new();
        named(b"fifteen-letters").encode(&mut out);
        assert_eq!(out.len(), 32);
        named(b"sixteen--letters").encode(&mut out);
        assert_eq!(out.len(), 32 + 48);
        assert_eq!(&out[12..20], b"\x10\0\0\0fift");
        Event::own(3, raw::IN_OPEN).encode(&mut out);
        assert_eq!(out.len(), 80 + 16);
    }

    #[test]
    fn only_neighbours_that_say_the_same_are_one() {
        let mut queue = EventQueue::new();
        assert!(queue.push(named(b"a")));
        assert!(!queue.push(named(b"a")));
        assert!(queue.push(named(b"b")));
        assert!(queue.push(named(b"a")));
        assert!(queue.push(Event::own(1, raw::IN_IGNORED)));
        assert!(queue.push(Event::own(1, raw::IN_IGNORED)));
        assert_eq!(queue.bytes(), 3 * 32 + 2 * 16);
        assert_eq!(queue.take(31), None);
        assert_eq!(queue.take(32), Some(named(b"a")));
    }

    #[test]
    fn too_many_events_become_one_overflow() {
        let mut queue = EventQueue::new();
        for at in 0..queue.most as u32 {
            assert!(queue.push(Event::own(1, 1 << (at % 2))));
        }
        assert!(queue.push(Event::own(1, 4)));
        assert!(!queue.push(Event::own(1, 4)));
        for _ in 0..queue.most {
            assert_ne!(queue.take(100).unwrap().watch, -1);
        }
        assert_eq!(queue.take(100), Some(Event::own(-1, raw::IN_Q_OVERFLOW)));
        assert!(queue.is_empty() && queue.push(Event::own(1, 4)));
    }
}
