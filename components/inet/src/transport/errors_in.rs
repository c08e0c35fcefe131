//! Errors that ICMP tells about packets of this host: to their sockets, and to the cache of path MTUs.
use crate::{
    base::buffer::Buffer,
    ip::stack::{Claim, Stack, StackRun},
    sockets::{
        bindings::{PacketEnds, SocketEnd},
        errors::{Quoted, RemoteError, SocketError},
        udp_socket::QueuedError,
    },
};
use alloc::sync::Arc;
use packet::{protocol, udp};

impl<B: Buffer> Stack<B> {
    /// Takes an error about a packet. An outsider who does not know the ports of a socket cannot disturb it.
    pub(crate) fn input_error(
        &self,
        run: &mut StackRun<'_, B>,
        quoted: &Quoted<'_, B>,
        error: RemoteError,
    ) {
        let is_ours = match quoted.protocol {
            protocol::UDP => self.udp_error(run, quoted, error),
            protocol::ICMP | protocol::ICMPV6 => true,
            _ => run.surroundings.hear_error(quoted, &error) == Claim::Taken,
        };
        if is_ours && error.error == SocketError::MessageSize {
            self.path_mtus.learn(quoted.destination, error.mtu, quoted.length, run.now_ns);
        }
    }
    /// Tells the socket that sent the quoted datagram. Returns whether there is one.
    fn udp_error(
        &self,
        run: &mut StackRun<'_, B>,
        quoted: &Quoted<'_, B>,
        error: RemoteError,
    ) -> bool {
        let Some([a, b, c, d]) = quoted.payload.head().first_chunk() else { return false };
        let (local, remote) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
        let ends = PacketEnds {
            local: SocketEnd { address: quoted.source, port: local },
            remote: SocketEnd { address: quoted.destination, port: remote },
            interface: quoted.interface,
        };
        let found = self.udp.bindings.read().find(&ends, 0).map(Arc::clone);
        let Some(socket) = found else { return false };
        let payload = quoted.payload.part(udp::HEADER_LENGTH..usize::MAX).to_chain();
        let payload = payload.unwrap_or_default();
        let entry = QueuedError { error, destination: ends.remote, payload };
        if socket.state.lock().fail(entry) {
            run.surroundings.notify(socket.number);
        }
        true
    }
}
