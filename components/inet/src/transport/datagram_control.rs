//! Control of sockets of datagrams: open, bind, connect, options, close. The order of checks is Linux's.
use super::datagram_names::{
    ScopeUse, can_bind, check_family, interface_of, named, protocol_of, scope_of,
};
use crate::{
    base::{
        address::{AddressScope, Family},
        buffer::Buffer,
    },
    ip::{
        path::{Path, SendRequest},
        stack::{Cast, Stack, StackRun},
    },
    sockets::{
        bindings::{Binding, plain, unspecified, with_options},
        datagram_end::{CachedPath, DatagramEnd, DatagramState},
        errors::SocketError,
    },
    tables::{interface::InterfaceIndex, rules::SenderTraits},
};
use alloc::{sync::Arc, vec::Vec};
use core::net::{IpAddr, SocketAddr};
use interfaces::sockets::{
    DatagramProtocol, DatagramQueue, IpOptions, SocketFamilies, SocketOwner,
};
use packet::protocol::{UDP, UDP_LITE};

/// A handle of a socket of datagrams.
pub type DatagramHandle = Arc<DatagramEnd<Path>>;

impl<B: Buffer> Stack<B> {
    /// Makes a socket that receives into `queue`. Sockets of echo requests and raw sockets have one family.
    pub fn datagram_open(
        &self,
        queue: Arc<DatagramQueue>,
        protocol: DatagramProtocol,
        families: SocketFamilies,
        owner: SocketOwner,
    ) -> DatagramHandle {
        let families = match (protocol, families) {
            (DatagramProtocol::Ping | DatagramProtocol::Raw(_), SocketFamilies::Both) => {
                SocketFamilies::V6
            }
            _ => families,
        };
        let socket = Arc::new(DatagramEnd::new(queue, protocol, families, owner));
        if let DatagramProtocol::Raw(number) = protocol {
            self.datagrams.raw.set(number, &socket, Binding::none(families, &owner));
        }
        socket
    }
    /// Ends a socket. What it received stays in the client's queue.
    pub fn datagram_close(&self, run: &mut StackRun<'_, B>, socket: &DatagramHandle) {
        let mut state = socket.state.lock();
        state.is_closed = true;
        match self.datagrams.bindings(socket.protocol) {
            Some(table) => table.remove(socket, &in_table(socket, state.binding)),
            None => self.datagrams.raw.remove(socket),
        }
        for membership in core::mem::take(&mut state.memberships) {
            let index = InterfaceIndex(membership.interface);
            // The interface may be gone, and the membership with it.
            let _ = self.leave_group(run, index, membership.group);
        }
    }
    /// Sets the options of a socket. Those that decide about packets count from now on; those about ports at the next bind.
    pub fn datagram_configure(&self, socket: &DatagramHandle, options: &IpOptions) {
        let mut state = socket.state.lock();
        let old = core::mem::replace(&mut state.options, *options);
        state.path = None;
        if old.interface != options.interface {
            state.link = None;
        }
        state.families = with_options(socket.families, options);
        let has_name = state.binding.port != 0 || state.binding.address.is_some();
        let binding = Binding {
            families: if has_name { state.binding.families } else { state.families },
            interface: interface_of(&state),
            shares_address: options.reuses_address,
            shares_port: options.reuses_port,
            ..state.binding
        };
        self.set_binding(socket, &mut state, binding);
        let ends = |was: bool, is: bool| was && !is;
        let ended = ends(old.queues_errors, options.queues_errors)
            || ends(old.queues_errors6, options.queues_errors6);
        drop(state);
        if ended {
            socket.queue.clear_reports();
        }
    }
    /// Binds a socket. A port of zero lets the stack choose. Raw sockets have no port, and may be bound again.
    ///
    /// # Errors
    /// [`SocketError::Family`]; [`SocketError::NoAddress`]; [`SocketError::NoInterface`]; [`SocketError::Invalid`] if it is bound or
    /// a link-local address has no interface; [`SocketError::InUse`].
    pub fn datagram_bind(
        &self,
        run: &StackRun<'_, B>,
        socket: &DatagramHandle,
        end: SocketAddr,
    ) -> Result<(), SocketError> {
        let mut state = socket.state.lock();
        let (address, family) = (end.ip(), Family::of(end.ip()));
        check_family(state.families, address).map_err(|error| match error {
            SocketError::NetworkUnreachable => SocketError::Invalid,
            other => other,
        })?;
        let table = self.datagrams.bindings(socket.protocol);
        let is_bound =
            if table.is_some() { state.binding.port != 0 } else { state.binding.peer.is_some() };
        let is_refused = is_bound || state.is_closed;
        if is_refused && family == Family::V6 {
            return Err(SocketError::Invalid);
        }
        let link = scope_of(&state, end, ScopeUse::Bind)?;
        // A failed bind leaves the socket on the link, as on Linux (`__inet6_bind`).
        state.link = link.or(state.link);
        let kind = can_bind(run.configuration, (address, link), &state.options)?;
        if socket.protocol == DatagramProtocol::Ping && kind != Cast::Unicast {
            return Err(SocketError::NoAddress);
        }
        if is_refused {
            return Err(SocketError::Invalid);
        }
        let is_any = address.is_unspecified();
        let is_v4 = is_any && family == Family::V4;
        let mut binding = Binding {
            families: if is_v4 { SocketFamilies::V4 } else { state.families },
            address: (!is_any).then_some(address),
            interface: interface_of(&state),
            ..state.binding
        };
        match (table, end.port()) {
            (None, _) => self.set_binding(socket, &mut state, binding),
            (Some(_), 0) if state.options.binds_no_port => {}
            (Some(table), 0) => {
                let port = table.bind_any(socket, binding, self.port_choice());
                binding.port = port.ok_or(SocketError::InUse)?;
            }
            (Some(table), port) => {
                binding.port = port;
                if !table.bind(socket, binding) {
                    return Err(SocketError::InUse);
                }
            }
        }
        (state.has_own_address, state.has_own_port) = (!is_any, end.port() != 0);
        state.source = (!is_any && kind == Cast::Unicast).then_some(address);
        (state.binding, state.path) = (binding, None);
        Ok(())
    }
    /// Returns the range that ports are chosen from, and a number that outsiders cannot guess.
    pub(crate) fn port_choice(&self) -> ((u16, u16), u64) {
        (self.port_range.get(), self.random.number())
    }
    /// Gives a socket a number of the stack's choice, unless it has one or needs none.
    pub(crate) fn ensure_number(
        &self,
        socket: &DatagramHandle,
        state: &mut DatagramState<Path>,
    ) -> Result<(), SocketError> {
        if state.is_closed {
            return Err(SocketError::Invalid);
        }
        let Some(table) = self.datagrams.bindings(socket.protocol) else { return Ok(()) };
        if state.binding.port == 0 {
            let port = table.bind_any(socket, state.binding, self.port_choice());
            state.binding.port = port.ok_or(SocketError::InUse)?;
        }
        Ok(())
    }
    /// Connects a socket: it receives from `peer` alone, and sends there by default. `None` undoes it.
    ///
    /// # Errors
    /// Those of the route; [`SocketError::Forbidden`] for a broadcast without permission.
    pub fn datagram_connect(
        &self,
        run: &StackRun<'_, B>,
        socket: &DatagramHandle,
        peer: Option<SocketAddr>,
    ) -> Result<(), SocketError> {
        let mut state = socket.state.lock();
        let Some(peer) = peer else {
            self.disconnect(socket, &mut state);
            return Ok(());
        };
        self.ensure_number(socket, &mut state)?;
        check_family(state.families, peer.ip())?;
        let link = scope_of(&state, peer, ScopeUse::Connect)?;
        state.link = link.or(state.link);
        let peer = named(&state, peer);
        let request = request_for(&state, protocol_of(socket), peer);
        let path = self.path_from(run, &request)?;
        if path.cast == Cast::Broadcast && !state.options.may_broadcast {
            return Err(SocketError::Forbidden);
        }
        let source = Some(path.source).filter(|source| !source.is_unspecified());
        state.source = state.source.or(source);
        let is_raw = matches!(socket.protocol, DatagramProtocol::Raw(_));
        let peer = if is_raw { SocketAddr::new(peer.ip(), 0) } else { plain(peer) };
        let binding = Binding {
            peer: Some(peer),
            address: state.binding.address.or(source),
            interface: interface_of(&state),
            ..state.binding
        };
        self.set_binding(socket, &mut state, binding);
        let versions = self.versions(run);
        state.path = Some(CachedPath { versions, path, peer_socket: None });
        Ok(())
    }
    /// Undoes what `connect` did (`__udp_disconnect`): the address and the port go, unless the program bound them.
    fn disconnect(&self, socket: &DatagramHandle, state: &mut DatagramState<Path>) {
        (state.path, state.link) = (None, None);
        let mut binding = Binding { peer: None, interface: interface_of(state), ..state.binding };
        if !state.has_own_address {
            (binding.address, state.source) = (None, None);
            binding.families = state.families;
        }
        match self.datagrams.bindings(socket.protocol) {
            Some(table) if !state.has_own_port => {
                table.remove(socket, &in_table(socket, state.binding));
                state.binding = Binding { port: 0, ..binding };
            }
            _ => self.set_binding(socket, state, binding),
        }
    }
    /// Changes the binding of a socket, there and in its table. Its port stays.
    fn set_binding(
        &self,
        socket: &DatagramHandle,
        state: &mut DatagramState<Path>,
        binding: Binding,
    ) {
        let (old, new) = (in_table(socket, state.binding), in_table(socket, binding));
        state.binding = binding;
        if old == new || state.is_closed {
            return;
        }
        match (self.datagrams.bindings(socket.protocol), socket.protocol) {
            (Some(table), _) if old.port != 0 => table.rebind(socket, &old, new),
            (None, DatagramProtocol::Raw(number)) => self.datagrams.raw.set(number, socket, new),
            _ => {}
        }
    }
    /// Returns the local address and port of a socket. Of a raw socket the port is the protocol.
    pub fn datagram_local(&self, socket: &DatagramHandle) -> SocketAddr {
        let state = socket.state.lock();
        let port = match socket.protocol {
            DatagramProtocol::Raw(number) => number.into(),
            _ => state.binding.port,
        };
        let address = state.binding.address.unwrap_or(unspecified(state.families));
        scoped(SocketAddr::new(address, port), interface_of(&state))
    }
    /// Returns the peer of a socket.
    pub fn datagram_peer(&self, socket: &DatagramHandle) -> Option<SocketAddr> {
        let state = socket.state.lock();
        state.binding.peer.map(|peer| scoped(peer, interface_of(&state)))
    }
    /// Returns the MTU of the path to the peer; `None` without a peer or a path.
    pub fn datagram_path_mtu(&self, run: &StackRun<'_, B>, socket: &DatagramHandle) -> Option<u32> {
        let request = {
            let state = socket.state.lock();
            request_for(&state, protocol_of(socket), state.binding.peer?)
        };
        self.path(run, &request).ok().map(|path| path.mtu)
    }
    /// Returns all sockets with their protocols and bindings. Those of UDP and of echo requests are listed once they have a number.
    pub fn datagram_sockets(&self) -> Vec<(DatagramProtocol, Binding, DatagramHandle)> {
        let of = |protocol, list: Vec<(Binding, DatagramHandle)>| {
            list.into_iter().map(move |(binding, socket)| (protocol, binding, socket))
        };
        let udp = of(DatagramProtocol::Udp, self.datagrams.udp.list());
        let lite = of(DatagramProtocol::UdpLite, self.datagrams.udp_lite.list());
        let ping = of(DatagramProtocol::Ping, self.datagrams.ping.list());
        let raw = self.datagrams.raw.list().into_iter();
        let raw = raw.map(|(number, binding, one)| (DatagramProtocol::Raw(number), binding, one));
        udp.chain(lite).chain(ping).chain(raw).collect()
    }
    /// Returns the versions of the tables that a path is made of.
    pub(crate) fn versions(&self, run: &StackRun<'_, B>) -> (u64, u64) {
        (run.version, self.path_mtus.version())
    }
}

/// Returns the binding that a table has. Echo replies come to a socket from anywhere, also if it is connected (`ping_lookup`).
pub(super) fn in_table(socket: &DatagramHandle, binding: Binding) -> Binding {
    let is_ping = socket.protocol == DatagramProtocol::Ping;
    Binding { peer: binding.peer.filter(|_| !is_ping), ..binding }
}

/// Returns `end` with the interface as the scope of a link-local address.
pub(crate) fn scoped(end: SocketAddr, interface: Option<InterfaceIndex>) -> SocketAddr {
    let mut end = plain(end);
    if let SocketAddr::V6(six) = &mut end
        && AddressScope::of(IpAddr::V6(*six.ip())) == AddressScope::Link
    {
        six.set_scope_id(interface.map_or(0, |index| index.0));
    }
    end
}

/// Returns the request for packets of a socket to `end`.
pub(crate) fn request_for(
    state: &DatagramState<Path>,
    protocol: u8,
    end: SocketAddr,
) -> SendRequest {
    let (options, destination) = (&state.options, end.ip());
    let ports =
        if matches!(protocol, UDP | UDP_LITE) { (state.binding.port, end.port()) } else { (0, 0) };
    let family = Family::of(destination);
    let is_group = destination.is_multicast();
    let (one, group, traffic_class, chosen, loops) = match family {
        Family::V4 => (
            options.ttl,
            options.group_ttl,
            options.type_of_service,
            if is_group { options.group_interface } else { options.unicast_interface },
            options.loops_groups,
        ),
        Family::V6 => (
            options.hops,
            options.group_hops,
            options.traffic_class,
            if is_group { options.group_interface6 } else { options.unicast_interface6 },
            options.loops_groups6,
        ),
    };
    let of_group = options.group_source.filter(|_| is_group).map(IpAddr::V4);
    SendRequest {
        source: state.source.or(of_group).filter(|source| Family::of(*source) == family),
        interface: interface_of(state).or(chosen.map(InterfaceIndex)),
        packet_max6: options.packet_max6,
        hop_limit: if is_group { Some(group) } else { one },
        traffic_class,
        discovery: state.discovery(family),
        sender: SenderTraits { mark: options.mark, user: state.binding.user, ports },
        label: state.binding.label,
        is_looped: !is_group || loops || AddressScope::of(destination) == AddressScope::Host,
        ..SendRequest::new(destination, protocol)
    }
}
