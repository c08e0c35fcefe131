//! The header of TCP (RFC 9293).
use crate::{PacketError, split};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    byteorder::network_endian::{U16, U32},
};

/// Bytes of a header without options.
pub const HEADER_LENGTH: usize = size_of::<TcpHeader>();
/// Bytes of options, at most.
pub const OPTIONS_MAX: usize = 40;
/// Offset of the checksum in the header.
pub const CHECKSUM_OFFSET: usize = 16;
/// Place of the flags of [`TcpFlags`] but the reserved ones.
pub const FLAGS_OFFSET: usize = 13;

bitflags::bitflags! {
    /// Flags of a segment.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct TcpFlags: u16 {
        /// No more data.
        const FIN = 0x01;
        /// The first segment of a direction.
        const SYN = 0x02;
        /// The connection is reset.
        const RST = 0x04;
        /// Data should reach the program at once.
        const PSH = 0x08;
        /// The acknowledgement is valid.
        const ACK = 0x10;
        /// The urgent pointer is valid.
        const URG = 0x20;
        /// Echo of congestion (RFC 3168).
        const ECE = 0x40;
        /// The congestion window was reduced (RFC 3168).
        const CWR = 0x80;
        /// Accurate ECN.
        const AE = 0x100;
    }
}

/// The header without options.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct TcpHeader {
    /// The sender's port.
    pub source: U16,
    /// The receiver's port.
    pub destination: U16,
    /// The number of the first byte.
    pub sequence: U32,
    /// The number of the next expected byte.
    pub acknowledgement: U32,
    offset_and_flags: U16,
    /// The window, not yet scaled.
    pub window: U16,
    /// The checksum.
    pub checksum: U16,
    /// The place of urgent data.
    pub urgent: U16,
}

/// The fields of a header that is to be built.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpFields {
    /// The sender's port.
    pub source: u16,
    /// The receiver's port.
    pub destination: u16,
    /// The number of the first byte.
    pub sequence: u32,
    /// The number of the next expected byte.
    pub acknowledgement: u32,
    /// Flags.
    pub flags: TcpFlags,
    /// The window, scaled.
    pub window: u16,
    /// The place of urgent data.
    pub urgent: u16,
}

impl TcpFields {
    /// Returns the header in front of `options` bytes of options, with an empty checksum.
    ///
    /// # Errors
    /// [`PacketError::Length`] if the options are too long or no whole words.
    pub fn header(&self, options: usize) -> Result<TcpHeader, PacketError> {
        if options > OPTIONS_MAX || !options.is_multiple_of(4) {
            return Err(PacketError::Length);
        }
        let words = ((HEADER_LENGTH + options) / 4) as u16;
        Ok(TcpHeader {
            source: U16::new(self.source),
            destination: U16::new(self.destination),
            sequence: U32::new(self.sequence),
            acknowledgement: U32::new(self.acknowledgement),
            offset_and_flags: U16::new(words << 12 | self.flags.bits()),
            window: U16::new(self.window),
            checksum: U16::ZERO,
            urgent: U16::new(self.urgent),
        })
    }
}

impl TcpHeader {
    /// Parses the first bytes of a segment. `length` is that of the payload of IP. Returns the header and the bytes of its options.
    ///
    /// # Errors
    /// [`PacketError::Short`], [`PacketError::Length`].
    pub fn parse(head: &[u8], length: usize) -> Result<(&TcpHeader, &[u8]), PacketError> {
        let (header, rest) = split::<TcpHeader>(head)?;
        let options = header.length().checked_sub(HEADER_LENGTH).ok_or(PacketError::Length)?;
        if header.length() > length {
            return Err(PacketError::Length);
        }
        Ok((header, rest.get(..options).ok_or(PacketError::Short)?))
    }
    /// Returns the flags.
    pub fn flags(&self) -> TcpFlags {
        TcpFlags::from_bits_truncate(self.offset_and_flags.get())
    }
    /// Returns the length with options, in bytes.
    pub fn length(&self) -> usize {
        usize::from(self.offset_and_flags.get() >> 12) * 4
    }
}
