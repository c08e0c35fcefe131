//! Reading of messages and attributes that a program wrote.
use super::writer::ATTRIBUTE_BYTES;
use crate::{NetErrno, base::address};
use core::net::IpAddr;

/// A message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetlinkMessage<'b> {
    /// Type.
    pub(crate) kind: u16,
    /// `NLM_F_*`.
    pub(crate) flags: u16,
    /// Number of the request.
    pub(crate) sequence: u32,
    /// The body.
    pub(crate) body: &'b [u8],
    /// The message with its header.
    pub(crate) whole: &'b [u8],
}

/// The messages of a datagram. As in Linux, a message with an impossible length ends it in silence.
pub(crate) struct NetlinkMessages<'b>(pub(crate) &'b [u8]);

impl<'b> Iterator for NetlinkMessages<'b> {
    type Item = NetlinkMessage<'b>;
    fn next(&mut self) -> Option<NetlinkMessage<'b>> {
        let fields = Fields(self.0);
        let length = fields.u32(0)? as usize;
        let whole = self.0.get(..length)?;
        let body = whole.get(super::HEADER_BYTES..)?;
        let next = length.checked_next_multiple_of(4)?;
        let (kind, flags, sequence) = (fields.u16(4)?, fields.u16(6)?, fields.u32(8)?);
        self.0 = self.0.get(next..).unwrap_or_default();
        Some(NetlinkMessage { kind, flags, sequence, body, whole })
    }
}

/// A structure in bytes: numbers in the order of the machine, by their offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'b>(pub(crate) &'b [u8]);

impl<'b> Fields<'b> {
    /// Returns `N` bytes from `at` on.
    pub(crate) fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }
    /// Returns the byte at `at`.
    pub(crate) fn u8(self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }
    /// Returns the number of two bytes at `at`.
    pub(crate) fn u16(self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }
    /// Returns the number of four bytes at `at`.
    pub(crate) fn u32(self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }
    /// Returns the number of two bytes at `at`, in the order of the network.
    pub(crate) fn be16(self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_be_bytes)
    }
    /// Returns `length` bytes from `at` on.
    pub(crate) fn bytes(self, at: usize, length: usize) -> Option<&'b [u8]> {
        self.0.get(at..)?.get(..length)
    }
}

/// Attributes one after the other. An attribute with an impossible length ends them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'b>(&'b [u8]);

/// Bits of an attribute's type that are no part of its number: `NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`.
const TYPE_FLAGS: u16 = 0xc000;

impl<'b> Attributes<'b> {
    /// Returns the attributes behind a fixed head of `head` bytes, padded.
    pub(crate) fn after(body: &'b [u8], head: usize) -> Attributes<'b> {
        Attributes(body.get(head.next_multiple_of(4)..).unwrap_or_default())
    }
    /// Returns the attributes in the value of another.
    pub(crate) fn within(value: &'b [u8]) -> Attributes<'b> {
        Attributes(value)
    }
    /// Returns the value of the last attribute of a number, as Linux does if there are several.
    pub(crate) fn find(self, number: u16) -> Option<&'b [u8]> {
        self.filter(|(kind, _)| *kind == number).last().map(|(_, value)| value)
    }
    /// Returns the attributes in the value of another.
    pub(crate) fn nested(self, number: u16) -> Option<Attributes<'b>> {
        self.find(number).map(Attributes)
    }
    /// Returns the value of a byte.
    pub(crate) fn u8(self, number: u16) -> Option<u8> {
        Fields(self.find(number)?).u8(0)
    }
    /// Returns the value of a number of four bytes.
    pub(crate) fn u32(self, number: u16) -> Option<u32> {
        Fields(self.find(number)?).u32(0)
    }
    /// Returns the value of an address of a family, `None` without such an attribute.
    ///
    /// # Errors
    /// `EINVAL` for one that is too short.
    pub(crate) fn address(self, number: u16, family: u8) -> Result<Option<IpAddr>, NetErrno> {
        let read = |bytes| address(family, bytes).ok_or(NetErrno::EINVAL);
        self.find(number).map(read).transpose()
    }
    /// Returns the value of an address of Ethernet, `None` without such an attribute.
    ///
    /// # Errors
    /// `EINVAL` for one that is too short.
    pub(crate) fn mac(self, number: u16) -> Result<Option<[u8; 6]>, NetErrno> {
        let read = |bytes| Fields(bytes).array(0).ok_or(NetErrno::EINVAL);
        self.find(number).map(read).transpose()
    }
    /// Returns the value of a text.
    pub(crate) fn text(self, number: u16) -> Option<&'b str> {
        crate::base::text(self.find(number)?)
    }
}

impl<'b> Iterator for Attributes<'b> {
    type Item = (u16, &'b [u8]);
    fn next(&mut self) -> Option<(u16, &'b [u8])> {
        let fields = Fields(self.0);
        let length = usize::from(fields.u16(0)?);
        let kind = fields.u16(2)? & !TYPE_FLAGS;
        let value = self.0.get(..length)?.get(ATTRIBUTE_BYTES..)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}
