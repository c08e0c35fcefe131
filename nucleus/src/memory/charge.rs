//! Charges: memory is reserved before it is used, and refused if there is not enough.
use super::{NoMemory, PAGE, frames};
use crate::objects::{self, Kind};
use ::calls::Quota;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static CHARGED: AtomicUsize = AtomicUsize::new(0);

/// Charges `bytes`. Refuses if the sum of charges would exceed memory less a quarter of the reserve, or
/// if not that much is free now. So the kernel's objects still have room when programs' pages have none.
/// A thread that frees memory may charge all of the reserve.
///
/// # Errors
/// [`NoMemory`].
pub fn charge(bytes: usize) -> Result<(), NoMemory> {
    let (total, free) = frames::totals();
    let reserve = if crate::thread::uses_reserve() { 0 } else { frames::reserve() / 4 };
    let limit = total.saturating_sub(reserve) * 4096;
    let available = free.saturating_sub(reserve) * 4096;
    if bytes > available {
        return Err(NoMemory);
    }
    let fits = |now: usize| now.checked_add(bytes).filter(|&after| after <= limit);
    CHARGED.fetch_update(Relaxed, Relaxed, fits).map(|_| ()).map_err(|_| NoMemory)
}

/// Takes `bytes` off the charges.
pub fn uncharge(bytes: usize) {
    CHARGED.fetch_sub(bytes, Relaxed);
}

/// Charges `pages` to a domain's `quota` as well.
///
/// # Errors
/// [`NoMemory`].
pub fn charge_to(quota: &Quota, pages: usize) -> Result<(), NoMemory> {
    if !quota.take(pages) {
        return Err(NoMemory);
    }
    charge(pages * PAGE).inspect_err(|_| quota.give_back(pages))?;
    objects::count(Kind::DomainFrame, pages as i64);
    Ok(())
}

/// Undoes [`charge_to`].
pub fn uncharge_from(quota: &Quota, pages: usize) {
    quota.give_back(pages);
    objects::count(Kind::DomainFrame, -(pages as i64));
    uncharge(pages * PAGE);
}

/// Pages charged to a domain until this is dropped.
#[derive(Debug)]
pub struct Charge {
    quota: Arc<Quota>,
    pages: usize,
}

impl Charge {
    /// Charges `pages` to `quota`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new(quota: &Arc<Quota>, pages: usize) -> Result<Charge, NoMemory> {
        charge_to(quota, pages).map(|()| Charge { quota: quota.clone(), pages })
    }

    /// Returns whether the charge is to `quota`.
    pub fn is_to(&self, quota: &Arc<Quota>) -> bool {
        Arc::ptr_eq(&self.quota, quota)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        uncharge_from(&self.quota, self.pages);
    }
}

/// Returns the bytes charged now.
pub fn charged() -> usize {
    CHARGED.load(Relaxed)
}
