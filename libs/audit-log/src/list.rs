//! [`RecordPiece`]: records and parts of them, in lists. Blocks have such a list, and so has the memory that the writer and its client
//! share.
//!
//! ```text
//! number 8 | type 2 | place of the piece in its record, times two, and one if another follows 2 | length 4 | text
//! ```
use alloc::vec::Vec;

/// Bytes of a piece before its text.
pub const PIECE_HEAD: usize = 16;

/// A part of a record, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPiece<'a> {
    /// Number of the record.
    pub number: u64,
    /// Type of the record.
    pub kind: u16,
    /// Place of the piece in the record; the first is 0.
    pub place: u16,
    /// It is the last piece of the record.
    pub is_last: bool,
    /// The text.
    pub text: &'a [u8],
}

impl<'a> RecordPiece<'a> {
    /// Makes a whole record.
    pub fn whole(number: u64, kind: u16, text: &'a [u8]) -> RecordPiece<'a> {
        RecordPiece { number, kind, place: 0, is_last: true, text }
    }
    /// Appends it to a list.
    pub fn put(&self, list: &mut Vec<u8>) {
        let place = self.place << 1 | u16::from(!self.is_last);
        list.extend_from_slice(&self.number.to_le_bytes());
        list.extend_from_slice(&self.kind.to_le_bytes());
        list.extend_from_slice(&place.to_le_bytes());
        list.extend_from_slice(&(self.text.len() as u32).to_le_bytes());
        list.extend_from_slice(self.text);
    }
}

/// Returns the pieces of a list, as far as they are whole.
pub fn pieces(list: &[u8]) -> impl Iterator<Item = RecordPiece<'_>> {
    let mut rest = list;
    core::iter::from_fn(move || {
        let (head, behind) = rest.split_first_chunk::<PIECE_HEAD>()?;
        let number = u64::from_le_bytes(*head.first_chunk()?);
        let kind = u16::from_le_bytes(*head.get(8..)?.first_chunk()?);
        let place = u16::from_le_bytes(*head.get(10..)?.first_chunk()?);
        let length = u32::from_le_bytes(*head.last_chunk()?) as usize;
        let (text, behind) = behind.split_at_checked(length)?;
        rest = behind;
        let (place, is_last) = (place >> 1, place & 1 == 0);
        (number < 1 << 62).then_some(RecordPiece { number, kind, place, is_last, text })
    })
}
