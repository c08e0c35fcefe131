//! Errors that ICMP tells about packets of this host: to their sockets, and to the cache of path MTUs.
use super::{
    datagram_control::{DatagramHandle, scoped},
    ping::echo_request,
};
use crate::{
    base::{address::Family, buffer::Buffer, packets::Arrival, payloads},
    ip::{
        path::Path,
        stack::{Claim, Stack, StackRun},
    },
    sockets::{
        bindings::PacketEnds,
        bound::Bindings,
        datagram_end::DatagramEnd,
        errors::{Quoted, RemoteError, SocketError},
    },
};
use core::net::SocketAddr;
use interfaces::sockets::{ErrorReport, Payload};
use packet::{protocol, udp};

impl<B: Buffer> Stack<B> {
    /// Takes an error about a packet. An outsider who does not know the numbers of a socket cannot disturb it.
    pub(crate) fn input_error(
        &self,
        run: &mut StackRun<'_, B>,
        quoted: &Quoted<'_, B>,
        error: RemoteError,
    ) {
        let of_raw = self.raw_error(quoted, &error);
        let of_other = match quoted.protocol {
            protocol::UDP => udp_error(&self.datagrams.udp, quoted, &error),
            protocol::UDP_LITE => udp_error(&self.datagrams.udp_lite, quoted, &error),
            protocol::ICMP | protocol::ICMPV6 => self.ping_error(quoted, &error),
            _ => run.surroundings.hear_error(quoted, &error),
        };
        let is_ours = of_raw == Claim::Taken || of_other == Claim::Taken;
        if is_ours && error.error == SocketError::MessageSize {
            self.path_mtus.learn(quoted.destination, error.mtu, quoted.length, run.now_ns);
        }
    }
    /// Tells the socket that sent the quoted echo request.
    fn ping_error(&self, quoted: &Quoted<'_, B>, error: &RemoteError) -> Claim {
        let family = Family::of(quoted.destination);
        let Some((identifier, _)) = echo_request(family, quoted.payload.head()) else {
            return Claim::Unknown;
        };
        let ends = quoted_ends(quoted, (identifier, 0));
        let Some(socket) = self.datagrams.ping.find(&ends, || 0) else { return Claim::Unknown };
        tell(&socket, quoted, error, (ends.remote, &quoted.payload));
        Claim::Taken
    }
    /// Tells all raw sockets that may have sent the quoted packet.
    fn raw_error(&self, quoted: &Quoted<'_, B>, error: &RemoteError) -> Claim {
        let ends = quoted_ends(quoted, (0, 0));
        let found =
            self.datagrams.raw.find_all(quoted.protocol, &ends, |label| label == quoted.label);
        for socket in &found {
            tell(socket, quoted, error, (ends.remote, &quoted.payload));
        }
        if found.is_empty() { Claim::Unknown } else { Claim::Taken }
    }
}

/// Tells the socket that sent the quoted datagram of UDP or UDP-Lite.
fn udp_error<B: Buffer>(
    table: &Bindings<DatagramEnd<Path>>,
    quoted: &Quoted<'_, B>,
    error: &RemoteError,
) -> Claim {
    let Some([a, b, c, d]) = quoted.payload.head().first_chunk() else { return Claim::Unknown };
    let ports = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
    let ends = quoted_ends(quoted, ports);
    let Some(socket) = table.find(&ends, || 0) else { return Claim::Unknown };
    let payload = quoted.payload.part(udp::HEADER_LENGTH..usize::MAX);
    tell(&socket, quoted, error, (ends.remote, &payload));
    Claim::Taken
}

/// Returns the ends of a quoted packet, as those of an answer to it.
fn quoted_ends<B>(quoted: &Quoted<'_, B>, (local, remote): (u16, u16)) -> PacketEnds {
    PacketEnds {
        local: SocketAddr::new(quoted.source, local),
        remote: SocketAddr::new(quoted.destination, remote),
        interface: quoted.interface,
        label: quoted.label,
    }
}

/// Tells a socket of an error, if it is one that its program hears of.
fn tell<B: Buffer>(
    socket: &DatagramHandle,
    quoted: &Quoted<'_, B>,
    error: &RemoteError,
    (destination, payload): (SocketAddr, &Arrival<'_, B>),
) {
    let family = Family::of(quoted.destination);
    let queues = {
        let state = socket.state.lock();
        if state.is_closed || !state.is_told(family, error) {
            return;
        }
        state.queues_errors(family)
    };
    if !queues {
        return socket.queue.fail(error.error);
    }
    // An error without its payload is better than none.
    let payload = payloads::received(payload).unwrap_or(Payload::Bytes([].into()));
    socket.queue.report(ErrorReport {
        error: error.error,
        carrier: Some(error.carrier),
        message: (error.kind, error.code),
        mtu: error.mtu,
        destination: scoped(destination, Some(quoted.interface)),
        payload,
    });
}
