//! [`opening`]: the connection that a SYN is to open. smoltcp gives a repeated SYN to another socket that waits for callers, which
//! answers with another sequence number and later resets the connection of the first. So a peer drops repeated ones.
use smoltcp::wire::{
    EthernetFrame, EthernetProtocol, IpEndpoint, IpProtocol, Ipv4Packet, Ipv6Packet, TcpPacket,
};

/// A connection that is to be opened: the caller's end, and the port here.
pub type Opening = (IpEndpoint, u16);

/// Returns the connection that a frame is to open; `None` for other frames.
pub fn opening(frame: &[u8]) -> Option<Opening> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    let (source, protocol, segment) = match frame.ethertype() {
        EthernetProtocol::Ipv4 => {
            let packet = Ipv4Packet::new_checked(frame.payload()).ok()?;
            (packet.src_addr().into(), packet.next_header(), packet.payload())
        }
        EthernetProtocol::Ipv6 => {
            let packet = Ipv6Packet::new_checked(frame.payload()).ok()?;
            (packet.src_addr().into(), packet.next_header(), packet.payload())
        }
        _ => return None,
    };
    let segment = TcpPacket::new_checked(segment).ok().filter(|_| protocol == IpProtocol::Tcp)?;
    let is_opening = segment.syn() && !segment.ack();
    is_opening.then(|| (IpEndpoint::new(source, segment.src_port()), segment.dst_port()))
}
