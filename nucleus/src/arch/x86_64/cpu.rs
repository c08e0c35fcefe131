//! Single instructions that Rust has no operation for: ports, model-specific and control registers, interrupt
//! flag, time-stamp counter; and the processor features that the nucleus enables.
use core::arch::asm;
pub use core::hint::spin_loop as relax;
pub use x86::cpuid::Features;

/// Declares the port accesses of one width: the function that reads, the one that writes, and the register.
macro_rules! port_access {
    ($read:ident, $write:ident, $width:ty, $register:tt) => {
        /// Reads from a port.
        ///
        /// # Safety
        /// Reading the port must not harm memory safety (no device there that writes memory on a read).
        #[inline]
        pub unsafe fn $read(port: u16) -> $width {
            let value;
            // SAFETY: the caller answers for the device.
            unsafe {
                asm!(concat!("in ", $register, ", dx"), in("dx") port, out($register) value,
                    options(nomem, nostack, preserves_flags))
            };
            value
        }

        /// Writes to a port.
        ///
        /// # Safety
        /// The device's use of it must not harm memory safety.
        #[inline]
        pub unsafe fn $write(port: u16, value: $width) {
            // SAFETY: the caller answers for the device.
            unsafe {
                asm!(concat!("out dx, ", $register), in("dx") port, in($register) value,
                    options(nomem, nostack, preserves_flags))
            };
        }
    };
}

port_access!(in8, out8, u8, "al");
port_access!(in16, out16, u16, "ax");
port_access!(in32, out32, u32, "eax");

/// Writes bytes to a port, one after the other.
///
/// # Safety
/// The same as for [`out8`], for each byte.
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
/// The register exists, and the value does not change memory in a way that Rust does not expect.
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
/// The bits exist and fit the kernel's tables and code.
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

/// Returns the caller's frame pointer.
#[inline(always)]
pub fn frame_pointer() -> u64 {
    let rbp;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rbp", out(reg) rbp, options(nomem, nostack, preserves_flags)) };
    rbp
}

/// Returns whether interrupts are enabled.
#[inline]
pub fn interrupts_enabled() -> bool {
    let flags: u64;
    // SAFETY: pushes and pops the flags; the stack is as before.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
    flags & 1 << 9 != 0
}

/// Enables interrupts.
///
/// # Safety
/// The IDT is loaded, and no lock that an interrupt handler takes is held.
#[inline]
pub unsafe fn enable_interrupts() {
    // SAFETY: the caller says handlers may run.
    unsafe { asm!("sti", options(nostack)) };
}

/// Disables interrupts.
#[inline]
pub fn disable_interrupts() {
    // SAFETY: being without interrupts is always sound.
    unsafe { asm!("cli", options(nostack)) };
}

/// Stops this processor for good.
pub fn halt_forever() -> ! {
    loop {
        // SAFETY: without interrupts nothing but NMI gets the processor out, and then we stop again.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}

/// Executes `cpuid` for a leaf and subleaf. Returns eax, ebx, ecx and edx.
#[inline]
pub fn cpuid(leaf: u32, subleaf: u32) -> [u32; 4] {
    let answer = core::arch::x86_64::__cpuid_count(leaf, subleaf);
    [answer.eax, answer.ebx, answer.ecx, answer.edx]
}

/// Returns the features of this processor.
pub fn features() -> Features {
    Features::of(cpuid)
}

/// Enables the features of [`Features::cr4`] on this processor.
pub fn init_cpu() {
    let bits = features().cr4();
    // SAFETY: the bits are there (CPUID), and the kernel neither runs nor reads user pages outside `stac`.
    unsafe { set_cr4(cr4() | bits) };
}
