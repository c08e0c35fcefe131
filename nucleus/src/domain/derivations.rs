//! Revoking derivations from all holders: their capabilities, their mappings, and the waits of threads by these
//! capabilities.
use super::{Domain, memory::Mapped};
use crate::{
    capability::{Capability, Derivation, EndpointRight, Window},
    domain::calls::Done,
    memory::{PAGE, shootdown},
    spin::SpinLock,
};
use ::calls::{COPY_LIST_MAX, Call, Status};
use alloc::{
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::Ordering::SeqCst;
use program::{Access, Registers};

/// All domains.
static ALL: SpinLock<Vec<Weak<Domain>>> = SpinLock::new(class!("nucleus.domain.all"), Vec::new());

/// Enters `domain` in the list of domains that may hold derivations.
pub(super) fn enter(domain: &Arc<Domain>) {
    ALL.lock().push(Arc::downgrade(domain));
}

/// Removes the domain that is being dropped from the list.
pub(super) fn leave() {
    ALL.lock().retain(|one| one.strong_count() > 0);
}

/// Ends `derivations`. When this returns, no holder has the derivation or a copy made of it.
pub fn revoke(derivations: impl IntoIterator<Item = Arc<Derivation>>) {
    if derivations.into_iter().map(|derivation| derivation.end()).count() > 0 {
        let all = ALL.lock().clone();
        all.iter().filter_map(Weak::upgrade).for_each(|domain| domain.lose());
    }
}

impl Domain {
    /// Adds a copy of `capability`, to be given to others and taken back, to the table. Returns its handle.
    pub(super) fn give(
        &self,
        capability: &Capability,
        rights: u64,
        badge: u64,
    ) -> Result<u64, Status> {
        let (copy, derivation) = capability.give(rights, badge).ok_or(Status::Refused)?;
        let handle = self.grant(copy)?;
        self.taken.lock().given.push((handle, derivation));
        Ok(handle)
    }

    /// Opens a window on the domain's memory.
    pub(super) fn open_window(&self, start: u64, bytes: u64, rights: u64) -> Result<u64, Status> {
        let window = Window::new(self.space.inner(), start, bytes, rights).ok_or(Status::Fault)?;
        self.give(&Capability::Window(window), rights, 0)
    }

    /// Copies through a window, one piece or a list of them.
    pub(super) fn copy(&self, call: Call, registers: &mut Registers) -> Done {
        let Registers { rdi: handle, rsi: at, rdx: second, r10: bytes, r8: direction, .. } =
            *registers;
        let Capability::Window(window) = self.held(handle)? else { return Err(Status::Refused) };
        let access = if direction == 0 { Access::Read } else { Access::Write };
        registers.rdi = 0;
        let mut copy = |[own, offset, bytes]: [u64; 3]| {
            let own = (&**self.space.inner(), own);
            let copied = window.copy(own, offset, bytes, access);
            registers.rdi += copied;
            if copied == bytes {
                Ok(())
            } else {
                Err(self.held(handle).err().unwrap_or(Status::Fault))
            }
        };
        if call == Call::Copy {
            return copy([at, second, bytes]);
        }
        let mut list = [[[0; 8]; 3]; COPY_LIST_MAX];
        let list = list.get_mut(..second as usize).ok_or(Status::Invalid)?;
        self.space.read(at, list.as_flattened_mut().as_flattened_mut())?;
        list.iter().try_for_each(|piece| copy(piece.map(u64::from_le_bytes)))
    }

    /// Removes from the domain all capabilities that were revoked.
    fn lose(&self) {
        let mut slot = 0;
        loop {
            let mut held = self.held.lock();
            let Some((handle, capability, after)) = held.next(slot) else { return };
            slot = after;
            if !capability.is_over() {
                continue;
            }
            let lost = core::mem::replace(capability, Capability::Gone);
            drop(held);
            self.forget(handle);
            match &lost {
                Capability::Endpoint(EndpointRight { endpoint, .. }) => {
                    // A thread that still used its cached copy of the handle has reached the endpoint when each
                    // processor has answered, because it does so with interrupts off.
                    shootdown::user(&self.space, 0, 1);
                    endpoint.turn_away(&self.space, handle);
                }
                Capability::Window(window) => window.settle(),
                _ => {}
            }
        }
    }

    /// Clears all cached copies of `handle` and unmaps its region.
    pub(super) fn forget(&self, handle: u64) {
        self.version.fetch_add(1, SeqCst);
        let mut mapped = self.mapped.lock();
        if let Some(at) = mapped.iter().position(|one| one.handle == handle) {
            let Mapped { start, region, charged, .. } = mapped.swap_remove(at);
            self.unmap(start, region.bytes() / PAGE);
            self.uncharge(charged);
            drop(mapped);
            // Only programs keep pages of a region beyond its handle.
            if self.grants.can_run && region.is_charged_to(&self.quota) {
                self.programs.retire(&region);
            }
        }
    }
}
