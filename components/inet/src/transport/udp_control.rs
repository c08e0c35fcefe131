//! Control of sockets of UDP: open, bind, connect, options, close.
use crate::{
    base::{
        address::{AddressScope, Family},
        buffer::Buffer,
    },
    ip::{
        path::{Path, SendRequest},
        stack::{Stack, StackRun},
    },
    sockets::{
        bindings::{Binding, Families, SocketEnd},
        errors::SocketError,
        udp_socket::{
            CachedPath, Datagram, QueuedError, UdpHandle, UdpOptions, UdpSocket, UdpState,
        },
    },
    tables::routes::RouteKind,
};
use alloc::{sync::Arc, vec::Vec};
use core::net::IpAddr;
use packet::protocol;

/// The state of a socket.
pub(crate) type PathState<B> = UdpState<B, Path>;

impl<B: Buffer> Stack<B> {
    /// Makes a socket. `number` is told when something happens to it; `user` is its owner.
    pub fn udp_open(&self, number: u64, families: Families, user: u32) -> UdpHandle<B, Path> {
        Arc::new(UdpSocket::new(number, families, user))
    }
    /// Ends a socket.
    pub fn udp_close(&self, socket: &UdpHandle<B, Path>) {
        let mut bindings = self.udp.bindings.write();
        let mut state = socket.state.lock();
        state.is_closed = true;
        bindings.remove(socket, state.binding.port);
        while state.take().is_some() {}
    }
    /// Changes options of a socket. Those that decide about packets count from now on; those about ports at the next bind.
    pub fn udp_configure(&self, socket: &UdpHandle<B, Path>, change: impl FnOnce(&mut UdpOptions)) {
        let mut bindings = self.udp.bindings.write();
        let mut state = socket.state.lock();
        change(&mut state.options);
        state.path = None;
        let options = state.options;
        state.binding.interface = options.interface;
        state.binding.shares_address = options.shares_address;
        state.binding.shares_port = options.shares_port;
        if state.binding.port != 0 {
            bindings.set(socket, state.binding);
        }
    }
    /// Binds a socket. A port of zero lets the stack choose.
    ///
    /// # Errors
    /// [`SocketError::Invalid`] if it is bound; [`SocketError::Family`]; [`SocketError::NoAddress`]; [`SocketError::InUse`].
    pub fn udp_bind(
        &self,
        run: &StackRun<'_, B>,
        socket: &UdpHandle<B, Path>,
        end: SocketEnd,
    ) -> Result<(), SocketError> {
        let mut bindings = self.udp.bindings.write();
        let mut state = socket.state.lock();
        if state.binding.port != 0 || state.is_closed {
            return Err(SocketError::Invalid);
        }
        let is_any = end.address.is_unspecified();
        if !is_any && !state.binding.families.includes(Family::of(end.address)) {
            return Err(SocketError::Family);
        }
        if !is_any && !can_bind(run, end.address, &state.options) {
            return Err(SocketError::NoAddress);
        }
        let mut binding = state.binding;
        binding.address = (!is_any).then_some(end.address);
        binding.port = match end.port {
            0 => bindings.choose(&binding, self.random.number()).ok_or(SocketError::InUse)?,
            port => port,
        };
        if !bindings.is_free(&binding) {
            return Err(SocketError::InUse);
        }
        (state.has_own_address, state.has_own_port) = (!is_any, end.port != 0);
        state.binding = binding;
        bindings.set(socket, binding);
        Ok(())
    }
    /// Binds a socket to a port of the stack's choice, unless it is bound.
    pub(crate) fn udp_bind_any(&self, socket: &UdpHandle<B, Path>) -> Result<(), SocketError> {
        if socket.state.lock().binding.port != 0 {
            return Ok(());
        }
        let mut bindings = self.udp.bindings.write();
        let mut state = socket.state.lock();
        if state.is_closed {
            return Err(SocketError::Invalid);
        }
        if state.binding.port == 0 {
            let port = bindings.choose(&state.binding, self.random.number());
            state.binding.port = port.ok_or(SocketError::InUse)?;
            bindings.set(socket, state.binding);
        }
        Ok(())
    }
    /// Connects a socket: it receives from `peer` alone, and sends there by default. `None` undoes it.
    ///
    /// # Errors
    /// [`SocketError`].
    pub fn udp_connect(
        &self,
        run: &StackRun<'_, B>,
        socket: &UdpHandle<B, Path>,
        peer: Option<SocketEnd>,
    ) -> Result<(), SocketError> {
        let Some(peer) = peer else {
            self.udp_disconnect(socket);
            return Ok(());
        };
        self.udp_bind_any(socket)?;
        let request = {
            let state = socket.state.lock();
            if !state.binding.families.includes(Family::of(peer.address)) {
                return Err(SocketError::Family);
            }
            request_for(&state, peer.address)
        };
        let path = self.path(run, &request)?;
        let mut bindings = self.udp.bindings.write();
        let mut state = socket.state.lock();
        if path.cast == crate::ip::stack::Cast::Broadcast && !state.options.may_broadcast {
            return Err(SocketError::Forbidden);
        }
        state.binding.peer = Some(peer);
        state.binding.address = Some(path.source);
        state.path = Some(CachedPath { versions: self.versions(run), path });
        state.error = None;
        bindings.set(socket, state.binding);
        Ok(())
    }
    fn udp_disconnect(&self, socket: &UdpHandle<B, Path>) {
        let mut bindings = self.udp.bindings.write();
        let mut state = socket.state.lock();
        let old = state.binding.port;
        (state.binding.peer, state.path) = (None, None);
        if !state.has_own_address {
            state.binding.address = None;
        }
        if !state.has_own_port {
            state.binding.port = 0;
        }
        bindings.remove(socket, old);
        if state.binding.port != 0 {
            bindings.set(socket, state.binding);
        }
    }
    /// Takes the oldest datagram, or the error that waits.
    ///
    /// # Errors
    /// The error, once.
    pub fn udp_receive(
        &self,
        socket: &UdpHandle<B, Path>,
    ) -> Result<Option<Datagram<B>>, SocketError> {
        let mut state = socket.state.lock();
        match state.error.take() {
            Some(error) => Err(error),
            None => Ok(state.take()),
        }
    }
    /// Takes the oldest entry of the error queue.
    pub fn udp_take_error(&self, socket: &UdpHandle<B, Path>) -> Option<QueuedError<B>> {
        socket.state.lock().errors.pop_front()
    }
    /// Returns all bound sockets with their bindings.
    pub fn udp_sockets(&self) -> Vec<(Binding, UdpHandle<B, Path>)> {
        let bindings = self.udp.bindings.read();
        bindings.iter().map(|(binding, socket)| (*binding, Arc::clone(socket))).collect()
    }
    /// Returns the versions of the tables that a path is made of.
    pub(crate) fn versions(&self, run: &StackRun<'_, B>) -> (u64, u64) {
        (run.version, self.path_mtus.version())
    }
}

/// Returns whether a socket may be bound to `address`: one of this host, of a group, or of all hosts of a link.
fn can_bind<B>(run: &StackRun<'_, B>, address: IpAddr, options: &UdpOptions) -> bool {
    if address.is_multicast() {
        return true;
    }
    match run.configuration.local_kind(address) {
        Some(RouteKind::Local) => true,
        Some(RouteKind::Broadcast) => options.may_broadcast,
        _ => address == IpAddr::V4(core::net::Ipv4Addr::BROADCAST),
    }
}

/// Returns the request for packets of a socket to `destination`.
pub(crate) fn request_for<B>(state: &PathState<B>, destination: IpAddr) -> SendRequest {
    let options = &state.options;
    let is_group = destination.is_multicast();
    let family = Family::of(destination);
    let is_own = |address: &IpAddr| Family::of(*address) == family && !address.is_multicast();
    let of_group = options.group_interface.filter(|_| is_group);
    SendRequest {
        source: state.binding.address.filter(is_own),
        interface: options.interface.or(of_group),
        hop_limit: if is_group { Some(options.group_hop_limit) } else { options.hop_limit },
        traffic_class: options.traffic_class,
        discovery: options.discovery,
        is_looped: options.loops_groups || AddressScope::of(destination) == AddressScope::Host,
        ..SendRequest::new(destination, protocol::UDP)
    }
}
