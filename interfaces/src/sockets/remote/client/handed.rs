//! [`Handed`]: frames that the stack has in its hands until it says that it has dropped them.
use crate::nic::{PacketSegment, ReceiveBuffer};
use alloc::{collections::BTreeMap, vec::Vec};
use rt::{
    lock_class,
    memory::{Frame, FrameId},
    sync::Mutex,
};

lock_class! {
    static HANDED = "network.handed";
}

/// A frame in the stack's hands.
struct HandedFrame {
    frame: Frame,
    /// Times that it was handed.
    count: u32,
    /// The card and the number of the buffer that it is.
    buffer: Option<(u32, u32)>,
    /// A stream or a queue of the client has it, too.
    is_kept: bool,
}

/// A buffer of a card that came back.
pub(super) struct ReturnedBuffer {
    /// Number of the card.
    pub(super) card: u32,
    /// Number of the buffer.
    pub(super) number: u32,
    /// Its frame, if nobody else has that.
    pub(super) frame: Option<Frame>,
}

impl HandedFrame {
    fn returned(self) -> Option<ReturnedBuffer> {
        let (card, number) = self.buffer?;
        Some(ReturnedBuffer { card, number, frame: (!self.is_kept).then_some(self.frame) })
    }
}

/// The frames in the stack's hands.
pub(super) struct Handed(Mutex<BTreeMap<FrameId, HandedFrame>>);

impl Handed {
    pub(super) fn new() -> Handed {
        Handed(Mutex::new(&HANDED, BTreeMap::new()))
    }
    /// Hands the frames of a payload, one time for each of its parts.
    pub(super) fn hand(&self, segments: &[PacketSegment]) {
        let mut all = self.0.lock();
        for PacketSegment { frame, .. } in segments {
            let made =
                || HandedFrame { frame: frame.clone(), count: 0, buffer: None, is_kept: true };
            all.entry(frame.id()).or_insert_with(made).count += 1;
        }
    }
    /// Hands a buffer of a card, once.
    pub(super) fn hand_buffer(&self, card: u32, buffer: ReceiveBuffer) {
        let ReceiveBuffer { number, frame } = buffer;
        let id = frame.id();
        let handed = HandedFrame { frame, count: 1, buffer: Some((card, number)), is_kept: false };
        let before = self.0.lock().insert(id, handed);
        drop(before);
    }
    /// Notes that the client's streams or queues have the frame, if it is handed.
    pub(super) fn keep(&self, id: FrameId) {
        if let Some(handed) = self.0.lock().get_mut(&id) {
            handed.is_kept = true;
        }
    }
    /// Takes a frame back that was handed `count` times. Returns the buffer, if it is one.
    pub(super) fn take_back(&self, id: FrameId, count: u32) -> Option<ReturnedBuffer> {
        let handed = {
            let mut all = self.0.lock();
            let handed = all.get_mut(&id)?;
            handed.count = handed.count.saturating_sub(count);
            if handed.count > 0 {
                return None;
            }
            all.remove(&id)?
        };
        handed.returned()
    }
    /// Takes everything back from a stack that has died. Returns the buffers.
    pub(super) fn take_all_back(&self) -> Vec<ReturnedBuffer> {
        let all = core::mem::take(&mut *self.0.lock());
        all.into_values().filter_map(HandedFrame::returned).collect()
    }
}
