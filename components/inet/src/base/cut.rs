//! [`cut_tcp`]: the cutting of a big packet of TCP in software, for links that do not cut (Linux: generic segmentation offload).
//!
//! The stack makes one packet of many segments, which passes TCP, IP and the neighbours once. Just above the link each part gets a
//! copy of the headers, in which these fields differ, as a device that cuts has it:
//!
//! ```text
//! IPv4  total length; identification, one more in each; checksum
//! IPv6  payload length
//! TCP   sequence number; PSH and FIN in the last part alone, CWR in the first alone; checksum
//! ```
//! The payload is not copied: parts share the buffers. Source: Linux `net/ipv4/tcp_offload.c`, for the fields.
use super::{
    buffer::{Buffer, BufferChain},
    packets::{Departure, TransportOffload},
};
use packet::{
    Sum, ipv4, ipv6,
    tcp::{self, TcpFlags},
};

/// Places in the header of IPv4. The identification is just behind the length.
const TOTAL_LENGTH: usize = 2;
const IDENTIFICATION: usize = 4;
const NETWORK_CHECKSUM: usize = 10;
/// Place in the header of IPv6.
const PAYLOAD_LENGTH: usize = 4;
/// Place in the header of TCP.
const SEQUENCE: usize = 4;

/// The state of the checksums of TCP in the parts of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartChecksum {
    /// The parts are complete.
    Written,
    /// The field holds the sum of the pseudo header, as in the packet: the device does the rest.
    LeftToDevice,
}

/// Cuts a packet, of whose headers the link has the first `link_length` bytes, and gives the headers and the payload of each part to
/// `take`, in order. Returns `None`, and gives nothing, if the headers are not those of TCP over IP or nothing is to be cut.
pub fn cut_tcp<B: Buffer>(
    packet: Departure<B>,
    link_length: usize,
    checksum: PartChecksum,
    mut take: impl FnMut(&[u8], BufferChain<B>),
) -> Option<()> {
    let Departure { mut headers, payload, offload } = packet;
    let offload = offload?;
    let size = usize::from(offload.segment.filter(|size| *size > 0)?);
    let total = payload.length();
    let mut headers = PartHeaders::new(headers.as_mut_slice(), link_length, (offload, total))?;
    let mut rest = payload.cursor();
    for at in (0..total).step_by(size) {
        let part = rest.take(size);
        headers.describe(at, part.length(), total);
        headers.finish(part.length(), (checksum == PartChecksum::Written).then(|| part.sum()));
        take(headers.bytes, part);
    }
    Some(())
}

/// The headers of a packet, which become those of one part after the other.
struct PartHeaders<'h> {
    bytes: &'h mut [u8],
    /// Places of the headers of IP and TCP.
    network: usize,
    transport: usize,
    is_version6: bool,
    /// Values of the whole packet.
    sequence: u32,
    identification: u16,
    flags: TcpFlags,
    /// Sum of the header of IPv4 but for the fields that differ.
    of_network: Sum,
    /// Sum of the pseudo header but for the length.
    pseudo: Sum,
    /// Sum of that and of the header of TCP but for the fields that differ.
    of_transport: Sum,
    /// Fields of the present part.
    part_sequence: u32,
    part_flags: u8,
}

impl<'h> PartHeaders<'h> {
    /// Looks at the headers of a packet of `payload` bytes; `None` if they are not those of TCP over IP.
    fn new(
        bytes: &'h mut [u8],
        network: usize,
        (offload, payload): (TransportOffload, usize),
    ) -> Option<PartHeaders<'h>> {
        let transport = bytes.len().checked_sub(offload.header_length.into())?;
        let is_version6 = match bytes.get(network)? >> 4 {
            4 => false,
            6 => true,
            _ => return None,
        };
        let network_min = if is_version6 { ipv6::HEADER_LENGTH } else { ipv4::HEADER_LENGTH };
        if usize::from(offload.checksum_offset) != tcp::CHECKSUM_OFFSET
            || usize::from(offload.header_length) < tcp::HEADER_LENGTH
            || transport < network + network_min
        {
            return None;
        }
        let length = u16::try_from(bytes.len() - transport + payload).ok()?;
        let mut pseudo = Sum::new();
        pseudo.add_word(u16::from_be_bytes(field(bytes, transport + tcp::CHECKSUM_OFFSET)?));
        // The complement takes the length of the whole packet away.
        pseudo.add_word(!length);
        let mut headers = PartHeaders {
            sequence: u32::from_be_bytes(field(bytes, transport + SEQUENCE)?),
            identification: u16::from_be_bytes(field(bytes, network + IDENTIFICATION)?),
            flags: TcpFlags::from_bits_truncate(
                (*bytes.get(transport + tcp::FLAGS_OFFSET)?).into(),
            ),
            bytes,
            network,
            transport,
            is_version6,
            of_network: Sum::new(),
            pseudo,
            of_transport: pseudo,
            part_sequence: 0,
            part_flags: 0,
        };
        headers.sum_alike();
        Some(headers)
    }
    /// Clears the fields that differ, and sums the rest of the headers.
    fn sum_alike(&mut self) {
        let PartHeaders { network, transport, .. } = *self;
        if !self.is_version6 {
            self.put(network + TOTAL_LENGTH, [0; 4]);
            self.put(network + NETWORK_CHECKSUM, [0; 2]);
            self.of_network = Sum::of(self.bytes.get(network..transport).unwrap_or_default());
        }
        self.put(transport + SEQUENCE, [0; 4]);
        self.put(transport + tcp::FLAGS_OFFSET, [0]);
        self.put(transport + tcp::CHECKSUM_OFFSET, [0; 2]);
        self.of_transport.add(self.bytes.get(transport..).unwrap_or_default());
    }
    /// Makes the headers those of the part of `length` bytes of payload from `at` on, of `total`, but for the checksum of TCP.
    fn describe(&mut self, at: usize, length: usize, total: usize) {
        let PartHeaders { network, transport, .. } = *self;
        let counted = (self.bytes.len() - network + length) as u16;
        if self.is_version6 {
            let length = counted.wrapping_sub(ipv6::HEADER_LENGTH as u16);
            self.put(network + PAYLOAD_LENGTH, length.to_be_bytes());
        } else {
            let number = self.identification;
            self.identification = number.wrapping_add(1);
            let mut sum = self.of_network;
            sum.add_word(counted);
            sum.add_word(number);
            let [[a, b], [c, d]] = [counted, number].map(u16::to_be_bytes);
            self.put(network + TOTAL_LENGTH, [a, b, c, d]);
            self.put(network + NETWORK_CHECKSUM, sum.checksum().to_be_bytes());
        }
        self.part_sequence = self.sequence.wrapping_add(at as u32);
        self.put(transport + SEQUENCE, self.part_sequence.to_be_bytes());
        let mut flags = self.flags;
        if at > 0 {
            flags -= TcpFlags::CWR;
        }
        if at + length < total {
            flags -= TcpFlags::FIN | TcpFlags::PSH;
        }
        self.part_flags = flags.bits() as u8;
        self.put(transport + tcp::FLAGS_OFFSET, [self.part_flags]);
    }
    /// Writes the checksum of TCP of a part of `length` bytes of payload: the whole one if their sum is given.
    fn finish(&mut self, length: usize, payload: Option<Sum>) {
        let transport = self.transport;
        let counted = (self.bytes.len() - transport + length) as u16;
        let checksum = match payload {
            Some(payload) => {
                let mut sum = self.of_transport;
                sum.add_word(counted);
                sum.add_number(self.part_sequence);
                sum.add_word(self.part_flags.into());
                sum.append(payload);
                sum.checksum()
            }
            None => {
                let mut pseudo = self.pseudo;
                pseudo.add_word(counted);
                pseudo.folded()
            }
        };
        self.put(transport + tcp::CHECKSUM_OFFSET, checksum.to_be_bytes());
    }
    fn put<const N: usize>(&mut self, at: usize, value: [u8; N]) {
        if let Some(place) = self.bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
            *place = value;
        }
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::buffer::SharedBytes;
    use packet::{
        ipv4::{Cutting, FragmentPlace, Ipv4Fields},
        ipv6::Ipv6Fields,
        protocol,
        tcp::TcpFields,
    };
    use proptest::prelude::*;
    use std::net::IpAddr;
    use zerocopy::IntoBytes;

    const LINK: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];

    /// A connection: addresses, the options of IPv4, those of TCP, and the fields of its next segment.
    #[derive(Clone, Debug)]
    struct Model {
        ends: (IpAddr, IpAddr),
        ip_options: Vec<u8>,
        options: Vec<u8>,
        fields: TcpFields,
        identification: u16,
    }

    impl Model {
        /// Returns the header of IP for `length` bytes behind it.
        fn network(&self, length: usize) -> Vec<u8> {
            match self.ends {
                (IpAddr::V4(source), IpAddr::V4(destination)) => {
                    let fields = Ipv4Fields {
                        source,
                        destination,
                        protocol: protocol::TCP,
                        traffic_class: 2,
                        ttl: 64,
                        identification: self.identification,
                        cutting: Cutting::Allowed,
                        place: FragmentPlace::default(),
                    };
                    let header = fields.header(&self.ip_options, length).unwrap();
                    [header.as_bytes(), &self.ip_options].concat()
                }
                (IpAddr::V6(source), IpAddr::V6(destination)) => {
                    let next_header = protocol::TCP;
                    let (traffic_class, flow_label, hop_limit) = (2, 7, 64);
                    let fields = Ipv6Fields {
                        source,
                        destination,
                        next_header,
                        traffic_class,
                        flow_label,
                        hop_limit,
                    };
                    fields.header(length).unwrap().as_bytes().to_vec()
                }
                _ => unreachable!(),
            }
        }
        /// Returns a frame with `payload`, by the definition of each field. Without `is_summed` the checksum is that of the pseudo
        /// header.
        fn frame(&self, payload: &[u8], is_summed: bool) -> Vec<u8> {
            let header = self.fields.header(self.options.len()).unwrap();
            let mut segment = [header.as_bytes(), &self.options, payload].concat();
            let length = segment.len() as u32;
            let mut sum = Sum::pseudo_header(self.ends.0, self.ends.1, protocol::TCP, length);
            let value = if is_summed {
                sum.add(&segment);
                sum.checksum()
            } else {
                sum.folded()
            };
            segment[16..18].copy_from_slice(&value.to_be_bytes());
            [&LINK[..], &self.network(segment.len()), &segment].concat()
        }
        /// Returns the frames of one segment after the other.
        fn frames(&self, payload: &[u8], size: usize, is_summed: bool) -> Vec<Vec<u8>> {
            let count = payload.len().div_ceil(size);
            let one = |(number, part): (usize, &[u8])| {
                let mut model = self.clone();
                let fields = &mut model.fields;
                fields.sequence = fields.sequence.wrapping_add((number * size) as u32);
                if number > 0 {
                    fields.flags -= TcpFlags::CWR;
                }
                if number + 1 < count {
                    fields.flags -= TcpFlags::FIN | TcpFlags::PSH;
                }
                model.identification = self.identification.wrapping_add(number as u16);
                model.frame(part, is_summed)
            };
            payload.chunks(size).enumerate().map(one).collect()
        }
        /// Returns the packet of all segments, in pieces of `piece` bytes.
        fn packet(&self, payload: &[u8], size: u16, piece: usize) -> Departure<SharedBytes> {
            let frame = self.frame(payload, false);
            let headers = &frame[..frame.len() - payload.len()];
            let mut chain = BufferChain::default();
            payload.chunks(piece).for_each(|part| chain.push(SharedBytes::copy_of(part).unwrap()));
            let offload = TransportOffload {
                header_length: (20 + self.options.len()) as u8,
                checksum_offset: 16,
                segment: Some(size),
            };
            let packet = Departure::new(headers, chain).unwrap();
            Departure { offload: Some(offload), ..packet }
        }
    }

    fn cut(packet: Departure<SharedBytes>, checksum: PartChecksum) -> Option<Vec<Vec<u8>>> {
        let mut frames = Vec::new();
        cut_tcp(packet, LINK.len(), checksum, |headers, payload| {
            frames.push([headers, &payload.to_vec()].concat());
        })?;
        Some(frames)
    }

    fn models() -> impl Strategy<Value = Model> {
        let ends = prop_oneof![
            any::<[[u8; 4]; 2]>().prop_map(|[a, b]| (IpAddr::from(a), IpAddr::from(b))),
            any::<[[u8; 16]; 2]>().prop_map(|[a, b]| (IpAddr::from(a), IpAddr::from(b))),
        ];
        let words = |most| {
            proptest::collection::vec(any::<[u8; 4]>(), 0..most).prop_map(|words| words.concat())
        };
        let numbers = (any::<u32>(), any::<u32>(), any::<u16>(), 0u16..0x200, any::<u16>());
        (ends, words(4), words(9), numbers).prop_map(|(ends, ip_options, options, numbers)| {
            let (sequence, acknowledgement, window, flags, identification) = numbers;
            let flags = TcpFlags::from_bits_truncate(flags);
            let (source, destination, urgent) = (80, 40_000, 0);
            let fields =
                TcpFields { source, destination, sequence, acknowledgement, flags, window, urgent };
            let ip_options = if ends.0.is_ipv4() { ip_options } else { Vec::new() };
            Model { ends, ip_options, options, fields, identification }
        })
    }

    proptest! {
        #[test]
        fn parts_are_byte_for_byte_the_segments_that_are_sent_one_by_one(
            model in models(),
            payload in proptest::collection::vec(any::<u8>(), 1..700),
            size in 1u16..200,
            piece in 1usize..300,
        ) {
            let packet = model.packet(&payload, size, piece);
            for (checksum, is_summed) in
                [(PartChecksum::Written, true), (PartChecksum::LeftToDevice, false)]
            {
                let expected = model.frames(&payload, size.into(), is_summed);
                prop_assert_eq!(packet.parts() as usize, expected.len());
                prop_assert_eq!(cut(packet.clone(), checksum), Some(expected));
            }
        }
    }

    #[test]
    fn what_is_no_packet_of_tcp_is_not_cut() {
        let fields = TcpFields { source: 1, destination: 2, ..TcpFields::default() };
        let ends = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let (ip_options, options) = (Vec::new(), Vec::new());
        let model = Model { ends, ip_options, options, fields, identification: 1 };
        let packet = model.packet(&[7; 100], 10, 50);
        let offload = packet.offload.unwrap();
        let with = |offload| Departure { offload, ..packet.clone() };
        let refused = [
            None,
            Some(TransportOffload { segment: None, ..offload }),
            Some(TransportOffload { segment: Some(0), ..offload }),
            Some(TransportOffload { checksum_offset: 6, ..offload }),
            Some(TransportOffload { header_length: 8, ..offload }),
            Some(TransportOffload { header_length: 50, ..offload }),
            Some(TransportOffload { header_length: 90, ..offload }),
        ];
        for offload in refused {
            assert_eq!(cut(with(offload), PartChecksum::Written), None, "{offload:?}");
        }
        assert_eq!(cut(with(Some(offload)), PartChecksum::Written).map(|all| all.len()), Some(10));
    }
}
