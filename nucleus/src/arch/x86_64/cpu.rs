//! Single instructions that Rust has no word for: ports, model-specific and control registers,
//! interrupt flag, time-stamp counter; and the processor features the nucleus turns on.
use core::arch::asm;

/// Reads a byte from a port.
///
/// # Safety
/// Reading the port must not harm memory safety (no device there that writes memory on a read).
#[inline]
pub unsafe fn in8(port: u16) -> u8 {
    let value;
    // SAFETY: the caller answers for the device.
    unsafe {
        asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags))
    };
    value
}

/// Reads a long from a port.
///
/// # Safety
/// As [`in8`].
#[inline]
pub unsafe fn in32(port: u16) -> u32 {
    let value;
    // SAFETY: the caller answers for the device.
    unsafe {
        asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack, preserves_flags))
    };
    value
}

/// Reads a word from a port.
///
/// # Safety
/// As [`in8`].
#[inline]
pub unsafe fn in16(port: u16) -> u16 {
    let value;
    // SAFETY: the caller answers for the device.
    unsafe {
        asm!("in ax, dx", in("dx") port, out("ax") value, options(nomem, nostack, preserves_flags))
    };
    value
}

/// Writes a byte to a port.
///
/// # Safety
/// What the device does with it must not harm memory safety.
#[inline]
pub unsafe fn out8(port: u16, value: u8) {
    // SAFETY: the caller answers for the device.
    unsafe {
        asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags))
    };
}

/// Writes a word to a port.
///
/// # Safety
/// As [`out8`].
#[inline]
pub unsafe fn out16(port: u16, value: u16) {
    // SAFETY: the caller answers for the device.
    unsafe {
        asm!("out dx, ax", in("dx") port, in("ax") value, options(nomem, nostack, preserves_flags))
    };
}

/// Writes a long to a port.
///
/// # Safety
/// As [`out8`].
#[inline]
pub unsafe fn out32(port: u16, value: u32) {
    // SAFETY: the caller answers for the device.
    unsafe {
        asm!("out dx, eax", in("dx") port, in("eax") value, options(nomem, nostack, preserves_flags))
    };
}

/// Writes bytes to a port, one after the other.
///
/// # Safety
/// As [`out8`], for each byte.
#[inline]
pub unsafe fn out_bytes(port: u16, bytes: &[u8]) {
    // SAFETY: reads exactly `bytes`; the caller answers for the device.
    unsafe {
        asm!("rep outsb", in("dx") port, inout("rsi") bytes.as_ptr() => _, inout("rcx") bytes.len() => _,
            options(readonly, nostack, preserves_flags));
    }
}

/// Reads a model-specific register.
///
/// # Safety
/// The register exists on this processor.
#[inline]
pub unsafe fn read_msr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller says the register exists; reading changes nothing.
    unsafe {
        asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Writes a model-specific register.
///
/// # Safety
/// The register exists, and what the value does keeps Rust's memory as it is believed to be.
#[inline]
pub unsafe fn write_msr(register: u32, value: u64) {
    // SAFETY: the caller answers for the value.
    unsafe {
        asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32,
            options(nostack, preserves_flags));
    }
}

/// Reads CR4.
#[inline]
pub fn cr4() -> u64 {
    let value;
    // SAFETY: reading CR4 in ring 0 has no effect.
    unsafe { asm!("mov {}, cr4", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Writes CR4.
///
/// # Safety
/// The bits exist and fit what the kernel's tables and code expect.
#[inline]
pub unsafe fn set_cr4(value: u64) {
    // SAFETY: the caller answers for the bits.
    unsafe { asm!("mov cr4, {}", in(reg) value, options(nostack, preserves_flags)) };
}

/// Reads the time-stamp counter.
#[inline]
pub fn tsc() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: `rdtsc` reads a counter.
    unsafe {
        asm!("rdtsc", out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags))
    };
    u64::from(high) << 32 | u64::from(low)
}

/// Whether interrupts are let in.
#[inline]
pub fn interrupts_enabled() -> bool {
    let flags: u64;
    // SAFETY: pushes and pops the flags; the stack is as before.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
    flags & 1 << 9 != 0
}

/// Lets interrupts in.
///
/// # Safety
/// The IDT is loaded and nothing that an interrupt handler takes is held.
#[inline]
pub unsafe fn enable_interrupts() {
    // SAFETY: the caller says handlers may run.
    unsafe { asm!("sti", options(nostack)) };
}

/// Keeps interrupts out.
#[inline]
pub fn disable_interrupts() {
    // SAFETY: being without interrupts is always sound.
    unsafe { asm!("cli", options(nostack)) };
}

/// Tells the processor that this is a spin loop.
#[inline]
pub fn relax() {
    core::hint::spin_loop();
}

/// Stops this processor for good.
pub fn halt_forever() -> ! {
    loop {
        // SAFETY: without interrupts nothing but NMI gets the processor out, and then we stop again.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}

/// `cpuid` of a leaf and subleaf: eax, ebx, ecx, edx.
#[inline]
pub fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    let answer = core::arch::x86_64::__cpuid_count(leaf, subleaf);
    [answer.eax, answer.ebx, answer.ecx, answer.edx]
}

/// What this processor can do, of what the nucleus cares about outside user mode.
#[derive(Clone, Copy, Debug, Default)]
pub struct Features {
    /// Supervisor may not execute user pages.
    pub has_smep: bool,
    /// Supervisor may not access user pages unless it says so (`stac`).
    pub has_smap: bool,
    /// User mode may not read descriptor tables.
    pub has_umip: bool,
    /// `rdrand`.
    pub has_rdrand: bool,
    /// `rdseed`.
    pub has_rdseed: bool,
    /// The local APIC timer fires at a time-stamp.
    pub has_tsc_deadline: bool,
    /// A hypervisor runs us.
    pub has_hypervisor: bool,
}

/// Reads [`Features`].
pub fn features() -> Features {
    let highest = cpuid(0, 0)[0];
    let one = cpuid(1, 0);
    let seven = if highest >= 7 { cpuid(7, 0) } else { [0; 4] };
    let is_set = |word: u32, bit: u32| word >> bit & 1 != 0;
    Features {
        has_smep: is_set(seven[1], 7),
        has_smap: is_set(seven[1], 20),
        has_umip: is_set(seven[2], 2),
        has_rdrand: is_set(one[2], 30),
        has_rdseed: is_set(seven[1], 18),
        has_tsc_deadline: is_set(one[2], 24),
        has_hypervisor: is_set(one[2], 31),
    }
}

/// Turns on global pages, SSE and, where there, SMEP, SMAP and UMIP on this processor.
pub fn init_cpu() {
    const PGE: u64 = 1 << 7;
    const FXSR: u64 = 1 << 9;
    const SIMD_EXCEPTIONS: u64 = 1 << 10;
    const UMIP: u64 = 1 << 11;
    const SMEP: u64 = 1 << 20;
    const SMAP: u64 = 1 << 21;
    let features = features();
    let mut bits = PGE | FXSR | SIMD_EXCEPTIONS;
    for (has, bit) in
        [(features.has_umip, UMIP), (features.has_smep, SMEP), (features.has_smap, SMAP)]
    {
        if has {
            bits |= bit;
        }
    }
    // SAFETY: the bits are there (CPUID), and the kernel neither runs nor reads user pages outside `stac`.
    unsafe { set_cr4(cr4() | bits) };
}
