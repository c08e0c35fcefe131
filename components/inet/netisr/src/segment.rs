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
    tcp::{self, TcpFlags},
};

/// Bytes of all headers, at most.
const HEAD: usize =
    ethernet::HEADER_LENGTH + ipv6::HEADER_LENGTH + tcp::HEADER_LENGTH + tcp::OPTIONS_MAX;
/// Bytes that the fields of lengths of both versions can count.
const LENGTH_MAX: usize = 0xffff;

/// Places of the header of TCP.
const TRANSPORT4: usize = ethernet::HEADER_LENGTH + ipv4::HEADER_LENGTH;
const TRANSPORT6: usize = ethernet::HEADER_LENGTH + ipv6::HEADER_LENGTH;
/// The length of the payload in the header of IPv6.
const LENGTH6: Range<usize> = 18..20;
/// Place of the checksum in the header of TCP.
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
            Version::V4 => TRANSPORT4,
            Version::V6 => TRANSPORT6,
        }
    }
}

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
    has_push: bool,
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

/// Returns the version and the length of a packet of TCP, of which `length` bytes came, from its first bytes.
#[inline(always)]
fn network_of(kind: Option<u16>, network: &[u8], length: usize) -> Result<(Version, usize), Seen> {
    match kind {
        Some(ethertype::IPV4) => match Ipv4::parse(network, length) {
            Ok(packet) if packet.header.protocol != protocol::TCP => Err(Seen::Other),
            Ok(Ipv4 { header, options: [] }) if !header.place().is_fragment() => {
                Ok((Version::V4, header.total_length()))
            }
            Ok(_) => Err(Seen::Unclear),
            Err(_) => Err(Seen::Other),
        },
        Some(ethertype::IPV6) => match Ipv6Header::parse(network, length) {
            Ok(header) => match header.next_header {
                protocol::TCP => Ok((Version::V6, header.total_length())),
                protocol::UDP | protocol::ICMPV6 => Err(Seen::Other),
                _ => Err(Seen::Unclear),
            },
            Err(_) => Err(Seen::Other),
        },
        _ => Err(Seen::Other),
    }
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
            has_push: false,
            content: Content::Other,
        }
    }
    /// Looks at the headers of the packet in `pieces`, and becomes them if it is of a flow of TCP. Of a header of IP that is alike
    /// that of `last`, which was looked at before, there is less to look at.
    pub fn look(&mut self, pieces: &[PacketSegment], last: Option<&ReceivedSegment>) -> Seen {
        let (mut count, mut length) = (0, 0usize);
        for piece in pieces {
            if count < HEAD {
                count += piece.read(0, self.head.get_mut(count..).unwrap_or_default());
            }
            length = length.saturating_add(piece.length());
        }
        let length = length.saturating_sub(ethernet::HEADER_LENGTH);
        let parsed = match last.and_then(|last| self.total_like(last, (count, length))) {
            Some(total) => self.parse::<TRANSPORT4>((Version::V4, total), count),
            None => {
                let known = self.head.get(..count).unwrap_or_default();
                let Some((link, network)) = known.split_at_checked(ethernet::HEADER_LENGTH) else {
                    return Seen::Other;
                };
                let kind = link.last_chunk().map(|kind| u16::from_be_bytes(*kind));
                match network_of(kind, network, length) {
                    Ok((Version::V4, total)) => {
                        self.parse::<TRANSPORT4>((Version::V4, total), count)
                    }
                    Ok((Version::V6, total)) => {
                        self.parse::<TRANSPORT6>((Version::V6, total), count)
                    }
                    Err(seen) => return seen,
                }
            }
        };
        match parsed {
            Some(total) => {
                if total != length && self.content == Content::Data {
                    // Bytes behind the packet are no part of it.
                    self.content = Content::Other;
                }
                Seen::Flow
            }
            None => Seen::Other,
        }
    }
    /// Returns the length by a header of IPv4 in a frame of `length` bytes behind that of Ethernet, if it is whole, right, and alike
    /// that of `last`: a packet of TCP without options that is no fragment.
    #[inline(always)]
    fn total_like(&self, last: &ReceivedSegment, (count, length): (usize, usize)) -> Option<usize> {
        let is_alike = last.version == Version::V4
            && count >= TRANSPORT4
            && self.has_same::<0, 16>(last)
            && self.has_same::<20, 24>(last)
            && self.sum_at::<{ ethernet::HEADER_LENGTH }, { ipv4::HEADER_LENGTH }>().is_valid();
        let total = self.head.get(16..18)?.first_chunk().map(|total| u16::from_be_bytes(*total))?;
        (is_alike && usize::from(total) <= length).then_some(total.into())
    }
    /// Parses the header of TCP, `AT` in the frame, of a packet of `total` bytes from the header of IP on. `count` bytes of the frame
    /// are known. Returns `total`. The place is constant, which spares most checks of bounds.
    #[inline(always)]
    fn parse<const AT: usize>(
        &mut self,
        (version, total): (Version, usize),
        count: usize,
    ) -> Option<usize> {
        let bytes = total.checked_sub(AT - ethernet::HEADER_LENGTH)?;
        let header: &[u8; tcp::HEADER_LENGTH] = self.head.get(AT..)?.first_chunk()?;
        let [_, _, _, _, s0, s1, s2, s3, a0, a1, a2, a3, offset, flags, ..] = *header;
        let of_header = usize::from(offset >> 4) * 4;
        let length = bytes.checked_sub(of_header)?;
        if of_header < tcp::HEADER_LENGTH || AT + of_header > count {
            return None;
        }
        let is_plain = offset & RESERVED == 0;
        self.content = if length > 0 {
            if is_plain && flags & !PUSH == ACK { Content::Data } else { Content::Other }
        } else {
            let options = AT + tcp::HEADER_LENGTH;
            let has_clock = of_header == tcp::HEADER_LENGTH + CLOCK_LENGTH
                && self.head.get(options..options + CLOCK.len()) == Some(&CLOCK);
            let has_known = of_header == tcp::HEADER_LENGTH || has_clock;
            if is_plain && flags == ACK && has_known {
                Content::Acknowledgement
            } else {
                Content::Other
            }
        };
        self.sequence = u32::from_be_bytes([s0, s1, s2, s3]);
        self.acknowledgement = u32::from_be_bytes([a0, a1, a2, a3]);
        self.has_push = flags & PUSH != 0;
        self.headers = AT + of_header;
        (self.version, self.length) = (version, length);
        Some(total)
    }
    fn part(&self, range: Range<usize>) -> &[u8] {
        self.head.get(range).unwrap_or_default()
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
        self.has_push
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
    /// Returns the sum of `N` bytes at `AT`.
    #[inline(always)]
    fn sum_at<const AT: usize, const N: usize>(&self) -> Sum {
        let bytes = self.head.get(AT..).and_then(|rest| rest.first_chunk::<N>());
        bytes.map_or(Sum::new(), Sum::of_array)
    }
    /// Returns the sum of the pseudo header for `length` bytes of payload.
    fn pseudo_header(&self, length: usize) -> Sum {
        let bytes = (self.headers - self.version.transport()).saturating_add(length) as u32;
        let mut sum = match self.version {
            Version::V4 => self.sum_at::<26, 8>(),
            Version::V6 => self.sum_at::<22, 32>(),
        };
        sum.add_number(bytes);
        sum.add_word(protocol::TCP.into());
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
