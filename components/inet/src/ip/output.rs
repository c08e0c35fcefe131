//! Output: the header of IP, cutting into fragments, the next hop.
use super::{
    events::{EventRow, IcmpWay, PacketEvent},
    path::{Path, SendError, SendRequest},
    stack::{Cast, PacketOrigin, Stack, StackRun},
    statistics::DropReason,
};
use crate::{
    base::{
        address::Family,
        buffer::Buffer,
        packets::{Departure, Headers, NoHeadroom},
    },
    tables::{
        configuration::resolves,
        interface::{Interface, InterfaceIndex},
        neighbours::{NeighbourTimes, Resolution},
    },
};
use core::net::{IpAddr, Ipv4Addr};
use interfaces::sockets::{Ipv4OptionList, PathDiscovery};
use packet::{
    MacAddress, PacketError,
    ethernet::{self, EthernetHeader},
    ipv4::{self, Cutting, FragmentPlace, Ipv4Fields},
    ipv6, protocol,
};
use zerocopy::IntoBytes;

const NS_PER_MS: u64 = 1_000_000;

impl From<NoHeadroom> for SendError {
    fn from(_: NoHeadroom) -> SendError {
        SendError::NoMemory
    }
}

/// The error for a packet that no header can describe.
pub(crate) fn too_long(_: PacketError) -> SendError {
    SendError::TooBig(ipv4::PACKET_MAX as u32)
}

/// Returns the times of an interface for its neighbours.
pub fn neighbour_times(interface: &Interface) -> NeighbourTimes {
    NeighbourTimes {
        reachable_ns: u64::from(interface.ipv6.reachable_ms) * NS_PER_MS,
        retransmit_ns: u64::from(interface.ipv6.retransmit_ms) * NS_PER_MS,
    }
}

impl<B: Buffer> Stack<B> {
    /// Sends a packet whose headers above IP are written. Returns its path.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send(
        &self,
        run: &mut StackRun<'_, B>,
        request: &SendRequest,
        packet: Departure<B>,
    ) -> Result<Path, SendError> {
        let path = self.path(run, request)?;
        self.send_on(run, &path, request, packet)?;
        Ok(path)
    }
    /// Sends a packet on a path that [`Stack::path`] gave for `request`.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send_on(
        &self,
        run: &mut StackRun<'_, B>,
        path: &Path,
        request: &SendRequest,
        packet: Departure<B>,
    ) -> Result<(), SendError> {
        let length = packet.length();
        if matches!(request.protocol, protocol::ICMP | protocol::ICMPV6) {
            count_icmp(run, request, &packet);
        }
        match (path.source, request.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.send4(run, path, request, (source, destination), packet)?;
                count_sent(run.events, (Family::V4, path.cast), ipv4::HEADER_LENGTH + length);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                self.send6(run, path, request, (source, destination), packet)?;
                count_sent(run.events, (Family::V6, path.cast), ipv6::HEADER_LENGTH + length);
            }
            _ => return Err(SendError::NoSource),
        }
        Ok(())
    }
    fn send4(
        &self,
        run: &mut StackRun<'_, B>,
        path: &Path,
        request: &SendRequest,
        (source, destination): (Ipv4Addr, Ipv4Addr),
        mut packet: Departure<B>,
    ) -> Result<(), SendError> {
        if path.label_length > 0 {
            let (path, request) = self.label4(run, (path, request), &mut packet)?;
            return self.send4(run, &path, &request, (source, destination), packet);
        }
        let length = ipv4::HEADER_LENGTH + packet.length_when_cut();
        let fits = length <= path.mtu as usize;
        let cutting = match (request.discovery, fits) {
            (PathDiscovery::Required | PathDiscovery::Probe, _) | (PathDiscovery::Wanted, true) => {
                Cutting::Forbidden
            }
            _ => Cutting::Allowed,
        };
        // A packet that nobody may cut needs no number (RFC 6864).
        let number = match cutting {
            Cutting::Forbidden => 0,
            Cutting::Allowed => {
                let ends = (source.into(), destination.into());
                self.identifications(ends, request.protocol, packet.parts())
            }
        };
        let fields = Ipv4Fields {
            source,
            destination,
            protocol: request.protocol,
            traffic_class: request.traffic_class,
            ttl: path.hop_limit,
            identification: number as u16,
            cutting,
            place: FragmentPlace::default(),
        };
        if !fits {
            return match fields.cutting {
                Cutting::Forbidden => Err(SendError::TooBig(path.mtu)),
                Cutting::Allowed => self.send_fragments4(run, path, request, &fields, packet),
            };
        }
        let options = usize::from(request.extension.bytes);
        let payload = packet.length().saturating_sub(options);
        let options = packet.headers.as_slice().get(..options).unwrap_or_default();
        let header = fields.header(options, payload).map_err(too_long)?;
        packet.headers.prepend(header.as_bytes())?;
        self.transmit(run, path, request, packet);
        Ok(())
    }
    /// Cuts a packet. The first fragment has all options and the headers above IP.
    fn send_fragments4(
        &self,
        run: &mut StackRun<'_, B>,
        path: &Path,
        request: &SendRequest,
        fields: &Ipv4Fields,
        mut packet: Departure<B>,
    ) -> Result<(), SendError> {
        let mut options = take_options(&mut packet, request);
        let total = packet.length();
        if total + ipv4::HEADER_LENGTH + options.length() > ipv4::PACKET_MAX {
            return Err(SendError::TooBig(ipv4::PACKET_MAX as u32));
        }
        let room = (path.mtu as usize).saturating_sub(ipv4::HEADER_LENGTH + options.length()) & !7;
        if room == 0 || packet.headers.as_slice().len() > room {
            return Err(SendError::TooBig(path.mtu));
        }
        for offset in (0..total).step_by(room) {
            let end = total.min(offset + room);
            let place = FragmentPlace { offset: offset as u16, has_more: end < total };
            let mut part = cut(&packet, offset, end);
            let fields = Ipv4Fields { place, ..*fields };
            let header = fields.header(options.as_slice(), end - offset).map_err(too_long)?;
            part.headers.prepend(options.as_slice())?;
            part.headers.prepend(header.as_bytes())?;
            self.transmit(run, path, request, part);
            run.events.add(PacketEvent::Fragment4, 1);
            options = options.of_later_fragments();
        }
        run.events.add(PacketEvent::Cut4, 1);
        Ok(())
    }
    /// Sends a packet with its header of IP: to this host, to a group or to the next hop.
    pub(crate) fn transmit(
        &self,
        run: &mut StackRun<'_, B>,
        path: &Path,
        request: &SendRequest,
        packet: Departure<B>,
    ) {
        let configuration = run.configuration;
        let Some(interface) = configuration.interface(path.interface) else {
            return self.dropped(DropReason::InterfaceDown);
        };
        let origin = PacketOrigin {
            interface: interface.index,
            cast: path.cast,
            is_looped: true,
            label: request.label,
        };
        if path.is_local || interface.is_loopback() {
            run.events.add(PacketEvent::LoopPackets, 1);
            run.events.add(PacketEvent::LoopOctets, packet.length() as u64);
            run.looped.push_back((origin, packet));
            return;
        }
        let mac = match (path.cast, path.next_hop) {
            // Without addresses on the link, or without questions for them, there is nobody else to send to.
            (Cast::Unicast, _) if !resolves(interface) => {
                return self.send_frame(run, interface, interface.mac, packet);
            }
            (Cast::Unicast, next_hop) => {
                return self.send_to_neighbour(run, interface, next_hop, packet);
            }
            (Cast::Broadcast, _) => ethernet::BROADCAST,
            (Cast::Multicast, group) => ethernet::of_group(group),
        };
        if request.is_looped {
            run.looped.push_back((origin, packet.clone()));
        }
        self.send_frame(run, interface, mac, packet);
    }
    fn send_to_neighbour(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        next_hop: IpAddr,
        packet: Departure<B>,
    ) {
        let key = (interface.index, next_hop);
        let times = neighbour_times(interface);
        let resolution = self.neighbours.lock().resolve(key, packet, times, run.now_ns);
        match resolution {
            Resolution::Known(mac, packet) => self.send_frame(run, interface, mac, packet),
            Resolution::Solicit => self.solicit(run, key, None),
            Resolution::Waiting => {}
            Resolution::Full => self.dropped(DropReason::NoNeighbour),
        }
    }
    /// Sends a packet of IP to a station of the link.
    pub(crate) fn send_frame(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        mac: MacAddress,
        packet: Departure<B>,
    ) {
        let kind = packet.headers.family().ethertype();
        self.send_link(run, interface, (mac, kind), packet);
    }
    /// Puts the header of the link in front, if it has one, and gives the packet away.
    pub(crate) fn send_link(
        &self,
        run: &mut StackRun<'_, B>,
        interface: &Interface,
        (mac, kind): (MacAddress, u16),
        mut packet: Departure<B>,
    ) {
        if !interface.is_up() {
            return self.dropped(DropReason::InterfaceDown);
        }
        if interface.is_headerless() {
            return run.surroundings.transmit(interface.index, packet);
        }
        let header = EthernetHeader::new(mac, interface.mac, kind);
        match packet.headers.prepend(header.as_bytes()) {
            Ok(()) => run.surroundings.transmit(interface.index, packet),
            Err(NoHeadroom) => self.dropped(DropReason::NoMemory),
        }
    }
    /// Returns the interface of number `index`, if it is up.
    pub(crate) fn up<'r>(
        &self,
        run: &StackRun<'r, B>,
        index: InterfaceIndex,
    ) -> Option<&'r Interface> {
        run.configuration.interface(index).filter(|one| one.is_up())
    }
}

/// Counts a packet that was given to the link, of `length` bytes.
fn count_sent(events: &EventRow, (family, cast): (Family, Cast), length: usize) {
    let bytes = length as u64;
    let (packets, octets) = match family {
        Family::V4 => (PacketEvent::Out4, PacketEvent::OutOctets4),
        Family::V6 => (PacketEvent::Out6, PacketEvent::OutOctets6),
    };
    events.add(packets, 1);
    events.add(octets, bytes);
    let (packets, octets) = match (cast, family) {
        (Cast::Unicast, _) => return,
        (Cast::Broadcast, _) => (PacketEvent::OutBroadcast, PacketEvent::OutBroadcastOctets),
        (Cast::Multicast, Family::V4) => (PacketEvent::OutGroup4, PacketEvent::OutGroupOctets4),
        (Cast::Multicast, Family::V6) => (PacketEvent::OutGroup6, PacketEvent::OutGroupOctets6),
    };
    events.add(packets, 1);
    events.add(octets, bytes);
}

/// Counts a message of ICMP that is sent. Its type is its first byte.
fn count_icmp<B: Buffer>(run: &StackRun<'_, B>, request: &SendRequest, packet: &Departure<B>) {
    let mut kind = [0];
    let (headers, at) = (packet.headers.as_slice(), usize::from(request.extension.bytes));
    match headers.get(at) {
        Some(first) => kind = [*first],
        None => {
            packet.payload.read(at.saturating_sub(headers.len()), &mut kind);
        }
    }
    let [kind] = kind;
    run.events.icmp(Family::of(request.destination), IcmpWay::Out, kind);
}

/// Removes the options of IPv4 that a packet begins with, and returns them.
fn take_options<B>(packet: &mut Departure<B>, request: &SendRequest) -> Ipv4OptionList {
    let count = usize::from(request.extension.bytes);
    let options = packet.headers.as_slice().get(..count).and_then(Ipv4OptionList::padded);
    packet.headers.remove_front(count);
    options.unwrap_or_default()
}

/// Returns the bytes of a packet from `start` to `end`. Headers are only in a part that begins at zero, and whole there.
pub(crate) fn cut<B: Buffer>(packet: &Departure<B>, start: usize, end: usize) -> Departure<B> {
    let of_headers = packet.headers.as_slice().len();
    let headers = if start == 0 { packet.headers } else { Headers::new() };
    let payload = start.saturating_sub(of_headers)..end.saturating_sub(of_headers);
    Departure { headers, payload: packet.payload.slice(payload), offload: None }
}
