//! Argument and environment strings: read from the caller's memory once, written to the new stack
//! once, with Linux's limits.
use alloc::vec::Vec;
use memory::AddressSpace;
use vfs::Errno;

/// Greatest length of a string, with its NUL (`MAX_ARG_STRLEN`).
const STRING_BYTES_MAX: usize = 32 * 4096;
/// The greatest number of bytes of all strings and pointers together, for any limit of the stack (three quarters of 8
/// MiB).
const TOTAL_BYTES_MAX: u64 = 6 << 20;
/// The size that is always allowed (`ARG_MAX`).
const TOTAL_BYTES_MIN: u64 = 128 << 10;
const POINTER_BYTES: u64 = 8;

/// Strings in a row, each ended by a NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    bytes: Vec<u8>,
    count: usize,
}

impl Strings {
    /// Adds a string; a NUL in it ends it.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend(string.iter().take_while(|byte| **byte != 0));
        self.bytes.push(0);
        self.count += 1;
    }
    /// Returns the number of strings.
    pub fn count(&self) -> usize {
        self.count
    }
    /// Returns the bytes of all strings, with their NULs.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// Returns the strings, without NULs.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split(|byte| *byte == 0).take(self.count)
    }
    /// Reads the strings to which the pointers from `address` on point, up to a null pointer.
    ///
    /// # Errors
    /// `EFAULT`; `E2BIG` if they are more than any program may have.
    pub fn read(memory: &AddressSpace, address: u64) -> Result<Strings, Errno> {
        let mut strings = Strings::default();
        let mut room = TOTAL_BYTES_MAX;
        if address == 0 {
            return Ok(strings);
        }
        for index in 0.. {
            let pointer: u64 = memory.read(address.wrapping_add(index * POINTER_BYTES))?;
            if pointer == 0 {
                break;
            }
            let string = memory
                .read_string(pointer, STRING_BYTES_MAX)
                .map_err(|error| if error == Errno::ENAMETOOLONG { Errno::E2BIG } else { error })?;
            let cost = string.len() as u64 + 1 + POINTER_BYTES;
            room = room.checked_sub(cost).ok_or(Errno::E2BIG)?;
            strings.push(&string);
        }
        Ok(strings)
    }
}

impl<'a> FromIterator<&'a [u8]> for Strings {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(strings: I) -> Strings {
        let mut all = Strings::default();
        strings.into_iter().for_each(|string| all.push(string));
        all
    }
}

/// Arguments and environment of a program.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// The arguments; `load` adds an empty first one if there is none.
    pub arguments: Strings,
    /// The environment.
    pub environment: Strings,
}

impl Arguments {
    /// Puts `first` in the place of the first argument.
    pub(super) fn replace_first(&mut self, first: &[Vec<u8>]) {
        let rest = self.arguments.iter().skip(1);
        self.arguments = first.iter().map(Vec::as_slice).chain(rest).collect();
    }
    /// Checks that arguments, environment and path fit on a stack.
    ///
    /// # Errors
    /// `E2BIG`.
    pub(super) fn check_limits(&self, path: &[u8], stack_limit: u64) -> Result<(), Errno> {
        let strings = self.arguments.bytes.len() + self.environment.bytes.len() + path.len() + 1;
        let pointers = (self.arguments.count.max(1) + self.environment.count) as u64;
        let total = strings as u64 + pointers * POINTER_BYTES;
        if total > total_max(stack_limit) { Err(Errno::E2BIG) } else { Ok(()) }
    }
}

fn total_max(stack_limit: u64) -> u64 {
    (stack_limit / 4).clamp(TOTAL_BYTES_MIN, TOTAL_BYTES_MAX)
}
