//! Charges: promises of memory, refused before they could not be kept.
use super::frames;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static CHARGED: AtomicUsize = AtomicUsize::new(0);

/// Charges `bytes`; `false` where all charges would pass what there is less a quarter of the reserve, or
/// so much is not free now. So the kernel's objects have room where programs' pages have none any
/// more. A thread that frees memory may charge all of the reserve.
pub fn charge(bytes: usize) -> bool {
    let (total, free) = frames::totals();
    let reserve = if crate::thread::uses_reserve() { 0 } else { frames::reserve() / 4 };
    let limit = total.saturating_sub(reserve) * 4096;
    let available = free.saturating_sub(reserve) * 4096;
    if bytes > available {
        return false;
    }
    CHARGED
        .fetch_update(Relaxed, Relaxed, |now| {
            now.checked_add(bytes).filter(|&after| after <= limit)
        })
        .is_ok()
}

/// Gives `bytes` of a charge back.
pub fn uncharge(bytes: usize) {
    CHARGED.fetch_sub(bytes, Relaxed);
}

/// Bytes charged now.
pub fn charged() -> usize {
    CHARGED.load(Relaxed)
}
