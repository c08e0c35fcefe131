//! The last step of input: a packet for sockets of datagrams goes to their queues.
use super::{
    datagram_control::{DatagramHandle, scoped},
    filter,
};
use crate::{
    base::{address::Family, buffer::Buffer, packets::Arrival, payloads},
    ip::{
        events::PacketEvent,
        extensions, options,
        stack::{Delivery, Stack, StackRun},
        statistics::DropReason,
    },
    sockets::bindings::PacketEnds,
};
use alloc::{boxed::Box, vec::Vec};
use core::net::SocketAddr;
use interfaces::sockets::{DatagramProtocol, Payload, ReceivedDatagram};
use packet::udp::UdpHeader;
use zerocopy::IntoBytes;

impl<B: Buffer> Stack<B> {
    /// Queues a packet for each of `receivers`.
    pub(crate) fn queue_for(
        &self,
        run: &StackRun<'_, B>,
        receivers: &[DatagramHandle],
        (delivery, ends): (&Delivery<'_, B>, &PacketEnds),
        payload: &Arrival<'_, B>,
    ) {
        let Some(segment) = payload.segment().map(usize::from).filter(|one| *one > 0) else {
            return self.queue_one(run, receivers, (delivery, ends), payload);
        };
        // A socket of UDP that does not take several datagrams at once gets them one by one. A raw socket gets the packet.
        let (whole, cut): (Vec<_>, Vec<_>) = receivers.iter().cloned().partition(|socket| {
            socket.protocol != DatagramProtocol::Udp || socket.queue.takes_several()
        });
        self.queue_one(run, &whole, (delivery, ends), payload);
        let (Some(chain), false) = (payload.to_chain(), cut.is_empty()) else { return };
        for start in (0..chain.length()).step_by(segment) {
            let data = chain.slice(start..start + segment);
            let (from, to) = (ends.remote.port(), ends.local.port());
            let header = UdpHeader::new(from, to, data.length());
            let header = header.as_ref().map_or(&[][..], UdpHeader::as_bytes);
            if let Some(one) = Arrival::new(header, &data, header.len()) {
                self.queue_one(run, &cut, (delivery, ends), &one.part(header.len()..usize::MAX));
            }
        }
    }
    fn queue_one(
        &self,
        run: &StackRun<'_, B>,
        receivers: &[DatagramHandle],
        (delivery, ends): (&Delivery<'_, B>, &PacketEnds),
        payload: &Arrival<'_, B>,
    ) {
        let Some((last, others)) = receivers.split_last() else { return };
        let (arrival, segment) = (payload, payload.segment());
        let Some(payload) = payloads::received(arrival) else {
            return self.dropped(DropReason::NoMemory);
        };
        let events = run.events;
        let options = options::received(delivery).map(Box::new);
        let extensions = extensions::received(delivery).map(Box::new);
        let datagram = |socket: &DatagramHandle, payload: Payload| ReceivedDatagram {
            source: scoped(ends.remote, Some(ends.interface)),
            destination: scoped(ends.local, Some(ends.interface)),
            interface: ends.interface.0,
            hop_limit: delivery.hop_limit,
            traffic_class: delivery.traffic_class,
            received_ns: run.now_ns,
            dropped: 0,
            segment: segment.filter(|_| socket.protocol == DatagramProtocol::Udp),
            header_options: options.clone(),
            extensions: extensions.clone(),
            payload,
        };
        let push = |socket: &DatagramHandle, payload: Payload| {
            let payload = match socket.queue.filter().get() {
                None => Some(payload),
                Some(program) => filter::pass(&program, socket.protocol, delivery, arrival),
            };
            let passed = payload.is_some();
            let is_queued =
                payload.is_some_and(|payload| socket.queue.push(datagram(socket, payload)));
            if !passed {
                self.dropped(DropReason::Filter);
            } else if !is_queued {
                self.dropped(DropReason::QueueFull);
            }
            if let Some([queued, full, refused]) = events_of(socket.protocol) {
                let family = Family::of(delivery.destination);
                events.note(
                    family,
                    match (passed, is_queued) {
                        (false, _) => refused,
                        (true, false) => full,
                        (true, true) => queued,
                    },
                );
            }
        };
        others.iter().for_each(|socket| push(socket, payload.clone()));
        push(last, payload);
    }
}

/// Returns the events of a datagram that was queued, that found no room, and that a filter refused, for both families.
fn events_of(protocol: DatagramProtocol) -> Option<[[PacketEvent; 2]; 3]> {
    use PacketEvent as Event;
    match protocol {
        DatagramProtocol::Udp => Some([
            [Event::UdpIn4, Event::UdpIn6],
            [Event::UdpFull4, Event::UdpFull6],
            [Event::UdpRefused4, Event::UdpRefused6],
        ]),
        DatagramProtocol::UdpLite => Some([
            [Event::LiteIn4, Event::LiteIn6],
            [Event::LiteFull4, Event::LiteFull6],
            [Event::LiteRefused4, Event::LiteRefused6],
        ]),
        _ => None,
    }
}

/// Returns the ends of a packet of a protocol without ports.
pub(crate) fn ends_of<B>(delivery: &Delivery<'_, B>) -> PacketEnds {
    PacketEnds {
        remote: SocketAddr::new(delivery.source, 0),
        local: SocketAddr::new(delivery.destination, 0),
        interface: delivery.origin.interface,
        label: delivery.origin.label,
    }
}
