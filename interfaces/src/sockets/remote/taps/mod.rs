//! [`LinkTaps`](crate::sockets::LinkTaps) by message: [`RemoteTaps`] is the client, [`TapService`] the server.
//!
//! The client numbers its taps and knows what each is bound to and which memberships it has. It tells the server all of that when a
//! part of it changes, and the server does what is new, so the message can be sent again to any successor. What a tap of the server
//! sees is posted to the client as bytes:
//!
//! ```text
//! frame    tap 64 | 0 | SeenFrame without its bytes | the bytes
//! failure  tap 64 | 1 | SocketError
//! ```
//! A filter is the client's affair, in its `FrameTap`, as it is without messages.
mod client;
#[cfg(any(not(target_os = "none"), skerry_process))]
mod server;
#[cfg(test)]
mod tests;

pub use client::RemoteTaps;
#[cfg(any(not(target_os = "none"), skerry_process))]
pub use server::TapService;

use crate::{
    marshal::{Marshal, put_bytes, take_bytes},
    nic::MacAddress,
    sockets::{FrameChecksum, LinkMembership, SentFrame, SocketError, TapBinding},
};
use alloc::vec::Vec;

/// Bytes of a frame that is posted, at most: the longest packet of IP, and room for the link's header with tags of VLANs.
const FRAME_MAX: usize = 0xffff + 64;

/// A call of a tap.
#[derive(Marshal)]
enum TapRequest {
    /// Opens the tap if it is not there, and has it be as is said. The answer is a [`SetAnswer`].
    Set(TapSettings),
    /// Sends a frame. The answer is `None` if there is no such tap, else the result of [`crate::sockets::LinkTap::send`].
    Send(u64, SentFrame),
    /// Ends the tap, if it is there. The answer is `true`.
    Close(u64),
}

/// The settings of a tap.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
struct TapSettings {
    /// Number of the tap.
    tap: u64,
    binding: TapBinding,
    /// The binding is set anew also if it is the same.
    binds: bool,
    memberships: Vec<(u32, LinkMembership)>,
}

/// The answer to [`TapRequest::Set`].
#[derive(Debug, Marshal)]
struct SetAnswer {
    /// The first error. Settings without one were made.
    result: Result<(), SocketError>,
    /// The error that the tap was told of meanwhile.
    failed: Option<SocketError>,
}

/// News of a tap, which the server posts. The bytes of a frame follow.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
enum TapNews {
    Frame(FrameHead),
    Failed(SocketError),
}

/// [`SeenFrame`](crate::sockets::SeenFrame) without its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Marshal)]
struct FrameHead {
    interface: u32,
    hardware: u16,
    kind: u8,
    protocol: u16,
    source: MacAddress,
    link_length: usize,
    checksum: FrameChecksum,
    at_ns: u64,
}

impl Marshal for SentFrame {
    fn put(&self, out: &mut Vec<u8>) {
        let SentFrame { interface, protocol, destination, bytes } = self;
        (*interface, *protocol, *destination).put(out);
        put_bytes(bytes, out);
    }
    fn take(from: &mut &[u8]) -> Option<SentFrame> {
        let (interface, protocol, destination) = Marshal::take(from)?;
        let bytes = take_bytes(from)?.to_vec();
        Some(SentFrame { interface, protocol, destination, bytes })
    }
}
