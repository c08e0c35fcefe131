//! The Internet protocols of a network namespace: interfaces, addresses, routes, neighbours, IP, ICMP and UDP.
//!
//! [`Stack`] is the object that all tables hang off. It has no threads and no clock: time comes with each call, and packets leave
//! through [`Surroundings`]. A packet is given as the bytes of its headers and a chain of shared buffers ([`Buffer`]), so its
//! payload is never copied here.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
extern crate alloc;

mod base;
mod ip;
mod service;
mod sockets;
mod tables;
#[cfg(test)]
mod tests;
mod transport;

pub use base::{
    address::{AddressScope, Family, Prefix},
    buffer::{Buffer, BufferChain, SharedBytes},
    cut::{PartChecksum, cut_tcp},
    packets::{
        Arrival, Departure, HEAD_MIN, HEADERS_MAX, Headers, NoHeadroom, TransportChecksum,
        TransportOffload,
    },
};
pub use ip::{
    path::{Path, SendError, SendRequest},
    stack::{Cast, Claim, Delivery, PacketOrigin, Stack, StackRun, Surroundings, Worker},
    statistics::{DropCounts, DropReason},
};
pub use service::{
    inet::{Inet, InetClock, RealTime},
    kept::KeptArea,
    links::{LinkDetails, PacketLink, ReceivedFrame, device_work},
};
pub use sockets::{
    bindings::Binding,
    datagram_end::{DatagramEnd, DatagramState},
    errors::{Quoted, RemoteError, SocketError},
};
pub use tables::{
    configuration::{ChangeError, Configuration, ConfigurationWatcher, View},
    interface::{
        AddressFlags, Interface, InterfaceAddress, InterfaceFlags, InterfaceIndex, Ipv6Settings,
        LinkOffloads, WantedFrames,
    },
    neighbours::{NeighbourKey, NeighbourState},
    routes::{Route, RouteError, RouteKind, Routes, TableId, maker},
};
pub use transport::datagram_control::DatagramHandle;
