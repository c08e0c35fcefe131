//! Per-processor data, reached through the GS base.
//!
//! While in the kernel GS holds the address of this processor's [`PerCpu`]; entry from user mode
//! does `swapgs` first. The fields before `END OF FIXED PART` stand at offsets that assembly uses
//! (asserted below). Every field is atomic so that other processors may
//! read it; only the owner writes, except `need_resched`.
use core::{
    arch::asm,
    mem::offset_of,
    sync::atomic::{
        AtomicPtr, AtomicU32, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};

/// The greatest number of processors that the nucleus runs.
pub const MAX_CPUS: usize = firmware::acpi::MAX_PROCESSORS;

/// One processor's data.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct PerCpu {
    /// Address of this structure, so that it can be loaded through GS.
    pub this: AtomicPtr<PerCpu>,
    /// Scratch word of the system call entry: the program's stack pointer.
    pub user_rsp: AtomicU64,
    /// The end of the `Registers` in which entry from user mode stores the program's registers.
    pub registers_end: AtomicPtr<program::Registers>,
    /// Number of the processor, from 0.
    pub cpu: AtomicU32,
    /// Preemption is off while this is not 0.
    pub preempt_count: AtomicU32,
    /// The running thread (a `thread::Thread`), null before the first.
    pub current: AtomicPtr<u8>,
    /// Whether the scheduler must run on this processor, and how soon. Any processor may set it.
    pub need_resched: AtomicU32,
    /// Nesting depth of interrupt handlers under way.
    pub interrupt_nesting: AtomicU32,
    /// Stack pointer that entry from user mode loads.
    pub kernel_rsp: AtomicU64,
    /// The space (its `space::Inner`) in which user mode may be entered at once: the running thread is in it, its
    /// extended state is loaded, and nothing needs its attention. Otherwise null.
    pub ready_space: AtomicPtr<u8>,
    /// The frame that the processor pushes at an interrupt from user mode, with vector and error code below it.
    pub entry_stack: [AtomicU64; 8],
    /// The scheduler's data (a `thread::processor::Processor`); null before it is made.
    pub processor: AtomicPtr<u8>,
    // END OF FIXED PART
    /// 1 while an interrupt that came from user mode is handled. A tick then counts as user time.
    pub user_interrupted: AtomicU32,
    /// Local APIC id.
    pub apic_id: AtomicU32,
    /// 1 once the processor takes interrupts and runs threads.
    pub is_online: AtomicU32,
}

// Names that assembly uses here, in `user` and in `component`.
const _: () = {
    assert!(offset_of!(PerCpu, this) == 0);
    assert!(offset_of!(PerCpu, user_rsp) == 8);
    assert!(offset_of!(PerCpu, registers_end) == 16);
    assert!(offset_of!(PerCpu, cpu) == 24);
    assert!(offset_of!(PerCpu, preempt_count) == 28);
    assert!(offset_of!(PerCpu, current) == 32);
    assert!(offset_of!(PerCpu, need_resched) == 40);
    assert!(offset_of!(PerCpu, interrupt_nesting) == 44);
    assert!(offset_of!(PerCpu, kernel_rsp) == 48);
    assert!(offset_of!(PerCpu, ready_space) == 56);
    assert!(offset_of!(PerCpu, entry_stack) == 64);
    assert!(offset_of!(PerCpu, processor) == 128);
};

impl PerCpu {
    const fn new() -> PerCpu {
        // SAFETY: atomics all, of which 0 and null are values.
        unsafe { core::mem::zeroed() }
    }
}

/// Value of [`PerCpu::need_resched`]: reschedule when the running thread enters user mode or blocks.
pub const RESCHEDULE_LATER: u32 = 1;
/// Value of [`PerCpu::need_resched`]: reschedule as soon as the running thread may be preempted.
pub const RESCHEDULE_NOW: u32 = 2;

impl PerCpu {
    /// Requests a reschedule as soon as possible. A caller on another processor must also interrupt this one.
    pub fn want_reschedule(&self) {
        self.need_resched.store(RESCHEDULE_NOW, SeqCst);
        self.ready_space.store(core::ptr::null_mut(), Relaxed);
    }

    /// Requests a reschedule when the running thread leaves the kernel, unless an earlier one is requested.
    pub fn want_reschedule_later(&self) {
        self.need_resched.fetch_max(RESCHEDULE_LATER, SeqCst);
        self.ready_space.store(core::ptr::null_mut(), Relaxed);
    }

    /// Requests a reschedule at a tick: later, or as soon as possible if a late one was requested before the last
    /// tick and the kernel has not been left since.
    pub fn want_reschedule_lazily(&self) {
        let wanted = self.need_resched.load(SeqCst);
        self.need_resched.fetch_max((wanted + 1).min(RESCHEDULE_NOW), SeqCst);
        self.ready_space.store(core::ptr::null_mut(), Relaxed);
    }

    /// Returns whether the running thread must be preempted, also inside the kernel.
    #[inline]
    pub fn is_preempted(&self) -> bool {
        self.need_resched.load(Relaxed) == RESCHEDULE_NOW
    }
}

static CPUS: [PerCpu; MAX_CPUS] = [const { PerCpu::new() }; MAX_CPUS];

/// Returns the data of processor `cpu`.
///
/// # Panics
/// If `cpu` is not below [`MAX_CPUS`].
pub fn of(cpu: usize) -> &'static PerCpu {
    &CPUS[cpu]
}

/// Returns this processor's data. With preemption on, the thread may be on another processor a moment later.
#[inline]
pub fn this() -> &'static PerCpu {
    let this: *const PerCpu;
    // SAFETY: `install` put the address of an element of `CPUS` in GS before any other kernel code ran.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) this, options(nostack, preserves_flags, readonly, pure));
    }
    // SAFETY: `this` is the address of a static, never mutably borrowed.
    unsafe { &*this }
}

/// Accesses a field of this processor's data, at an offset that is asserted above, in one instruction.
macro_rules! field {
    ($offset:literal, $type:ty, $register:literal) => {{
        let value: $type;
        // SAFETY: GS is this processor's `PerCpu`.
        unsafe {
            asm!(concat!("mov ", $register, ", gs:[", $offset, "]"), out(reg) value,
                options(nostack, preserves_flags, readonly));
        }
        value
    }};
}

/// Returns whether [`PerCpu::need_resched`] is set on this processor.
#[inline(always)]
pub fn needs_reschedule() -> bool {
    field!(40, u32, "{:e}") != 0
}

/// Returns [`PerCpu::current`] of this processor.
#[inline]
pub fn current() -> *mut u8 {
    field!(32, *mut u8, "{}")
}

/// Returns [`PerCpu::processor`] of this processor.
#[inline(always)]
pub fn processor() -> *mut u8 {
    field!(128, *mut u8, "{}")
}

/// Returns the number of this processor (a hint with preemption on).
#[inline]
pub fn cpu() -> usize {
    field!(24, u32, "{:e}") as usize
}

/// Returns [`PerCpu::ready_space`] of this processor. Interrupts are off.
#[inline(always)]
pub fn ready_space() -> *mut u8 {
    field!(56, *mut u8, "{}")
}

/// Clears [`PerCpu::ready_space`], so that entry to user mode checks all conditions again. It does so in one
/// instruction, so that a switch, which does the same, cannot fall between.
#[inline]
pub fn forget_ready_space() {
    // SAFETY: GS is this processor's `PerCpu`; `ready_space` stands at offset 56 (asserted above).
    unsafe { asm!("mov qword ptr gs:[56], 0", options(nostack, preserves_flags)) };
}

/// Switches preemption off (counted), in one instruction so that a switch cannot fall between.
#[inline]
pub fn preempt_disable() {
    // SAFETY: GS is this processor's `PerCpu`; `preempt_count` stands at offset 28 (asserted above).
    unsafe {
        asm!("inc dword ptr gs:[28]", options(nostack));
    }
}

/// Undoes one [`preempt_disable`]. Returns whether preemption is on again and a reschedule is wanted.
#[inline]
#[must_use]
pub fn preempt_enable() -> bool {
    let is_on: u8;
    // SAFETY: as in `preempt_disable`.
    unsafe {
        asm!("dec dword ptr gs:[28]", "setz {}", out(reg_byte) is_on, options(nostack));
    }
    is_on != 0 && this().is_preempted()
}

/// Makes this processor number `cpu`: fills its data and loads GS.
///
/// # Safety
/// Once for each number, on the processor that is to have it, before any other use of this module there.
pub unsafe fn install(cpu: usize) {
    const IA32_GS_BASE: u32 = 0xc000_0101;
    let data = of(cpu);
    data.cpu.store(cpu as u32, Relaxed);
    data.this.store(core::ptr::from_ref(data).cast_mut(), Relaxed);
    let address = core::ptr::from_ref(data) as u64;
    // SAFETY: a canonical address of a static that lives for ever; the caller says nobody used GS yet.
    unsafe {
        asm!("wrmsr", in("ecx") IA32_GS_BASE, in("eax") address as u32, in("edx") (address >> 32) as u32,
            options(nostack, preserves_flags));
    }
}
