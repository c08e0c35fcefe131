//! The page that every isolated component reads instead of asking: the scale of the clock, the wall clock, the number of
//! processors ([`SharedWord`]). The kernel world writes it.
use crate::{
    NoMemory, PAGE_BYTES,
    memory::Region,
    sync::{LockClass, Mutex},
    world,
};
use calls::SharedWord;
use core::sync::atomic::Ordering::Relaxed;

static CLASS: LockClass = LockClass::new("rt.shared");
/// The page, once it was asked for. The lock keeps an earlier wall clock from being written over a later one.
static PAGE: Mutex<Option<Region>> = Mutex::new(&CLASS, None);

/// Returns the page.
pub(crate) fn page() -> Result<Region, NoMemory> {
    let mut page = PAGE.lock();
    let region = match page.take() {
        Some(region) => region,
        None => Region::new(PAGE_BYTES)?,
    };
    fill(&region);
    *page = Some(region.clone());
    Ok(region)
}

/// Writes the page again after the wall clock was set.
pub(crate) fn refresh() {
    if let Some(region) = &*PAGE.lock() {
        fill(region);
    }
}

fn fill(region: &Region) {
    let (base, factor, wall_offset) = world::time::scale().unwrap_or_default();
    let words = [
        (SharedWord::CounterBase, base),
        (SharedWord::CounterFactor, factor),
        (SharedWord::WallOffset, wall_offset),
        (SharedWord::Processors, world::thread::processors().0 as u64),
    ];
    for (word, value) in words {
        if let Some(place) = region.words().get(word as usize) {
            place.store(value, Relaxed);
        }
    }
}
