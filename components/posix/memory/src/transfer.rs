//! Moving data between files and a program's buffers with one copy: [`UserSink`], [`UserSource`].
//!
//! Both go through a list of buffers ([`IoVec`]). A bad address ends the transfer: the bytes before it count, and
//! only a transfer that moved nothing fails with `EFAULT`, as on Linux.
use super::{
    access::{CopyStage, Tries},
    space::AddressSpace,
};
use alloc::{sync::Arc, vec::Vec};
use rt::{
    PAGE_BYTES,
    memory::Frame,
    user::{Fault, USER_END},
};
use vfs::{
    Errno, Principal,
    io::{Sink, Source},
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The greatest number of buffers of one call (`UIO_MAXIOV`).
pub const BUFFERS_MAX: usize = 1024;
/// Buffers that need no heap (`UIO_FASTIOV`).
const FEW: usize = 8;
/// The greatest number of bytes that one call moves (`MAX_RW_COUNT`).
pub const BYTES_MAX: u64 = 0x7fff_f000;

/// One buffer of a program (`struct iovec`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct IoVec {
    /// First address of the buffer.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
}

/// The memory of a call for the buffers that it reads ([`AddressSpace::read_iovecs`]).
#[derive(Default)]
pub struct Room {
    few: [IoVec; FEW],
    many: Vec<IoVec>,
}

impl AddressSpace {
    /// Reads `count` iovecs at `address` into `room` and checks them; together they are at most [`BYTES_MAX`] long.
    ///
    /// # Errors
    /// `EINVAL` for too many or a length that is negative; `EFAULT`.
    pub fn read_iovecs<'r>(
        &self,
        address: u64,
        count: usize,
        room: &'r mut Room,
    ) -> Result<&'r [IoVec], Errno> {
        let buffers = match room.few.get_mut(..count) {
            Some(few) => {
                self.read_bytes(address, few.as_mut_bytes())?;
                few
            }
            None => {
                room.many = self.read_their_iovecs(address, count)?;
                &mut room.many
            }
        };
        // A negative length is reported before a buffer outside the addresses of programs.
        check_lengths(buffers)?;
        let mut left = BYTES_MAX;
        for buffer in buffers.iter_mut() {
            check_buffer(buffer)?;
            buffer.length = buffer.length.min(left);
            left -= buffer.length;
        }
        Ok(buffers)
    }
    /// Reads `count` iovecs at `address` that describe buffers of another address space: the addresses of the
    /// buffers are not checked.
    ///
    /// # Errors
    /// `EINVAL` for too many or a length that is negative; `EFAULT`.
    pub fn read_their_iovecs(&self, address: u64, count: usize) -> Result<Vec<IoVec>, Errno> {
        if count > BUFFERS_MAX {
            return Err(Errno::EINVAL);
        }
        let buffers: Vec<IoVec> = self.read_array(address, count)?;
        check_lengths(&buffers)?;
        Ok(buffers)
    }
}

/// Checks that no length is negative.
fn check_lengths(buffers: &[IoVec]) -> Result<(), Errno> {
    let are_lengths = buffers.iter().all(|buffer| buffer.length <= i64::MAX as u64);
    if are_lengths { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Checks that the buffer lies within the addresses of programs.
fn check_buffer(buffer: &IoVec) -> Result<(), Errno> {
    match buffer.address.checked_add(buffer.length) {
        Some(end) if end <= USER_END + super::region::PAGE => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}

/// Checks that the `length` bytes at `address` lie within the addresses of programs, whether they are mapped or
/// not.
///
/// # Errors
/// `EFAULT`.
#[inline]
pub fn check_place(address: u64, length: u64) -> Result<(), Errno> {
    check_buffer(&IoVec { address, length })
}

/// A position in a list of buffers.
struct Cursor<'b> {
    caller: &'b dyn Principal,
    memory: Arc<AddressSpace>,
    /// The rest of the current buffer.
    current: IoVec,
    rest: &'b [IoVec],
    remaining: u64,
}

impl<'b> Cursor<'b> {
    fn new(
        caller: &'b dyn Principal,
        memory: Arc<AddressSpace>,
        buffers: &'b [IoVec],
    ) -> Cursor<'b> {
        let remaining = buffers.iter().fold(0u64, |sum, buffer| sum.saturating_add(buffer.length));
        let (current, rest) = (IoVec::default(), buffers);
        Cursor { caller, memory, current, rest, remaining: remaining.min(BYTES_MAX) }
    }
    fn one(
        caller: &'b dyn Principal,
        memory: &Arc<AddressSpace>,
        address: u64,
        length: u64,
    ) -> Result<Cursor<'b>, Errno> {
        check_buffer(&IoVec { address, length })?;
        let buffer = IoVec { address, length: length.min(BYTES_MAX) };
        let memory = memory.clone();
        Ok(Cursor { caller, memory, current: buffer, rest: &[], remaining: buffer.length })
    }
    /// Returns the address of the next byte, and the number of bytes that fit there; `None` at the end.
    fn next(&mut self) -> Option<(u64, usize)> {
        while self.current.length == 0 {
            (self.current, self.rest) = self.rest.split_first().map(|(one, rest)| (*one, rest))?;
        }
        Some((self.current.address, self.current.length.min(self.remaining) as usize))
    }
    fn advance(&mut self, bytes: usize) {
        self.current.address = self.current.address.wrapping_add(bytes as u64);
        self.current.length = self.current.length.saturating_sub(bytes as u64);
        self.remaining = self.remaining.saturating_sub(bytes as u64);
    }
    /// Moves at most `length` bytes: `part(memory, address, done before, count)` moves a piece.
    fn transfer(
        &mut self,
        length: usize,
        stage: CopyStage,
        mut part: impl FnMut(&AddressSpace, u64, usize, usize) -> Result<(), Fault>,
    ) -> Result<usize, Errno> {
        let (mut done, mut tries) = (0, Tries::default());
        while done < length && self.remaining > 0 {
            let Some((address, room)) = self.next() else { break };
            let count = room.min(length - done);
            match part(&self.memory, address, done, count) {
                Ok(()) => {
                    self.advance(count);
                    done += count;
                }
                Err(fault) => {
                    let moved = fault.done.min(count);
                    self.advance(moved);
                    done += moved;
                    match tries.answer_for(&self.memory, fault, stage, Some(self.caller)) {
                        Ok(()) => {}
                        Err(_) if done > 0 => return Ok(done),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(done)
    }
}

/// A program's buffers as the destination of a read. The task that reads may be of another process than the memory.
pub struct UserSink<'b> {
    place: Cursor<'b>,
    stage: CopyStage,
}

impl<'b> UserSink<'b> {
    /// Makes the sink of one buffer.
    ///
    /// # Errors
    /// `EFAULT` where it cannot be a program's memory.
    pub fn new(
        caller: &'b dyn Principal,
        memory: &Arc<AddressSpace>,
        address: u64,
        length: u64,
    ) -> Result<UserSink<'b>, Errno> {
        let place = Cursor::one(caller, memory, address, length)?;
        Ok(UserSink { place, stage: CopyStage::Prepare })
    }
    /// Makes the sink of buffers from [`AddressSpace::read_iovecs`].
    pub fn vectored(
        caller: &'b dyn Principal,
        memory: &Arc<AddressSpace>,
        buffers: &'b [IoVec],
    ) -> UserSink<'b> {
        let place = Cursor::new(caller, memory.clone(), buffers);
        UserSink { place, stage: CopyStage::Prepare }
    }
}

impl Sink for UserSink<'_> {
    fn caller(&self) -> &dyn Principal {
        self.place.caller
    }
    fn remaining(&self) -> usize {
        self.place.remaining as usize
    }
    fn commit(&mut self) {
        self.stage = CopyStage::Commit;
    }
    fn put(&mut self, data: &[u8]) -> Result<usize, Errno> {
        self.place.transfer(data.len(), self.stage, |memory, address, done, count| {
            memory.user().write(address, data.get(done..done + count).unwrap_or_default())
        })
    }
    fn put_frames(
        &mut self,
        frames: &[Frame],
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno> {
        let length = length.min(bytes_from(frames, offset));
        self.place.transfer(length, self.stage, |memory, address, done, count| {
            memory.user().write_from_frames(address, frames, offset + done, count)
        })
    }
    fn put_zeroes(&mut self, length: usize) -> Result<usize, Errno> {
        self.place.transfer(length, self.stage, |memory, address, _, count| {
            memory.user().zero(address, count)
        })
    }
}

/// A program's buffers as the source of a write.
pub struct UserSource<'b>(Cursor<'b>);

impl<'b> UserSource<'b> {
    /// Makes the source of one buffer.
    ///
    /// # Errors
    /// `EFAULT` where it cannot be a program's memory.
    pub fn new(
        caller: &'b dyn Principal,
        memory: &Arc<AddressSpace>,
        address: u64,
        length: u64,
    ) -> Result<UserSource<'b>, Errno> {
        Cursor::one(caller, memory, address, length).map(UserSource)
    }
    /// Makes the source of buffers from [`AddressSpace::read_iovecs`].
    pub fn vectored(
        caller: &'b dyn Principal,
        memory: &Arc<AddressSpace>,
        buffers: &'b [IoVec],
    ) -> UserSource<'b> {
        UserSource(Cursor::new(caller, memory.clone(), buffers))
    }
}

impl Source for UserSource<'_> {
    fn caller(&self) -> &dyn Principal {
        self.0.caller
    }
    fn remaining(&self) -> usize {
        self.0.remaining as usize
    }
    fn take(&mut self, out: &mut [u8]) -> Result<usize, Errno> {
        let length = out.len();
        self.0.transfer(length, CopyStage::Prepare, |memory, address, done, count| {
            memory.user().read(address, out.get_mut(done..done + count).unwrap_or_default())
        })
    }
    fn take_into_frames(
        &mut self,
        frames: &[Frame],
        offset: usize,
        length: usize,
    ) -> Result<usize, Errno> {
        let length = length.min(bytes_from(frames, offset));
        self.0.transfer(length, CopyStage::Prepare, |memory, address, done, count| {
            memory.user().read_into_frames(address, frames, offset + done, count)
        })
    }
}

/// Returns the number of bytes of `frames` from `offset` on.
fn bytes_from(frames: &[Frame], offset: usize) -> usize {
    (frames.len() * PAGE_BYTES).saturating_sub(offset)
}
