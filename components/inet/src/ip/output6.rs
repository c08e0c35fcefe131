//! Output of IPv6: the header, Router Alert, cutting into fragments.
use super::{
    events::PacketEvent,
    extensions::name_fragment,
    output::{cut, too_long},
    path::{Path, SendError, SendRequest},
    stack::{Stack, StackRun},
};
use crate::base::{buffer::Buffer, packets::Departure};
use core::net::Ipv6Addr;
use interfaces::sockets::PathDiscovery;
use packet::{
    ipv4::{FragmentPlace, PACKET_MAX},
    ipv6::{self, FragmentHeader, Ipv6Fields},
    protocol,
};
use zerocopy::IntoBytes;

impl<B: Buffer> Stack<B> {
    pub(crate) fn send6(
        &self,
        run: &mut StackRun<'_, B>,
        path: &Path,
        request: &SendRequest,
        (source, destination): (Ipv6Addr, Ipv6Addr),
        mut packet: Departure<B>,
    ) -> Result<(), SendError> {
        if path.label_length > 0 {
            let (path, request) = self.label6(run, (path, request), &mut packet)?;
            return self.send6(run, &path, &request, (source, destination), packet);
        }
        let mut next_header = request.protocol;
        if request.extension.bytes > 0 {
            next_header = request.extension.first;
        }
        let fields = Ipv6Fields {
            source,
            destination,
            next_header,
            traffic_class: request.traffic_class,
            flow_label: 0,
            hop_limit: path.hop_limit,
        };
        let mtu = request.packet_max6.map_or(path.mtu, |most| most.min(path.mtu));
        if ipv6::HEADER_LENGTH + packet.length_when_cut() > mtu as usize {
            let may_cut = matches!(request.discovery, PathDiscovery::Never | PathDiscovery::Wanted);
            if !may_cut {
                return Err(SendError::TooBig(mtu));
            }
            return self.send_fragments6(run, path, (request, mtu), &fields, packet);
        }
        let header = fields.header(packet.length()).map_err(too_long)?;
        packet.headers.prepend(header.as_bytes())?;
        self.transmit(run, path, request, packet);
        Ok(())
    }
    /// Cuts a packet. The first fragment has the headers above IP, each one the extension headers that are to be repeated.
    fn send_fragments6(
        &self,
        run: &mut StackRun<'_, B>,
        path: &Path,
        (request, mtu): (&SendRequest, u32),
        fields: &Ipv6Fields,
        mut packet: Departure<B>,
    ) -> Result<(), SendError> {
        let mut front = packet.take_front(request.extension.repeated.into());
        let (outer, inner) = match name_fragment(&mut front) {
            Some(named) => (fields.next_header, named),
            None => (protocol::FRAGMENT, fields.next_header),
        };
        let total = packet.length();
        let around = ipv6::HEADER_LENGTH + front.len() + ipv6::FRAGMENT_LENGTH;
        let room = (mtu as usize).saturating_sub(around) & !7;
        if total > PACKET_MAX || room == 0 || packet.headers.as_slice().len() > room {
            return Err(SendError::TooBig(mtu));
        }
        let ends = (fields.source.into(), fields.destination.into());
        let number = self.identifications(ends, inner, 1);
        let outer = Ipv6Fields { next_header: outer, ..*fields };
        for offset in (0..total).step_by(room) {
            let end = total.min(offset + room);
            let place = FragmentPlace { offset: offset as u16, has_more: end < total };
            let mut part = cut(&packet, offset, end);
            let fragment = FragmentHeader::new(inner, place, number);
            part.headers.prepend(fragment.as_bytes())?;
            part.prepend(&front)?;
            let header = outer.header(part.length()).map_err(too_long)?;
            part.headers.prepend(header.as_bytes())?;
            self.transmit(run, path, request, part);
            run.events.add(PacketEvent::Fragment6, 1);
        }
        run.events.add(PacketEvent::Cut6, 1);
        Ok(())
    }
}
