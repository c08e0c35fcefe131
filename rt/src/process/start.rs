//! The start of a component. The nucleus enters `_start` on a thread that has no stack yet.
//!
//! The first thread runs on a small static stack and has no [block](super::thread). It spawns the main thread and ends.
use super::{call::ask_with_memory, extended, log, memory, thread};
use crate::PAGE_BYTES;
use calls::Call;
use core::{arch::naked_asm, cell::UnsafeCell};

const FIRST_STACK_BYTES: usize = 2 * PAGE_BYTES;

#[repr(C, align(16))]
struct FirstStack(UnsafeCell<[u8; FIRST_STACK_BYTES]>);

// SAFETY: used by the first thread as its stack and by nobody else.
unsafe impl Sync for FirstStack {}

static FIRST_STACK: FirstStack = FirstStack(UnsafeCell::new([0; FIRST_STACK_BYTES]));

unsafe extern "Rust" {
    /// The component's main function, which [`crate::component_main!`] makes.
    #[link_name = "skerry_component_main"]
    safe fn component_main();
}

/// Runs the main thread.
pub(super) fn main() {
    log::init();
    component_main();
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!(
        "xor ebp, ebp",
        "lea rsp, [rip + {stack} + {bytes}]",
        "call {first}",
        "ud2",
        stack = sym FIRST_STACK,
        bytes = const FIRST_STACK_BYTES,
        first = sym first,
    )
}

/// Starts the main thread. The nucleus passes the memory that the component was granted.
extern "C" fn first(granted_bytes: usize) -> ! {
    memory::init(granted_bytes);
    thread::init();
    extended::init();
    if thread::start(None, None).is_err() {
        panic!("no memory for the main thread");
    }
    loop {
        // SAFETY: ends this thread, which nobody waits for.
        let _ = unsafe { ask_with_memory(Call::Exit, &[]) };
    }
}
