//! [`InternetDatagram`]: a socket of UDP, a ping socket or a raw socket (udp(7), icmp(7), raw(7)). Parts: `names` (bind, connect,
//! shutdown, close), `send`, `receive`, `control` (control messages), `family` (the socket calls and the file), `options`.
mod control;
mod family;
#[cfg(test)]
mod fuzz;
mod names;
mod options;
mod receive;
mod send;
#[cfg(test)]
mod tests;

pub(in crate::socket) use control::time_of;

use super::{
    address::AddressFamily,
    network::{SocketMaker, errno},
    settings::{Flags, InternetSettings},
    wakes::SocketWakes,
    zero_copy::ZeroCopyNotices,
};
use crate::socket::{
    common::{RECEIVE_DEFAULT, SEND_DEFAULT, SocketCommon},
    interface::{Shut, SocketKind},
};
use alloc::sync::Arc;
use core::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};
use interfaces::sockets::{
    DatagramProtocol, DatagramQueue, DatagramSocket, IpOptions, Network, SocketFamilies,
};
use linux_raw_sys::net;
use rt::{lock_class, sync::Mutex};
use send::Corked;
use vfs::{Errno, security::Label};

lock_class! {
    static CONTROL = "internet.datagram_control";
    static SETTINGS = "internet.datagram_settings";
    static CORK = "internet.cork";
}

/// Offset of the checksum in a message of ICMPv6.
const ICMP6_CHECKSUM: u16 = 2;

/// A socket of datagrams.
pub struct InternetDatagram {
    common: SocketCommon,
    family: AddressFamily,
    label: &'static Label,
    protocol: DatagramProtocol,
    wakes: Arc<SocketWakes>,
    queue: Arc<DatagramQueue>,
    socket: Arc<dyn DatagramSocket>,
    /// Held by calls that change the socket, over the stack's.
    control: Mutex<()>,
    settings: Mutex<InternetSettings>,
    /// The flags of the settings, for calls that receive.
    flags: AtomicU64,
    /// UDP_SEGMENT, for calls that send.
    segment: AtomicU32,
    shut: AtomicU8,
    is_closed: AtomicBool,
    /// Bytes that wait for the rest of their datagram.
    cork: Mutex<Option<Corked>>,
    send_limit: AtomicUsize,
    receive_limit: AtomicUsize,
    notices: ZeroCopyNotices,
}

impl InternetDatagram {
    /// Makes a socket of `network` for its maker.
    ///
    /// # Errors
    /// `ENOBUFS`, `EPROTONOSUPPORT` for a protocol that the stack lacks.
    pub(super) fn open(
        network: &dyn Network,
        (family, kind): (AddressFamily, SocketKind),
        protocol: DatagramProtocol,
        maker: SocketMaker,
    ) -> Result<Arc<InternetDatagram>, Errno> {
        let common = SocketCommon::new(kind, maker.level);
        let wakes = SocketWakes::new();
        let (send, receive) = (SEND_DEFAULT.size(), RECEIVE_DEFAULT.size());
        let queue = Arc::new(DatagramQueue::new(wakes.clone(), receive));
        let families = match (family, protocol) {
            (AddressFamily::V4, _) => SocketFamilies::V4,
            (AddressFamily::V6, protocol) if protocol.has_ports() => SocketFamilies::Both,
            (AddressFamily::V6, _) => SocketFamilies::V6,
        };
        let owner = maker.owner(common.number());
        let opened = network.open_datagram(queue.clone(), protocol, families, owner);
        let socket = opened.map_err(|error| match errno(error) {
            Errno::EOPNOTSUPP => Errno::EPROTONOSUPPORT,
            error => error,
        })?;
        let mut settings = InternetSettings::of(family);
        settings.stream.ip.has_header = protocol == DatagramProtocol::Raw(net::IPPROTO_RAW as u8);
        if matches!(protocol, DatagramProtocol::Raw(_)) {
            // Raw sockets share an address without being asked (`inet_create`).
            common.options.keep(net::SO_REUSEADDR, 1);
        }
        if protocol == DatagramProtocol::Raw(net::IPPROTO_ICMPV6 as u8) {
            settings.stream.ip.checksum_at = Some(ICMP6_CHECKSUM);
        }
        if protocol == DatagramProtocol::Ping {
            // Programs that chose the same identifier share it, as on Linux.
            common.options.keep(net::SO_REUSEADDR, 1);
        }
        if settings.stream.ip != IpOptions::default() || common.options.is_kept(net::SO_REUSEADDR) {
            socket.configure(&settings.ip(&common));
        }
        Ok(Arc::new(InternetDatagram {
            common,
            family,
            label: maker.label,
            protocol,
            wakes,
            queue,
            socket,
            control: Mutex::new(&CONTROL, ()),
            flags: AtomicU64::new(settings.flags.bits()),
            segment: AtomicU32::new(0),
            settings: Mutex::new(&SETTINGS, settings),
            shut: AtomicU8::new(0),
            is_closed: AtomicBool::new(false),
            cork: Mutex::new(&CORK, None),
            send_limit: AtomicUsize::new(send),
            receive_limit: AtomicUsize::new(receive),
            notices: ZeroCopyNotices::default(),
        }))
    }
    /// Returns the stack's socket.
    #[inline]
    fn socket(&self) -> &dyn DatagramSocket {
        &*self.socket
    }
    #[inline]
    fn shut(&self) -> Shut {
        Shut::from_bits_truncate(self.shut.load(Ordering::Acquire))
    }
    #[inline]
    fn flags(&self) -> Flags {
        Flags::from_bits_truncate(self.flags.load(Ordering::Relaxed))
    }
    /// Returns the local address, with the family's form of an address that stands for all.
    fn local(&self) -> SocketAddr {
        let local = self.socket().local();
        match local.ip().is_unspecified() && local.is_ipv4() {
            true => SocketAddr::new(self.family.unspecified().ip(), local.port()),
            false => local,
        }
    }
}

impl Drop for InternetDatagram {
    fn drop(&mut self) {
        self.close();
    }
}
