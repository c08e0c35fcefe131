//! Sockets of the Internet protocols, between the personality (the client) and the network stack.
//!
//! The client owns the bytes. A stream socket's data are a [`Stream`]: the client appends to it and reads from it, the stack takes
//! what it sends and puts what it receives, and no byte is copied between the two. The stream's counters are the sequence numbers
//! of the connection without their origin, so a stack that starts again finds there what it has to send and what it may discard.
mod administration;
mod datagrams;
#[cfg(test)]
mod datagrams_tests;
mod error;
mod extension_headers;
mod far;
mod filter;
mod header_options;
mod kept;
mod network;
mod options;
mod packet_labels;
pub mod remote;
mod resume;
mod stream;
mod stream_pieces;
mod stream_taken;
mod taps;
#[cfg(test)]
mod tests;
mod tunnels;

pub use administration::{
    AddressRecord, AddressSelector, AdministrationError, AdministrationObserver, EntryMode,
    InterfaceParameter, LinkChange, LinkCounts, LinkGroupRecord, LinkKind, LinkRecord,
    MembershipRecord, NeighbourRecord, NetworkAdministration, NetworkChange, NetworkNotice,
    NetworkParameter, ParameterScope, RouteMetrics, RouteQuery, RouteRecord, RouteWayRecord,
    RuleRecord, SocketProtocol, SocketRecord, SocketTimer, StackDrops, TableRecord, TunnelRecord,
    number,
};
pub use datagrams::{DatagramQueue, ErrorCarrier, ErrorReport, Payload, ReceivedDatagram};
pub use error::SocketError;
pub use extension_headers::{
    ExtensionHeaders, ReceivedExtensions, WrittenExtensions, extension, header_length,
    is_segment_route,
};
pub use far::{
    EndNumber, FarClient, FarEnd, FrameSource, QueueChange, ReadReport, StreamChange,
    copy_to_source,
};
pub use filter::{FilterSlot, FilterWatcher};
pub use header_options::{
    Ipv4OptionList, IsOtherHost, OptionFault, OptionSide, ReceivedOptions, SourceRoute,
};
pub use kept::{KEPT_WORDS, KeptWords};
pub use network::{
    Acceptor, CloseKind, ConnectionState, DatagramProtocol, DatagramSocket, MoreData, Network,
    QuickAcknowledge, SentDatagram, SocketFamilies, SocketOwner, StreamInfo, StreamSocket,
};
pub use options::{CongestionControl, IpOptions, Membership, PathDiscovery, StreamOptions};
pub use packet_labels::{LabelFault, LabelOption, LinkLabel, PacketLabels};
pub use resume::{KeptDatagram, KeptListening, KeptPort, KeptStream, ResumableNetwork};
pub use stream::{Counters, SocketEvents, SocketObserver, Stream, StreamState};
pub use taps::{
    FrameChecksum, FrameTap, LinkMembership, LinkTap, LinkTaps, SeenFrame, SentFrame, TapBinding,
    hardware, packet_kind,
};
pub use tunnels::{
    Tunnel, TunnelArrival, TunnelEnd, TunnelLayer, TunnelRequest, TunnelState, Tunnels,
};
