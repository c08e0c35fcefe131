//! Extended state and segment bases of programs in the process world: both stay in the processor, because this world uses
//! neither itself.
use super::{call::ask_with_memory, thread};
use crate::{
    PAGE_BYTES,
    user::{Bases, USER_END},
};
use calls::{Call, NO_HANDLE, space::number};
use core::{
    arch::{
        asm,
        x86_64::{__cpuid_count, _xgetbv},
    },
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed},
};
use x86::{
    paging::is_canonical,
    xsave::{self, LEGACY_BYTES, LEGACY_MASK},
};

// Of `x86::usercopy`.
unsafe extern "sysv64" {
    fn skerry_save(area: *mut u8, components: u32) -> u64;
    fn skerry_load(area: *mut u8, components: u32) -> u64;
    fn skerry_take(area: *mut u8, components: u32, initial: *const u8) -> u64;
}

static EXTENDED_BYTES: AtomicUsize = AtomicUsize::new(LEGACY_BYTES);
/// The state components that XSAVE and XRSTOR are asked for; 0 if the processor has only FXSAVE and FXRSTOR.
static REQUEST: AtomicU32 = AtomicU32::new(0);
static MXCSR_MASK: AtomicU32 = AtomicU32::new(0xffbf);
static HAS_AVX: AtomicBool = AtomicBool::new(false);

/// An image of extended state.
#[repr(C, align(64))]
struct StateArea([u8; PAGE_BYTES]);

static CLEAN: StateArea = StateArea(xsave::initial());

/// Asks the processor for its extended state.
pub(super) fn init() {
    const OSXSAVE: u32 = 1 << 27;
    if __cpuid_count(1, 0).ecx & OSXSAVE != 0 {
        // SAFETY: the nucleus has enabled XSAVE, and with it this instruction.
        let mask = unsafe { _xgetbv(0) };
        HAS_AVX.store(mask == xsave::AVX_MASK, Relaxed);
        EXTENDED_BYTES.store(__cpuid_count(0xd, 0).ebx as usize, Relaxed);
        REQUEST.store(mask as u32, Relaxed);
    }
    #[repr(align(16))]
    struct Legacy([u8; LEGACY_BYTES]);
    let mut area = Legacy([0; LEGACY_BYTES]);
    // SAFETY: 512 aligned bytes of ours.
    unsafe { asm!("fxsave64 [{}]", in(reg) &mut area, options(nostack)) };
    MXCSR_MASK.store(xsave::mxcsr_mask(&area.0), Relaxed);
}

/// Returns whether copies may use AVX.
pub(super) fn has_avx() -> bool {
    HAS_AVX.load(Relaxed)
}

fn is_room(address: u64) -> bool {
    address < USER_END - extended_bytes() as u64
}

/// Moves the state to the memory of the program for which the thread works. Returns `false` if that cannot be stored to.
pub(super) fn take(address: u64) -> bool {
    let request = REQUEST.load(Relaxed);
    is_room(address)
        // SAFETY: the program's memory, where faults are fixed up; CLEAN is a whole area in its first state.
        && unsafe { skerry_take(address as *mut u8, request, CLEAN.0.as_ptr()) } == 0
}

/// Loads the state from the memory of the program for which the thread works. Returns `false` if that cannot be read, or the
/// processor refuses the state.
pub(super) fn load(address: u64) -> bool {
    let request = REQUEST.load(Relaxed);
    is_room(address)
        // SAFETY: the program's memory, where faults are fixed up, also those of a state that the processor refuses.
        && unsafe { skerry_load(address as *mut u8, request) } == 0
}

pub(crate) fn extended_bytes() -> usize {
    EXTENDED_BYTES.load(Relaxed)
}

pub(crate) fn extended_mask() -> u64 {
    u64::from(REQUEST.load(Relaxed)).max(LEGACY_MASK)
}

/// The calling thread's extended state and segment bases, which are in the processor.
#[derive(Debug)]
pub(crate) struct Extended(());

/// Returns the calling thread's state. The nucleus keeps it from the first time on.
pub(crate) fn extended() -> Extended {
    if !thread::has_state() {
        let all = [NO_HANDLE, number::ENTER];
        // SAFETY: the call changes no memory.
        let entered = unsafe { ask_with_memory(Call::Space, &all) };
        assert!(entered.is_ok(), "no state of programs: {entered:?}");
        thread::set_has_state();
    }
    Extended(())
}

impl Extended {
    pub(crate) fn copy_out(&self, out: &mut [u8]) -> bool {
        let Some(out) = out.get_mut(..extended_bytes()) else { return false };
        let mut area = StateArea([0; PAGE_BYTES]);
        // SAFETY: an aligned area; the processor has no more than its 4096 bytes for the request.
        let is_saved = unsafe { skerry_save(area.0.as_mut_ptr(), REQUEST.load(Relaxed)) } == 0;
        out.copy_from_slice(area.0.get(..out.len()).unwrap_or_default());
        is_saved
    }

    pub(crate) fn copy_in(&self, image: &[u8]) -> bool {
        let (bytes, mask) = (extended_bytes(), extended_mask());
        if !xsave::is_valid(image, bytes, mask, MXCSR_MASK.load(Relaxed)) {
            return false;
        }
        let mut area = StateArea([0; PAGE_BYTES]);
        xsave::take_over(area.0.get_mut(..bytes).unwrap_or_default(), image);
        // SAFETY: as above; the contents were checked.
        unsafe { skerry_load(area.0.as_mut_ptr(), REQUEST.load(Relaxed)) == 0 }
    }

    pub(crate) fn reset(&self) {
        // SAFETY: a whole area in its first state, which is only read.
        unsafe { skerry_load(CLEAN.0.as_ptr().cast_mut(), REQUEST.load(Relaxed)) };
    }

    pub(crate) fn bases(&self) -> Bases {
        let (fs, gs);
        // SAFETY: the nucleus runs programs only where these instructions are.
        unsafe {
            asm!("rdfsbase {}", "rdgsbase {}", out(reg) fs, out(reg) gs,
                options(nostack, nomem, preserves_flags));
        }
        Bases { fs, gs }
    }

    pub(crate) fn set_bases(&self, bases: Bases) {
        let acceptable = |base| if is_canonical(base) { base } else { USER_END };
        let (fs, gs) = (acceptable(bases.fs), acceptable(bases.gs));
        // SAFETY: canonical; this world uses neither.
        unsafe {
            asm!("wrfsbase {}", "wrgsbase {}", in(reg) fs, in(reg) gs,
                options(nostack, nomem, preserves_flags));
        }
    }
}
