//! Kernel stacks: each in its own slot of the stack area, with an unmapped page below, cached when free.
//!
//! A slot is twice the stack's size and never moves, so that a wild push meets the guard. Free
//! stacks keep their frames up to [`keep`]; [`trim`] unmaps the rest, with one shootdown a batch.
use super::{
    NoMemory, PAGE,
    frames::{self, For},
    map_new,
    runs::Chain,
    shootdown, unmap_kernel,
};
use crate::{
    arch::paging::STACK_AREA,
    objects::{self, Kind},
    spin::SpinLock,
};
use buddy::Slots;

/// Frames of a stack.
pub const FRAMES: usize = 8;
/// Bytes of a stack.
pub const BYTES: usize = FRAMES * PAGE;
const SLOT_BYTES: u64 = 2 * BYTES as u64;
/// The greatest number of slots that there can be.
const SLOTS: usize = 1 << 13;
const BATCH: usize = 16;

/// Free slots. A filled slot keeps its frames: up to `keep()` of them, and all that were freed since the
/// last trim.
static FREE: SpinLock<Slots<SLOTS>> = SpinLock::new(class!("nucleus.stacks"), Slots::new());

/// A kernel stack, which is returned to the cache when dropped.
#[derive(Debug)]
pub struct Stack(u16);

fn bottom(slot: u16) -> u64 {
    STACK_AREA + u64::from(slot) * SLOT_BYTES + BYTES as u64
}

impl Stack {
    /// Takes a stack from the cache, or allocates one.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new() -> Result<Stack, NoMemory> {
        trim();
        if let Some(slot) = FREE.lock().take_filled() {
            return Ok(Stack(slot));
        }
        let slot = FREE.lock().take_bare().ok_or(NoMemory)?;
        for index in 0..FRAMES {
            if map_new(bottom(slot) + (index * PAGE) as u64, For::Program).is_none() {
                release(&[slot], index);
                return Err(NoMemory);
            }
        }
        objects::count(Kind::Stack, 1);
        Ok(Stack(slot))
    }

    /// Returns the first address above the stack.
    pub fn top(&self) -> u64 {
        bottom(self.0) + BYTES as u64
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        FREE.lock().put_filled(self.0);
    }
}

/// Returns the number of free stacks that keep their frames: together at most a hundredth of memory.
fn keep() -> usize {
    (frames::totals().0 / (128 * FRAMES)).clamp(16, 256)
}

/// Unmaps free stacks beyond [`keep`]. Must be called in a thread, with interrupts on.
pub fn trim() {
    let (keep, mut slots) = (keep(), [0; BATCH]);
    while FREE.lock().take_beyond(keep, &mut slots) > 0 {
        release(&slots, FRAMES);
        objects::count(Kind::Stack, -(BATCH as i64));
    }
}

/// Unmaps `pages` pages of each of `slots` and frees them.
fn release(slots: &[u16], pages: usize) {
    let mut chain = Chain::default();
    for slot in slots {
        for index in 0..pages {
            chain.push(unmap_kernel(bottom(*slot) + (index * PAGE) as u64));
        }
    }
    shootdown::kernel();
    chain.free();
    let mut free = FREE.lock();
    slots.iter().for_each(|&slot| free.put_bare(slot));
}

/// Returns whether `address` is in a stack's guard.
pub fn is_guard(address: u64) -> bool {
    let area = STACK_AREA..STACK_AREA + SLOT_BYTES * SLOTS as u64;
    area.contains(&address) && (address - STACK_AREA) % SLOT_BYTES < BYTES as u64
}
