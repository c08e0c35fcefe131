//! Runs of pages for the heap. A run is contiguous frames if some are free, else single frames mapped side by side in an
//! area for this, so an allocation needs only enough free frames, not adjacent ones.
//!
//! A run is aligned to its size rounded up to a power of two (its order). Each order has its part of the area. Free runs of
//! an order are chained through the entries of their first pages, which are not present, so bookkeeping costs no memory. A
//! freed run stays mapped and is only listed ([`Runs::retired`]), so that it can be used again as it is. [`reap`] unmaps
//! the listed runs with one shootdown for all of them; only then are their frames and addresses used elsewhere. Lock:
//! `nucleus.runs`, never held over a shootdown.
use super::{
    PAGE,
    frames::{self, For},
    map_new, shootdown, swap_kernel,
};
use crate::{
    arch::{
        boot::DIRECT_MAP,
        cpu,
        paging::{Entry, HEAP_AREA},
    },
    spin::PreemptLock,
};
use buddy::Parts;
use core::ptr::null_mut;

/// Number of orders: runs have up to 2^15 pages.
const ORDERS: usize = 16;
/// Bytes of each order's part of the area.
const PART_BYTES: u64 = 1 << 35;
/// End of the area.
const HEAP_END: u64 = HEAP_AREA + ORDERS as u64 * PART_BYTES;
/// Pages in freed runs at which these are unmapped.
const RETIRED_PAGES_MAX: usize = 64;

/// The first bytes of a freed run that is still mapped.
struct Retired {
    next: *mut Retired,
    pages: usize,
}

struct Runs {
    addresses: Parts<ORDERS>,
    retired: *mut Retired,
    retired_pages: usize,
}

// SAFETY: what `retired` points at is reached under the lock around this only.
unsafe impl Send for Runs {}

static RUNS: PreemptLock<Runs> = {
    let addresses = Parts::new(HEAP_AREA, PART_BYTES);
    PreemptLock::new(
        class!("nucleus.runs"),
        Runs { addresses, retired: null_mut(), retired_pages: 0 },
    )
};

/// Allocates a run of `pages` pages with any contents. Returns null if memory is refused.
pub fn allocate(pages: usize) -> *mut u8 {
    if pages == 1 {
        return frames::allocate(For::Kernel).map_or(null_mut(), frames::address);
    }
    match frames::allocate_contiguous(pages, For::Kernel) {
        Some(start) => frames::address(start),
        None => map(pages),
    }
}

/// Frees a run of `pages` pages.
pub fn free(run: *mut u8, pages: usize) {
    let address = run.addr() as u64;
    if (HEAP_AREA..HEAP_END).contains(&address) {
        retire(run, pages);
    } else {
        let frame = ((address - DIRECT_MAP) >> 12) as u32;
        match pages {
            1 => frames::free(frame),
            _ => frames::free_contiguous(frame, pages),
        }
    }
}

/// Returns the number of pages in freed runs that are still mapped.
pub fn kept() -> usize {
    RUNS.lock().retired_pages
}

#[cold]
fn map(pages: usize) -> *mut u8 {
    let retired = RUNS.lock().take_retired(pages);
    if !retired.is_null() {
        return retired;
    }
    let run = map_fresh(pages);
    if run.is_null() {
        reap();
        return map_fresh(pages);
    }
    run
}

fn map_fresh(pages: usize) -> *mut u8 {
    let Some(start) = RUNS.lock().addresses.take(pages, link) else { return null_mut() };
    let run = start as *mut u8;
    for page in 0..pages {
        if map_new(start + (page * PAGE) as u64, For::Kernel).is_none() {
            match page {
                0 => RUNS.lock().addresses.put(start, link),
                _ => retire(run, page),
            }
            return null_mut();
        }
    }
    run
}

/// Lists a mapped run as free.
fn retire(run: *mut u8, pages: usize) {
    let is_much = {
        let mut runs = RUNS.lock();
        let header = run.cast::<Retired>();
        // SAFETY: a mapped run that nobody uses any more, of a page at least.
        unsafe { header.write(Retired { next: runs.retired, pages }) };
        runs.retired = header;
        runs.retired_pages += pages;
        runs.retired_pages >= RETIRED_PAGES_MAX
    };
    if is_much {
        reap();
    }
}

/// Unmaps freed runs and frees their frames. Does nothing while interrupts are off: another processor may then wait for a
/// lock that this one holds, without answering.
pub fn reap() {
    if !cpu::interrupts_enabled() {
        return;
    }
    let mut next = {
        let mut runs = RUNS.lock();
        runs.retired_pages = 0;
        core::mem::replace(&mut runs.retired, null_mut())
    };
    if next.is_null() {
        return;
    }
    let (mut unmapped, mut chain) = (0, Chain::default());
    while !next.is_null() {
        let start = next.addr() as u64;
        // SAFETY: a run off the list, ours alone and still mapped.
        let Retired { next: following, pages } = unsafe { next.read() };
        next = following;
        for page in (0..pages as u64).rev() {
            let link = if page == 0 { unmapped } else { 0 };
            let entry = swap_kernel(start + page * PAGE as u64, Entry::from_bits_retain(link));
            chain.push(entry.map_or(0, Entry::frame));
        }
        unmapped = start;
    }
    shootdown::kernel();
    chain.free();
    let mut runs = RUNS.lock();
    while unmapped != 0 {
        let start = unmapped;
        unmapped = link(start, 0);
        runs.addresses.put(start, link);
    }
}

/// Sets the entry of a free run's first page, which holds the address of the next run. Returns the old address.
fn link(start: u64, next: u64) -> u64 {
    swap_kernel(start, Entry::from_bits_retain(next)).map_or(0, |entry| entry.bits())
}

impl Runs {
    /// Takes a listed run of `pages` pages, still mapped.
    fn take_retired(&mut self, pages: usize) -> *mut u8 {
        let mut place = &raw mut self.retired;
        loop {
            // SAFETY: the list's head, or the link of a listed run, which is mapped.
            let run = unsafe { *place };
            if run.is_null() {
                return null_mut();
            }
            // SAFETY: a listed run.
            let header = unsafe { &mut *run };
            if header.pages == pages {
                // SAFETY: as above.
                unsafe { *place = header.next };
                self.retired_pages -= pages;
                return run.cast();
            }
            place = &raw mut header.next;
        }
    }
}

/// Frames without other users, chained through their first bytes.
#[derive(Default)]
pub(super) struct Chain(Option<u32>);

impl Chain {
    pub(super) fn push(&mut self, frame: u32) {
        // SAFETY: the frame is ours alone; its address in the direct map is aligned.
        unsafe { frames::address(frame).cast::<Option<u32>>().write(self.0) };
        self.0 = Some(frame);
    }

    /// Frees the frames.
    pub(super) fn free(mut self) {
        while let Some(frame) = self.0 {
            // SAFETY: written by `push`.
            self.0 = unsafe { frames::address(frame).cast::<Option<u32>>().read() };
            frames::free(frame);
        }
    }
}
