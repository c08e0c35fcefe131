//! The header of TCP between the bytes of `packet` and the plain data of `tcp`.
use packet::{
    HeaderWriter,
    tcp::{HEADER_LENGTH, OPTIONS_MAX, TcpFields, TcpHeader},
    tcp_options::{self, SackBlock, SegmentStage, TcpOptions, TcpTimestamps},
};
use tcp::{FastOpenCookie, Flow, SegmentOptions, TcpFlags, TcpSegment, Timestamps};
use zerocopy::IntoBytes;

/// Bytes of a header, at most.
pub(crate) const HEADER_MAX: usize = HEADER_LENGTH + OPTIONS_MAX;

/// The mark of congestion in the header of IP (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CongestionMark {
    /// No router met congestion.
    Absent,
    /// A router met congestion.
    Experienced,
}

/// Returns a received header as plain data. `length` is that of the payload, `mark` that of the packet.
pub(crate) fn parse(
    header: &TcpHeader,
    options: &[u8],
    length: usize,
    mark: CongestionMark,
) -> TcpSegment {
    // The bits are those of the wire in both types; the ninth is accurate ECN's.
    let flags = TcpFlags::from_bits_truncate(header.flags().bits() as u8);
    let stage =
        if flags.contains(TcpFlags::SYN) { SegmentStage::Opening } else { SegmentStage::Open };
    TcpSegment {
        seq: header.sequence.get(),
        ack: header.acknowledgement.get(),
        flags,
        is_marked: mark == CongestionMark::Experienced,
        window: header.window.get(),
        urgent: header.urgent.get(),
        length: length as u32,
        merged_of: None,
        options: parse_options(options, stage),
    }
}

fn parse_options(bytes: &[u8], stage: SegmentStage) -> SegmentOptions {
    let parsed = TcpOptions::parse(bytes, stage);
    let mut options = SegmentOptions {
        timestamps: parsed
            .timestamps
            .map(|clock| Timestamps { value: clock.value, echo: clock.echo }),
        mss: parsed.segment_size,
        wscale: parsed.window_scale,
        sack_permitted: parsed.is_sack_permitted,
        fast_open: parsed.fast_open.and_then(|cookie| FastOpenCookie::new(cookie.as_slice())),
        ..SegmentOptions::default()
    };
    for block in parsed.sack.as_slice() {
        options.sack.push(block.start, block.end);
    }
    options
}

/// Writes the header of a segment, with an empty checksum. Returns its length; `None` if the options do not fit, which cannot be.
pub(crate) fn write(
    flow: &Flow,
    segment: &TcpSegment,
    out: &mut [u8; HEADER_MAX],
) -> Option<usize> {
    let (fixed, options) = out.split_at_mut(HEADER_LENGTH);
    let mut writer = HeaderWriter::new(options);
    options_of(&segment.options).write(&mut writer).ok()?;
    let length = writer.length();
    let fields = TcpFields {
        source: flow.local_port,
        destination: flow.remote_port,
        sequence: segment.seq,
        acknowledgement: segment.ack,
        flags: packet::tcp::TcpFlags::from_bits_truncate(segment.flags.bits().into()),
        window: segment.window,
        urgent: segment.urgent,
    };
    fixed.copy_from_slice(fields.header(length).ok()?.as_bytes());
    Some(HEADER_LENGTH + length)
}

fn options_of(options: &SegmentOptions) -> TcpOptions {
    let cookie = options.fast_open;
    TcpOptions {
        segment_size: options.mss,
        window_scale: options.wscale,
        is_sack_permitted: options.sack_permitted,
        timestamps: options
            .timestamps
            .map(|clock| TcpTimestamps { value: clock.value, echo: clock.echo }),
        fast_open: cookie.and_then(|cookie| tcp_options::FastOpenCookie::new(cookie.bytes())),
        sack: options.sack.iter().map(|(start, end)| SackBlock { start, end }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use labels::SecrecyId;

    #[test]
    fn a_header_survives_the_wire() {
        let mut options = SegmentOptions {
            timestamps: Some(Timestamps { value: 1, echo: 2 }),
            ..SegmentOptions::default()
        };
        options.sack.push(10, 20);
        options.sack.push(30, 40);
        let syn = SegmentOptions {
            mss: Some(1460),
            wscale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 5, echo: 0 }),
            fast_open: FastOpenCookie::new(&[1, 2, 3, 4, 5, 6, 7, 8]),
            ..SegmentOptions::default()
        };
        let flow = Flow {
            local: [0; 16],
            remote: [1; 16],
            local_port: 80,
            remote_port: 1234,
            label: SecrecyId::NONE,
        };
        for (flags, options) in [
            (TcpFlags::ACK | TcpFlags::PSH | TcpFlags::ECE, options),
            (TcpFlags::SYN | TcpFlags::CWR, syn),
        ] {
            let segment = TcpSegment {
                seq: 7,
                ack: 9,
                flags,
                window: 512,
                urgent: 3,
                length: 100,
                merged_of: None,
                options,
                is_marked: true,
            };
            let mut bytes = [0; HEADER_MAX];
            let length = write(&flow, &segment, &mut bytes).unwrap();
            assert_eq!(length as u32, HEADER_LENGTH as u32 + options.encoded_len());
            let (header, rest) = TcpHeader::parse(&bytes[..length], length + 100).unwrap();
            assert_eq!((header.source.get(), header.destination.get()), (80, 1234));
            assert_eq!(parse(header, rest, 100, CongestionMark::Experienced), segment);
        }
    }
}
