//! Numbers in the bytes of a block: read and written at an offset, which may lie beyond the end.

/// Reads a 16-bit word at `offset`; `None` beyond the end.
pub(crate) fn word16(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|word| u16::from_le_bytes(*word))
}

/// Reads a 32-bit word at `offset`; `None` beyond the end.
pub(crate) fn word32(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// Reads a big-endian 32-bit word at `offset`; `None` beyond the end.
pub(crate) fn big32(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

/// Copies `from` to `offset`. Does nothing if it would pass the end of `to`.
pub(crate) fn put(to: &mut [u8], offset: usize, from: &[u8]) {
    if let Some(part) = to.get_mut(offset..).and_then(|rest| rest.get_mut(..from.len())) {
        part.copy_from_slice(from);
    }
}

/// Writes a 16-bit word.
pub(crate) fn put16(to: &mut [u8], offset: usize, value: u16) {
    put(to, offset, &value.to_le_bytes());
}

/// Writes a 32-bit word.
pub(crate) fn put32(to: &mut [u8], offset: usize, value: u32) {
    put(to, offset, &value.to_le_bytes());
}

/// Writes a big-endian 32-bit word.
pub(crate) fn put_big32(to: &mut [u8], offset: usize, value: u32) {
    put(to, offset, &value.to_be_bytes());
}

/// Clears `length` bytes at `offset`, cut at the end.
pub(crate) fn clear(to: &mut [u8], offset: usize, length: usize) {
    let end = offset.saturating_add(length).min(to.len());
    if let Some(part) = to.get_mut(offset..end) {
        part.fill(0);
    }
}
