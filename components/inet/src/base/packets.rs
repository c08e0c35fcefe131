//! Packets on their way: [`Arrival`], one that is received, and [`Departure`], one that is sent.
use super::{
    address::Family,
    buffer::{Buffer, BufferChain},
};
use alloc::vec::Vec;
use bpf::PacketBytes;
use core::ops::Range;
use packet::Sum;
use rt::PAGE_BYTES;

/// Bytes of headers of a sent packet, at most (as `interfaces::nic::HEADER_MAX`).
pub const HEADERS_MAX: usize = 144;
/// Bytes of the headers of IPv6, of a fragment and of Ethernet, rounded up.
const OUTER_HEADERS: usize = 64;
/// Bytes at the front of a received packet that a driver shows, at least, unless the packet is shorter.
pub const HEAD_MIN: usize = 256;

/// Headers, written from the last to the first.
#[derive(Clone, Copy)]
pub struct Headers {
    bytes: [u8; HEADERS_MAX],
    start: u8,
}

/// The error of headers that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHeadroom;

impl Headers {
    /// No headers.
    pub const fn new() -> Headers {
        Headers { bytes: [0; HEADERS_MAX], start: HEADERS_MAX as u8 }
    }
    /// Puts `header` in front.
    ///
    /// # Errors
    /// [`NoHeadroom`].
    pub fn prepend(&mut self, header: &[u8]) -> Result<(), NoHeadroom> {
        let end = usize::from(self.start);
        let start = end.checked_sub(header.len()).ok_or(NoHeadroom)?;
        self.bytes.get_mut(start..end).ok_or(NoHeadroom)?.copy_from_slice(header);
        self.start = start as u8;
        Ok(())
    }
    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(usize::from(self.start)..).unwrap_or_default()
    }
    /// Returns the family of a packet that begins with a header of IP.
    pub fn family(&self) -> Family {
        let is_version4 = self.as_slice().first().is_some_and(|byte| byte >> 4 == 4);
        if is_version4 { Family::V4 } else { Family::V6 }
    }
    /// Removes bytes at the front, at most all.
    pub fn remove_front(&mut self, count: usize) {
        self.start = usize::from(self.start).saturating_add(count).min(HEADERS_MAX) as u8;
    }
    /// Returns the bytes, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.bytes.get_mut(usize::from(self.start)..).unwrap_or_default()
    }
}

impl Default for Headers {
    fn default() -> Headers {
        Headers::new()
    }
}

impl core::fmt::Debug for Headers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:02x?}", self.as_slice())
    }
}

/// Work that is left to the interface, or to the part before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportOffload {
    /// Bytes of the transport's header: the last ones of the headers. They and the payload are to be summed.
    pub header_length: u8,
    /// Offset of the checksum in that header. It holds the sum of the pseudo header, not complemented.
    pub checksum_offset: u8,
    /// Payload bytes of each segment but the last, if the packet is to be cut.
    pub segment: Option<u16>,
}

/// A packet to be sent: the bytes of its headers, then its payload.
#[derive(Clone, Debug)]
pub struct Departure<B> {
    /// The headers.
    pub headers: Headers,
    /// The payload.
    pub payload: BufferChain<B>,
    /// The checksum and the cutting of the transport, if they are not done.
    pub offload: Option<TransportOffload>,
}

impl<B: Buffer> Departure<B> {
    /// Returns a packet of `header` and `payload`; `None` if the header is too long.
    pub fn new(header: &[u8], payload: BufferChain<B>) -> Option<Departure<B>> {
        let mut headers = Headers::new();
        headers.prepend(header).ok()?;
        Some(Departure { headers, payload, offload: None })
    }
    /// Puts `bytes` in front: beside the headers, if those of IP and of the link then have room there; otherwise they and the headers
    /// become a part of the payload, which must not be left to the interface to be summed.
    ///
    /// # Errors
    /// [`NoHeadroom`] if memory is refused.
    pub fn prepend(&mut self, bytes: &[u8]) -> Result<(), NoHeadroom> {
        if self.headers.as_slice().len() + bytes.len() <= HEADERS_MAX - OUTER_HEADERS {
            return self.headers.prepend(bytes);
        }
        let mut chain = BufferChain::default();
        for part in [bytes, self.headers.as_slice()].concat().chunks(PAGE_BYTES) {
            chain.push(B::copy_of(part).ok_or(NoHeadroom)?);
        }
        chain.append(core::mem::take(&mut self.payload));
        (self.payload, self.headers) = (chain, Headers::new());
        Ok(())
    }
    /// Removes the first `count` bytes, and returns them.
    pub fn take_front(&mut self, count: usize) -> Vec<u8> {
        let of_headers = self.headers.as_slice().len().min(count);
        let mut front = Vec::from(self.headers.as_slice().get(..of_headers).unwrap_or_default());
        self.headers.remove_front(of_headers);
        if of_headers < count {
            front.resize(count, 0);
            self.payload.read(0, front.get_mut(of_headers..).unwrap_or_default());
            self.payload = self.payload.slice(count - of_headers..usize::MAX);
        }
        front
    }
    /// Returns the number of all bytes.
    pub fn length(&self) -> usize {
        self.headers.as_slice().len().saturating_add(self.payload.length())
    }
    /// Returns the number of packets that are made of it.
    pub fn parts(&self) -> u32 {
        match self.offload.and_then(|offload| offload.segment) {
            Some(size) => self.payload.length().div_ceil(usize::from(size).max(1)) as u32,
            None => 1,
        }
    }
    /// Returns the number of all bytes of the longest packet that is made of it.
    pub fn length_when_cut(&self) -> usize {
        let segment = self.offload.and_then(|offload| offload.segment);
        let payload = segment.map_or(usize::MAX, usize::from).min(self.payload.length());
        self.headers.as_slice().len().saturating_add(payload)
    }
    /// Returns the checksum's sum of all bytes.
    pub fn sum(&self) -> Sum {
        let mut sum = Sum::of(self.headers.as_slice());
        sum.append(self.payload.sum());
        sum
    }
    /// Writes `value` at `offset` of the headers, as far as they reach.
    pub fn patch(&mut self, offset: usize, value: u16) {
        let field = self.headers.as_mut_slice().get_mut(offset..);
        for (to, from) in field.unwrap_or_default().iter_mut().zip(value.to_be_bytes()) {
            *to = from;
        }
    }
}

/// The state of the transport's checksum of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportChecksum {
    /// It has to be verified.
    Unverified,
    /// The device has verified it, or the packet never left the host.
    Verified,
    /// The sender has not written it: the packet comes from this machine, or from a guest beside it.
    Partial,
}

impl TransportChecksum {
    /// Returns whether nobody has to verify it.
    pub fn is_good(self) -> bool {
        self != TransportChecksum::Unverified
    }
}

/// A received packet, or a part of one.
///
/// `head` are its first bytes, contiguous. `body` are its bytes from `body_at` on, to its end, in shared buffers. They may overlap:
/// a card's frame holds the whole packet (`body_at` is 0), and `head` is a look at its front.
#[derive(Debug)]
pub struct Arrival<'p, B> {
    head: &'p [u8],
    body: &'p BufferChain<B>,
    body_at: usize,
    checksum: TransportChecksum,
    segment: Option<u16>,
    acks: u16,
    /// First byte of this part, and the byte behind its last.
    range: Range<usize>,
}

impl<B> Clone for Arrival<'_, B> {
    fn clone(&self) -> Self {
        Arrival { range: self.range.clone(), ..*self }
    }
}

impl<'p, B: Buffer> Arrival<'p, B> {
    /// Returns a packet. `None` if bytes between `head` and `body` are missing.
    pub fn new(head: &'p [u8], body: &'p BufferChain<B>, body_at: usize) -> Option<Arrival<'p, B>> {
        let end = body_at.checked_add(body.length())?.max(head.len());
        let checksum = TransportChecksum::Unverified;
        (body_at <= head.len()).then_some(Arrival {
            head,
            body,
            body_at,
            checksum,
            segment: None,
            acks: 0,
            range: 0..end,
        })
    }
    /// Returns the packet with another state of its transport's checksum.
    pub fn with_checksum(self, checksum: TransportChecksum) -> Arrival<'p, B> {
        Arrival { checksum, ..self }
    }
    /// Returns the packet that its sender left to be cut into `segment` bytes of payload.
    pub fn with_segment(self, segment: Option<u16>) -> Arrival<'p, B> {
        Arrival { segment, ..self }
    }
    /// Returns the packet that stands for `acks` acknowledgements before it as well.
    pub fn with_acks(self, acks: u16) -> Arrival<'p, B> {
        Arrival { acks, ..self }
    }
    /// Returns the number of acknowledgements before it that it stands for.
    pub fn acks(&self) -> u16 {
        self.acks
    }
    /// Returns the payload bytes of each packet that it stands for; `None` if it is one.
    pub fn segment(&self) -> Option<u16> {
        self.segment
    }
    /// Returns the state of the transport's checksum.
    pub fn checksum(&self) -> TransportChecksum {
        self.checksum
    }
    /// Returns the number of bytes.
    pub fn length(&self) -> usize {
        self.range.len()
    }
    /// Returns the first bytes: of most packets the headers, of a short one all.
    pub fn head(&self) -> &'p [u8] {
        let end = self.range.end.min(self.head.len());
        self.head.get(self.range.start..end).unwrap_or_default()
    }
    /// Returns all bytes, if they are contiguous.
    pub fn whole(&self) -> Option<&'p [u8]> {
        let head = self.head();
        (head.len() == self.length()).then_some(head)
    }
    /// Returns the offset of its first byte in the packet.
    pub fn start(&self) -> usize {
        self.range.start
    }
    /// Copies bytes of the packet, wherever this part begins, from `offset` on to `out`. Returns whether all of them are in the
    /// packet, before the end of this part.
    pub fn read_packet(&self, offset: usize, out: &mut [u8]) -> bool {
        let Some(end) = offset.checked_add(out.len()).filter(|end| *end <= self.range.end) else {
            return false;
        };
        match self.head.get(offset..end) {
            Some(bytes) => out.copy_from_slice(bytes),
            // The bytes before the body are in the head.
            None => {
                let of_head = self.head.get(offset..).unwrap_or_default();
                let (front, rest) = out.split_at_mut(of_head.len().min(out.len()));
                front.copy_from_slice(of_head.get(..front.len()).unwrap_or_default());
                let at = offset.saturating_add(front.len()).saturating_sub(self.body_at);
                return self.body.read(at, rest) == rest.len();
            }
        }
        true
    }
    /// Returns the part in `range`, cut to the end.
    pub fn part(&self, range: Range<usize>) -> Arrival<'p, B> {
        let at = |offset: usize| self.range.start.saturating_add(offset).min(self.range.end);
        let (start, end) = (at(range.start), at(range.end));
        Arrival { range: start..end.max(start), ..self.clone() }
    }
    /// Returns the checksum's sum of all bytes.
    pub fn sum(&self) -> Sum {
        let head = self.head();
        let mut sum = Sum::of(head);
        if head.len() < self.length() {
            let start = self.range.start.saturating_add(head.len());
            sum.append(self.body.sum_of(self.of_body(start..self.range.end)));
        }
        sum
    }
    /// Returns all bytes as a chain, and copies the first [`HEAD_MIN`] to `head`. The packet that they make is contiguous so far.
    /// `None` if memory is refused.
    pub fn gather(&self, head: &mut [u8; HEAD_MIN]) -> Option<(BufferChain<B>, usize)> {
        let chain = self.to_chain()?;
        let count = chain.read(0, head);
        Some((chain, count))
    }
    /// Returns all bytes as a chain. Those that no buffer holds are copied. `None` if memory is refused.
    pub fn to_chain(&self) -> Option<BufferChain<B>> {
        let end = self.range.end.min(self.body_at);
        let copied = self.head.get(self.range.start..end).unwrap_or_default();
        let mut chain = BufferChain::copy_of(copied)?;
        chain.append(self.body.slice(self.of_body(self.range.clone())));
        Some(chain)
    }
    fn of_body(&self, range: Range<usize>) -> Range<usize> {
        range.start.saturating_sub(self.body_at)..range.end.saturating_sub(self.body_at)
    }
}

/// The bytes of a packet in up to three parts, one after another.
pub(crate) struct PacketParts<'p, B> {
    pub(crate) headers: [&'p [u8]; 2],
    pub(crate) payload: &'p BufferChain<B>,
}

impl<B: Buffer> PacketBytes for PacketParts<'_, B> {
    fn length(&self) -> usize {
        self.headers.iter().map(|part| part.len()).sum::<usize>() + self.payload.length()
    }
    fn read(&self, offset: i64, out: &mut [u8]) -> bool {
        let Ok(mut skip) = usize::try_from(offset) else { return false };
        let mut rest = out;
        for part in self.headers {
            let from = part.get(skip..).unwrap_or_default();
            let (front, behind) = rest.split_at_mut(from.len().min(rest.len()));
            front.copy_from_slice(from.get(..front.len()).unwrap_or_default());
            skip = skip.saturating_sub(part.len());
            rest = behind;
        }
        self.payload.read(skip, rest) == rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::buffer::SharedBytes;
    use proptest::prelude::*;

    #[test]
    fn headers_are_written_from_the_last_to_the_first() {
        let mut headers = Headers::new();
        headers.prepend(&[3, 4]).unwrap();
        headers.prepend(&[1, 2]).unwrap();
        assert_eq!(headers.as_slice(), [1, 2, 3, 4]);
        assert_eq!(headers.prepend(&[0; HEADERS_MAX - 3]), Err(NoHeadroom));
        assert_eq!(headers.as_slice(), [1, 2, 3, 4]);
    }

    proptest! {
        #[test]
        fn a_part_of_a_packet_is_the_slice_of_its_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 1..60),
            head in 0usize..60, body_at in 0usize..60, start in 0usize..60, end in 0usize..60,
        ) {
            let head = head.min(bytes.len());
            let body_at = body_at.min(head);
            let body = BufferChain::<SharedBytes>::copy_of(&bytes[body_at..]).unwrap();
            let arrival = Arrival::new(&bytes[..head], &body, body_at).unwrap();
            prop_assert_eq!(arrival.length(), bytes.len());
            let (start, end) = (start.min(bytes.len()), end.min(bytes.len()));
            let part = arrival.part(start..end);
            let expected = &bytes[start..end.max(start)];
            prop_assert_eq!(part.to_chain().unwrap().to_vec(), expected);
            prop_assert_eq!(part.sum().folded(), Sum::of(expected).folded());
            prop_assert!(expected.starts_with(part.head()));
            let mut out = vec![0; expected.len()];
            prop_assert!(part.read_packet(start, &mut out));
            prop_assert_eq!(&out[..], expected);
            prop_assert!(!part.read_packet(end.max(start), &mut [0]));
        }
    }
}
