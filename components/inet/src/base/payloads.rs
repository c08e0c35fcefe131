//! Payload on its way between the stack's buffers and the client's datagrams ([`Payload`]).
use super::{
    buffer::{Buffer, BufferChain},
    packets::Arrival,
};
use alloc::{boxed::Box, vec::Vec};
use interfaces::sockets::Payload;
use rt::PAGE_BYTES;

/// Bytes of a payload that is copied, at most, so that it does not keep a frame: half a frame. The socket pays for what it keeps,
/// and as many short datagrams find room as on Linux.
pub const COPIED_MAX: usize = PAGE_BYTES / 2;

/// Returns a received payload for the client. `None` if memory is refused.
pub fn received<B: Buffer>(payload: &Arrival<'_, B>) -> Option<Payload> {
    if payload.length() <= COPIED_MAX
        && let Some(bytes) = payload.whole()
    {
        return Some(Payload::Bytes(Box::from(bytes)));
    }
    let chain = payload.to_chain()?;
    if chain.length() > COPIED_MAX {
        let parts: Option<Vec<_>> = chain.pieces().iter().map(Buffer::as_segment).collect();
        if let Some(parts) = parts {
            return Some(Payload::Segments(parts));
        }
    }
    Some(Payload::Bytes(chain.to_vec().into()))
}

/// Returns a payload that goes from one socket of this host to another. A short one does not keep its frame.
pub fn handed_over(payload: Payload) -> Payload {
    let length = payload.length();
    match &payload {
        Payload::Segments(_) if length <= COPIED_MAX => {
            let mut bytes = alloc::vec![0; length];
            payload.read(0, &mut bytes);
            Payload::Bytes(bytes.into_boxed_slice())
        }
        _ => payload,
    }
}

/// Returns the bytes of a payload from `start` on as buffers; those in frames are shared. `None` if memory is refused.
pub fn sent<B: Buffer>(payload: &Payload, start: usize) -> Option<BufferChain<B>> {
    let mut chain = BufferChain::default();
    match payload {
        Payload::Bytes(bytes) => {
            for part in bytes.get(start..).unwrap_or_default().chunks(PAGE_BYTES) {
                chain.push(B::copy_of(part)?);
            }
        }
        Payload::Segments(parts) => {
            for part in parts {
                chain.push(B::of_segment(part)?);
            }
            if start > 0 {
                chain = chain.slice(start..usize::MAX);
            }
        }
    }
    Some(chain)
}
