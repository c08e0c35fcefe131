//! Frames that the client handed to the stack, and that the stack has dropped.
use super::{cells::Record, kinds::back, sender::RecordSender};
use crate::marshal::Marshal;
use alloc::vec::Vec;
use rt::memory::FrameId;

/// Tells the client of them.
pub(crate) fn tell(post: &RecordSender) {
    let mut body = Vec::new();
    rt::memory::take_released(&mut |frame: FrameId, count: u32| {
        frame.0.put(&mut body);
        count.put(&mut body);
    });
    if body.is_empty() {
        return;
    }
    post.send(|outbox, _| {
        outbox.put(&Record { kind: back::RELEASED, body: &body, ..Record::default() });
    });
}
