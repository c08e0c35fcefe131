//! [`ReceivedSegment`]: the headers of a received segment of TCP, as [`crate::merge`] sees them.
//!
//! ```text
//! bytes   IPv4                                   IPv6
//!  0..14  header of Ethernet                     header of Ethernet
//! 14..16  version, class                         version, class, label (14..18)
//! 16..18  total length                           payload length (18..20)
//! 18..24  identification, flags, TTL, protocol   next header, hop limit (20..22)
//! 24..26  checksum
//! 26..34  addresses                              addresses (22..54)
//! 34      header of TCP                          header of TCP (54)
//! ```
//! Sources: RFC 791, RFC 8200, RFC 9293; for the conditions, Linux `net/ipv4/tcp_offload.c` (`tcp_gro_receive`).
use core::ops::Range;
use inet::Buffer;
use interfaces::nic::PacketSegment;
use packet::{
    Sum,
    ethernet::{self, ethertype},
    ipv4::{self, Ipv4},
    ipv6::{self, Ipv6Header},
    protocol,
    tcp::{self, TcpFlags, TcpHeader},
};

/// Bytes of all headers, at most.
const HEAD: usize =
    ethernet::HEADER_LENGTH + ipv6::HEADER_LENGTH + tcp::HEADER_LENGTH + tcp::OPTIONS_MAX;
/// Bytes that the fields of lengths of both versions can count.
const LENGTH_MAX: usize = 0xffff;

/// Places in the header of TCP.
const PORTS: Range<usize> = 0..4;
const ACKNOWLEDGEMENT: Range<usize> = 8..12;
const OFFSET: usize = 12;
const WINDOW: Range<usize> = 14..16;
const CHECKSUM: Range<usize> = tcp::CHECKSUM_OFFSET..tcp::CHECKSUM_OFFSET + 2;
/// The bits beside the offset of the data.
const RESERVED: u8 = 0xf;
const PUSH: u8 = TcpFlags::PSH.bits() as u8;
const ACK: u8 = TcpFlags::ACK.bits() as u8;

/// The versions of IP, by the fields of their headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V4,
    V6,
}

impl Version {
    /// Returns the place of the header of TCP.
    fn transport(self) -> usize {
        match self {
            Version::V4 => ethernet::HEADER_LENGTH + ipv4::HEADER_LENGTH,
            Version::V6 => ethernet::HEADER_LENGTH + ipv6::HEADER_LENGTH,
        }
    }
    /// Returns the place of the addresses, just before the ports.
    fn addresses(self) -> Range<usize> {
        match self {
            Version::V4 => 26..34,
            Version::V6 => 22..54,
        }
    }
    /// Returns the places of the fields of IP, beside the addresses, that segments have alike.
    fn alike(self) -> [Range<usize>; 2] {
        match self {
            Version::V4 => [14..16, 20..24],
            Version::V6 => [14..18, 20..22],
        }
    }
}

/// The length of the payload in the header of IPv6.
const LENGTH6: Range<usize> = 18..20;

/// The headers of a segment, whose checksum is not verified.
pub struct ReceivedSegment {
    head: [u8; HEAD],
    version: Version,
    /// Bytes of all headers.
    headers: usize,
    /// Bytes of payload.
    length: usize,
    sequence: u32,
    /// Nothing about it speaks against a merge but its checksum and its neighbours.
    can_merge: bool,
}

/// The result of a look at a packet.
pub enum Seen {
    /// It is of no flow of TCP.
    Other,
    /// It may be of any flow.
    Unclear,
    /// It is of a flow of TCP.
    Flow(ReceivedSegment),
}

impl ReceivedSegment {
    /// Looks at the headers of the packet in `pieces`.
    pub fn look(pieces: &[PacketSegment]) -> Seen {
        let mut head = [0; HEAD];
        let (mut count, mut length) = (0, 0usize);
        for piece in pieces {
            count += piece.read(0, head.get_mut(count..).unwrap_or_default());
            length = length.saturating_add(piece.length());
        }
        let known = head.get(..count).unwrap_or_default();
        let Some((link, network)) = known.split_at_checked(ethernet::HEADER_LENGTH) else {
            return Seen::Other;
        };
        let length = length.saturating_sub(ethernet::HEADER_LENGTH);
        let (version, total) = match link.last_chunk().map(|kind| u16::from_be_bytes(*kind)) {
            Some(ethertype::IPV4) => match Ipv4::parse(network, length) {
                Ok(packet) if packet.header.protocol != protocol::TCP => return Seen::Other,
                Ok(Ipv4 { header, options: [] }) if !header.place().is_fragment() => {
                    (Version::V4, header.total_length())
                }
                Ok(_) => return Seen::Unclear,
                Err(_) => return Seen::Other,
            },
            Some(ethertype::IPV6) => match Ipv6Header::parse(network, length) {
                Ok(header) => match header.next_header {
                    protocol::TCP => (Version::V6, header.total_length()),
                    protocol::UDP | protocol::ICMPV6 => return Seen::Other,
                    _ => return Seen::Unclear,
                },
                Err(_) => return Seen::Other,
            },
            _ => return Seen::Other,
        };
        match ReceivedSegment::parse(&head, version, total) {
            Some(segment) => {
                // Bytes behind the packet are no part of it.
                let can_merge = segment.can_merge && total == length;
                Seen::Flow(ReceivedSegment { can_merge, ..segment })
            }
            None => Seen::Other,
        }
    }
    /// Parses the header of TCP of a packet of `total` bytes, from the header of IP on.
    fn parse(head: &[u8; HEAD], version: Version, total: usize) -> Option<ReceivedSegment> {
        let transport = version.transport();
        let bytes = total.checked_sub(transport - ethernet::HEADER_LENGTH)?;
        let (header, _) = TcpHeader::parse(head.get(transport..)?, bytes).ok()?;
        let length = bytes.checked_sub(header.length())?;
        let (flags, offset) =
            (*head.get(transport + tcp::FLAGS_OFFSET)?, *head.get(transport + OFFSET)?);
        let can_merge = length > 0 && flags & !PUSH == ACK && offset & RESERVED == 0;
        Some(ReceivedSegment {
            head: *head,
            version,
            headers: transport + header.length(),
            length,
            sequence: header.sequence.get(),
            can_merge,
        })
    }
    fn part(&self, range: Range<usize>) -> &[u8] {
        self.head.get(range).unwrap_or_default()
    }
    /// Returns a part of the header of TCP.
    fn of_transport(&self, range: Range<usize>) -> &[u8] {
        let start = self.version.transport();
        self.part(start + range.start..start + range.end)
    }
    fn put(&mut self, range: Range<usize>, value: u16) {
        if let Some(field) = self.head.get_mut(range) {
            field.copy_from_slice(&value.to_be_bytes());
        }
    }
    /// Returns all headers.
    pub fn headers(&self) -> &[u8] {
        self.part(0..self.headers)
    }
    /// Returns the number of bytes of payload.
    pub fn length(&self) -> usize {
        self.length
    }
    /// Returns the sequence number.
    pub fn sequence(&self) -> u32 {
        self.sequence
    }
    /// Returns the sequence number behind the payload.
    pub fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.length as u32)
    }
    /// Returns whether its program should see the data at once.
    pub fn has_push(&self) -> bool {
        self.of_transport(tcp::FLAGS_OFFSET..tcp::FLAGS_OFFSET + 1)
            .first()
            .is_some_and(|flags| flags & PUSH != 0)
    }
    /// Returns whether it has data, and nothing else that its receiver must see.
    pub fn can_merge(&self) -> bool {
        self.can_merge
    }
    /// Returns whether it is of the same flow.
    pub fn is_of_flow(&self, other: &ReceivedSegment) -> bool {
        let ends = self.version.addresses().start..self.version.transport() + PORTS.end;
        self.version == other.version && self.part(ends.clone()) == other.part(ends)
    }
    /// Returns whether another segment of the flow differs but in what segments of the same data differ in.
    pub fn is_like(&self, other: &ReceivedSegment) -> bool {
        let options = tcp::HEADER_LENGTH..self.headers - self.version.transport();
        self.headers == other.headers
            && self.part(0..ethernet::HEADER_LENGTH) == other.part(0..ethernet::HEADER_LENGTH)
            && self.version.alike().into_iter().all(|at| self.part(at.clone()) == other.part(at))
            && [ACKNOWLEDGEMENT, WINDOW, options]
                .into_iter()
                .all(|at| self.of_transport(at.clone()) == other.of_transport(at))
    }
    /// Returns whether a packet with its headers can have `length` bytes of payload.
    pub fn can_have(&self, length: usize) -> bool {
        (self.headers - ethernet::HEADER_LENGTH).saturating_add(length) <= LENGTH_MAX
    }
    /// Returns whether the checksum is right. `pieces` are those of the packet.
    pub fn is_intact(&self, pieces: &[PacketSegment]) -> bool {
        let mut sum = self.pseudo_header(self.length, self.headers);
        let mut skip = self.headers;
        for piece in pieces {
            let of_piece = skip.min(piece.length());
            skip -= of_piece;
            sum.append(piece.sum_of(of_piece..piece.length()));
        }
        sum.is_valid()
    }
    /// Returns the sum of the pseudo header for `length` bytes of payload, and of the header of TCP up to `end` of the packet. The
    /// addresses are just before that.
    fn pseudo_header(&self, length: usize, end: usize) -> Sum {
        let bytes = (self.headers - self.version.transport()).saturating_add(length) as u32;
        let [a, b, c, d] = bytes.to_be_bytes();
        let mut sum = Sum::of(&[a, b, c, d, 0, protocol::TCP]);
        sum.add(self.part(self.version.addresses().start..end));
        sum
    }
    /// Changes the headers to those of a packet with `length` bytes of payload, whose checksum is left to its receiver.
    pub fn describe(&mut self, length: usize) {
        let transport = self.version.transport();
        let counted = self.headers.saturating_add(length);
        match self.version {
            Version::V4 => {
                let header = self.head.get_mut(ethernet::HEADER_LENGTH..transport);
                let total = counted.saturating_sub(ethernet::HEADER_LENGTH) as u16;
                ipv4::set_total_length(header.unwrap_or_default(), total);
            }
            Version::V6 => self.put(LENGTH6, counted.saturating_sub(transport) as u16),
        }
        let sum = self.pseudo_header(length, transport).folded();
        self.put(transport + CHECKSUM.start..transport + CHECKSUM.end, sum);
    }
    /// Sets the flag of [`ReceivedSegment::has_push`].
    pub fn push(&mut self) {
        if let Some(flags) = self.head.get_mut(self.version.transport() + tcp::FLAGS_OFFSET) {
            *flags |= PUSH;
        }
    }
}
