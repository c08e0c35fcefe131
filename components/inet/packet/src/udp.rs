//! UDP (RFC 768).
use crate::{PacketError, split};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, byteorder::network_endian::U16,
};

/// Bytes of a header.
pub const HEADER_LENGTH: usize = size_of::<UdpHeader>();
/// Offset of the checksum in the header.
pub const CHECKSUM_OFFSET: usize = 6;

/// The header.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct UdpHeader {
    /// The sender's port; zero if it expects no answer.
    pub source: U16,
    /// The receiver's port.
    pub destination: U16,
    length: U16,
    /// The checksum; zero if there is none, which IPv6 forbids.
    pub checksum: U16,
}

impl UdpHeader {
    /// Returns the header of a datagram with `payload` bytes, with an empty checksum.
    ///
    /// # Errors
    /// [`PacketError::Length`] if the datagram is too long.
    pub fn new(source: u16, destination: u16, payload: usize) -> Result<UdpHeader, PacketError> {
        let length = payload.checked_add(HEADER_LENGTH).and_then(|all| u16::try_from(all).ok());
        Ok(UdpHeader {
            source: U16::new(source),
            destination: U16::new(destination),
            length: U16::new(length.ok_or(PacketError::Length)?),
            checksum: U16::ZERO,
        })
    }
    /// Parses the first bytes of a datagram. `length` is that of the payload of IP, which may be longer than the datagram.
    ///
    /// # Errors
    /// [`PacketError::Short`], [`PacketError::Length`].
    pub fn parse(head: &[u8], length: usize) -> Result<&UdpHeader, PacketError> {
        let (header, _) = split::<UdpHeader>(head)?;
        let is_sound = (HEADER_LENGTH..=length).contains(&header.length());
        if is_sound { Ok(header) } else { Err(PacketError::Length) }
    }
    /// Returns the header of a datagram of UDP-Lite (RFC 3828) whose checksum, which is empty, covers `coverage` bytes.
    pub fn lite(source: u16, destination: u16, coverage: u16) -> UdpHeader {
        UdpHeader {
            source: U16::new(source),
            destination: U16::new(destination),
            length: U16::new(coverage),
            checksum: U16::ZERO,
        }
    }
    /// Parses the first bytes of a datagram of UDP-Lite, and its coverage: of `length` bytes all, or those from the header on.
    ///
    /// # Errors
    /// [`PacketError::Short`]; [`PacketError::Length`] for a coverage that is shorter than the header or longer than the datagram.
    pub fn parse_lite(head: &[u8], length: usize) -> Result<(&UdpHeader, usize), PacketError> {
        let (header, _) = split::<UdpHeader>(head)?;
        match header.length() {
            0 => Ok((header, length)),
            coverage if (HEADER_LENGTH..=length).contains(&coverage) => Ok((header, coverage)),
            _ => Err(PacketError::Length),
        }
    }
    /// Returns the length of header and payload, in bytes.
    pub fn length(&self) -> usize {
        self.length.get().into()
    }
}
