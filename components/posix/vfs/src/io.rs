//! Where the bytes of a read go and those of a write come from: user memory (one copy, B4) or kernel memory.
use crate::errno::Errno;
use rt::memory::Frame;

/// Takes bytes: a program's buffers (`posix::memory::UserSink`) or a kernel slice ([`SliceSink`]).
pub trait Sink {
    /// Room left, in bytes.
    fn remaining(&self) -> usize;
    /// Takes at most `data.len()` bytes; returns how many.
    ///
    /// # Errors
    /// `EFAULT` if none could be taken.
    fn put(&mut self, data: &[u8]) -> Result<usize, Errno>;
    /// Takes `length` bytes of a frame from `offset`; returns how many.
    ///
    /// # Errors
    /// As [`Sink::put`].
    fn put_frame(&mut self, frame: &Frame, offset: usize, length: usize) -> Result<usize, Errno>;
    /// Takes `length` zeroes.
    ///
    /// # Errors
    /// As [`Sink::put`].
    fn put_zeroes(&mut self, length: usize) -> Result<usize, Errno>;
}

/// Gives bytes.
pub trait Source {
    /// Bytes left.
    fn remaining(&self) -> usize;
    /// Gives at most `out.len()` bytes; returns how many.
    ///
    /// # Errors
    /// `EFAULT` if none could be given.
    fn take(&mut self, out: &mut [u8]) -> Result<usize, Errno>;
    /// Gives `length` bytes into a frame at `offset`; returns how many.
    ///
    /// # Errors
    /// As [`Source::take`].
    fn take_into_frame(&mut self, frame: &Frame, offset: usize, length: usize) -> Result<usize, Errno>;
}
