//! The ports that the threads of a space may access by plain instruction: the processor's I/O permission bit map (X6).
//!
//! ```text
//! AREA    the segments of all processors (`arch::gdt`): the same frames in every space
//! MAP     8 KiB, a bit a port, 0 where it may be accessed
//!         ones, of which the processor looks at a byte
//! ```
//! A task state segment says where its map is; what is there, the page tables say. A space with a map of its own has
//! tables of its own for this area, all others share the kernel's, where the map is of ones. So whoever
//! switches spaces has switched maps, which costs nothing; no processor ever shows another space's map, and
//! what changes in a map holds on all processors. Source: Intel SDM volume 1, "I/O Permission Bit Map".
use super::{
    NoMemory, PAGE, frame, frames, shootdown,
    space::{Inner, Space},
};
use crate::arch::{
    gdt,
    paging::{self, ENTRIES, Entry},
};
use ::calls::Quota;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU8, Ordering::SeqCst};

/// The places of the segments.
pub const AREA: u64 = paging::PORT_AREA;
/// Bytes of all of them, before the map.
pub const SEGMENT_BYTES: usize = 4 * PAGE;
/// Bytes of the map.
pub const MAP_BYTES: usize = 2 * PAGE;
/// The map's pages, by number in the area; behind it one of ones.
const MAP: usize = SEGMENT_BYTES / PAGE;
const MAP_END: usize = MAP + MAP_BYTES / PAGE;

/// Not global, so that a processor forgets it with the space.
const OWN: Entry = Entry::PRESENT.union(Entry::WRITE).union(Entry::NO_EXECUTE);
const NO_MEMORY: &str = "not enough memory to boot";

/// A frame of ones.
fn ones() -> Result<u32, NoMemory> {
    let frame = frame::allocate(false)?;
    frame::write(frame, 0, &[0xff; PAGE]);
    Ok(frame)
}

/// Makes the area of spaces without ports. At boot, before there are spaces.
///
/// # Panics
/// If there is no memory for the area.
pub fn init() {
    let (segments, ones) = (gdt::frame(), ones().expect(NO_MEMORY));
    for page in 0..=MAP_END {
        let frame = if page < MAP { segments + page as u32 } else { ones };
        // No frame that a space gives back.
        let entry = Entry::new(frame, OWN | Entry::DEVICE);
        super::swap_kernel(AREA + (page * PAGE) as u64, entry).expect(NO_MEMORY);
    }
}

impl Space {
    /// An empty space with a map of its own, whose tables are charged to `quota`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn with_port_map(quota: Option<Arc<Quota>>) -> Result<Space, NoMemory> {
        let space = Space::charged_to(quota)?;
        let shared = pmap::leaf(&*space, AREA).map_err(|_| NoMemory)?;
        let own = space.own_leaf(AREA)?;
        (0..ENTRIES).for_each(|page| own.set(page, shared.get(page)));
        for page in MAP..MAP_END {
            own.set(page, Entry::new(ones()?, OWN));
            pmap::count(&*space, &own, &(page..page + 1), 1);
        }
        Ok(space)
    }
}

impl Inner {
    /// Lets threads in it access `count` ports from `first` by plain instruction, or no more; then none does when this
    /// returns. Nothing where it has no map of its own.
    pub fn show_ports(&self, first: u16, count: u16, is_shown: bool) {
        let _guard = self.lock.lock();
        let Ok(leaf) = pmap::leaf(self, AREA) else { return };
        for port in (usize::from(first)..).take(count.into()) {
            let entry = leaf.get(MAP + port / 8 / PAGE);
            if !entry.holds_frame() {
                return;
            }
            let at = frames::address(entry.frame()).wrapping_add(port / 8 % PAGE);
            // SAFETY: within a frame of ours that is there as long as the space; it is accessed by atomics only.
            let byte = unsafe { AtomicU8::from_ptr(at) };
            let bit = 1 << (port % 8);
            if is_shown {
                byte.fetch_and(!bit, SeqCst)
            } else {
                byte.fetch_or(bit, SeqCst)
            };
        }
        if !is_shown {
            // A thread that runs in it has done its last access when it answers.
            shootdown::user(self, AREA, 0);
        }
    }
}
