//! UDP-Lite (RFC 3828): datagrams whose checksum covers as many of their first bytes as the sender says.
use super::{datagram_control::DatagramHandle, datagram_output::packet_of};
use crate::{
    base::{address::Family, buffer::Buffer},
    ip::{
        events::PacketEvent,
        stack::{Delivery, Stack, StackRun},
        statistics::DropReason,
    },
    sockets::{bindings::PacketEnds, errors::SocketError},
};
use core::net::SocketAddr;
use interfaces::sockets::SentDatagram;
use packet::{
    Sum, protocol,
    udp::{CHECKSUM_OFFSET, HEADER_LENGTH, UdpHeader},
};
use zerocopy::IntoBytes;

impl<B: Buffer> Stack<B> {
    /// Sends a datagram.
    pub(crate) fn send_lite(
        &self,
        run: &mut StackRun<'_, B>,
        socket: &DatagramHandle,
        datagram: &SentDatagram,
    ) -> Result<(), SocketError> {
        let dispatch = self.dispatch(run, socket, datagram)?;
        let length = HEADER_LENGTH + datagram.payload.length();
        self.admit(socket, &dispatch, length)?;
        let mut packet = packet_of(&dispatch, &datagram.payload, 0)?;
        let wanted = socket.state.lock().options.coverage;
        let total = u16::try_from(length).map_err(|_| SocketError::MessageSize)?;
        let field = wanted.filter(|wanted| *wanted < total).unwrap_or(total);
        let header = UdpHeader::lite(dispatch.port, dispatch.peer_port, field);
        packet.headers.prepend(header.as_bytes()).map_err(|_| SocketError::NoMemory)?;
        let (source, destination) = dispatch.summed_ends();
        // The pseudo header has the whole length.
        let mut sum = Sum::pseudo_header(source, destination, protocol::UDP_LITE, u32::from(total));
        let of_headers = packet.headers.as_slice();
        let covered = if field == 0 { length } else { usize::from(field) };
        let (front, rest) = of_headers.split_at(covered.min(of_headers.len()));
        sum.add(front);
        if rest.is_empty() {
            sum.append(packet.payload.sum_of(0..covered.saturating_sub(front.len())));
        }
        packet.patch(CHECKSUM_OFFSET, sum.checksum_of_udp());
        self.send_dispatched(run, &dispatch, packet)?;
        let family = Family::of(destination);
        run.events.note(family, [PacketEvent::LiteOut4, PacketEvent::LiteOut6]);
        Ok(())
    }
    /// Takes a datagram.
    pub(crate) fn input_lite(&self, run: &mut StackRun<'_, B>, delivery: &Delivery<'_, B>) {
        let (payload, family) = (&delivery.payload, Family::of(delivery.destination));
        let parsed = UdpHeader::parse_lite(payload.head(), payload.length());
        // A checksum is not left out.
        let sound = parsed.ok().filter(|(header, coverage)| {
            let length = payload.length() as u32;
            let ends = (delivery.source, delivery.destination);
            let mut sum = Sum::pseudo_header(ends.0, ends.1, protocol::UDP_LITE, length);
            sum.append(payload.part(0..*coverage).sum());
            header.checksum.get() != 0 && sum.is_valid()
        });
        let Some((header, coverage)) = sound else {
            run.events.note(family, [PacketEvent::LiteChecksum4, PacketEvent::LiteChecksum6]);
            return self.dropped(DropReason::Checksum);
        };
        let ends = PacketEnds {
            remote: SocketAddr::new(delivery.source, header.source.get()),
            local: SocketAddr::new(delivery.destination, header.destination.get()),
            interface: delivery.origin.interface,
            label: delivery.origin.label,
        };
        let data = payload.part(HEADER_LENGTH..usize::MAX);
        let is_partial = coverage < payload.length();
        let table = &self.datagrams.udp_lite;
        let refuses = |socket: &DatagramHandle| match socket.state.lock().options.coverage_least {
            None => false,
            Some(least) => is_partial && (least == 0 || coverage < usize::from(least)),
        };
        if is_partial && table.find(&ends, || 0).is_some_and(|socket| refuses(&socket)) {
            run.events.note(family, [PacketEvent::LiteRefused4, PacketEvent::LiteRefused6]);
            return self.dropped(DropReason::Filter);
        }
        self.give(run, (delivery, &ends), &data, table);
    }
}
