//! The ports that the threads of a space may access by plain instruction: the processor's I/O permission bit map (X6).
//!
//! ```text
//! AREA    the segments of all processors (`arch::gdt`): the same frames in every space
//! MAP     8 KiB, a bit a port, 0 where it may be accessed
//!         ones, of which the processor looks at a byte
//! ```
//! A task state segment gives the address of its map, and the page tables decide which frames are there. A space with
//! a map of its own has its own tables for this area; all others share the kernel's tables, whose map is all ones. So
//! a switch of spaces also switches maps, at no cost. No processor ever uses another space's map, and a change of a
//! map takes effect on all processors. Source: Intel SDM volume 1, "I/O Permission Bit Map".
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

/// Start of the segments of all processors.
pub const AREA: u64 = paging::PORT_AREA;
/// Bytes of all segments, which lie before the map.
pub const SEGMENT_BYTES: usize = 4 * PAGE;
/// Bytes of the map.
pub const MAP_BYTES: usize = 2 * PAGE;
/// Number of the map's first page in the area. A page of ones follows the map.
const MAP: usize = SEGMENT_BYTES / PAGE;
const MAP_END: usize = MAP + MAP_BYTES / PAGE;

/// The entries are not global, so that a processor forgets them with the space.
const OWN: Entry = Entry::PRESENT.union(Entry::WRITE).union(Entry::NO_EXECUTE);
const NO_MEMORY: &str = "not enough memory to boot";

/// Returns a frame of ones.
fn ones() -> Result<u32, NoMemory> {
    let frame = frame::allocate(false)?;
    frame::write(frame, 0, &[0xff; PAGE]);
    Ok(frame)
}

/// Makes the area for spaces without ports. Called at boot, before there are spaces.
///
/// # Panics
/// If there is no memory for the area.
pub fn init() {
    let (segments, ones) = (gdt::frame(), ones().expect(NO_MEMORY));
    for page in 0..=MAP_END {
        let frame = if page < MAP { segments + page as u32 } else { ones };
        // The entry is marked as a device's, so that a space that ends does not free the frame.
        let entry = Entry::new(frame, OWN | Entry::DEVICE);
        super::swap_kernel(AREA + (page * PAGE) as u64, entry).expect(NO_MEMORY);
    }
}

impl Space {
    /// Makes an empty space with a map of its own, whose tables are charged to `quota`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn with_port_map(quota: Arc<Quota>) -> Result<Space, NoMemory> {
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
    /// Lets threads of the space access `count` ports from `first` by plain instructions.
    pub fn show_ports(&self, first: u16, count: u16) {
        let _guard = self.lock.lock();
        self.each_port(first, count, |byte, bit| byte.fetch_and(!bit, SeqCst));
    }

    /// Ends [`Inner::show_ports`]. No access is under way when this returns.
    pub fn hide_ports(&self, first: u16, count: u16) {
        let _guard = self.lock.lock();
        self.each_port(first, count, |byte, bit| byte.fetch_or(bit, SeqCst));
        // A thread that runs in the space has done its last access when its processor answers.
        shootdown::user(self, AREA, 0);
    }

    /// Changes the bits of ports, unless the space has no map of its own. The space is locked.
    fn each_port(&self, first: u16, count: u16, change: impl Fn(&AtomicU8, u8) -> u8) {
        let Ok(leaf) = pmap::leaf(self, AREA) else { return };
        for port in (usize::from(first)..).take(count.into()) {
            let entry = leaf.get(MAP + port / 8 / PAGE);
            if !entry.holds_frame() {
                return;
            }
            let at = frames::address(entry.frame()).wrapping_add(port / 8 % PAGE);
            // SAFETY: within a frame of ours that is there as long as the space; it is accessed by atomics only.
            change(unsafe { AtomicU8::from_ptr(at) }, 1 << (port % 8));
        }
    }
}
