//! The segment bases of programs, in the processor.
//!
//! The kernel does not use FS, and the program's GS base stays in the register that `swapgs`
//! exchanges, so both stay in the processor over system calls and interrupts. With FSGSBASE a
//! program sets them itself, so they are read back when the program leaves the processor.
//!
//! Source: Intel SDM volume 3, 5.8.8; volume 2, WRFSBASE.
use super::cpu;
use crate::memory::space::USER_END;
use core::{
    arch::asm,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
use program::Bases;

static HAS_FSGSBASE: AtomicBool = AtomicBool::new(false);

const IA32_FS_BASE: u32 = 0xc000_0100;
const IA32_KERNEL_GS_BASE: u32 = 0xc000_0102;

/// Lets programs of this processor set their bases, if the processor has FSGSBASE.
pub fn init_cpu() {
    // SAFETY: becomes GS at `swapgs` only.
    unsafe { cpu::write_msr(IA32_KERNEL_GS_BASE, 0) };
    HAS_FSGSBASE.store(cpu::features().has_fsgsbase, Relaxed);
}

/// Returns whether the processor has FSGSBASE.
pub fn has_fsgsbase() -> bool {
    HAS_FSGSBASE.load(Relaxed)
}

/// Returns a base that the processor accepts: one that it would refuse is replaced by an address
/// that faults when used.
fn acceptable(base: u64) -> u64 {
    if super::is_canonical(base) { base } else { USER_END }
}

/// The saved bases of a program, for when the processor does not hold them.
#[derive(Debug, Default)]
pub struct Kept {
    fs: AtomicU64,
    gs: AtomicU64,
}

impl Kept {
    /// Returns the saved bases.
    pub fn get(&self) -> Bases {
        Bases { fs: self.fs.load(Relaxed), gs: self.gs.load(Relaxed) }
    }

    /// Saves `bases`.
    pub fn set(&self, bases: Bases) {
        self.fs.store(acceptable(bases.fs), Relaxed);
        self.gs.store(acceptable(bases.gs), Relaxed);
    }

    /// Loads the saved bases into the processor. Interrupts are off.
    pub fn load(&self) {
        let Bases { fs, gs } = self.get();
        if HAS_FSGSBASE.load(Relaxed) {
            // SAFETY: canonical; GS is the kernel's again at the end, interrupts are off, NMIs cope.
            unsafe {
                asm!("wrfsbase {}", "swapgs", "wrgsbase {}", "swapgs", in(reg) fs, in(reg) gs,
                    options(nostack, preserves_flags));
            }
        } else {
            // SAFETY: canonical; the kernel does not use FS.
            unsafe { cpu::write_msr(IA32_FS_BASE, fs) };
            // SAFETY: canonical; becomes GS at `swapgs` only.
            unsafe { cpu::write_msr(IA32_KERNEL_GS_BASE, gs) };
        }
    }

    /// Saves the processor's bases. Without FSGSBASE they cannot have changed. Interrupts are off.
    #[inline]
    pub fn save(&self) {
        if HAS_FSGSBASE.load(Relaxed) {
            let (fs, gs): (u64, u64);
            // SAFETY: as in `load`.
            unsafe {
                asm!("rdfsbase {}", "swapgs", "rdgsbase {}", "swapgs", out(reg) fs, out(reg) gs,
                    options(nostack, preserves_flags));
            }
            self.fs.store(fs, Relaxed);
            self.gs.store(gs, Relaxed);
        }
    }
}
