//! Charges: promises of memory, refused before they could not be kept.
use super::{NoMemory, frames};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static CHARGED: AtomicUsize = AtomicUsize::new(0);

/// Charges `bytes`; refused where all charges would pass what there is less a quarter of the reserve, or
/// so much is not free now. So the kernel's objects have room where programs' pages have none any
/// more. A thread that frees memory may charge all of the reserve.
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

/// Gives `bytes` of a charge back.
pub fn uncharge(bytes: usize) {
    CHARGED.fetch_sub(bytes, Relaxed);
}

/// Bytes charged now.
pub fn charged() -> usize {
    CHARGED.load(Relaxed)
}
