//! Output of UDP.
use super::udp_control::request_for;
use crate::{
    base::{
        address::Family,
        buffer::{Buffer, BufferChain},
        packets::Departure,
    },
    ip::{
        path::{Path, SendError, SendRequest},
        stack::{Cast, Stack, StackRun},
    },
    sockets::{
        bindings::SocketEnd,
        errors::SocketError,
        udp_socket::{CachedPath, UdpHandle},
    },
};
use packet::{
    Sum, protocol,
    udp::{CHECKSUM_OFFSET, UdpHeader},
};
use zerocopy::IntoBytes;

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

impl<B: Buffer> Stack<B> {
    /// Sends a datagram: to `destination`, or to the peer.
    ///
    /// # Errors
    /// [`SocketError`]; an error that waits, once.
    pub fn udp_send(
        &self,
        run: &mut StackRun<'_, B>,
        socket: &UdpHandle<B, Path>,
        destination: Option<SocketEnd>,
        payload: BufferChain<B>,
    ) -> Result<(), SocketError> {
        self.udp_bind_any(socket)?;
        let (request, end, port, cached) = {
            let mut state = socket.state.lock();
            if let Some(error) = state.error.take() {
                return Err(error);
            }
            let end = destination.or(state.binding.peer).ok_or(SocketError::NoDestination)?;
            if !state.binding.families.includes(Family::of(end.address)) {
                return Err(SocketError::Family);
            }
            if end.port == 0 || state.is_closed {
                return Err(SocketError::Invalid);
            }
            let is_peer = state.binding.peer == Some(end);
            let cached = state.path.filter(|_| is_peer);
            (request_for(&state, end.address), end, state.binding.port, (is_peer, cached))
        };
        let path = self.path_of(run, socket, &request, cached)?;
        if path.cast == Cast::Broadcast && !socket.state.lock().options.may_broadcast {
            return Err(SocketError::Forbidden);
        }
        let packet = datagram(&path, port, end, payload)?;
        Ok(self.send_on(run, &path, &request, packet)?)
    }
    /// Returns the path of a socket's packets: the cached one if nothing has changed.
    fn path_of(
        &self,
        run: &StackRun<'_, B>,
        socket: &UdpHandle<B, Path>,
        request: &SendRequest,
        (is_peer, cached): (bool, Option<CachedPath<Path>>),
    ) -> Result<Path, SocketError> {
        let versions = self.versions(run);
        if let Some(cached) = cached.filter(|cached| cached.versions == versions) {
            return Ok(cached.path);
        }
        let path = self.path(run, request)?;
        if is_peer {
            socket.state.lock().path = Some(CachedPath { versions, path });
        }
        Ok(path)
    }
}

/// Returns the datagram from `port` to `end`, with its checksum.
fn datagram<B: Buffer>(
    path: &Path,
    port: u16,
    end: SocketEnd,
    payload: BufferChain<B>,
) -> Result<Departure<B>, SocketError> {
    let header = UdpHeader::new(port, end.port, payload.length());
    let header = header.map_err(|_| SocketError::MessageSize)?;
    let mut packet = Departure::new(header.as_bytes(), payload).ok_or(SocketError::NoMemory)?;
    let length = packet.length() as u32;
    let mut sum = Sum::pseudo_header(path.source, end.address, protocol::UDP, length);
    sum.append(packet.sum());
    packet.patch(CHECKSUM_OFFSET, sum.checksum_of_udp());
    Ok(packet)
}
