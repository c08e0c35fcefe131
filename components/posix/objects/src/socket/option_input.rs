//! [`OptionInput`]: the value of an option that a program sets.
use alloc::{sync::Arc, vec::Vec};
use bpf::PacketProgram;
use vfs::Errno;

/// The value that a program gives to setsockopt(2). It is copied before locks are taken, because the copy may wait.
pub struct OptionInput {
    /// Number of bytes that the program has.
    pub length: usize,
    bytes: [u8; OptionInput::BYTES_MAX],
    /// Number of bytes that could be copied.
    readable: usize,
    /// All bytes of a value that is longer, if they could be copied.
    long: Vec<u8>,
    /// The program that the value names, or the error of reading it; see [`Socket::takes_program`](super::Socket::takes_program).
    pub program: Result<Arc<PacketProgram>, Errno>,
}

impl OptionInput {
    /// Bytes of the longest value that is read: `struct group_req`.
    const BYTES_MAX: usize = 136;
    /// Bytes of a value that is read as a whole, at most: an extension header of IPv6.
    const LONG_MAX: usize = 8 * 255;
    /// Lengths of values. Bytes beyond those that an option takes need not be there, so they are copied in these steps.
    const STEPS: [usize; 7] = [1, 4, 8, 12, 16, 20, OptionInput::BYTES_MAX];

    /// Makes a value of `length` bytes; `read(offset, out)` copies them from the program.
    ///
    /// # Errors
    /// `Refused` if memory was refused. A bad address is the error of an option that needs its bytes.
    pub fn new(
        length: usize,
        read: impl Fn(usize, &mut [u8]) -> Result<(), Errno>,
    ) -> Result<OptionInput, Errno> {
        let mut input = OptionInput {
            length,
            bytes: [0; OptionInput::BYTES_MAX],
            readable: 0,
            long: Vec::new(),
            program: Err(Errno::EINVAL),
        };
        for end in OptionInput::STEPS.map(|step| step.min(length)) {
            let Some(part) = input.bytes.get_mut(input.readable..end) else { break };
            match read(input.readable, part) {
                Ok(()) => input.readable = end,
                Err(Errno::Refused) => return Err(Errno::Refused),
                Err(_) => break,
            }
        }
        if (OptionInput::BYTES_MAX + 1..=OptionInput::LONG_MAX).contains(&length) {
            let mut long = alloc::vec![0; length];
            match read(0, &mut long) {
                Ok(()) => input.long = long,
                Err(Errno::Refused) => return Err(Errno::Refused),
                Err(_) => {}
            }
        }
        Ok(input)
    }
    /// Returns all bytes of a value of at most [`OptionInput::LONG_MAX`].
    ///
    /// # Errors
    /// `EFAULT`.
    pub(super) fn whole(&self) -> Result<&[u8], Errno> {
        if self.length <= OptionInput::BYTES_MAX { self.text(self.length) } else { self.all() }
    }
    fn all(&self) -> Result<&[u8], Errno> {
        if self.long.len() == self.length { Ok(&self.long) } else { Err(Errno::EFAULT) }
    }
    /// Returns the first `N` bytes.
    ///
    /// # Errors
    /// `EINVAL` if there are fewer, `EFAULT`.
    pub fn bytes<const N: usize>(&self) -> Result<[u8; N], Errno> {
        if self.length < N {
            return Err(Errno::EINVAL);
        }
        let found = self.bytes.first_chunk().filter(|_| N <= self.readable);
        found.copied().ok_or(Errno::EFAULT)
    }
    /// Returns the bytes of a text, at most `most`.
    ///
    /// # Errors
    /// `EFAULT`.
    pub(super) fn text(&self, most: usize) -> Result<&[u8], Errno> {
        let length = self.length.min(most);
        self.bytes.get(..length).filter(|_| length <= self.readable).ok_or(Errno::EFAULT)
    }
}
