//! Network interfaces: packets as header bytes and parts of frames, many in flight, sent and received in batches (M2, M6).
//!
//! Payload is never copied here. The client lends the frames of a pool for reception once; a received packet brings its frames
//! back, and the client lends them again when it is done with their contents.
//!
//! If driver and client live in different worlds, the client has a `NicProxy` and the driver a `NicService`. They exchange
//! messages ([`NicControl`]) and share two rings of plain data, which name frames by number, as those of [`crate::block`] do.
mod buffers;
mod control;
mod entries;
mod flights;
mod packet;
mod remote;
#[cfg(any(not(target_os = "none"), skerry_process))]
mod server;
mod settings;
#[cfg(test)]
mod tests;

pub use buffers::{
    LEAD_MAX, Lead, NUMBERS, PAYLOAD_OFFSET, ReceiveBuffer, Received, ReceivedPiece,
};
pub use control::*;
pub use packet::{
    ChecksumState, Ended, HEADER_MAX, HeaderBytes, PACKET_MIN, Packet, PacketSegment,
    PartialChecksum, SEGMENTS_MAX, Segmentation, SegmentationKind, Sent, tell,
};
pub use remote::NicProxy;
#[cfg(any(not(target_os = "none"), skerry_process))]
pub use server::NicService;
pub use settings::{
    ADDRESSES_MAX, Filter, LinkState, MTU_MIN, MacAddress, NicError, NicInfo, NicStatistics,
    Offloads,
};

use alloc::{sync::Arc, vec::Vec};
use interfaces_macro::interface;

/// The receiver of the ends of sent packets, on the client's side. It is called on the driver's thread and must not block.
#[interface(direct)]
pub trait SendSink: Send + Sync {
    /// Packets have ended, each once, and their frames are returned. There is room again for packets that were left.
    fn sent(&self, batch: &mut Vec<Sent>);
}

/// The receiver of packets, on the client's side. It is called on the driver's threads, for different queue pairs at the same
/// time, and must not block. It calls no method that gives the device a command.
#[interface(direct)]
pub trait NicSink: Send + Sync {
    /// Packets were received, those of a flow in order. The sink takes all of them and lends their buffers again
    /// ([`Nic::lend`]). A device may write to a buffer again at any time, as long as it is in its reach, so headers are copied
    /// before they are checked.
    fn received(&self, batch: &mut Vec<Received>);
    /// The link changed.
    fn link(&self, state: LinkState);
    /// The network must be told of the interface's addresses, because the host moved the machine.
    fn announce(&self);
}

/// A network interface.
#[interface(direct)]
pub trait Nic: Send + Sync {
    /// The description of the interface, with the present state of the link.
    fn info(&self) -> NicInfo;
    /// Sets the receiver of packets. Packets that came before are dropped.
    fn set_sink(&self, sink: Arc<dyn NicSink>);
    /// Sends the packets of `batch`, with one notification of the device a queue. Never blocks: those for which there is no room
    /// stay in `batch`, in order, and the client submits them again when `sink` was told of others. Packets of the same flow are
    /// sent in order. Each packet taken gets exactly one end, also when it is refused.
    fn submit(&self, batch: &mut Vec<Packet>, sink: &Arc<dyn SendSink>);
    /// Lends buffers for reception and empties `buffers`. Each has a number below [`NUMBERS`] that no other lent one has. A device
    /// that lies can pass the contents of its frame off as a packet, so a new frame is one of zeroes.
    fn lend(&self, buffers: &mut Vec<ReceiveBuffer>);
    /// Lends those of `buffers` whose frames nobody else holds, as [`Nic::lend`] does. The others stay in `buffers`.
    fn lend_unused(&self, buffers: &mut Vec<ReceiveBuffer>) {
        let mut unused: Vec<_> =
            buffers.extract_if(.., |one| one.frame.references() == 1).collect();
        self.lend(&mut unused);
    }
    /// Changes the interface's address.
    ///
    /// # Errors
    /// [`NicError`].
    fn set_mac(&self, mac: &MacAddress) -> Result<(), NicError>;
    /// Sets the packets that the interface receives beside those to its own address and to all.
    ///
    /// # Errors
    /// [`NicError`].
    fn set_filter(&self, filter: &Filter) -> Result<(), NicError>;
    /// Sets the offloads of reception, a subset of those in [`NicInfo::offloads`]; offloads of sending are used packet by packet.
    ///
    /// # Errors
    /// [`NicError`].
    fn set_offloads(&self, offloads: Offloads) -> Result<(), NicError>;
    /// Sets the number of queue pairs in use: 1 at first. Buffers that are lent afterwards are spread over them.
    ///
    /// # Errors
    /// [`NicError`].
    fn set_pairs(&self, pairs: u16) -> Result<(), NicError>;
    /// Returns the counts since the interface was opened.
    fn statistics(&self) -> NicStatistics;
    /// Checks for ends and packets whose interrupt may have been lost.
    fn look_again(&self) {}
}
