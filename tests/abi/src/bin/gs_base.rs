//! Threads that load GS bases in the kernel's half and check whether they keep them, until the file of the argument
//! exists. Non-maskable interrupts that come meanwhile meet such a base. Prints a line as each thread begins.
use std::{arch::asm, path::PathBuf};

/// Canonical addresses of the upper half: an address of kernel data, and the highest.
const BASES: [u64; 3] = [0xffff_8000_0000_0000, 0xffff_ffff_8100_0000, u64::MAX];
const LOOKS: u64 = 10_000;

/// Loads `base` and checks again and again that it is there. Returns the number of times that it was not.
fn lost(base: u64) -> u64 {
    let mut lost = 0;
    // SAFETY: the processor has the instruction (`main` asks); nothing of std uses GS.
    unsafe { asm!("wrgsbase {}", in(reg) base, options(nostack, preserves_flags)) };
    for _ in 0..LOOKS {
        let found: u64;
        // SAFETY: as above.
        unsafe { asm!("rdgsbase {}", out(reg) found, options(nostack, preserves_flags)) };
        lost += u64::from(found != base);
    }
    lost
}

fn main() {
    let end = PathBuf::from(std::env::args_os().nth(1).expect("gs_base FILE"));
    // SAFETY: reads the auxiliary vector. Bit 1 of AT_HWCAP2 says that programs may use the instructions.
    let features = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    assert!(features & 2 != 0, "the processor or the kernel has no FSGSBASE");
    let look = || {
        println!("looking");
        while !end.exists() {
            for base in BASES {
                assert_eq!(lost(base), 0, "{base:#x} was lost");
            }
        }
    };
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    // Its end fails the program if one of the threads panicked.
    std::thread::scope(|scope| (0..count).for_each(|_| _ = scope.spawn(look)));
}
