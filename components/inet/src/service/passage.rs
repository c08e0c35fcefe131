//! [`Passage`]: the tools of one call into the service, and their pool.
use super::{
    outside::Outside,
    streams::{
        arrival::TcpArrival,
        path::{SettingsOrigin, StreamPath},
        socket::TcpSocket,
    },
};
use crate::{
    base::packets::Departure,
    ip::{
        path::{Path, SendRequest},
        stack::{Stack, Worker},
    },
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use interfaces::{nic::PacketSegment, sockets::StreamOptions};
use rt::{lock_class, sync::Mutex};
use tcp::{Flow, Settings};

lock_class! {
    static PASSAGES = "inet.passages";
}

/// Places of the pool: a call on one processor finds what the last one left there.
const PLACES: usize = 16;
/// Segments that a passage keeps, at most.
const SPARE_MAX: usize = 64;
/// Packets that each list of a passage has room for. A burst of more takes memory, and gives it back.
pub(super) const LIST_ROOM: usize = 64;

/// A packet that a connection sent while its lock was held. It goes through IP afterwards.
pub(crate) struct PendingPacket {
    pub(crate) path: Path,
    pub(crate) request: SendRequest,
    pub(crate) packet: Departure<PacketSegment>,
}

/// The tools of one call into the service: a thread's part of the stack, and lists that keep their memory from call to call.
pub(crate) struct Passage {
    pub(crate) worker: Worker<PacketSegment>,
    pub(crate) outside: Outside,
    pub(crate) sends: Vec<PendingPacket>,
    pub(crate) batch: Vec<Departure<PacketSegment>>,
    /// Segments without payload, whose memory is used again.
    #[expect(
        clippy::vec_box,
        reason = "the boxes go from hand to hand, so that segments are not moved"
    )]
    spare: Vec<Box<TcpArrival>>,
    /// The path that a connection of this host found last.
    pub(super) known_path: Option<StreamPath>,
    /// The settings of a socket whose options nobody has changed, and what they were made of.
    known_settings: Option<(SettingsOrigin, Settings)>,
    /// The offset of timestamps that was asked for last, and the addresses that it is for.
    known_offset: Option<([u8; 16], [u8; 16], u32)>,
    pub(crate) now_ns: u64,
    /// The place of the pool that it came from.
    place: usize,
}

impl Passage {
    fn new(stack: &Stack<PacketSegment>, outside: Outside) -> Passage {
        Passage {
            worker: stack.worker(),
            outside,
            sends: Vec::with_capacity(LIST_ROOM),
            batch: Vec::with_capacity(LIST_ROOM),
            spare: Vec::new(),
            known_path: None,
            known_settings: None,
            known_offset: None,
            now_ns: 0,
            place: 0,
        }
    }
    /// Gives back the memory that a burst took for packets.
    pub(super) fn trim(&mut self) {
        self.sends.shrink_to(LIST_ROOM);
        self.batch.shrink_to(LIST_ROOM);
        self.outside.trim();
    }
    /// Returns the settings of a connection of `path` with `options`, which are those that sockets begin with.
    pub(super) fn first_settings(
        &mut self,
        path: &StreamPath,
        options: &StreamOptions,
    ) -> Settings {
        let parameters = &self.outside.streams.parameters;
        let origin = path.settings_origin(parameters);
        match self.known_settings {
            Some((known, settings)) if known == origin => settings,
            _ => {
                let settings = path.settings(options, parameters);
                self.known_settings = Some((origin, settings));
                settings
            }
        }
    }
    /// Returns the offset of the timestamps of a flow.
    pub(crate) fn clock_offset(&mut self, flow: &Flow) -> u32 {
        match self.known_offset {
            Some((local, remote, offset)) if (local, remote) == (flow.local, flow.remote) => offset,
            _ => {
                let offset = self.outside.streams.secret.timestamps_offset(flow);
                self.known_offset = Some((flow.local, flow.remote, offset));
                offset
            }
        }
    }
    /// Returns a segment to be filled. Its payload is empty, the rest is that of an earlier one.
    #[inline]
    pub(crate) fn blank(&mut self) -> Box<TcpArrival> {
        self.spare.pop().unwrap_or_else(|| Box::new(TcpArrival::blank()))
    }
    /// Returns the same for a segment whose flow has no known hash.
    pub(crate) fn unhashed(&mut self) -> Box<TcpArrival> {
        let mut arrival = self.blank();
        arrival.hash = None;
        arrival
    }
    /// Has the backlog of a socket taken after the work, if segments came while its lock was held.
    #[inline]
    pub(crate) fn await_backlog(&mut self, socket: Arc<TcpSocket>) {
        if socket.has_backlog() {
            self.outside.awaited.push(socket);
        }
    }
    /// Drops the payload of a segment, and keeps its memory for another one.
    #[inline]
    pub(crate) fn recycle(&mut self, mut arrival: Box<TcpArrival>) {
        if self.spare.len() < SPARE_MAX {
            arrival.payload.clear();
            arrival.likely_owner = None;
            arrival.headers = None;
            self.spare.push(arrival);
        }
    }
}

/// Passages that are not in use.
pub(crate) struct PassagePool {
    places: [Mutex<Option<Box<Passage>>>; PLACES],
}

impl PassagePool {
    pub(crate) fn new() -> PassagePool {
        PassagePool { places: core::array::from_fn(|_| Mutex::new(&PASSAGES, None)) }
    }
    /// Takes a passage. `outside` makes the part of a new one.
    pub(crate) fn take(
        &self,
        stack: &Stack<PacketSegment>,
        outside: impl FnOnce() -> Outside,
    ) -> Box<Passage> {
        let (_, processor) = rt::thread::processors();
        let place = processor % PLACES;
        let found = self.places.get(place).and_then(|place| place.lock().take());
        let mut passage = found.unwrap_or_else(|| Box::new(Passage::new(stack, outside())));
        passage.place = place;
        passage
    }
    /// Puts a passage back. One whose place is taken is dropped.
    pub(crate) fn put(&self, passage: Box<Passage>) {
        let Some(place) = self.places.get(passage.place) else { return };
        let second = place.lock().replace(passage);
        drop(second);
    }
}
