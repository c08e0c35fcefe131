//! Kernel calls that wait: for a word to be woken, or for an interrupt.
use super::{Caller, Done, Known, keep_kick, until};
use crate::{
    domain::{Domain, run::Pinned},
    memory::PAGE,
    thread,
};
use ::calls::Status;
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed},
};
use program::Registers;

/// The page of the word that the thread last waited on or woke, in a frame that is kept. It is valid while nothing was
/// unmapped since.
#[derive(Debug)]
pub(super) struct Word {
    page: u64,
    unmapped: u32,
    pinned: Pinned,
}

impl Caller<'_> {
    pub(super) fn wait_for_interrupt(&mut self, handle: u64, deadline_ns: u64) -> Done {
        if !self.is_good(self.interrupt.as_ref(), handle) {
            let version = self.domain.version.load(Relaxed);
            let to = self.domain.interrupt(handle)?;
            self.interrupt = Some(Known { handle, version, to });
        }
        let interrupt = &self.interrupt.as_ref().ok_or(Status::Refused)?.to;
        match interrupt.wait(until(deadline_ns).deadline_ns, thread::Sleep::Interruptible) {
            sync::Outcome::Signalled => Ok(()),
            sync::Outcome::TimedOut => Err(Status::TimedOut),
            sync::Outcome::Kicked => Err(Status::Cancelled),
        }
    }

    pub(super) fn wait(&mut self, registers: &Registers) -> Done {
        let is_interruptible = registers.r10 != 0;
        if is_interruptible && self.take_kick() {
            return Err(Status::Cancelled);
        }
        let Caller { word, domain, entered, .. } = self;
        let word = known_word(word, domain, registers.rdi)?;
        let (deadline_ns, sleep) = (until(registers.rdx).deadline_ns, thread::Sleep::Interruptible);
        loop {
            // A kick always ends the wait; otherwise the domain could not be ended.
            match thread::wait_on(word, registers.rsi as u32, deadline_ns, sleep) {
                sync::Outcome::Signalled => return Ok(()),
                sync::Outcome::TimedOut => return Err(Status::TimedOut),
                sync::Outcome::Kicked if is_interruptible => return Err(Status::Cancelled),
                sync::Outcome::Kicked => keep_kick(entered),
            }
            if domain.is_ending.load(Relaxed) {
                return Err(Status::Cancelled);
            }
        }
    }
}

/// Finds the word at `address` and keeps its page in `known`: a thread often waits on one word and wakes another beside it.
pub(super) fn known_word<'a>(
    known: &'a mut Option<Word>,
    domain: &Domain,
    address: u64,
) -> Result<&'a AtomicU32, Status> {
    let unmapped = domain.unmapped.load(Acquire);
    let offset = address as usize % PAGE;
    let page = address - offset as u64;
    let is_good = |word: &Word| word.page == page && word.unmapped == unmapped;
    if !known.as_ref().is_some_and(is_good) {
        *known = Some(Word { page, unmapped, pinned: Pinned::new(domain, page, PAGE)? });
    }
    let known = known.as_ref().filter(|_| offset.is_multiple_of(4)).ok_or(Status::Invalid)?;
    // SAFETY: four aligned bytes of a frame that is kept; an atomic may be shared with anyone.
    Ok(unsafe { AtomicU32::from_ptr(known.pinned.address().wrapping_add(offset).cast()) })
}
