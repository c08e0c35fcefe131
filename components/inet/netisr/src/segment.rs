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
const OFFSET: usize = 12;
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
}

/// The length of the payload in the header of IPv6.
const LENGTH6: Range<usize> = 18..20;

/// Options that are a timestamp alone begin so (RFC 7323, appendix A), and are so many bytes.
const CLOCK: [u8; 4] = [1, 1, 8, 10];
const CLOCK_LENGTH: usize = 12;
/// Place of the sender's own timestamp in these options.
const CLOCK_VALUE: usize = 4;

/// The joining that a segment allows, but for its checksum and its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// It has data, and nothing else that its receiver must see.
    Data,
    /// It acknowledges, and does nothing else.
    Acknowledgement,
    /// It must stay alone.
    Other,
}

/// The headers of a segment, whose checksum is not verified.
#[derive(Clone)]
pub struct ReceivedSegment {
    /// Bytes behind `headers` are those of other packets.
    head: [u8; HEAD],
    version: Version,
    /// Bytes of all headers.
    headers: usize,
    /// Bytes of payload.
    length: usize,
    sequence: u32,
    acknowledgement: u32,
    content: Content,
}

/// The result of a look at a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is of no flow of TCP.
    Other,
    /// It may be of any flow.
    Unclear,
    /// It is of a flow of TCP.
    Flow,
}

impl ReceivedSegment {
    /// Returns one that is to look at packets.
    pub const fn new() -> ReceivedSegment {
        ReceivedSegment {
            head: [0; HEAD],
            version: Version::V4,
            headers: 0,
            length: 0,
            sequence: 0,
            acknowledgement: 0,
            content: Content::Other,
        }
    }
    /// Looks at the headers of the packet in `pieces`, and becomes them if it is of a flow of TCP.
    pub fn look(&mut self, pieces: &[PacketSegment]) -> Seen {
        let (mut count, mut length) = (0, 0usize);
        for piece in pieces {
            if count < HEAD {
                count += piece.read(0, self.head.get_mut(count..).unwrap_or_default());
            }
            length = length.saturating_add(piece.length());
        }
        let known = self.head.get(..count).unwrap_or_default();
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
        match self.parse(version, count, total) {
            Some(()) => {
                if total != length && self.content == Content::Data {
                    // Bytes behind the packet are no part of it.
                    self.content = Content::Other;
                }
                Seen::Flow
            }
            None => Seen::Other,
        }
    }
    /// Parses the header of TCP of a packet of `total` bytes from the header of IP on, of which `count` are known.
    fn parse(&mut self, version: Version, count: usize, total: usize) -> Option<()> {
        let transport = version.transport();
        let bytes = total.checked_sub(transport - ethernet::HEADER_LENGTH)?;
        let known = self.head.get(transport..count)?;
        let (header, options) = TcpHeader::parse(known, bytes).ok()?;
        let length = bytes.checked_sub(header.length())?;
        let (flags, offset) = (*known.get(tcp::FLAGS_OFFSET)?, *known.get(OFFSET)?);
        let is_plain = offset & RESERVED == 0;
        let is_timed = options.len() == CLOCK_LENGTH && options.starts_with(&CLOCK);
        self.content = match length {
            0 if is_plain && flags == ACK && (options.is_empty() || is_timed) => {
                Content::Acknowledgement
            }
            1.. if is_plain && flags & !PUSH == ACK => Content::Data,
            _ => Content::Other,
        };
        self.sequence = header.sequence.get();
        self.acknowledgement = header.acknowledgement.get();
        self.headers = transport + header.length();
        (self.version, self.length) = (version, length);
        Some(())
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
        self.content == Content::Data
    }
    /// Returns whether it acknowledges, and does nothing else.
    pub fn is_acknowledgement(&self) -> bool {
        self.content == Content::Acknowledgement
    }
    /// Returns whether two segments have the same bytes from `FROM` to `TO`, which is quick because these are constant.
    #[inline(always)]
    fn has_same<const FROM: usize, const TO: usize>(&self, other: &ReceivedSegment) -> bool {
        self.head.get(FROM..TO) == other.head.get(FROM..TO)
    }
    /// Returns whether it is of the same flow.
    #[inline]
    pub fn is_of_flow(&self, other: &ReceivedSegment) -> bool {
        self.version == other.version
            && match self.version {
                Version::V4 => self.has_same::<26, 38>(other),
                Version::V6 => self.has_same::<22, 58>(other),
            }
    }
    /// Returns whether the headers of Ethernet and IP of another segment of the flow are those of the same data.
    #[inline]
    fn is_sent_like(&self, other: &ReceivedSegment) -> bool {
        self.headers == other.headers
            && match self.version {
                Version::V4 => self.has_same::<0, 16>(other) && self.has_same::<20, 24>(other),
                Version::V6 => self.has_same::<0, 18>(other) && self.has_same::<20, 22>(other),
            }
    }
    /// Returns whether another segment of the flow differs but in what segments of the same data differ in.
    #[inline]
    pub fn is_like(&self, other: &ReceivedSegment) -> bool {
        let options = self.version.transport() + tcp::HEADER_LENGTH..self.headers;
        let has_same_window = match self.version {
            Version::V4 => self.has_same::<48, 50>(other),
            Version::V6 => self.has_same::<68, 70>(other),
        };
        self.is_sent_like(other)
            && has_same_window
            && self.acknowledgement == other.acknowledgement
            && (options.is_empty() || self.part(options.clone()) == other.part(options))
    }
    /// Returns whether it acknowledges more than `earlier`, an acknowledgement of the flow, and does so as the earlier one did.
    pub fn acknowledges_more(&self, earlier: &ReceivedSegment) -> bool {
        let advance = self.acknowledgement.wrapping_sub(earlier.acknowledgement) as i32;
        self.is_acknowledgement()
            && earlier.is_acknowledgement()
            && self.is_sent_like(earlier)
            && self.sequence == earlier.sequence
            && advance > 0
            && self.clock().wrapping_sub(earlier.clock()) as i32 >= 0
    }
    /// Returns the sender's timestamp of an acknowledgement, zero if it has none.
    fn clock(&self) -> u32 {
        let start = self.version.transport() + tcp::HEADER_LENGTH + CLOCK_VALUE;
        let value = self.part(start..self.headers).first_chunk();
        value.map_or(0, |value| u32::from_be_bytes(*value))
    }
    /// Returns whether a packet with its headers can have `length` bytes of payload.
    pub fn can_have(&self, length: usize) -> bool {
        (self.headers - ethernet::HEADER_LENGTH).saturating_add(length) <= LENGTH_MAX
    }
    /// Returns whether the checksum is right. `pieces` are those of the packet.
    pub fn is_intact(&self, pieces: &[PacketSegment]) -> bool {
        let transport = self.version.transport();
        let mut sum = self.pseudo_header(self.length);
        if self.length == 0 {
            sum.add(self.part(transport..self.headers));
            return sum.is_valid();
        }
        let mut skip = transport;
        for piece in pieces {
            let of_piece = skip.min(piece.length());
            skip -= of_piece;
            sum.append(piece.sum_of(of_piece..piece.length()));
        }
        sum.is_valid()
    }
    /// Returns the sum of the pseudo header for `length` bytes of payload.
    fn pseudo_header(&self, length: usize) -> Sum {
        let bytes = (self.headers - self.version.transport()).saturating_add(length) as u32;
        let addresses = match self.version {
            Version::V4 => self.head.get(26..34),
            Version::V6 => self.head.get(22..54),
        };
        let (words, _) = addresses.unwrap_or_default().as_chunks();
        let words = words.iter().map(|word| u128::from(u64::from_ne_bytes(*word)));
        let numbers = u64::from(bytes.to_be()) + u64::from(u16::from(protocol::TCP).to_be());
        Sum::of_words(words.sum::<u128>() + u128::from(numbers), 0, 0)
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
        let sum = self.pseudo_header(length).folded();
        self.put(transport + CHECKSUM.start..transport + CHECKSUM.end, sum);
    }
    /// Sets the flag of [`ReceivedSegment::has_push`].
    pub fn push(&mut self) {
        if let Some(flags) = self.head.get_mut(self.version.transport() + tcp::FLAGS_OFFSET) {
            *flags |= PUSH;
        }
    }
}
