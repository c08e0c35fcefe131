//! [`KeptDatagram`]: a socket of datagrams whose stack is gone, as its client knows it.
use super::{
    datagram_control::{DatagramHandle, in_table, request_for},
    datagram_names::{can_bind, interface_of, protocol_of},
};
use crate::{
    base::{
        address::{AddressScope, Family},
        buffer::Buffer,
    },
    ip::{
        path::Path,
        stack::{Cast, Stack, StackRun},
    },
    sockets::{
        bindings::{Binding, plain, with_options},
        datagram_end::DatagramState,
    },
    tables::interface::InterfaceIndex,
};
use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};
use interfaces::sockets::{DatagramProtocol, DatagramQueue, KeptDatagram, SocketFamilies};

/// Returns the interface that the scope of a link-local address names.
fn link_of(end: SocketAddr) -> Option<u32> {
    match end {
        SocketAddr::V6(six) if AddressScope::of(IpAddr::V6(*six.ip())) == AddressScope::Link => {
            Some(six.scope_id()).filter(|scope| *scope != 0)
        }
        _ => None,
    }
}

impl<B: Buffer> Stack<B> {
    /// Makes a socket of a stack that is gone again. Other sockets of its port are not looked at: the predecessor allowed it.
    pub fn datagram_restore(
        &self,
        run: &mut StackRun<'_, B>,
        queue: Arc<DatagramQueue>,
        kept: KeptDatagram,
    ) -> DatagramHandle {
        let KeptDatagram { protocol, families, owner, .. } = kept;
        let socket = self.datagram_open(queue, protocol, families, owner);
        let mut state = socket.state.lock();
        state.options = kept.options;
        state.families = with_options(socket.families, &kept.options);
        state.link = link_of(kept.local).or(kept.peer.and_then(link_of));
        (state.has_own_address, state.has_own_port) = (kept.has_own_address, kept.has_own_port);
        let binding = binding_of(&socket, &state, (kept.local, kept.peer));
        state.source = binding.address;
        if kept.has_own_address {
            let place = (kept.local.ip(), state.link);
            let kind = can_bind(run.configuration, place, &kept.options);
            // A group or an address that this host does not have any more is no source.
            state.source = state.source.filter(|_| kind == Ok(Cast::Unicast));
        }
        state.binding = binding;
        if let (Some(peer), None) = (binding.peer, state.source) {
            let request = request_for(&state, protocol_of(&socket), peer);
            state.source = self.path(run, &request).ok().map(|path| path.source);
        }
        match (self.datagrams.bindings(protocol), protocol) {
            (Some(table), _) if binding.port != 0 => {
                table.put(&socket, in_table(&socket, binding));
            }
            (None, DatagramProtocol::Raw(number)) => {
                self.datagrams.raw.set(number, &socket, in_table(&socket, binding));
            }
            _ => {}
        }
        for membership in kept.memberships {
            // An interface that is gone has no members; the socket still has the membership.
            let _ = self.join_group(run, InterfaceIndex(membership.interface), membership.group);
            state.memberships.push(membership);
        }
        drop(state);
        socket
    }
}

/// Returns the binding of a socket with these names.
fn binding_of(
    socket: &DatagramHandle,
    state: &DatagramState<Path>,
    (local, peer): (SocketAddr, Option<SocketAddr>),
) -> Binding {
    let is_raw = matches!(socket.protocol, DatagramProtocol::Raw(_));
    let address = local.ip();
    let is_any = address.is_unspecified();
    let port = if is_raw { 0 } else { local.port() };
    Binding {
        families: match Family::of(address) {
            Family::V4 if is_any && port != 0 => SocketFamilies::V4,
            _ => state.families,
        },
        address: (!is_any).then_some(address),
        interface: interface_of(state),
        port,
        peer: peer.map(|peer| if is_raw { SocketAddr::new(peer.ip(), 0) } else { plain(peer) }),
        shares_address: state.options.reuses_address,
        shares_port: state.options.reuses_port,
        ..Binding::none(state.families, &socket.owner)
    }
}
