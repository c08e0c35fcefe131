//! A writer of headers of variable length.
use zerocopy::{Immutable, IntoBytes};

/// The error of a write beyond the end of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A position in a buffer that headers are written to, one after another.
#[derive(Debug)]
pub struct HeaderWriter<'b> {
    bytes: &'b mut [u8],
    at: usize,
}

impl<'b> HeaderWriter<'b> {
    /// Starts at the front of `bytes`.
    pub fn new(bytes: &'b mut [u8]) -> HeaderWriter<'b> {
        HeaderWriter { bytes, at: 0 }
    }
    /// Appends `bytes`.
    ///
    /// # Errors
    /// [`Full`] if they do not fit. Nothing is written then.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.at.checked_add(bytes.len()).ok_or(Full)?;
        self.bytes.get_mut(self.at..end).ok_or(Full)?.copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }
    /// Appends a header.
    ///
    /// # Errors
    /// [`Full`] if it does not fit.
    pub fn put_header(&mut self, header: &(impl IntoBytes + Immutable)) -> Result<(), Full> {
        self.put(header.as_bytes())
    }
    /// Returns the number of bytes written.
    pub fn length(&self) -> usize {
        self.at
    }
    /// Returns the bytes written.
    pub fn written(&self) -> &[u8] {
        self.bytes.get(..self.at).unwrap_or_default()
    }
}
