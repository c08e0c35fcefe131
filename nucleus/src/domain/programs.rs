//! Programs of a component that has [`Grants::can_run`](super::Grants): their spaces, and entering them (L3).
//!
//! The component's memory is in the upper half. While one of its threads works for a program, a root is loaded that has both the
//! program's lower half and the component's memory; while the program runs, a root without the latter. The assembly in
//! `arch::run` goes to and fro between the two, with what [`Entered`] holds; all other work of [`Call::Run`] is preparation,
//! after which the thread makes the same call again.
use super::{
    Domain,
    calls::{Caller, Done},
};
use crate::{
    arch::{
        bases,
        user::{self, Left},
    },
    capability::{Capability, Region},
    memory::{PAGE, frames, space::Space},
    spin::SpinLock,
    thread,
};
use ::calls::{
    NO_HANDLE, RUN, Status,
    entered::Entered,
    space::{FIXUPS_MAX, PAGE_LIST_MAX, SpaceOperation, page_word, trap_words},
};
use alloc::{sync::Arc, vec::Vec};
use core::{mem::offset_of, sync::atomic::Ordering::Acquire};
use pmap::{Leaf, leaf};
use program::{Access, Protection, Registers, Trap, USER_END};
use x86::{
    paging::{Entry, index},
    usercopy,
};

/// Bytes of `syscall`.
const SYSCALL_BYTES: u64 = 2;

/// The part of a domain that belongs to its programs.
#[derive(Debug)]
pub(super) struct Programs {
    fixups: SpinLock<Vec<[u64; 3]>>,
    /// Regions whose handles are closed, of which programs still have pages. They stay charged.
    retired: SpinLock<Vec<Region>>,
}

impl Default for Programs {
    fn default() -> Programs {
        Programs {
            fixups: SpinLock::new(class!("nucleus.domain.fixups"), Vec::new()),
            retired: SpinLock::new(class!("nucleus.domain.retired"), Vec::new()),
        }
    }
}

fn is_used(region: &Region) -> bool {
    region.frames().any(|frame| frames::references(frame).load(Acquire) > 1)
}

impl Programs {
    /// Keeps `region`, which the component closes, as long as programs have pages of it.
    pub(super) fn retire(&self, region: &Region) {
        let mut retired = self.retired.lock();
        let is_it = |one: &Region| one.device_address() == region.device_address();
        if is_used(region) && !retired.iter().any(is_it) {
            retired.push(region.clone());
        }
    }

    /// Gives back the regions of which no program has pages any more.
    pub(super) fn give_back_retired(&self) {
        let gone: Vec<Region> = self.retired.lock().extract_if(.., |one| !is_used(one)).collect();
        drop(gone);
    }
}

/// Answers a [`Call::Run`](::calls::Call::Run) with `trap`.
fn answer(registers: &mut Registers, trap: Trap) {
    [registers.rdi, registers.rsi, registers.rdx] = trap_words(trap);
    registers.rax = Status::Ok as u64;
}

impl Caller<'_> {
    /// Prepares the thread to enter the program, and lets it call again; or answers a kick.
    pub(super) fn run(&mut self, registers: &mut Registers) -> Done {
        thread::give_way();
        let (context, handle) = (registers.rdi, registers.rsi);
        if self.entered.is_for(context, handle) {
            self.run_again(registers);
            return Ok(());
        }
        let space = self.domain.program_space(handle)?;
        let pinned = self.domain.pin_own(context, size_of::<Registers>())?;
        let new = Entered {
            context,
            space: handle,
            registers: pinned.address() as u64,
            roots: [space.program_root(), space.root()],
            is_kicked: false,
        };
        let enter = || thread::enter_program(&space);
        if self.entered.prepare(new, enter, thread::take_kick) {
            self.pinned = Some(pinned);
            self.run_again(registers);
        } else {
            answer(registers, Trap::Kicked);
        }
        Ok(())
    }

    /// Makes the thread call again.
    fn run_again(&self, registers: &mut Registers) {
        (registers.rax, registers.rdi, registers.rsi) =
            (RUN, self.entered.context, self.entered.space);
        registers.rip -= SYSCALL_BYTES;
    }

    /// Handles a trap of the program that is no system call. Interrupts are off at entry.
    pub(super) fn program_left(&mut self, registers: &mut Registers, left: Left) {
        registers.rflags = user::FORCED_FLAGS;
        let at = (self.entered.registers + offset_of!(Registers, rip) as u64) as *const u64;
        // SAFETY: within the context, which is pinned; any bits are a number.
        let rip = unsafe { at.read_volatile() };
        match user::trapped(left, rip) {
            Some(trap) => answer(registers, trap),
            None => self.run_again(registers),
        }
        (registers.rcx, registers.r11) = (registers.rip, registers.rflags);
    }
}

impl Domain {
    /// Makes the space of a program. Returns its handle.
    pub(super) fn new_space(&self) -> Result<u64, Status> {
        if !self.grants.can_run || !bases::has_fsgsbase() {
            return Err(Status::Refused);
        }
        let space = self.space.for_program()?;
        Ok(self.grant(Capability::Space(Arc::new(space)))?)
    }

    fn program_space(&self, handle: u64) -> Result<Arc<Space>, Status> {
        let Capability::Space(space) = self.held(handle)? else { return Err(Status::Refused) };
        Ok(space)
    }

    /// Does an operation on a program's space.
    pub(super) fn space_operation(&self, registers: &mut Registers) -> Done {
        if !self.grants.can_run {
            return Err(Status::Refused);
        }
        let values = match SpaceOperation::of(registers)? {
            SpaceOperation::Enter if registers.rdi == NO_HANDLE => {
                thread::keep_extended_state();
                [0; 3]
            }
            SpaceOperation::OwnPage(address) => look_at(&self.space, address)?,
            operation => self.operate(&*self.program_space(registers.rdi)?, operation)?,
        };
        [registers.rdi, registers.rsi, registers.rdx] = values;
        Ok(())
    }

    fn operate(&self, space: &Space, operation: SpaceOperation) -> Result<[u64; 3], Status> {
        let first = match operation {
            SpaceOperation::Map(start, list, count, protection) => {
                let mut own = [0; PAGE_LIST_MAX];
                let own = own.get_mut(..count).ok_or(Status::Invalid)?;
                self.own_pages(list, own, protection)?;
                let mapped = space.map(start, own, protection);
                frames::release_all(own.iter().copied());
                mapped?
            }
            SpaceOperation::MapZeroed(start, end, protection) => {
                space.map_zeroed(start, ((end - start) / PAGE as u64) as usize, protection)?
            }
            SpaceOperation::MapLarge(start, protection) => {
                space.map_large(start, protection)?.into()
            }
            SpaceOperation::Unmap(start, end) => space.unmap(start, end)?,
            SpaceOperation::Protect(start, end, protection) => {
                space.protect(start, end, protection).map(|()| 0)?
            }
            SpaceOperation::Clone(start, end, to, mode) => {
                space.clone_to(self.program_space(to)?.inner(), start, end, mode)?
            }
            SpaceOperation::Move(start, end, to) => space.move_to(start, end, to)?,
            SpaceOperation::MakeWritable(address, protection) => {
                space.make_writable(address, protection)? as usize
            }
            SpaceOperation::Query(address) | SpaceOperation::OwnPage(address) => {
                return look_at(space, address);
            }
            SpaceOperation::Present(start, end, list, count) => {
                self.list_pages::<1>(space, (start, end), list, count)?
            }
            SpaceOperation::Pages(start, end, list, count) => {
                self.list_pages::<3>(space, (start, end), list, count)?
            }
            SpaceOperation::Copy(address, own, bytes, access) => {
                let own = (&**self.space.inner(), own);
                space.copy_across(address, own, bytes, access, || true) as usize
            }
            SpaceOperation::Exchange(address, old, new) => {
                space.compare_exchange(address, old, new)? as usize
            }
            SpaceOperation::Counts => {
                let counts = space.counts();
                return Ok([counts.resident(), counts.tables(), counts.tables_max()]
                    .map(|count| count as u64));
            }
            SpaceOperation::Enter => {
                thread::enter_program(space);
                0
            }
        };
        Ok([first as u64, 0, self.quota.used() as u64])
    }

    /// Lends pages to a driver's devices, or takes them back.
    pub(super) fn lend(&self, handle: u64, list: u64, count: u64, is_back: u64) -> Done {
        let Capability::Lender(lender) = self.held(handle)? else { return Err(Status::Refused) };
        let mut own = [0; PAGE_LIST_MAX];
        let own = own.get_mut(..count as usize).ok_or(Status::Invalid)?;
        let words = self.own_pages(list, own, Protection::READ)?;
        let access =
            |word: &u64| if word & 1 != 0 { vtd::Access::Write } else { vtd::Access::Read };
        let lent = match is_back {
            0 => lender.loans.lend(own.iter().copied().zip(words.iter().map(access))),
            _ => Ok(()),
        };
        // A loan has references of its own.
        frames::release_all(own.iter().copied());
        if is_back != 0 {
            lender.loans.take_back(own);
        }
        Ok(lent?)
    }

    /// Finds the frames of pages of the domain's own regions whose addresses are in `list`, and adds a reference to each. Returns
    /// the addresses, of which the low bits are not looked at. Other pages are charged until they are unmapped, whoever has
    /// them.
    fn own_pages(
        &self,
        list: u64,
        own: &mut [u32],
        protection: Protection,
    ) -> Result<[u64; PAGE_LIST_MAX], Status> {
        let mut words = [[0; 8]; PAGE_LIST_MAX];
        self.space.read(list, words[..own.len()].as_flattened_mut())?;
        let addresses = words.map(u64::from_le_bytes);
        let mut needed = Entry::OF_REGION;
        needed.set(Entry::WRITE, protection.contains(Protection::WRITE));
        let mut found = 0;
        {
            let _guard = self.space.lock.lock();
            for (place, address) in own.iter_mut().zip(addresses) {
                let Ok(Leaf::Own(table)) = leaf(&**self.space.inner(), address) else { break };
                let entry = table.get(index(address, 0));
                if !entry.contains(needed) {
                    break;
                }
                frames::retain(entry.frame());
                *place = entry.frame();
                found += 1;
            }
        }
        if found < own.len() {
            frames::release_all(own.iter().copied().take(found));
            return Err(Status::Refused);
        }
        Ok(addresses)
    }

    /// Writes so many words of each present page to the list: its address, its words, the references to it.
    fn list_pages<const WORDS: usize>(
        &self,
        space: &Space,
        (start, end): (u64, u64),
        list: u64,
        count: usize,
    ) -> Result<usize, Status> {
        let (mut found, mut number) = ([[[0; 8]; WORDS]; PAGE_LIST_MAX], 0);
        if count > 0 {
            space.each_present(start, end, |address| {
                found[number][0] = address.to_le_bytes();
                number += 1;
                number < count
            });
        }
        for entry in &mut found[..number] {
            let Some((address, words @ [_, ..])) = entry.split_first_mut() else { break };
            // All are zero if the page was unmapped meanwhile.
            let seen = look_at(space, u64::from_le_bytes(*address)).unwrap_or_default();
            words.iter_mut().zip(seen).for_each(|(word, seen)| *word = seen.to_le_bytes());
        }
        self.space.write(list, found[..number].as_flattened().as_flattened())?;
        Ok(number)
    }

    /// Registers fix-ups.
    pub(super) fn set_fixups(&self, table: u64, count: u64) -> Done {
        let mut words = [[[0; 8]; 3]; FIXUPS_MAX];
        let words = words.get_mut(..count as usize).ok_or(Status::Invalid)?;
        self.space.read(table, words.as_flattened_mut().as_flattened_mut())?;
        let table = words.iter().map(|words| words.map(u64::from_le_bytes)).collect();
        *self.programs.fixups.lock() = table;
        Ok(())
    }

    /// Returns the address at which a thread that caused `trap` at `rip` goes on, if it accessed the memory of a program.
    pub(super) fn fixup(&self, trap: Trap, rip: u64) -> Option<u64> {
        let may = match trap {
            Trap::PageFault { address, access, .. } => {
                address < USER_END && access != Access::Execute
            }
            Trap::Exception { vector, .. } => vector == 13,
            _ => false,
        };
        if may { usercopy::fixup(&self.programs.fixups.lock(), rip) } else { None }
    }
}

/// Returns the word of the page at `address`, and the number of references to its frame.
fn look_at(space: &Space, address: u64) -> Result<[u64; 3], Status> {
    let page = space.query(address).ok_or(Status::NotFound)?;
    // One is the look's own. It is the last one if the page was unmapped meanwhile.
    let references = frames::references(page.frame).load(Acquire) - 1;
    space.uncharge(frames::release_all([page.frame]));
    Ok([page_word(&page), references.into(), 0])
}
