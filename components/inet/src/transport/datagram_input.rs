//! The last step of input: a packet for sockets of datagrams goes to their queues.
use super::datagram_control::{DatagramHandle, scoped};
use crate::{
    base::{address::Family, buffer::Buffer, packets::Arrival, payloads},
    ip::{
        events::PacketEvent,
        stack::{Delivery, Stack, StackRun},
        statistics::DropReason,
    },
    sockets::bindings::PacketEnds,
};
use core::net::SocketAddr;
use interfaces::sockets::{DatagramProtocol, Payload, ReceivedDatagram};

impl<B: Buffer> Stack<B> {
    /// Queues a packet for each of `receivers`.
    pub(crate) fn queue_for(
        &self,
        run: &mut StackRun<'_, B>,
        receivers: &[DatagramHandle],
        (delivery, ends): (&Delivery<'_, B>, &PacketEnds),
        payload: &Arrival<'_, B>,
    ) {
        let Some((last, others)) = receivers.split_last() else { return };
        let Some(payload) = payloads::received(payload) else {
            return self.dropped(DropReason::NoMemory);
        };
        const QUEUED: [PacketEvent; 2] = [PacketEvent::UdpIn4, PacketEvent::UdpIn6];
        const FULL: [PacketEvent; 2] = [PacketEvent::UdpFull4, PacketEvent::UdpFull6];
        let events = run.events;
        let received_ns = run.surroundings.wall_clock_ns(run.now_ns);
        let datagram = |payload: Payload| ReceivedDatagram {
            source: scoped(ends.remote, Some(ends.interface)),
            destination: scoped(ends.local, Some(ends.interface)),
            interface: ends.interface.0,
            hop_limit: delivery.hop_limit,
            traffic_class: delivery.traffic_class,
            received_ns,
            dropped: 0,
            payload,
        };
        let push = |socket: &DatagramHandle, payload: Payload| {
            let is_queued = socket.queue.push(datagram(payload));
            if !is_queued {
                self.dropped(DropReason::QueueFull);
            }
            if socket.protocol == DatagramProtocol::Udp {
                let family = Family::of(delivery.destination);
                events.note(family, if is_queued { QUEUED } else { FULL });
            }
        };
        others.iter().for_each(|socket| push(socket, payload.clone()));
        push(last, payload);
    }
}

/// Returns the ends of a packet of a protocol without ports.
pub(crate) fn ends_of<B>(delivery: &Delivery<'_, B>) -> PacketEnds {
    PacketEnds {
        remote: SocketAddr::new(delivery.source, 0),
        local: SocketAddr::new(delivery.destination, 0),
        interface: delivery.origin.interface,
    }
}
