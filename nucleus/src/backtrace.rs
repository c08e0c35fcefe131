//! Backtraces by frame pointers, with names from the symbol table behind the image.
//!
//! The table is put there after linking (`xtask`, from the ELF's own symbols); an image without it
//! still boots and prints bare addresses. Layout, little-endian, at `__symbols_start`:
//!
//! ```text
//! u32 magic "SKSY"   u32 count   u32 bytes of all   u32 offset of the names
//! count * { u32 address - KERNEL_BASE, u32 name's offset within the names }   ascending
//! names, each ended by a NUL
//! ```
use crate::arch::boot::{DIRECT_MAP, KERNEL_BASE};
use core::ops::Range;

const MAGIC: u32 = u32::from_le_bytes(*b"SKSY");
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 8;
/// Frames printed at most.
const MAX_FRAMES: usize = 48;
/// A caller's frame lies at most this far above its callee's.
const MAX_FRAME_BYTES: u64 = 32 * 1024;

#[used]
#[unsafe(link_section = ".symbols")]
static PLACEHOLDER: [u32; 4] = [MAGIC, 0, HEADER_BYTES as u32, HEADER_BYTES as u32];

unsafe extern "C" {
    static __symbols_start: u8;
    static __text_start: u8;
    static __text_end: u8;
}

fn word(offset: usize) -> u32 {
    let at = (&raw const __symbols_start).wrapping_add(offset).cast::<u32>();
    // SAFETY: the header is always there, and callers stay within the bytes it tells; volatile, as
    // the linked contents are not the final ones.
    unsafe { at.read_volatile() }
}

/// Bytes of the symbol table with its header.
pub fn table_bytes() -> usize {
    (word(8) as usize).max(HEADER_BYTES)
}

fn count() -> usize {
    if word(0) == MAGIC { word(4) as usize } else { 0 }
}

/// The function that `address` lies in, and how far into it.
pub fn symbol(address: u64) -> Option<(&'static str, u64)> {
    let offset = u32::try_from(address.checked_sub(KERNEL_BASE)?).ok()?;
    let (mut low, mut high) = (0, count());
    while low < high {
        let middle = usize::midpoint(low, high);
        if word(HEADER_BYTES + middle * ENTRY_BYTES) <= offset {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let entry = HEADER_BYTES + low.checked_sub(1)? * ENTRY_BYTES;
    Some((name(word(12) as usize + word(entry + 4) as usize)?, u64::from(offset - word(entry))))
}

fn name(offset: usize) -> Option<&'static str> {
    let room = table_bytes().checked_sub(offset)?;
    let start = (&raw const __symbols_start).wrapping_add(offset);
    // SAFETY: `room` bytes from `start` are within the table, which is never written.
    let bytes = unsafe { core::slice::from_raw_parts(start, room) };
    let length = bytes.iter().position(|&byte| byte == 0)?;
    core::str::from_utf8(&bytes[..length]).ok()
}

fn is_code(address: u64) -> bool {
    ((&raw const __text_start) as u64..(&raw const __text_end) as u64).contains(&address)
}

/// Prints the call chain that starts at instruction `rip` with frame pointer `rbp`.
pub fn print(rip: u64, rbp: u64) {
    print_frame(0, rip);
    let mut depth = 0;
    // A corrupt frame pointer ends in a second fault, which the panic survives.
    walk(rbp, &(DIRECT_MAP..u64::MAX), |address| {
        depth += 1;
        print_frame(depth, address);
    });
}

/// Visits the calls that lead to the frame at `rbp`, innermost first, while frames lie within `stack`.
pub fn walk(rbp: u64, stack: &Range<u64>, mut visit: impl FnMut(u64)) {
    let mut frame = rbp;
    for _ in 1..MAX_FRAMES {
        if !stack.contains(&frame) || stack.end - frame < 16 || !frame.is_multiple_of(8) {
            return;
        }
        // SAFETY: a frame pointer of this kernel's own code leads to a saved frame pointer and return
        // address on a mapped stack.
        let [next, return_address] = unsafe { (frame as *const [u64; 2]).read_volatile() };
        if !is_code(return_address) {
            return;
        }
        visit(return_address - 1);
        if next <= frame || next - frame > MAX_FRAME_BYTES {
            return;
        }
        frame = next;
    }
}

/// Prints the call at `address`, `depth` calls from the innermost.
pub fn print_frame(depth: usize, address: u64) {
    match symbol(address) {
        Some((name, offset)) => {
            let name = rustc_demangle::demangle(name);
            crate::log::print(format_args!("  {depth:2}: {address:#018x} {name:#}+{offset:#x}\n"));
        }
        None => crate::log::print(format_args!("  {depth:2}: {address:#018x}\n")),
    }
}

/// Prints the caller's call chain.
#[inline(never)]
pub fn print_here() {
    let rbp: u64;
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mov {}, rbp", out(reg) rbp, options(nomem, nostack, preserves_flags))
    };
    print(print_here as *const () as u64, rbp);
}
