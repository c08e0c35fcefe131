//! TLB shootdowns: telling other processors to flush translations, and waiting until they have.
//!
//! The requests are [`Broadcast`]'s; a sender has preemption off. A processor enters a space's `active` set before it loads
//! the root, so a sender that changes tables and then reads the set misses no processor.
use super::{PAGE, space::Inner};
use crate::{
    arch::{apic, cpu, paging, percpu},
    spin::{NoInterrupts, NoPreempt},
    thread,
};
use alloc::sync::Arc;
use core::{
    ptr,
    sync::atomic::{
        AtomicPtr,
        Ordering::{Relaxed, SeqCst},
        fence,
    },
};
use sync::broadcast::Broadcast;

/// Number of pages above which a processor flushes everything instead.
const PAGES_ONE_BY_ONE: u64 = 32;
/// A page count that means: the processor must leave the space altogether.
const EVICT: u64 = u64::MAX;

/// The requests: the space to flush (null for kernel mappings), the first address and the number of pages.
static REQUESTS: Broadcast<{ percpu::MAX_CPUS }> = Broadcast::new();

/// The space whose root this processor has loaded; written by it alone, interrupts off.
static LOADED: [AtomicPtr<Inner>; percpu::MAX_CPUS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; percpu::MAX_CPUS];

/// Loads `space`'s root on this processor unless it is loaded. Interrupts are off.
#[inline]
pub fn activate(space: &Inner) {
    let cpu = percpu::cpu();
    let new = core::ptr::from_ref(space).cast_mut();
    if LOADED[cpu].load(Relaxed) != new {
        switch_root(cpu, new);
    }
}

/// Returns whether the memory of `space` is there while `loaded` is.
fn shows(loaded: *const Inner, space: *const Inner) -> bool {
    // SAFETY: a processor's loaded space, or a thread's, stays while it is that.
    unsafe { loaded.as_ref() }.is_some_and(|loaded| loaded.shows(space))
}

/// Enters processor `cpu` into the sets of `space` and of its component.
fn mark(space: &Inner, cpu: usize) {
    space.active.fetch_or(1 << cpu, SeqCst);
    space.server().inspect(|server| _ = server.active.fetch_or(1 << cpu, SeqCst));
}

/// Loads `space`'s root on this processor, number `cpu`. The processor stays in the old space's set until the next
/// shootdown there ([`forget`]), so one that goes to and fro between two spaces changes no set. The space is no component's program's. Interrupts are off.
#[inline(always)]
pub fn change_to(space: &Inner, cpu: usize) {
    let cpu = cpu % percpu::MAX_CPUS;
    if space.active.load(Relaxed) & 1 << cpu == 0 {
        space.active.fetch_or(1 << cpu, SeqCst);
    }
    LOADED[cpu].store(core::ptr::from_ref(space).cast_mut(), Relaxed);
    // SAFETY: as in `switch_root`.
    unsafe { paging::load_root(space.program_root()) };
}

#[cold]
fn switch_root(cpu: usize, new: *mut Inner) {
    let root = if new.is_null() {
        paging::kernel_root()
    } else {
        // SAFETY: the caller has a reference to the space.
        let space = unsafe { &*new };
        mark(space, cpu);
        space.root()
    };
    let old = LOADED[cpu].swap(new, Relaxed);
    // SAFETY: a root with the kernel's half; a space is not freed while it is loaded anywhere (`evict`).
    unsafe { paging::load_root(root) };
    // SAFETY: it was loaded here until now, so it is still there.
    if let Some(old) = unsafe { old.as_ref() } {
        let gone = [Some(old), old.server().map(|server| &**server)].into_iter().flatten();
        for gone in gone.filter(|&gone| !shows(new, gone)) {
            gone.active.fetch_and(!(1 << cpu), SeqCst);
        }
    }
}

/// Leaves `space`, which ends, for its component's space, or for none. Interrupts are off.
fn leave(cpu: usize, space: &Inner) {
    let server = space.server().map_or(ptr::null(), Arc::as_ptr);
    switch_root(cpu, server.cast_mut());
}

/// Handles the shootdown interrupt.
pub fn answer() {
    let _off = NoInterrupts::new();
    let cpu = percpu::cpu();
    REQUESTS.answer(cpu, |[space, start, pages]| {
        forget(cpu, ptr::with_exposed_provenance_mut(space as usize), start, pages);
    });
}

/// Flushes the pages on processor `cpu`, this one. Interrupts are off.
fn forget(cpu: usize, space: *mut Inner, start: u64, pages: u64) {
    // SAFETY: the sender keeps the space until it is answered.
    let Some(space) = (unsafe { space.as_ref() }) else { return paging::flush_all() };
    if !shows(LOADED[cpu].load(Relaxed), space) {
        // The processor has left the space meanwhile.
        space.active.fetch_and(!(1 << cpu), SeqCst);
    } else if !shows(thread::current_space(), space) || pages == EVICT && space.server().is_none() {
        // A thread that is in a program's space may load its roots again, so the space stays, without pages.
        leave(cpu, space);
    } else if pages > PAGES_ONE_BY_ONE {
        paging::flush_user();
    } else {
        (0..pages).for_each(|page| paging::flush_page(start + page * PAGE as u64));
    }
}

/// Sends a request to the processors of `targets` (not this one) and waits for their answers. Preemption is off.
fn ask(targets: u64, space: *mut Inner, start: u64, pages: u64) {
    let words = [space.expose_provenance() as u64, start, pages];
    let interrupt = |target| apic::send_ipi(target, apic::SHOOTDOWN_VECTOR);
    REQUESTS.ask(percpu::cpu(), targets, words, interrupt, || {
        answer();
        cpu::relax();
    });
}

/// Makes every processor that runs `space` flush `pages` pages from `start`.
pub fn user(space: &Inner, start: u64, pages: usize) {
    fence(SeqCst);
    if space.active.load(SeqCst) == 0 {
        return;
    }
    let _hold = NoPreempt::new();
    let me = percpu::cpu();
    let pointer = core::ptr::from_ref(space).cast_mut();
    let active = space.active.load(SeqCst);
    if active & 1 << me != 0 {
        let _off = NoInterrupts::new();
        if pages as u64 > PAGES_ONE_BY_ONE {
            paging::flush_user();
        } else {
            (0..pages as u64).for_each(|page| paging::flush_page(start + page * PAGE as u64));
        }
    }
    let others = active & !(1 << me);
    if others != 0 {
        ask(others, pointer, start, pages as u64);
    }
}

/// Makes every processor leave `space`.
pub fn evict(space: &Inner) {
    fence(SeqCst);
    if space.active.load(SeqCst) == 0 {
        return;
    }
    let _hold = NoPreempt::new();
    let me = percpu::cpu();
    let pointer = core::ptr::from_ref(space).cast_mut();
    {
        let _off = NoInterrupts::new();
        forget(me, pointer, 0, EVICT);
    }
    let others = space.active.load(SeqCst) & !(1 << me);
    if others != 0 {
        ask(others, pointer, 0, EVICT);
    }
}

/// Makes every processor flush everything, kernel mappings included.
pub fn kernel() {
    fence(SeqCst);
    let _hold = NoPreempt::new();
    let me = percpu::cpu();
    {
        let _off = NoInterrupts::new();
        paging::flush_all();
    }
    let others = thread::online_mask() & !(1 << me);
    if others != 0 {
        ask(others, core::ptr::null_mut(), 0, 0);
    }
}
