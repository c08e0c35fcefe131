//! The parts that IGMPv3 (RFC 3376) and MLDv2 (RFC 3810) share: records of groups, and numbers of a short floating form.
use crate::{Full, HeaderWriter, PacketError, split};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, byteorder::network_endian::U16,
};

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// The member receives from the listed sources.
    IsInclude = 1,
    /// The member receives from all but the listed sources.
    IsExclude = 2,
    /// It changed to receive from the listed sources.
    ToInclude = 3,
    /// It changed to receive from all but the listed sources.
    ToExclude = 4,
    /// It receives from these sources, too.
    Allow = 5,
    /// It receives from these sources no longer.
    Block = 6,
}

impl RecordKind {
    /// Returns the kind of number `number`.
    pub fn of(number: u8) -> Option<RecordKind> {
        use RecordKind::{Allow, Block, IsExclude, IsInclude, ToExclude, ToInclude};
        [IsInclude, IsExclude, ToInclude, ToExclude, Allow, Block]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }
}

/// A record: a group, of addresses of `N` bytes, and sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRecord<'p, const N: usize> {
    /// The kind.
    pub kind: RecordKind,
    /// The group.
    pub group: [u8; N],
    /// The sources.
    pub sources: &'p [[u8; N]],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RecordHeader {
    kind: u8,
    auxiliary_words: u8,
    sources: U16,
}

impl<const N: usize> GroupRecord<'_, N> {
    /// Writes the record.
    ///
    /// # Errors
    /// [`Full`] if it does not fit.
    pub fn write(&self, writer: &mut HeaderWriter<'_>) -> Result<(), Full> {
        let count = u16::try_from(self.sources.len()).map_err(|_| Full)?;
        let header =
            RecordHeader { kind: self.kind as u8, auxiliary_words: 0, sources: U16::new(count) };
        writer.put_header(&header)?;
        writer.put(&self.group)?;
        writer.put(self.sources.as_flattened())
    }
}

/// An iterator over the records of a report. Records of unknown kinds are passed over. It ends behind a malformed one.
#[derive(Clone, Debug)]
pub struct GroupRecords<'p, const N: usize> {
    bytes: &'p [u8],
    left: u16,
}

impl<'p, const N: usize> GroupRecords<'p, N> {
    /// Returns the `count` records in `bytes`.
    pub(crate) fn new(count: u16, bytes: &'p [u8]) -> GroupRecords<'p, N> {
        GroupRecords { bytes, left: count }
    }
    /// Takes the record at the front; `None` inside if its kind is unknown.
    fn take(&mut self) -> Result<Option<GroupRecord<'p, N>>, PacketError> {
        let (header, rest) = split::<RecordHeader>(self.bytes)?;
        let (group, rest) = rest.split_first_chunk::<N>().ok_or(PacketError::Short)?;
        let (sources, rest) = sources(header.sources.get(), rest)?;
        let auxiliary = usize::from(header.auxiliary_words) * 4;
        self.bytes = rest.get(auxiliary..).ok_or(PacketError::Short)?;
        let kind = RecordKind::of(header.kind);
        Ok(kind.map(|kind| GroupRecord { kind, group: *group, sources }))
    }
}

impl<'p, const N: usize> Iterator for GroupRecords<'p, N> {
    type Item = Result<GroupRecord<'p, N>, PacketError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.left > 0 {
            self.left -= 1;
            match self.take() {
                Ok(None) => {}
                Ok(Some(record)) => return Some(Ok(record)),
                Err(error) => {
                    self.left = 0;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// The part of a query of IGMPv3 and MLDv2 behind the group.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct QueryTail {
    flags: u8,
    interval: u8,
    sources: U16,
}

/// Returns the sources of a query with the bytes `tail` behind its group.
///
/// # Errors
/// [`PacketError::Short`].
pub(crate) fn query_sources<const N: usize>(tail: &[u8]) -> Result<&[[u8; N]], PacketError> {
    let (tail, rest) = split::<QueryTail>(tail)?;
    sources(tail.sources.get(), rest).map(|(sources, _)| sources)
}

/// A list of addresses, and the bytes behind it.
type Sources<'p, const N: usize> = (&'p [[u8; N]], &'p [u8]);

/// Splits `count` addresses off the front of `bytes`.
fn sources<const N: usize>(count: u16, bytes: &[u8]) -> Result<Sources<'_, N>, PacketError> {
    let length = usize::from(count) * N;
    let (list, rest) = bytes.split_at_checked(length).ok_or(PacketError::Short)?;
    Ok((list.as_chunks().0, rest))
}

/// Returns the value of a code of `1 + 3 + mantissa_bits` bits: itself below the first bit's value, else a mantissa with an implied
/// one and an exponent of three bits (RFC 3376 section 4.1.1, RFC 3810 section 5.1.3).
pub fn decode_code(code: u32, mantissa_bits: u32) -> u32 {
    let limit = 1 << (mantissa_bits + 3);
    if code < limit {
        return code;
    }
    let mantissa = code & ((1 << mantissa_bits) - 1) | 1 << mantissa_bits;
    let exponent = code >> mantissa_bits & 7;
    mantissa << (exponent + 3)
}
