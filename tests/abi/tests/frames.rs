//! Frames of signal handlers: the extended state is kept through them, and a frame that its program has spoilt
//! ends that program alone.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{
    arch::{asm, is_x86_feature_detected},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

const PAGE: usize = 4096;
/// Places in the image of extended state, and of a page that is none.
const MXCSR_AT: usize = 24;
const XMM_3_AT: usize = 160 + 3 * 16;
const WORDS_AT: usize = 464;
const IMAGE_BYTES_AT: usize = WORDS_AT + 16;
const COMPONENTS_AT: usize = 512;
const COMPACTION_AT: usize = 520;
const RESERVED_AT: usize = 530;
const NESTED: usize = 3;

static DEPTH: AtomicUsize = AtomicUsize::new(0);
static SPOIL_AT: AtomicUsize = AtomicUsize::new(0);
static SPOIL_WITH: AtomicUsize = AtomicUsize::new(0);

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

fn install(handler: Handler, flags: i32) {
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = flags | libc::SA_SIGINFO;
    must(unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) });
}

fn pages(count: usize) -> *mut u8 {
    const PLACE: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;
    let at = unsafe { libc::mmap(std::ptr::null_mut(), count * PAGE, BOTH, PLACE, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at.cast()
}

fn use_alternate_stack(memory: *mut u8, bytes: usize) {
    let stack = libc::stack_t { ss_sp: memory.cast(), ss_flags: 0, ss_size: bytes };
    must(unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) });
}

fn raise() {
    must(unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) });
}

/// Sends itself a signal with `seed` in vector registers, by one instruction; whether they were kept.
fn keeps_vectors(seed: u8) -> bool {
    let filled: [[u8; 32]; 4] = std::array::from_fn(|at| [seed ^ (at as u8 * 0x11); 32]);
    let mut found = [[0u8; 32]; 4];
    let process = unsafe { libc::getpid() };
    if is_x86_feature_detected!("avx") {
        unsafe {
            asm!(
                "vmovups ymm0, [r8]", "vmovups ymm5, [r8 + 32]",
                "vmovups ymm10, [r8 + 64]", "vmovups ymm15, [r8 + 96]",
                "syscall",
                "vmovups [r9], ymm0", "vmovups [r9 + 32], ymm5",
                "vmovups [r9 + 64], ymm10", "vmovups [r9 + 96], ymm15",
                inout("rax") libc::SYS_kill => _, in("rdi") process, in("rsi") libc::SIGUSR1,
                in("r8") filled.as_ptr(), in("r9") found.as_mut_ptr(), out("rcx") _, out("r11") _,
                out("xmm0") _, out("xmm5") _, out("xmm10") _, out("xmm15") _,
            );
        }
        return found == filled;
    }
    unsafe {
        asm!(
            "movups xmm0, [r8]", "movups xmm15, [r8 + 96]", "syscall",
            "movups [r9], xmm0", "movups [r9 + 96], xmm15",
            inout("rax") libc::SYS_kill => _, in("rdi") process, in("rsi") libc::SIGUSR1,
            in("r8") filled.as_ptr(), in("r9") found.as_mut_ptr(), out("rcx") _, out("r11") _,
            out("xmm0") _, out("xmm15") _,
        );
    }
    found[0][..16] == filled[0][..16] && found[3][..16] == filled[3][..16]
}

extern "C" fn nest(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let depth = DEPTH.fetch_add(1, SeqCst) + 1;
    if depth < NESTED {
        assert!(keeps_vectors(depth as u8));
    }
    assert!(unsafe { libc::getppid() } > 0);
}

#[test]
fn vector_registers_survive_nested_handlers() {
    isolated(|| {
        install(nest, libc::SA_NODEFER);
        for seed in 0..20 {
            DEPTH.store(0, SeqCst);
            assert!(keeps_vectors(0x80 | seed));
            assert_eq!(DEPTH.load(SeqCst), NESTED);
        }
    });
}

#[test]
fn vector_registers_survive_on_an_alternate_stack() {
    isolated(|| {
        // Not yet present: the frames themselves bring the pages.
        use_alternate_stack(pages(16), 16 * PAGE);
        install(nest, libc::SA_NODEFER | libc::SA_ONSTACK);
        assert!(keeps_vectors(0xa5));
        assert_eq!(DEPTH.load(SeqCst), NESTED);
    });
}

/// Where a frame says that its image is, which the C library keeps to itself: behind flags, link, stack and registers.
fn image_pointer(context: *mut libc::c_void) -> *mut *mut u8 {
    context.wrapping_byte_add(8 + 8 + size_of::<libc::stack_t>() + 23 * 8).cast()
}

/// The image of extended state in the frame of `context`.
fn image_of(context: *mut libc::c_void) -> *mut u8 {
    unsafe { image_pointer(context).read() }
}

/// Puts a byte into the image.
extern "C" fn spoil(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let at = image_of(context).wrapping_add(SPOIL_AT.load(SeqCst));
    unsafe { at.write(SPOIL_WITH.load(SeqCst) as u8) };
}

/// How a program ends whose handler puts `byte` at `at` of the image.
fn spoilt(at: usize, byte: u8) -> Ended {
    wait(fork(|| {
        SPOIL_AT.store(at, SeqCst);
        SPOIL_WITH.store(byte.into(), SeqCst);
        install(spoil, 0);
        raise();
    }))
}

/// What becomes of a program that loads bits of MXCSR that are not there; QEMU's TCG does not mind.
fn loads_bad_mxcsr() -> Ended {
    let bad: u32 = 0x8000_1f80;
    wait(fork(|| unsafe { asm!("ldmxcsr [{}]", in(reg) &bad) }))
}

#[test]
fn a_state_that_the_processor_would_refuse_ends_in_sigsegv() {
    isolated(|| {
        let killed = Ended::Signalled(libc::SIGSEGV);
        assert_eq!(spoilt(MXCSR_AT + 3, 0x80), loads_bad_mxcsr(), "bits of MXCSR");
        if !is_x86_feature_detected!("xsave") {
            return;
        }
        assert_eq!(spoilt(COMPONENTS_AT + 7, 0x40), killed, "a component that nobody has");
        assert_eq!(spoilt(COMPACTION_AT, 1), killed, "XCOMP_BV");
        assert_eq!(spoilt(RESERVED_AT, 1), killed, "a reserved byte of the header");
    });
}

#[test]
fn without_linux_words_the_legacy_area_is_taken_back() {
    isolated(|| {
        assert_eq!(spoilt(WORDS_AT, 0), Ended::Exited(0), "the first magic");
        assert_eq!(spoilt(IMAGE_BYTES_AT, 0xff), Ended::Exited(0), "a size that is not ours");
    });
}

extern "C" fn change(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    unsafe { image_of(context).add(XMM_3_AT).cast::<u64>().write_unaligned(77) };
}

#[test]
fn a_handler_may_change_the_registers() {
    isolated(|| {
        install(change, 0);
        let process = unsafe { libc::getpid() };
        let found: u64;
        unsafe {
            asm!(
                "movq xmm3, rdi", "syscall", "movq rax, xmm3",
                inout("rax") libc::SYS_kill => found, in("rdi") process, in("rsi") libc::SIGUSR1,
                out("rcx") _, out("r11") _, out("xmm3") _,
            );
        }
        assert_eq!(found, 77);
    });
}

/// Moves where the frame says its image is: to the last bytes of a page before nothing.
extern "C" fn misplace(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let place = SPOIL_AT.load(SeqCst) as *mut u8;
    unsafe {
        std::ptr::copy_nonoverlapping(image_of(context), place, COMPONENTS_AT);
        image_pointer(context).write(place);
    }
}

#[test]
fn a_state_that_is_not_all_there_ends_in_sigsegv() {
    isolated(|| {
        let memory = pages(2);
        must(unsafe { libc::munmap(memory.add(PAGE).cast(), PAGE) });
        let whole_legacy = memory as usize + PAGE - COMPONENTS_AT;
        for place in [whole_legacy, whole_legacy + 8 - 64] {
            let ended = wait(fork(|| {
                SPOIL_AT.store(place, SeqCst);
                install(misplace, 0);
                raise();
            }));
            assert_eq!(ended, Ended::Signalled(libc::SIGSEGV), "{place:x}");
        }
    });
}

#[test]
fn a_stack_without_room_for_the_frame_ends_in_sigsegv() {
    isolated(|| {
        let memory = pages(3);
        must(unsafe { libc::mprotect(memory.cast(), PAGE, libc::PROT_READ) });
        let below = memory as usize + PAGE;
        // The frame has the image on top: it ends in the page that cannot be written by its own part, or by the image.
        for top in [below + 256, below + 600, below + 1024] {
            let ended = wait(fork(|| {
                install(nest, 0);
                let process = unsafe { libc::getpid() };
                unsafe {
                    asm!(
                        "mov r12, rsp", "mov rsp, {top}", "syscall", "mov rsp, r12",
                        top = in(reg) top + 128,
                        inout("rax") libc::SYS_kill => _, in("rdi") process,
                        in("rsi") libc::SIGUSR1, out("rcx") _, out("r11") _,
                        out("r12") _,
                    );
                }
            }));
            assert_eq!(ended, Ended::Signalled(libc::SIGSEGV), "{top:x}");
        }
    });
}

/// A `siginfo_t` of 128 bytes with `code`, and 9 in its last word.
fn queued(code: i32) -> [i32; 32] {
    let mut info = [0; 32];
    (info[0], info[2], info[31]) = (libc::SIGUSR1, code, 9);
    info
}

fn queue(info: &[i32; 32]) -> Result<i64, i32> {
    match unsafe { libc::syscall(libc::SYS_rt_sigqueueinfo, libc::getpid(), libc::SIGUSR1, info) } {
        -1 => Err(errno()),
        done => Ok(done),
    }
}

extern "C" fn look(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let words = unsafe { info.cast::<[i32; 32]>().read() };
    DEPTH.store(words[31] as usize + 1, SeqCst);
    SPOIL_AT.store(words[5] as usize, SeqCst);
}

#[test]
fn a_siginfo_carries_what_linux_knows_and_no_more() {
    isolated(|| {
        const UNKNOWN: i32 = -50;
        install(look, 0);
        let mut info = queued(libc::SI_QUEUE);
        info[5] = 1234;
        assert_eq!(queue(&info), Ok(0));
        assert_eq!((DEPTH.load(SeqCst), SPOIL_AT.load(SeqCst)), (1, 1234));
        assert_eq!(queue(&queued(UNKNOWN)), Err(libc::E2BIG));
    });
}
