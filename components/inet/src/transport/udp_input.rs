//! Input of UDP.
use crate::{
    base::buffer::{Buffer, BufferChain},
    ip::{
        path::Path,
        stack::{Cast, Delivery, Stack, StackRun},
        statistics::DropReason,
    },
    sockets::{
        bindings::{PacketEnds, SocketEnd},
        udp_socket::{Datagram, UdpHandle},
    },
};
use alloc::{sync::Arc, vec::Vec};
use packet::{
    Sum, protocol,
    udp::{HEADER_LENGTH, UdpHeader},
};

impl<B: Buffer> Stack<B> {
    /// Takes a datagram.
    pub(crate) fn input_udp(&self, run: &mut StackRun<'_, B>, delivery: &Delivery<'_, B>) {
        let payload = &delivery.payload;
        let Ok(header) = UdpHeader::parse(payload.head(), payload.length()) else {
            return self.dropped(DropReason::Transport);
        };
        let whole = payload.part(0..header.length());
        if !is_intact(delivery, header, || whole.sum()) {
            return self.dropped(DropReason::Checksum);
        }
        let ends = PacketEnds {
            remote: SocketEnd { address: delivery.source, port: header.source.get() },
            local: SocketEnd { address: delivery.destination, port: header.destination.get() },
            interface: delivery.origin.interface,
        };
        let receivers = self.receivers(delivery.cast, &ends);
        if receivers.is_empty() {
            self.dropped(DropReason::NoSocket);
            return self.refuse_port(run, delivery);
        }
        let Some(data) = whole.part(HEADER_LENGTH..usize::MAX).to_chain() else {
            return self.dropped(DropReason::NoMemory);
        };
        for socket in receivers {
            let datagram = received(run, delivery, &ends, data.clone());
            if socket.state.lock().queue(datagram) {
                run.surroundings.notify(socket.number);
            } else {
                self.dropped(DropReason::QueueFull);
            }
        }
    }
    fn receivers(&self, cast: Cast, ends: &PacketEnds) -> Vec<UdpHandle<B, Path>> {
        let bindings = self.udp.bindings.read();
        match cast {
            Cast::Unicast => {
                let flow = self.flow(ends);
                bindings.find(ends, flow).map(Arc::clone).into_iter().collect()
            }
            Cast::Broadcast | Cast::Multicast => bindings.find_all(ends).map(Arc::clone).collect(),
        }
    }
    /// Returns the keyed hash of a flow.
    fn flow(&self, ends: &PacketEnds) -> u64 {
        let mut bytes = [0; 36];
        let addresses = [ends.remote, ends.local].map(|end| {
            (crate::base::address::bits(end.address).to_be_bytes(), end.port.to_be_bytes())
        });
        let octets = addresses.iter().flat_map(|(bits, port)| bits.iter().chain(port));
        for (to, from) in bytes.iter_mut().zip(octets) {
            *to = *from;
        }
        self.random.hash(&bytes)
    }
}

/// Returns whether the checksum is right, or allowed to be absent.
fn is_intact<B>(delivery: &Delivery<'_, B>, header: &UdpHeader, sum: impl FnOnce() -> Sum) -> bool {
    if header.checksum.get() == 0 {
        return delivery.destination.is_ipv4();
    }
    let length = header.length() as u32;
    let ends = (delivery.source, delivery.destination);
    let mut whole = Sum::pseudo_header(ends.0, ends.1, protocol::UDP, length);
    whole.append(sum());
    whole.is_valid()
}

fn received<B: Buffer>(
    run: &StackRun<'_, B>,
    delivery: &Delivery<'_, B>,
    ends: &PacketEnds,
    payload: BufferChain<B>,
) -> Datagram<B> {
    Datagram {
        source: ends.remote,
        destination: ends.local,
        interface: delivery.origin.interface,
        hop_limit: delivery.hop_limit,
        traffic_class: delivery.traffic_class,
        received_ns: run.now_ns,
        payload,
    }
}
