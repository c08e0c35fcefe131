//! Takes page tables. `walk`: maps one page, touches and unmaps it, 2 MiB further each time, and prints how much VmPTE grew.
//! `sparse`: loads one byte of each 2 MiB of a mapping that it never stores to, until it is ended.
use std::{env, fs, ptr};

const PAGE: usize = 4096;
const STEP: usize = 2 << 20;
const STEPS: usize = 100_000;
const FIRST: usize = 0x1000_0000_0000;
/// Address space that `sparse` walks: more tables than the machine has memory.
const SPARSE: usize = 1 << 46;

fn map(at: usize, bytes: usize, flags: i32) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping where nothing of the program is.
    let mapped = unsafe { libc::mmap(at as *mut _, bytes, protection, flags, -1, 0) };
    assert_ne!(mapped, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
    mapped.cast()
}

/// Returns the KiB in the line `name` of `/proc/self/status`.
fn status_kib(name: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the line");
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number")
}

fn walk() {
    let before = status_kib("VmPTE");
    for step in 0..STEPS {
        let at = map(FIRST + step * STEP, PAGE, libc::MAP_FIXED_NOREPLACE);
        // SAFETY: a page just mapped.
        unsafe { at.write_volatile(1) };
        // SAFETY: the page just mapped, of which nobody else knows.
        assert_eq!(unsafe { libc::munmap(at.cast(), PAGE) }, 0);
    }
    println!("walked, {} KiB more", status_kib("VmPTE").saturating_sub(before) / 64 * 64);
}

fn sparse() {
    let start = map(0, SPARSE, libc::MAP_NORESERVE);
    for at in (0..SPARSE).step_by(STEP) {
        // SAFETY: within the mapping.
        unsafe { ptr::read_volatile(start.wrapping_add(at)) };
    }
    println!("walked all");
}

fn main() {
    match env::args().nth(1).as_deref() {
        Some("walk") => walk(),
        Some("sparse") => sparse(),
        _ => eprintln!("usage: table_hog walk|sparse"),
    }
}
