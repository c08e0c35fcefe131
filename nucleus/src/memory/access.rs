//! Reading and writing a program's memory: any address, never a crash.
//!
//! In the space that the calling thread runs in, the bytes are copied directly and a fault is fixed up. For another space,
//! the tables are walked and the frames copied through the direct map, page by page, under the space's lock.
use super::{
    PAGE, frames,
    space::{Inner, Space, USER_END},
};
use crate::{
    arch::{fpu, paging, paging::Entry, usercopy},
    thread,
};
use core::{
    ffi::CStr,
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
};
use pmap::Leaf;
use program::{Access, Fault};
use x86::chain;

/// The end of an access: whole, or a fault after some of the bytes.
pub type Accessed = Result<(), Fault>;

/// An operation on user memory, by the user address or through the direct map.
trait Job {
    const ACCESS: Access;
    /// Does `length` bytes at `user`, `done` bytes into the job. Returns the number of bytes not done.
    ///
    /// # Safety
    /// The same as for `usercopy::copy`, or `user` is valid kernel memory.
    unsafe fn act(&self, user: *mut u8, done: usize, length: usize) -> usize;
}

/// A copy from kernel memory to the user's if `TO_USER`, else the other way: the function returns the kernel address of a byte
/// of the copy, and the number of bytes that follow there.
struct Copy<P, const TO_USER: bool>(P);
struct Zero;

impl<P: Fn(usize) -> (*mut u8, usize), const TO_USER: bool> Job for Copy<P, TO_USER> {
    const ACCESS: Access = if TO_USER { Access::Write } else { Access::Read };
    #[inline(always)]
    unsafe fn act(&self, user: *mut u8, done: usize, length: usize) -> usize {
        let piece = |at| {
            let ((own, room), user) = ((self.0)(done + at), user.wrapping_add(at));
            if TO_USER { (user, own.cast_const(), room) } else { (own, user.cast_const(), room) }
        };
        // SAFETY: as the caller says; the other side was valid for the whole job, or is fixed up.
        unsafe { usercopy::copy::<true>(length, piece) }
    }
}

/// Returns the place function of a [`Copy`] for contiguous memory at `start`.
#[inline(always)]
fn at(start: *mut u8) -> impl Fn(usize) -> (*mut u8, usize) {
    move |done| (start.wrapping_add(done), usize::MAX)
}

/// Returns the place function of a [`Copy`] for `frames` from `offset` on.
#[inline(always)]
fn within(numbers: &[u32], offset: usize) -> impl Fn(usize) -> (*mut u8, usize) {
    move |done| {
        let (index, start) = ((offset + done) / PAGE, (offset + done) % PAGE);
        (frames::address(numbers[index]).wrapping_add(start), PAGE - start)
    }
}

impl Job for Zero {
    const ACCESS: Access = Access::Write;
    #[inline(always)]
    unsafe fn act(&self, user: *mut u8, _done: usize, length: usize) -> usize {
        // SAFETY: as the caller says.
        unsafe { usercopy::zero_user(user, length) }
    }
}

impl Space {
    /// Calls `act` to save or load the calling thread's extended state at `at`. A thread that has not run in the space yet
    /// (its program is new, or has just executed another) enters it first.
    #[inline(always)]
    fn transfer(&self, at: u64, act: usercopy::Transfer) -> bool {
        let me = thread::current();
        if !thread::is_in_space(me, self) {
            thread::enter_space(me, self);
        }
        at < USER_END - fpu::bytes() as u64
            // SAFETY: below `USER_END`, and the calling thread's space is loaded.
            && unsafe { me.extended.transfer(at as *mut u8, act) }
    }

    /// Moves the calling thread's extended state to `at`, where the header is all zeros. The thread then has the initial
    /// state. Returns `false` if the state cannot be stored; the thread then keeps it.
    pub fn take_extended(&self, at: u64) -> bool {
        self.transfer(at, fpu::take)
    }

    /// Loads the calling thread's extended state from `at`. Returns `false` if the memory is not present or the processor
    /// refuses the state, which is then a mixture of both.
    pub fn load_extended(&self, at: u64) -> bool {
        self.transfer(at, usercopy::load_extended)
    }
}

impl Inner {
    #[inline]
    fn is_current(&self) -> bool {
        let current = thread::current_space();
        // SAFETY: the calling thread's space, which it keeps.
        core::ptr::eq(current, self)
            || unsafe { current.as_ref() }.is_some_and(|one| one.shows(self))
    }

    #[inline(always)]
    fn run<J: Job>(&self, address: u64, length: usize, job: &J) -> Accessed {
        let done = if self.is_current() && self.bytes_from(address) > length as u64 {
            // SAFETY: in the space, and the calling thread's space is loaded while it runs.
            match unsafe { job.act(address as *mut u8, 0, length) } {
                0 => return Ok(()),
                left => length - left,
            }
        } else {
            let fits = self.bytes_from(address).min(length as u64) as usize;
            self.walk(address, fits, job, || true)
        };
        if done == length {
            return Ok(());
        }
        Err(Fault { address: address.wrapping_add(done as u64), access: J::ACCESS, done })
    }

    /// Does the job page by page through the direct map while `may` returns `true`. Returns the bytes done.
    #[inline(never)]
    fn walk<J: Job>(&self, address: u64, length: usize, job: &J, may: impl Fn() -> bool) -> usize {
        let mut done = 0;
        while done < length {
            let at = address + done as u64;
            let piece = (PAGE - at as usize % PAGE).min(length - done);
            let left = self.with_page(at, J::ACCESS, |kernel| match may() {
                // SAFETY: within a frame that the entry holds while the lock is held.
                true => unsafe { job.act(kernel, done, piece) },
                false => piece,
            });
            let left = left.unwrap_or(piece);
            done += piece - left;
            if left > 0 {
                break;
            }
        }
        done
    }

    /// Copies `length` bytes between `address` of this space, which is accessed by `access`, and `own` of the calling
    /// thread's space, which is `own_space`, page by page while `may` returns `true`. Returns the number copied.
    pub fn copy_across(
        &self,
        address: u64,
        (own_space, own): (&Inner, u64),
        length: u64,
        access: Access,
        may: impl Fn() -> bool,
    ) -> u64 {
        let shown = self.bytes_from(address).min(own_space.bytes_from(own));
        let length = length.min(shown) as usize;
        let own = own as *mut u8;
        let done = match access {
            Access::Write => self.walk(address, length, &Copy::<_, true>(at(own)), may),
            _ => self.walk(address, length, &Copy::<_, false>(at(own)), may),
        };
        done as u64
    }

    /// Calls `act` with the kernel's address of user address `at`, if that may be accessed by `access`.
    fn with_page<R>(&self, at: u64, access: Access, act: impl FnOnce(*mut u8) -> R) -> Option<R> {
        let _guard = self.lock.lock();
        let leaf = pmap::leaf(self, at).ok()?;
        let slot = paging::index(at, 0);
        let entry = leaf.get(slot);
        let needed = match access {
            Access::Write => Entry::PRESENT | Entry::WRITE,
            Access::Read | Access::Execute => Entry::PRESENT,
        };
        // Device registers are not in the direct map. Tables shared after a fork are only read.
        let is_memory = entry.contains(needed) && entry.holds_frame();
        if !is_memory || access == Access::Write && leaf.is_shared() {
            return None;
        }
        // Large pages are dirty from the start.
        if let Leaf::Own(table) = leaf
            && access == Access::Write
            && !entry.contains(Entry::DIRTY)
        {
            table.add(slot, Entry::DIRTY);
        }
        Some(act(frames::address(entry.frame()).wrapping_add(at as usize % PAGE)))
    }

    /// Copies user memory to `out`.
    ///
    /// # Errors
    /// [`Fault`].
    #[inline(always)]
    pub fn read(&self, address: u64, out: &mut [u8]) -> Accessed {
        self.run(address, out.len(), &Copy::<_, false>(at(out.as_mut_ptr())))
    }

    /// Returns the return addresses on the program's stack from the frame at `rbp`, innermost first, at most `most`.
    pub fn calls(&self, rbp: u64, most: usize) -> impl Iterator<Item = u64> {
        let read = |frame| {
            let mut words = [[0; 8]; 2];
            let is_read = self.read(frame, words.as_flattened_mut()).is_ok();
            is_read.then_some(words.map(u64::from_le_bytes))
        };
        chain::walk(rbp, most, u64::MAX, read)
    }

    /// Copies `data` to user memory.
    ///
    /// # Errors
    /// [`Fault`].
    #[inline(always)]
    pub fn write(&self, address: u64, data: &[u8]) -> Accessed {
        self.run(address, data.len(), &Copy::<_, true>(at(data.as_ptr().cast_mut())))
    }

    /// Copies user memory into `bytes` of `frames`. The caller holds a reference to each; other holders use copies and
    /// atomics only.
    ///
    /// # Errors
    /// [`Fault`].
    ///
    /// # Panics
    /// Panics if the frames end before `bytes`.
    pub fn read_into_frames(&self, at: u64, frames: &[u32], bytes: Range<usize>) -> Accessed {
        self.run(at, bytes.len(), &Copy::<_, false>(within(frames, bytes.start)))
    }

    /// Copies `bytes` of `frames` to user memory. The caller holds a reference to each.
    ///
    /// # Errors
    /// [`Fault`].
    ///
    /// # Panics
    /// Panics if the frames end before `bytes`.
    pub fn write_from_frames(&self, at: u64, frames: &[u32], bytes: Range<usize>) -> Accessed {
        self.run(at, bytes.len(), &Copy::<_, true>(within(frames, bytes.start)))
    }

    /// Zeroes user memory.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn zero(&self, address: u64, length: usize) -> Accessed {
        self.run(address, length, &Zero)
    }

    /// Reads a string up to its NUL. Returns its length without the NUL, or `out.len()` if there was none in that many
    /// bytes.
    ///
    /// # Errors
    /// [`Fault`] if memory ended before the NUL.
    pub fn copy_in_string(&self, address: u64, out: &mut [u8]) -> Result<usize, Fault> {
        const PIECE: usize = 64;
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = address.wrapping_add(done as u64);
            let piece = (PIECE - at as usize % PIECE).min(rest.len());
            let rest = &mut rest[..piece];
            // A piece never crosses a page, so it is present as a whole or not at all.
            self.read(at, rest).map_err(|fault| Fault { done: done + fault.done, ..fault })?;
            if let Ok(string) = CStr::from_bytes_until_nul(rest) {
                return Ok(done + string.count_bytes());
            }
            done += piece;
        }
        Ok(done)
    }

    fn check_word(&self, address: u64, access: Access) -> Accessed {
        let is_word = address.is_multiple_of(4) && self.bytes_from(address) > 0;
        if is_word { Ok(()) } else { Err(Fault { address, access, done: 0 }) }
    }

    /// Loads a user word.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn atomic_load(&self, address: u64) -> Result<u32, Fault> {
        self.check_word(address, Access::Read)?;
        let found = if self.is_current() {
            // SAFETY: aligned, in the space, our space is loaded.
            unsafe { usercopy::load_user(address) }
        } else {
            self.with_page(address, Access::Read, |at| {
                // SAFETY: an aligned word of a frame that the entry holds.
                unsafe { &*at.cast::<AtomicU32>() }.load(Ordering::SeqCst)
            })
        };
        found.ok_or(Fault { address, access: Access::Read, done: 0 })
    }

    /// Compares and exchanges a user word. Returns the value found.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn compare_exchange(&self, address: u64, old: u32, new: u32) -> Result<u32, Fault> {
        self.check_word(address, Access::Write)?;
        let found = if self.is_current() {
            // SAFETY: aligned, in the space, our space is loaded.
            unsafe { usercopy::exchange_user(address, old, new) }
        } else {
            self.with_page(address, Access::Write, |at| {
                // SAFETY: an aligned word of a frame that the entry holds.
                let word = unsafe { &*at.cast::<AtomicU32>() };
                word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
                    .unwrap_or_else(|found| found)
            })
        };
        found.ok_or(Fault { address, access: Access::Write, done: 0 })
    }
}
