//! Threads that load GS bases in the kernel's half and check whether they keep them, for a number of seconds.
//! Non-maskable interrupts that come meanwhile meet such a base. Prints the number of checks.
use std::{
    arch::asm,
    time::{Duration, Instant},
};

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
    let seconds: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1);
    // SAFETY: reads the auxiliary vector. Bit 1 of AT_HWCAP2 says that programs may use the instructions.
    let features = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    assert!(features & 2 != 0, "the processor or the kernel has no FSGSBASE");
    let until = Instant::now() + Duration::from_secs(seconds);
    let look = move || {
        let mut looks = 0;
        while Instant::now() < until {
            for base in BASES {
                assert_eq!(lost(base), 0, "{base:#x} was lost");
                looks += LOOKS;
            }
        }
        looks
    };
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let threads: Vec<_> = (0..count).map(|_| std::thread::spawn(look)).collect();
    let looks: u64 =
        threads.into_iter().map(|thread| thread.join().expect("a base was lost")).sum();
    println!("{looks} looks");
}
