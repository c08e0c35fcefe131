//! The personality's own access to user memory: bytes, values, strings, with faults handled.
//!
//! Any address is allowed: access to one that is not the program's fails with `EFAULT`. Nothing here panics.
use super::{fault::FaultError, space::AddressSpace};
use alloc::vec::Vec;
use core::ops::Deref;
use rt::{
    PAGE_BYTES,
    memory::Charge,
    user::{Access, Fault},
};
use vfs::{Errno, Principal};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Number of faults handled at one address before the access is given up. More than one is needed only while
/// other threads change the map.
const TRIES: u32 = 64;

/// Number of bytes after which making pages present checks whether the process is to end.
const LOOK_BYTES: u64 = 1 << 20;

/// Number of bytes of a string that are read at first; most paths are shorter.
const STRING_STEP: usize = 256;

/// Number of bytes of a [`Text`] that are stored in it.
const INLINE_BYTES: usize = 64;

/// A string of a program; a short one needs no heap.
#[derive(Clone, Debug)]
pub enum Text {
    /// The bytes, and their number.
    Inline([u8; INLINE_BYTES], usize),
    /// The bytes of a longer one.
    Heap(Vec<u8>),
}

impl Default for Text {
    fn default() -> Text {
        Text::Inline([0; INLINE_BYTES], 0)
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Text::Inline(bytes, length) => bytes.get(..*length).unwrap_or_default(),
            Text::Heap(bytes) => bytes,
        }
    }
}

/// Tells whether memory for a page may be refused to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyStage {
    /// The call has changed nothing yet: the copy ends with `Errno::Refused`, and the call can be repeated.
    Prepare,
    /// The call has had its effect: the page comes from the kernel's reserve, which was filled before the call.
    Commit,
}

/// Counts the faults at the same address.
#[derive(Default)]
pub(super) struct Tries {
    address: u64,
    count: u32,
}

impl Tries {
    /// Handles `fault` as [`Tries::answer_for`] does, at [`CopyStage::Prepare`] and for the owner of `memory`.
    pub(super) fn answer(&mut self, memory: &AddressSpace, fault: Fault) -> Result<(), Errno> {
        self.answer_for(memory, fault, CopyStage::Prepare, None)
    }
    /// Handles `fault` of a copy at `stage` for `caller`, as [`AddressSpace::fault_for`] does, or gives up after too many.
    pub(super) fn answer_for(
        &mut self,
        memory: &AddressSpace,
        fault: Fault,
        stage: CopyStage,
        caller: Option<&dyn Principal>,
    ) -> Result<(), Errno> {
        if fault.address != self.address {
            *self = Tries { address: fault.address, count: 0 };
        }
        self.count += 1;
        if self.count > TRIES {
            return Err(Errno::EFAULT);
        }
        loop {
            match memory.fault_for(fault.address, fault.access, caller) {
                Ok(_) => return Ok(()),
                Err(FaultError::NoMemory) if memory.user().is_out_of_tables() => {
                    return Err(Errno::ENOMEM);
                }
                Err(FaultError::NoMemory) if memory.host.relieve() => {}
                Err(FaultError::NoMemory) if stage == CopyStage::Prepare => {
                    return Err(Errno::Refused);
                }
                Err(FaultError::NoMemory) => {
                    let fault = || memory.fault_for(fault.address, fault.access, caller);
                    return rt::memory::with_reserve(fault).map(drop).map_err(final_error);
                }
                Err(_) => return Err(Errno::EFAULT),
            }
        }
    }
}

/// Returns the error of a copy that even the reserve had no page for, or whose address is bad.
fn final_error(error: FaultError) -> Errno {
    if error == FaultError::NoMemory { Errno::ENOMEM } else { Errno::EFAULT }
}

impl AddressSpace {
    /// Copies user memory at `address` to `out`.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`.
    #[inline(never)]
    pub fn read_bytes(&self, address: u64, out: &mut [u8]) -> Result<(), Errno> {
        match self.user().read(address, out) {
            Ok(()) => Ok(()),
            Err(_) => self.read_with_faults(address, out),
        }
    }
    #[cold]
    fn read_with_faults(&self, address: u64, out: &mut [u8]) -> Result<(), Errno> {
        let (mut at, mut rest, mut tries) = (address, out, Tries::default());
        while let Err(fault) = self.user().read(at, rest) {
            let done = fault.done.min(rest.len());
            at = at.wrapping_add(done as u64);
            rest = rest.get_mut(done..).unwrap_or_default();
            tries.answer(self, fault)?;
        }
        Ok(())
    }
    /// Copies `data` to user memory at `address`.
    ///
    /// # Errors
    /// `EFAULT`, `ENOMEM`; bytes before the bad address may have been written.
    #[inline(never)]
    pub fn write_bytes(&self, address: u64, data: &[u8]) -> Result<(), Errno> {
        match self.user().write(address, data) {
            Ok(()) => Ok(()),
            Err(_) => self.write_with_faults(address, data, CopyStage::Prepare),
        }
    }
    /// Copies `data`, the result of a call that has had its effect, to user memory at `address`. It is not refused memory.
    ///
    /// # Errors
    /// `EFAULT`; `ENOMEM` if the space has as many page tables as it may have.
    pub fn commit_bytes(&self, address: u64, data: &[u8]) -> Result<(), Errno> {
        match self.user().write(address, data) {
            Ok(()) => Ok(()),
            Err(_) => self.write_with_faults(address, data, CopyStage::Commit),
        }
    }
    /// Writes a value as [`AddressSpace::commit_bytes`] does.
    ///
    /// # Errors
    /// Those of [`AddressSpace::commit_bytes`].
    #[inline(always)]
    pub fn commit<T: IntoBytes + Immutable>(&self, address: u64, value: &T) -> Result<(), Errno> {
        match self.user().write(address, value.as_bytes()) {
            Ok(()) => Ok(()),
            Err(_) => self.write_with_faults(address, value.as_bytes(), CopyStage::Commit),
        }
    }
    #[cold]
    fn write_with_faults(&self, address: u64, data: &[u8], stage: CopyStage) -> Result<(), Errno> {
        let (mut at, mut rest, mut tries) = (address, data, Tries::default());
        while let Err(fault) = self.user().write(at, rest) {
            let done = fault.done.min(rest.len());
            at = at.wrapping_add(done as u64);
            rest = rest.get(done..).unwrap_or_default();
            tries.answer_for(self, fault, stage, None)?;
        }
        Ok(())
    }
    /// Zeroes user memory.
    ///
    /// # Errors
    /// As [`AddressSpace::write_bytes`].
    pub fn zero_bytes(&self, address: u64, length: usize) -> Result<(), Errno> {
        let (mut at, mut rest, mut tries) = (address, length, Tries::default());
        while let Err(fault) = self.user().zero(at, rest) {
            let done = fault.done.min(rest);
            at = at.wrapping_add(done as u64);
            rest -= done;
            tries.answer(self, fault)?;
        }
        Ok(())
    }
    /// Reads a value.
    ///
    /// # Errors
    /// Those of [`AddressSpace::read_bytes`].
    #[inline(always)]
    pub fn read<T: FromBytes + IntoBytes>(&self, address: u64) -> Result<T, Errno> {
        let mut value = T::new_zeroed();
        match self.user().read(address, value.as_mut_bytes()) {
            Ok(()) => Ok(value),
            Err(_) => self.read_with_faults(address, value.as_mut_bytes()).map(|()| value),
        }
    }
    /// Writes a value.
    ///
    /// # Errors
    /// As [`AddressSpace::write_bytes`].
    #[inline(always)]
    pub fn write<T: IntoBytes + Immutable>(&self, address: u64, value: &T) -> Result<(), Errno> {
        match self.user().write(address, value.as_bytes()) {
            Ok(()) => Ok(()),
            Err(_) => self.write_with_faults(address, value.as_bytes(), CopyStage::Prepare),
        }
    }
    /// Reads `count` consecutive values.
    ///
    /// # Errors
    /// Those of [`AddressSpace::read_bytes`]; `ENOMEM` if they do not fit into memory.
    pub fn read_array<T: FromBytes + IntoBytes + Immutable>(
        &self,
        address: u64,
        count: usize,
    ) -> Result<Vec<T>, Errno> {
        let bytes = count.checked_mul(size_of::<T>()).ok_or(Errno::EFAULT)?;
        // A call may use one page without a charge.
        let _charge = (bytes > PAGE_BYTES).then(|| Charge::take(bytes)).transpose()?;
        let mut values = T::new_vec_zeroed(count).map_err(|_| Errno::Refused)?;
        self.read_bytes(address, values.as_mut_slice().as_mut_bytes())?;
        Ok(values)
    }
    /// Reads a NUL-terminated string of at most `max` bytes, with the NUL. The result is without it.
    ///
    /// # Errors
    /// `EFAULT`; `ENAMETOOLONG` if there is no NUL in `max` bytes.
    pub fn read_string(&self, address: u64, max: usize) -> Result<Vec<u8>, Errno> {
        let mut string = Vec::new();
        let mut tries = Tries::default();
        while string.len() < max {
            let before = string.len();
            let step = if before == 0 { STRING_STEP } else { before };
            string.resize(before.saturating_add(step).min(max), 0);
            let room = string.get_mut(before..).unwrap_or_default();
            let (room_bytes, at) = (room.len(), address.wrapping_add(before as u64));
            match self.user().read_string(at, room) {
                Ok(length) => {
                    string.truncate(before + length.min(room_bytes));
                    if length < room_bytes {
                        return Ok(string);
                    }
                }
                Err(fault) => {
                    string.truncate(before + fault.done.min(room_bytes));
                    tries.answer(self, fault)?;
                }
            }
        }
        Err(Errno::ENAMETOOLONG)
    }
    /// Does the same as [`AddressSpace::read_string`], without using the heap if the string is short and its
    /// memory is present.
    ///
    /// # Errors
    /// Those of [`AddressSpace::read_string`].
    pub fn read_text(&self, address: u64, max: usize) -> Result<Text, Errno> {
        let mut bytes = [0; INLINE_BYTES];
        match self.user().read_string(address, &mut bytes) {
            Ok(length) if length < INLINE_BYTES.min(max) => Ok(Text::Inline(bytes, length)),
            _ => self.read_string(address, max).map(Text::Heap),
        }
    }
    /// Reads pointers from `address` until a null one: argv and envp.
    ///
    /// # Errors
    /// `EFAULT`; `E2BIG` beyond `max` pointers.
    pub fn read_pointers(&self, address: u64, max: usize) -> Result<Vec<u64>, Errno> {
        let mut pointers = Vec::new();
        if address == 0 {
            return Ok(pointers);
        }
        for index in 0..max as u64 {
            let pointer: u64 = self.read(address.wrapping_add(index.wrapping_mul(8)))?;
            if pointer == 0 {
                return Ok(pointers);
            }
            pointers.push(pointer);
        }
        Err(Errno::E2BIG)
    }
    /// Atomically loads the user word at `address`.
    ///
    /// # Errors
    /// `EINVAL` if it is not aligned, `EFAULT`.
    pub fn load_word(&self, address: u64) -> Result<u32, Errno> {
        check_word(address)?;
        let mut tries = Tries::default();
        loop {
            match self.user().atomic_load(address) {
                Ok(value) => return Ok(value),
                Err(fault) => tries.answer(self, fault)?,
            }
        }
    }
    /// Does an atomic compare-exchange on a user word. Returns the old value.
    ///
    /// # Errors
    /// Those of [`AddressSpace::load_word`].
    pub fn exchange_word(&self, address: u64, old: u32, new: u32) -> Result<u32, Errno> {
        check_word(address)?;
        let mut tries = Tries::default();
        loop {
            match self.user().compare_exchange(address, old, new) {
                Ok(value) => return Ok(value),
                Err(fault) => tries.answer(self, fault)?,
            }
        }
    }
    /// Makes the pages of `start .. start + length` present, and writable if `access` is a store; stops if
    /// its process is to end.
    ///
    /// # Errors
    /// The first failing access.
    pub fn populate(&self, start: u64, length: u64, access: Access) -> Result<(), FaultError> {
        let end = start.saturating_add(length);
        let mut page = super::region::page_of(start);
        while page < end {
            if !self.is_present(page, access) {
                self.fault(page, access)?;
            }
            page += super::region::PAGE;
            if page.is_multiple_of(LOOK_BYTES)
                && self.owner().is_some_and(|owner| owner.is_ending())
            {
                break;
            }
        }
        Ok(())
    }
    fn is_present(&self, page: u64, access: Access) -> bool {
        self.user().query(page).is_some_and(|mapping| match access {
            Access::Write => mapping.protection.contains(rt::user::Protection::WRITE),
            _ => true,
        })
    }
}

fn check_word(address: u64) -> Result<(), Errno> {
    if address.is_multiple_of(4) { Ok(()) } else { Err(Errno::EINVAL) }
}
