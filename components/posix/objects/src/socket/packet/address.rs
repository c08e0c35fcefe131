//! [`LinkAddress`]: `struct sockaddr_ll`.
use crate::socket::interface::SocketAddress;
use interfaces::nic::MacAddress;
use linux_raw_sys::net;
use vfs::Errno;

/// AF_PACKET.
pub(in crate::socket) const FAMILY: u16 = net::AF_PACKET as u16;
/// Bytes of `struct sockaddr_ll`: family 2, protocol 2, interface 4, hardware 2, kind 1, length 1, address 8.
pub(super) const ADDRESS_BYTES: usize = 20;
/// Offset of the address on the link.
pub(super) const BYTES_AT: usize = 12;

/// An address on a link, with an interface and a protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LinkAddress {
    /// Number of the interface.
    pub(super) interface: u32,
    /// EtherType.
    pub(super) protocol: u16,
    /// Type of the hardware.
    pub(super) hardware: u16,
    /// Kind of the frame (`PACKET_HOST`).
    pub(super) kind: u8,
    /// Bytes of the address.
    pub(super) length: u8,
    /// The address.
    pub(super) bytes: [u8; 8],
}

impl LinkAddress {
    /// Reads an address of a program.
    ///
    /// # Errors
    /// `EINVAL` if it is too short.
    pub(super) fn decode(address: &SocketAddress) -> Result<LinkAddress, Errno> {
        let all: &[u8; ADDRESS_BYTES] = address.bytes().first_chunk().ok_or(Errno::EINVAL)?;
        let [_, _, p0, p1, i0, i1, i2, i3, h0, h1, kind, length, bytes @ ..] = *all;
        Ok(LinkAddress {
            interface: u32::from_le_bytes([i0, i1, i2, i3]),
            protocol: u16::from_be_bytes([p0, p1]),
            hardware: u16::from_le_bytes([h0, h1]),
            kind,
            length,
            bytes,
        })
    }
    /// Sets the address on the link.
    pub(super) fn set_bytes(&mut self, bytes: &MacAddress) {
        for (to, from) in self.bytes.iter_mut().zip(bytes) {
            *to = *from;
        }
    }
    /// Returns all bytes, as in a ring.
    pub(super) fn to_bytes(self) -> [u8; ADDRESS_BYTES] {
        let mut all = [0; ADDRESS_BYTES];
        let [p0, p1] = self.protocol.to_be_bytes();
        let [f0, f1] = FAMILY.to_le_bytes();
        let [h0, h1] = self.hardware.to_le_bytes();
        let [i0, i1, i2, i3] = self.interface.to_le_bytes();
        let head = [f0, f1, p0, p1, i0, i1, i2, i3, h0, h1, self.kind, self.length];
        let octets = head.iter().chain(&self.bytes);
        all.iter_mut().zip(octets).for_each(|(to, from)| *to = *from);
        all
    }
    /// Returns the address for a program, as long as that of the sender of a frame.
    pub(super) fn encode(self) -> SocketAddress {
        SocketAddress::of_parts(&[&self.to_bytes()])
    }
    /// Returns the address for a program without the bytes that the link's address does not have, as getsockname(2) tells it.
    pub(super) fn encode_cut(self) -> SocketAddress {
        let all = self.to_bytes();
        let length = BYTES_AT + usize::from(self.length);
        SocketAddress::of_parts(&[all.get(..length).unwrap_or(&all)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interfaces::sockets::hardware;

    #[test]
    fn an_address_survives_the_format_of_programs() {
        let mut address = LinkAddress {
            interface: 0x0102_0304,
            protocol: 0x0800,
            hardware: hardware::ETHERNET,
            kind: 4,
            length: 6,
            ..LinkAddress::default()
        };
        address.set_bytes(&[1, 2, 3, 4, 5, 6]);
        let encoded = address.encode();
        assert_eq!(encoded.bytes()[..4], [17, 0, 8, 0]);
        assert_eq!(LinkAddress::decode(&encoded), Ok(address));
        assert_eq!(address.encode_cut().bytes().len(), 18);
        assert_eq!(LinkAddress::decode(&address.encode_cut()), Err(Errno::EINVAL));
    }
}
