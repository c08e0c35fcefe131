//! Backtraces by frame pointers, with names from the symbol table behind the image.
//!
//! An image without the table still boots and prints bare addresses.
use crate::arch::boot::{DIRECT_MAP, KERNEL_BASE};
use core::ops::Range;
use firmware::symbols::{self, HEADER_BYTES};
use x86::chain;

/// The greatest number of frames that are printed.
const MAX_FRAMES: usize = 48;
/// Greatest distance of a caller's frame from its callee's.
const MAX_FRAME_BYTES: u64 = 32 * 1024;

#[used]
#[unsafe(link_section = ".symbols")]
static PLACEHOLDER: [u32; 4] = [symbols::MAGIC, 0, HEADER_BYTES as u32, HEADER_BYTES as u32];

unsafe extern "C" {
    static __symbols_start: u8;
    static __text_start: u8;
    static __text_end: u8;
}

/// Returns the size of the symbol table with its header, in bytes.
pub fn table_bytes() -> usize {
    let header = (&raw const __symbols_start).cast::<[u8; HEADER_BYTES]>();
    // SAFETY: the header is always there; volatile, as the linked contents are not the final ones.
    symbols::table_bytes(&unsafe { header.read_volatile() })
}

/// Returns the function that contains `address`, and the offset in it.
pub fn symbol(address: u64) -> Option<(&'static str, u32)> {
    let offset = u32::try_from(address.checked_sub(KERNEL_BASE)?).ok()?;
    // SAFETY: the table has these bytes (its header says so) and is never written.
    let table = unsafe { core::slice::from_raw_parts(&raw const __symbols_start, table_bytes()) };
    symbols::find(table, offset)
}

fn is_code(address: u64) -> bool {
    ((&raw const __text_start) as u64..(&raw const __text_end) as u64).contains(&address)
}

/// Prints the call chain that starts at instruction `rip` with frame pointer `rbp`.
pub fn print(rip: u64, rbp: u64) {
    // A corrupt frame pointer ends in a second fault, which the panic handler survives.
    let calls = [rip].into_iter().chain(walk(rbp, &(DIRECT_MAP..u64::MAX)));
    calls.enumerate().for_each(|(depth, address)| print_frame(depth, address));
}

/// Returns the calls that lead to the frame at `rbp`, innermost first, while frames lie within `stack`.
pub fn walk(rbp: u64, stack: &Range<u64>) -> impl Iterator<Item = u64> {
    let read = move |frame: u64| {
        let is_frame = stack.contains(&frame) && stack.end - frame >= 16 && frame.is_multiple_of(8);
        // SAFETY: a frame pointer of this kernel's own code leads to a saved frame pointer and return address on a mapped
        // stack.
        is_frame.then(|| unsafe { (frame as *const [u64; 2]).read_volatile() })
    };
    let calls = chain::walk(rbp, MAX_FRAMES - 1, MAX_FRAME_BYTES, read);
    calls.take_while(|&address| is_code(address)).map(|address| address - 1)
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
