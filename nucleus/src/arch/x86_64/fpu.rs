//! Extended processor state of programs: x87, SSE, AVX ..., by XSAVE or, without it, FXSAVE, and the segment bases.
//!
//! The kernel uses none of this state, so a program's state stays in the registers over system calls and interrupts.
//! While [`State::is_live`] is set, the registers of this processor hold the state, newer than the area. When the
//! thread leaves the processor, the state is saved ([`State::save_if_live`]). [`OWNERS`] records the state that the
//! registers still hold then, so a thread that comes back to the same processor loads nothing.
//!
//! Source: Intel SDM volume 1, chapter 13.
use super::{bases, cpu, pages, percpu, usercopy};
use crate::{
    objects::{self, Kind},
    spin::{NoInterrupts, NoPreempt},
};
use alloc::alloc::{alloc_zeroed, dealloc};
use core::{
    alloc::Layout,
    arch::asm,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed},
};
use program::Bases;
use x86::xsave::{self, LEGACY_BYTES, LEGACY_MASK};

static BYTES: AtomicUsize = AtomicUsize::new(LEGACY_BYTES);
/// The state components that XSAVE and XRSTOR are asked for; 0 if the processor has only FXSAVE and FXRSTOR.
static REQUEST: AtomicU32 = AtomicU32::new(0);
static MXCSR_MASK: AtomicU32 = AtomicU32::new(0xffbf);
/// The thread whose state is in each processor's registers (the address of its [`State`]).
static OWNERS: [AtomicPtr<State>; percpu::MAX_CPUS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; percpu::MAX_CPUS];

/// A thread's extended state. The default is no state: the thread never entered a program.
#[derive(Debug, Default)]
pub struct State {
    area: AtomicPtr<u8>,
    /// The registers hold the state. Accessed by its thread, and at switches.
    is_live: AtomicBool,
    /// The processor whose registers last held the state.
    cpu: AtomicU32,
    bases: bases::Kept,
    /// The thread has no state but the bases: other contents that it leaves in the registers are lost.
    has_none: AtomicBool,
}

/// An area with the state that a program starts with.
#[repr(C, align(64))]
struct Clean([u8; 4096]);

static CLEAN: Clean = Clean(xsave::initial());

/// Clears the last program's state from this processor's registers. Interrupts are off.
#[inline]
fn clean() {
    let owner = &OWNERS[percpu::cpu()];
    if !owner.load(Relaxed).is_null() {
        owner.store(core::ptr::null_mut(), Relaxed);
        // SAFETY: a whole area in its first state; no processor has more than its 4096 bytes for the mask.
        unsafe { load(CLEAN.0.as_ptr().cast_mut()) };
    }
}

/// Enables extended state on this processor and finds out its components. CR4 is set already.
pub fn init_cpu() {
    if cpu::features().has_xsave {
        let [low, _, _, high] = cpu::cpuid(0xd, 0);
        let mask = xsave::components(u64::from(high) << 32 | u64::from(low));
        // SAFETY: bits that CPUID offers; x87 and SSE always among them.
        unsafe {
            asm!("xsetbv", in("ecx") 0, in("eax") mask as u32, in("edx") 0, options(nostack, nomem))
        };
        if mask == xsave::AVX_MASK {
            pages::set_avx();
        }
        BYTES.store(cpu::cpuid(0xd, 0)[1] as usize, Relaxed);
        REQUEST.store(mask as u32, Relaxed);
    }
    #[repr(align(16))]
    struct Area([u8; LEGACY_BYTES]);
    let mut area = Area([0; LEGACY_BYTES]);
    // SAFETY: 512 aligned bytes of ours.
    unsafe { asm!("fxsave64 [{}]", in(reg) &mut area, options(nostack)) };
    MXCSR_MASK.store(xsave::mxcsr_mask(&area.0), Relaxed);
}

/// Returns the size of the state in bytes.
#[inline]
pub fn bytes() -> usize {
    BYTES.load(Relaxed)
}

/// Returns the components of the state.
#[inline]
pub fn mask() -> u64 {
    u64::from(REQUEST.load(Relaxed)).max(LEGACY_MASK)
}

fn layout() -> Layout {
    Layout::from_size_align(bytes().next_multiple_of(64), 64).unwrap_or(Layout::new::<[u64; 512]>())
}

/// Saves the registers to `area`.
///
/// # Safety
/// `area` is a whole area.
unsafe fn save(area: *mut u8) {
    // SAFETY: as the caller says; areas are aligned to 64.
    assert!(unsafe { usercopy::save_extended(area, REQUEST.load(Relaxed)) });
}

/// Loads the registers from `area`.
///
/// # Safety
/// `area` is a whole area whose contents were checked.
unsafe fn load(area: *mut u8) {
    // SAFETY: as in `save`.
    assert!(unsafe { usercopy::load_extended(area, REQUEST.load(Relaxed)) });
}

/// Saves the registers to `area` and gives them the initial state. Returns `false` if the area cannot be stored to;
/// the registers then keep their state.
///
/// # Safety
/// The same as for [`usercopy::save_extended`].
#[inline]
pub unsafe fn take(area: *mut u8, components: u32) -> bool {
    // SAFETY: as the caller says; CLEAN is a whole area in its first state, for every mask.
    unsafe { usercopy::take_extended(area, components, CLEAN.0.as_ptr()) }
}

impl State {
    /// Returns whether the registers hold the state.
    #[inline]
    pub fn is_live(&self) -> bool {
        self.is_live.load(Relaxed)
    }

    /// Loads the state into the registers. Interrupts are off; [`State::prepare`] was called before.
    #[cold]
    pub fn make_live(&self) {
        if self.has_none.load(Relaxed) {
            clean();
            return self.bases.load();
        }
        let cpu = percpu::cpu();
        let this = core::ptr::from_ref(self).cast_mut();
        if OWNERS[cpu].load(Relaxed) != this || self.cpu.load(Relaxed) != cpu as u32 {
            // SAFETY: the area is there and checked whenever something was put into it.
            unsafe { load(self.area.load(Relaxed)) };
            OWNERS[cpu].store(this, Relaxed);
            self.cpu.store(cpu as u32, Relaxed);
        }
        self.bases.load();
        self.is_live.store(true, Relaxed);
    }

    /// Saves the registers if they hold this state, because its thread leaves the processor. Interrupts are off.
    #[inline]
    pub fn save_if_live(&self) {
        if self.is_live.load(Relaxed) {
            // SAFETY: live, so there is an area.
            unsafe { save(self.area.load(Relaxed)) };
            self.bases.save();
            self.is_live.store(false, Relaxed);
        }
    }

    /// Declares that the thread has no extended state but the bases from now on. Only the thread calls this, before
    /// it has any state.
    pub fn do_without(&self) {
        self.has_none.store(true, Relaxed);
    }

    /// Returns whether the thread has no extended state but the bases.
    #[inline(always)]
    pub fn has_none(&self) -> bool {
        self.has_none.load(Relaxed)
    }

    /// Ends [`State::do_without`]: the thread has extended state from now on. Only the thread calls this.
    pub fn do_with(&self) {
        if self.has_none() {
            let _off = NoInterrupts::new();
            self.bases.save();
            self.has_none.store(false, Relaxed);
            percpu::forget_ready_space();
        }
    }

    /// Returns the segment bases. Only the state's thread calls this.
    pub fn bases(&self) -> Bases {
        let _off = NoInterrupts::new();
        if self.is_live() {
            self.bases.save();
        }
        self.bases.get()
    }

    /// Changes the segment bases. Only the state's thread calls this.
    pub fn set_bases(&self, bases: Bases) {
        let _off = NoInterrupts::new();
        self.bases.set(bases);
        if self.is_live() {
            self.bases.load();
        }
    }

    /// Returns whether the area is allocated.
    #[inline]
    pub fn is_prepared(&self) -> bool {
        !self.area.load(Relaxed).is_null()
    }

    /// Allocates the area, in the state that a program starts with. Only the state's thread calls this.
    pub fn prepare(&self) {
        if self.is_prepared() || self.has_none.load(Relaxed) {
            return;
        }
        // SAFETY: the size is not 0.
        let area = unsafe { alloc_zeroed(layout()) };
        if area.is_null() {
            alloc::alloc::handle_alloc_error(layout());
        }
        objects::count(Kind::ExtendedState, 1);
        self.area.store(area, Relaxed);
        self.reset();
    }

    /// Makes the area the valid copy: the registers, except for the bases, are out of date.
    fn disown(&self) {
        self.set_bases(self.bases());
        self.is_live.store(false, Relaxed);
        percpu::forget_ready_space();
        OWNERS[percpu::cpu()].store(core::ptr::null_mut(), Relaxed);
        self.cpu.store(u32::MAX, Relaxed);
    }

    /// Returns the area. Only its own thread may read or write it, with preemption off.
    fn area_slice(&self) -> *mut [u8] {
        core::ptr::slice_from_raw_parts_mut(self.area.load(Relaxed), bytes())
    }

    /// Sets the state to that of a new program. Only the state's thread calls this.
    pub fn reset(&self) {
        self.prepare();
        let _hold = NoPreempt::new();
        self.disown();
        // SAFETY: allocated that long; its own thread is here, with preemption off.
        let area = unsafe { &mut *self.area_slice() };
        area.copy_from_slice(&CLEAN.0[..bytes()]);
    }

    /// Copies the state to `out`. Returns `false` if `out` is too short. Only the state's thread calls this.
    pub fn copy_out(&self, out: &mut [u8]) -> bool {
        self.prepare();
        let Some(out) = out.get_mut(..bytes()) else { return false };
        let _hold = NoPreempt::new();
        if self.is_live() {
            // SAFETY: live, so there is an area.
            unsafe { save(self.area.load(Relaxed)) };
        }
        // SAFETY: allocated that long; its own thread is here, with preemption off.
        out.copy_from_slice(unsafe { &*self.area_slice() });
        true
    }

    /// Loads the state into the registers and calls `act` to save it to or load it from the program's memory. Returns
    /// `false` if one of the two fails. Only the state's thread calls this.
    ///
    /// # Safety
    /// The same as for `act` with `at` and [`bytes`].
    #[inline]
    pub unsafe fn transfer(&self, at: *mut u8, act: usercopy::Transfer) -> bool {
        let _off = NoInterrupts::new();
        if !self.is_live() && self.is_prepared() {
            self.make_live();
        }
        // SAFETY: as the caller says; what is not aligned faults.
        self.is_live() && unsafe { act(at, REQUEST.load(Relaxed)) }
    }

    /// Checks `image` and copies it to the state. Returns `false`, and changes nothing, if it is invalid. Only the
    /// state's thread calls this.
    pub fn copy_in(&self, image: &[u8]) -> bool {
        self.prepare();
        if !xsave::is_valid(image, bytes(), mask(), MXCSR_MASK.load(Relaxed)) {
            return false;
        }
        let _hold = NoPreempt::new();
        self.disown();
        // SAFETY: allocated that long; its own thread is here, with preemption off.
        xsave::take_over(unsafe { &mut *self.area_slice() }, image);
        true
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let this = core::ptr::from_ref(self).cast_mut();
        for owner in &OWNERS {
            let _ = owner.compare_exchange(this, core::ptr::null_mut(), Relaxed, Relaxed);
        }
        if self.is_prepared() {
            objects::count(Kind::ExtendedState, -1);
            // SAFETY: allocated in `prepare` with this layout.
            unsafe { dealloc(self.area.load(Relaxed), layout()) };
        }
    }
}
