//! The first steps of output, which all sockets of datagrams share: destination, path, permission, length, the error that waits.
use super::{
    datagram_control::{DatagramHandle, request_for, scoped},
    datagram_names::{ScopeUse, check_family, interface_of, named, protocol_of, scope_of},
};
use crate::{
    base::{
        address::Family,
        buffer::{Buffer, BufferChain},
        packets::{Departure, Headers},
        payloads,
    },
    ip::{
        extensions, options,
        path::{Path, SendError, SendRequest},
        stack::{Cast, Stack, StackRun},
    },
    sockets::{
        bindings::PacketEnds,
        datagram_end::{CachedPath, DatagramState},
        errors::SocketError,
    },
    tables::{interface::InterfaceIndex, routes::RouteKind},
};
use alloc::boxed::Box;
use core::net::{IpAddr, SocketAddr};
use interfaces::sockets::{
    DatagramProtocol, ErrorReport, Ipv4OptionList, Payload, SentDatagram, SocketFamilies,
    WrittenExtensions,
};

/// Bytes of a payload that stand beside the headers, at most, instead of in a buffer of their own.
pub(crate) const BESIDE_MAX: usize = 64;
/// The least MTU at which they do: fragments keep all headers in the first.
pub(crate) const BESIDE_MTU_MIN: u32 = 576;

impl From<SendError> for SocketError {
    fn from(error: SendError) -> SocketError {
        match error {
            SendError::NoRoute => SocketError::NetworkUnreachable,
            SendError::Unreachable => SocketError::HostUnreachable,
            SendError::Prohibited | SendError::Broadcast => SocketError::Forbidden,
            SendError::Blackhole => SocketError::Invalid,
            SendError::NoSource => SocketError::NoAddress,
            SendError::TooBig(_) => SocketError::MessageSize,
            SendError::NoMemory => SocketError::NoMemory,
        }
    }
}

/// The bytes of a packet that belong to its header of IP.
enum PacketFront {
    /// Options of IPv4.
    Options(Ipv4OptionList),
    /// Extension headers of IPv6, of a packet for this host in the end.
    Extensions(WrittenExtensions, IpAddr),
}

/// A datagram's way, once its receiver is known.
pub(crate) struct Dispatch {
    /// The request.
    pub(crate) request: SendRequest,
    /// The path.
    pub(crate) path: Path,
    /// The number of the socket.
    pub(crate) port: u16,
    /// The port of the receiver.
    pub(crate) peer_port: u16,
    /// The options of the packet's header of IPv4, or its extension headers of IPv6, if it has any.
    front: Option<Box<PacketFront>>,
}

impl Dispatch {
    /// Returns whether `length` bytes behind the header of IP and its options fit in one packet.
    pub(crate) fn fits(&self, length: usize) -> bool {
        self.path.fits(length + usize::from(self.request.extension.bytes))
    }
    /// Returns whether the packet's header of IP has options or extension headers.
    pub(crate) fn has_front(&self) -> bool {
        self.front.is_some()
    }
    /// Returns whether the packet has extension headers of IPv6.
    pub(crate) fn has_extensions(&self) -> bool {
        matches!(self.front.as_deref(), Some(PacketFront::Extensions(..)))
    }
    /// Returns the addresses that the checksum of the transport counts: of IPv6 the last host of a route, of IPv4 the first one
    /// (RFC 8200 section 8.1).
    pub(crate) fn summed_ends(&self) -> (IpAddr, IpAddr) {
        let destination = match self.front.as_deref() {
            Some(PacketFront::Extensions(_, last)) => *last,
            _ => self.request.destination,
        };
        (self.path.source, destination)
    }
    /// Returns the ends of the packet.
    pub(crate) fn ends(&self) -> PacketEnds {
        PacketEnds {
            remote: SocketAddr::new(self.path.source, self.port),
            local: SocketAddr::new(self.request.destination, self.peer_port),
            interface: self.path.interface,
            label: self.request.label,
        }
    }
}

impl<B: Buffer> Stack<B> {
    /// Sends a datagram: to its destination, or to the peer.
    ///
    /// # Errors
    /// [`SocketError::NoDestination`], [`SocketError::MessageSize`], [`SocketError::Forbidden`], [`SocketError::Invalid`], those of
    /// the route, and the error that waited.
    pub fn datagram_send(
        &self,
        run: &mut StackRun<'_, B>,
        socket: &DatagramHandle,
        mut datagram: SentDatagram,
    ) -> Result<(), SocketError> {
        if socket.protocol == DatagramProtocol::Udp
            && let Some(result) = self.send_to_peer(run, socket, &mut datagram)
        {
            return result;
        }
        let datagram = &mut datagram;
        // A packet of IPv6 is measured once its path is known (`udpv6_sendmsg`, `rawv6_sendmsg`).
        let is_ping = socket.protocol == DatagramProtocol::Ping;
        if (socket.families == SocketFamilies::V4 || is_ping) && is_over_long(datagram) {
            return Err(SocketError::MessageSize);
        }
        match socket.protocol {
            DatagramProtocol::Udp => self.send_udp(run, socket, datagram),
            DatagramProtocol::UdpLite => self.send_lite(run, socket, datagram),
            DatagramProtocol::Ping => self.send_ping(run, socket, datagram),
            DatagramProtocol::Raw(_) => self.send_raw(run, socket, datagram),
        }
    }
    /// Finds the way of a datagram.
    pub(crate) fn dispatch(
        &self,
        run: &StackRun<'_, B>,
        socket: &DatagramHandle,
        datagram: &SentDatagram,
    ) -> Result<Dispatch, SocketError> {
        let mut state = socket.state.lock();
        self.ensure_number(socket, &mut state)?;
        let end = datagram.destination.or(state.binding.peer);
        let end = end.ok_or(SocketError::NoDestination)?;
        check_family(state.families, end.ip())?;
        let has_ports = socket.protocol.has_ports();
        if has_ports && datagram.destination.is_some() && end.port() == 0 {
            return Err(SocketError::Invalid);
        }
        let link = scope_of(&state, end, ScopeUse::Send)?;
        let end = named(&state, end);
        if end.is_ipv4() && is_over_long(datagram) {
            return Err(SocketError::MessageSize);
        }
        let mut request = request_for(&state, protocol_of(socket), end);
        request.interface = link.map(InterfaceIndex).or(request.interface);
        let mut is_special = wish(run, &state, datagram, &mut request)?;
        let options = options_of(&state, datagram, end);
        if let Some(options) = &options {
            is_special |= options::route_by(options, &mut request) != request.destination;
        }
        let extensions = extensions::of_datagram(datagram, &mut request)?;
        is_special |= request.destination != end.ip();
        // Without rules the port says nothing of the path.
        let has_rules = run.configuration.rules().changed(Family::of(end.ip())).is_some();
        let is_peer = state
            .binding
            .peer
            .is_some_and(|peer| peer.ip() == end.ip() && (!has_rules || peer.port() == end.port()));
        let path = if is_peer && !is_special {
            self.path_to_peer(run, &mut state, &request)?
        } else {
            self.path(run, &request)?
        };
        if path.cast == Cast::Broadcast && !state.options.may_broadcast {
            return Err(SocketError::Forbidden);
        }
        let front = match options {
            None => extensions.map(|written| PacketFront::Extensions(written, end.ip())),
            Some(options) => {
                options::check_strict(&options, &request, &path)?;
                let list = options::written(run.configuration, &options, &path, end.ip());
                Some(PacketFront::Options(list))
            }
        };
        let front = front.map(Box::new);
        Ok(Dispatch { request, path, port: state.binding.port, peer_port: end.port(), front })
    }
    /// Returns the path to the peer: the cached one if nothing has changed.
    fn path_to_peer(
        &self,
        run: &StackRun<'_, B>,
        state: &mut DatagramState<Path>,
        request: &SendRequest,
    ) -> Result<Path, SocketError> {
        let versions = self.versions(run);
        if let Some(cached) = state.path.as_ref().filter(|cached| cached.versions == versions) {
            return Ok(cached.path);
        }
        let path = self.path(run, request)?;
        state.path = Some(CachedPath { versions, path, peer_socket: None });
        Ok(path)
    }
    /// Sends a packet whose headers above IP are written on its way.
    ///
    /// # Errors
    /// [`SendError`].
    pub(crate) fn send_dispatched(
        &self,
        run: &mut StackRun<'_, B>,
        dispatch: &Dispatch,
        mut packet: Departure<B>,
    ) -> Result<(), SendError> {
        match dispatch.front.as_deref() {
            None => {}
            Some(PacketFront::Options(options)) => packet.headers.prepend(options.as_slice())?,
            Some(PacketFront::Extensions(written, _)) => packet.prepend(&written.bytes)?,
        }
        self.send_on(run, &dispatch.path, &dispatch.request, packet)
    }
    /// Admits a packet with `length` bytes behind the header of IP and its options.
    ///
    /// # Errors
    /// [`SocketError::MessageSize`], of which the error queue is told, too; the error that waited.
    pub(crate) fn admit(
        &self,
        socket: &DatagramHandle,
        dispatch: &Dispatch,
        length: usize,
    ) -> Result<(), SocketError> {
        let extension = usize::from(dispatch.request.extension.bytes);
        if length + extension > dispatch.path.room(dispatch.request.discovery) {
            self.report_size(socket, dispatch);
            return Err(SocketError::MessageSize);
        }
        socket.queue.take_error().map_or(Ok(()), Err)
    }
    /// Reports that a packet is too long, as an error of this host (`ip_local_error`).
    pub(crate) fn report_size(&self, socket: &DatagramHandle, dispatch: &Dispatch) {
        let Dispatch { request, path, peer_port, .. } = dispatch;
        let family = Family::of(request.destination);
        let peer = {
            let state = socket.state.lock();
            if !state.queues_errors(family) {
                return;
            }
            state.binding.peer
        };
        // Linux tells the peer's port in IPv4, and the packet's in IPv6.
        let port = match family {
            Family::V4 => peer.map_or(0, |peer| peer.port()),
            Family::V6 => *peer_port,
        };
        socket.queue.report(ErrorReport {
            error: SocketError::MessageSize,
            carrier: None,
            message: (0, 0),
            mtu: path.mtu,
            destination: scoped(SocketAddr::new(request.destination, port), request.interface),
            payload: Payload::Bytes([].into()),
        });
    }
}

/// Returns the options of the header of IPv4 of a datagram to `end`, if it has any.
fn options_of(
    state: &DatagramState<Path>,
    datagram: &SentDatagram,
    end: SocketAddr,
) -> Option<Ipv4OptionList> {
    let options = match &datagram.header_options {
        Some(options) => Some(**options),
        None => state.options.header_options,
    };
    options.filter(|options| end.is_ipv4() && !options.is_empty())
}

/// Returns whether a payload is longer than the length field of any header.
fn is_over_long(datagram: &SentDatagram) -> bool {
    datagram.payload.length() > usize::from(u16::MAX)
}

/// Puts the wishes of one datagram into its request. Returns whether it has any that change the path.
fn wish<B>(
    run: &StackRun<'_, B>,
    state: &DatagramState<Path>,
    datagram: &SentDatagram,
    request: &mut SendRequest,
) -> Result<bool, SocketError> {
    let family = Family::of(request.destination);
    if let Some(number) = datagram.interface {
        let index = InterfaceIndex(number);
        let is_other = interface_of(state).is_some_and(|own| own != index);
        if is_other && family == Family::V6 {
            return Err(SocketError::Invalid);
        }
        run.configuration.interface(index).ok_or(SocketError::NoInterface)?;
        request.interface = Some(index);
    }
    if let Some(source) = datagram.source.filter(|source| !source.is_unspecified()) {
        let is_local = run.configuration.local_kind(source) == Some(RouteKind::Local);
        if Family::of(source) != family {
            return Err(SocketError::Invalid);
        }
        if !is_local && !state.options.binds_foreign {
            return Err(no_source(source));
        }
        request.source = Some(source);
    }
    if let Some(hops) = datagram.hop_limit {
        request.hop_limit = Some(hops);
    }
    if let Some(class) = datagram.traffic_class {
        request.traffic_class = class;
    }
    Ok(datagram.interface.is_some() || datagram.source.is_some() || datagram.hop_limit.is_some())
}

/// Returns the error for a source that is not this host's: of IPv4 it is that of the route, unless no host can have the address
/// (`ip_route_output_key_hash_rcu`, `ip6_datagram_send_ctl`).
fn no_source(source: IpAddr) -> SocketError {
    match source {
        IpAddr::V4(one) if one.octets()[0] != 0 && !one.is_multicast() && !one.is_broadcast() => {
            SocketError::NetworkUnreachable
        }
        _ => SocketError::Invalid,
    }
}

/// Returns the packet of a payload from `start` on, without headers. A short one needs no buffer.
pub(crate) fn packet_of<B: Buffer>(
    dispatch: &Dispatch,
    payload: &Payload,
    start: usize,
) -> Result<Departure<B>, SocketError> {
    if let Payload::Bytes(bytes) = payload
        && dispatch.path.mtu >= BESIDE_MTU_MIN
        && !dispatch.has_front()
        && let Some(bytes) = bytes.get(start..).filter(|bytes| bytes.len() <= BESIDE_MAX)
    {
        return Departure::new(bytes, BufferChain::default()).ok_or(SocketError::NoMemory);
    }
    let payload = payloads::sent(payload, start).ok_or(SocketError::NoMemory)?;
    Ok(Departure { headers: Headers::new(), payload, offload: None })
}
