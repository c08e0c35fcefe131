//! Kernel stacks: each in its own slot of the stack area, with an unmapped page below, cached when free.
//!
//! A slot is twice the stack's size and never moves, so that a wild push meets the guard. Free
//! stacks keep their frames up to [`keep`]; [`trim`] unmaps the rest, with one shootdown a batch.
use super::{
    NoMemory, PAGE,
    frames::{self, For},
    map_kernel, shootdown, unmap_kernel,
};
use crate::{
    arch::paging::STACK_AREA,
    objects::{self, Kind},
    spin::SpinLock,
};
use sync::class::LockClass;

/// Frames of a stack.
pub const FRAMES: usize = 8;
/// Bytes of a stack.
pub const BYTES: usize = FRAMES * PAGE;
const SLOT_BYTES: u64 = 2 * BYTES as u64;
/// Most slots there can be.
const SLOTS: usize = 1 << 13;
const BATCH: usize = 16;

static CLASS: LockClass = LockClass::new("nucleus.stacks");

struct Free {
    /// Slots with frames, most recently used last. Up to `keep()` and what is freed until the next trim.
    mapped: [u16; SLOTS],
    mapped_count: usize,
    /// Slots without.
    bare: [u16; SLOTS],
    bare_count: usize,
    /// Slots from here on were never used.
    next: u16,
}

static FREE: SpinLock<Free> = SpinLock::new(
    &CLASS,
    Free { mapped: [0; SLOTS], mapped_count: 0, bare: [0; SLOTS], bare_count: 0, next: 0 },
);

/// A kernel stack; goes back to the cache when dropped.
#[derive(Debug)]
pub struct Stack(u16);

fn bottom(slot: u16) -> u64 {
    STACK_AREA + u64::from(slot) * SLOT_BYTES + BYTES as u64
}

impl Stack {
    /// A stack, from the cache where there is one.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new() -> Result<Stack, NoMemory> {
        trim();
        if let Some(slot) = FREE.lock().take_mapped() {
            return Ok(Stack(slot));
        }
        let slot = FREE.lock().take_bare().ok_or(NoMemory)?;
        for index in 0..FRAMES {
            if !map_page(bottom(slot) + (index * PAGE) as u64) {
                release(&[slot], index);
                return Err(NoMemory);
            }
        }
        objects::count(Kind::Stack, 1);
        Ok(Stack(slot))
    }

    /// First address above it.
    pub fn top(&self) -> u64 {
        bottom(self.0) + BYTES as u64
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let mut free = FREE.lock();
        let count = free.mapped_count;
        free.mapped[count] = self.0;
        free.mapped_count += 1;
    }
}

impl Free {
    fn take_mapped(&mut self) -> Option<u16> {
        self.mapped_count = self.mapped_count.checked_sub(1)?;
        Some(self.mapped[self.mapped_count])
    }

    fn take_bare(&mut self) -> Option<u16> {
        if let Some(rest) = self.bare_count.checked_sub(1) {
            self.bare_count = rest;
            return Some(self.bare[rest]);
        }
        let slot = self.next;
        (usize::from(slot) < SLOTS).then(|| {
            self.next += 1;
            slot
        })
    }

    fn put_bare(&mut self, slot: u16) {
        self.bare[self.bare_count] = slot;
        self.bare_count += 1;
    }
}

/// Free stacks that keep their frames: together at most a hundredth of memory.
fn keep() -> usize {
    (frames::totals().0 / (128 * FRAMES)).clamp(16, 256)
}

/// Unmaps free stacks beyond those kept. In a thread, with interrupts on.
pub fn trim() {
    let keep = keep();
    loop {
        let mut slots = [0; BATCH];
        let mut count = 0;
        {
            let mut free = FREE.lock();
            if free.mapped_count < keep + BATCH {
                return;
            }
            while count < BATCH {
                if let Some(slot) = free.take_mapped() {
                    slots[count] = slot;
                    count += 1;
                }
            }
        }
        release(&slots[..count], FRAMES);
        objects::count(Kind::Stack, -(count as i64));
    }
}

fn map_page(address: u64) -> bool {
    let Some(frame) = frames::allocate(For::Program) else { return false };
    let is_mapped = map_kernel(address, frame).is_some();
    if !is_mapped {
        frames::free(frame);
    }
    is_mapped
}

/// Unmaps `pages` pages of each of `slots` and frees them.
fn release(slots: &[u16], pages: usize) {
    let mut taken = [0; BATCH * FRAMES];
    let mut count = 0;
    for slot in slots {
        for index in 0..pages {
            taken[count] = unmap_kernel(bottom(*slot) + (index * PAGE) as u64);
            count += 1;
        }
    }
    shootdown::kernel();
    taken[..count].iter().for_each(|&frame| frames::free(frame));
    let mut free = FREE.lock();
    slots.iter().for_each(|&slot| free.put_bare(slot));
}

/// Whether `address` lies in the stack area, mapped or not.
pub fn is_in_area(address: u64) -> bool {
    (STACK_AREA..STACK_AREA + SLOT_BYTES * SLOTS as u64).contains(&address)
}

/// Whether `address` lies in a stack's guard.
pub fn is_guard(address: u64) -> bool {
    is_in_area(address) && (address - STACK_AREA) % SLOT_BYTES < BYTES as u64
}
