//! Output of UDP.
use super::{
    datagram_control::DatagramHandle,
    datagram_output::{Dispatch, packet_of},
    udp_direct::ToldFields,
};
use crate::{
    base::{
        address::Family,
        buffer::Buffer,
        packets::{Departure, Headers, TransportOffload},
        payloads,
    },
    ip::{
        events::PacketEvent,
        stack::{Stack, StackRun},
    },
    sockets::errors::SocketError,
    tables::interface::{InterfaceIndex, LinkOffloads},
};
use interfaces::sockets::SentDatagram;
use packet::{
    Sum, protocol,
    udp::{CHECKSUM_OFFSET, HEADER_LENGTH, UdpHeader},
};
use zerocopy::IntoBytes;

/// Datagrams that one payload is cut into, at most (`UDP_MAX_SEGMENTS`).
const SEGMENTS_MAX: usize = 64;

impl<B: Buffer> Stack<B> {
    /// Sends a datagram, or the several that a payload is cut into.
    pub(crate) fn send_udp(
        &self,
        run: &mut StackRun<'_, B>,
        socket: &DatagramHandle,
        datagram: &mut SentDatagram,
    ) -> Result<(), SocketError> {
        let dispatch = self.dispatch(run, socket, datagram)?;
        let segment = datagram.segment.map(usize::from).filter(|segment| *segment > 0);
        if let Some(segment) = segment {
            return self.send_segments(run, socket, (&dispatch, segment), datagram);
        }
        let length = HEADER_LENGTH + datagram.payload.length();
        self.admit(socket, &dispatch, length)?;
        if let Some(receiver) = self.local_receiver(run, &dispatch, length) {
            let told = ToldFields {
                hop_limit: dispatch.path.hop_limit,
                traffic_class: dispatch.request.traffic_class,
            };
            let ends = dispatch.ends();
            let payload = core::mem::take(&mut datagram.payload);
            self.hand_over(run, &receiver, (&ends, told), payload);
            return Ok(());
        }
        let packet = packet_of(&dispatch, &datagram.payload, 0)?;
        self.send_one(run, &dispatch, (packet, None))
    }
    /// Returns the socket of this host that gets a datagram of `length` bytes, if the datagram need not be a packet.
    fn local_receiver(
        &self,
        run: &StackRun<'_, B>,
        dispatch: &Dispatch,
        length: usize,
    ) -> Option<DatagramHandle> {
        let is_plain = !dispatch.has_front() && dispatch.fits(length);
        if !is_plain || !dispatch.path.is_local || !self.is_udp_unwatched(run) {
            return None;
        }
        let ends = dispatch.ends();
        let found = self.datagrams.udp.find(&ends, || self.flow(&ends));
        found.filter(|receiver| receiver.queue.filter().get().is_none())
    }
    /// Sends datagrams of `segment` bytes and the rest (`UDP_SEGMENT`).
    fn send_segments(
        &self,
        run: &mut StackRun<'_, B>,
        socket: &DatagramHandle,
        (dispatch, segment): (&Dispatch, usize),
        datagram: &SentDatagram,
    ) -> Result<(), SocketError> {
        let length = datagram.payload.length();
        let whole = usize::from(u16::MAX) - HEADER_LENGTH;
        if length > whole {
            self.report_size(socket, dispatch);
            return Err(SocketError::MessageSize);
        }
        self.admit(socket, dispatch, 0)?;
        let fits = dispatch.fits(HEADER_LENGTH + segment);
        if !fits || length > segment * SEGMENTS_MAX {
            return Err(SocketError::Invalid);
        }
        let all = payloads::sent::<B>(&datagram.payload, 0).ok_or(SocketError::NoMemory)?;
        let cut = datagram.segment.filter(|_| length > segment);
        if !dispatch.has_extensions()
            && self.interface_work(run, dispatch).contains(LinkOffloads::UDP)
        {
            let packet = Departure { headers: Headers::new(), payload: all, offload: None };
            return self.send_one(run, dispatch, (packet, cut));
        }
        // An empty payload is one datagram, too.
        for start in (0..length.max(1)).step_by(segment) {
            let payload = all.slice(start..start + segment);
            let packet = Departure { headers: Headers::new(), payload, offload: None };
            self.send_one(run, dispatch, (packet, None))?;
        }
        Ok(())
    }
    /// Returns the work that the interface of a packet does. On loopback nothing can damage a packet, and its receiver can cut it.
    fn interface_work(&self, run: &StackRun<'_, B>, dispatch: &Dispatch) -> LinkOffloads {
        match dispatch.path.interface {
            InterfaceIndex::LOOPBACK => LinkOffloads::CHECKSUM | LinkOffloads::UDP,
            index => match run.configuration.interface(index) {
                Some(interface) => interface.offloads,
                None => LinkOffloads::empty(),
            },
        }
    }
    /// Sends a packet, to be cut into `segment` bytes of payload if given.
    fn send_one(
        &self,
        run: &mut StackRun<'_, B>,
        dispatch: &Dispatch,
        (mut packet, segment): (Departure<B>, Option<u16>),
    ) -> Result<(), SocketError> {
        let Dispatch { request, port, peer_port, .. } = dispatch;
        let header = UdpHeader::new(*port, *peer_port, packet.length());
        let header = header.map_err(|_| SocketError::MessageSize)?;
        packet.headers.prepend(header.as_bytes()).map_err(|_| SocketError::NoMemory)?;
        let length = packet.length();
        let ends = dispatch.summed_ends();
        let mut sum = Sum::pseudo_header(ends.0, ends.1, protocol::UDP, length as u32);
        // The interface cannot sum what goes in fragments.
        let is_whole = segment.is_some() || dispatch.fits(length);
        // Nor does it look behind extension headers.
        let is_plain = is_whole && !dispatch.has_extensions();
        if is_plain && self.interface_work(run, dispatch).contains(LinkOffloads::CHECKSUM) {
            packet.patch(CHECKSUM_OFFSET, sum.folded());
            packet.offload = Some(TransportOffload {
                header_length: HEADER_LENGTH as u8,
                checksum_offset: CHECKSUM_OFFSET as u8,
                segment,
            });
        } else {
            sum.append(packet.sum());
            packet.patch(CHECKSUM_OFFSET, sum.checksum_of_udp());
        }
        self.send_dispatched(run, dispatch, packet)?;
        let family = Family::of(request.destination);
        run.events.note(family, [PacketEvent::UdpOut4, PacketEvent::UdpOut6]);
        Ok(())
    }
}
