//! Frames of signal handlers: the extended state is kept through them, and a frame that its program has spoilt
//! ends that program alone.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "test programs call the C library in most lines"
)]

use abi::*;
use std::{
    arch::{asm, is_x86_feature_detected, naked_asm},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

const PAGE: usize = 4096;
/// Offsets in the image of extended state, and the size of a page.
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

/// Sends itself a signal with `seed` in vector registers, by one instruction. Returns whether they were kept.
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
        // The pages are not present yet: the frames bring them.
        use_alternate_stack(pages(16), 16 * PAGE);
        install(nest, libc::SA_NODEFER | libc::SA_ONSTACK);
        assert!(keeps_vectors(0xa5));
        assert_eq!(DEPTH.load(SeqCst), NESTED);
    });
}

/// Returns the address of the pointer to the image in a frame. The C library hides it: it follows flags, link, stack and
/// registers.
fn image_pointer(context: *mut libc::c_void) -> *mut *mut u8 {
    context.wrapping_byte_add(8 + 8 + size_of::<libc::stack_t>() + 23 * 8).cast()
}

/// Returns the image of extended state in the frame of `context`.
fn image_of(context: *mut libc::c_void) -> *mut u8 {
    unsafe { image_pointer(context).read() }
}

/// Puts a byte into the image.
extern "C" fn spoil(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let at = image_of(context).wrapping_add(SPOIL_AT.load(SeqCst));
    unsafe { at.write(SPOIL_WITH.load(SeqCst) as u8) };
}

/// Returns the end of a program whose handler puts `byte` at offset `at` of the image.
fn spoilt(at: usize, byte: u8) -> Ended {
    wait(fork(|| {
        SPOIL_AT.store(at, SeqCst);
        SPOIL_WITH.store(byte.into(), SeqCst);
        install(spoil, 0);
        raise();
    }))
}

/// Returns the end of a program that loads reserved bits of MXCSR; QEMU's TCG accepts them.
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

/// A handler that moves the frame's pointer to the image: to the last bytes of a page before unmapped memory.
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

/// Returns a `siginfo_t` of 128 bytes with `code`, and 9 in its last word.
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

/// The registers as a handler found them: 16 of 32 bytes, MXCSR, the x87 control word, tag word.
#[repr(C)]
struct Found {
    vectors: [[u8; 32]; 16],
    mxcsr: u32,
    control: u16,
    tags: u16,
}

static mut FOUND: Found = Found { vectors: [[0xee; 32]; 16], mxcsr: 0, control: 0, tags: 0 };
/// Saved registers, each in as many bytes as an instruction stores.
static mut X87: [u8; 28] = [0; 28];

/// A handler that saves the registers at once, before the compiler uses any of them, and then spoils some.
#[unsafe(naked)]
extern "C" fn note_sse(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    naked_asm!(
        "lea rax, [rip + {found}]",
        ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "movups [rax + 32 * \\i], xmm\\i",
        ".endr",
        "jmp {rest}",
        found = sym FOUND, rest = sym note_rest,
    )
}

/// The same on a processor with AVX.
#[unsafe(naked)]
extern "C" fn note_avx(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    naked_asm!(
        "lea rax, [rip + {found}]",
        ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "vmovups [rax + 32 * \\i], ymm\\i",
        ".endr",
        "jmp {rest}",
        found = sym FOUND, rest = sym note_rest,
    )
}

#[unsafe(naked)]
extern "C" fn note_rest() {
    naked_asm!(
        "stmxcsr [rax + {mxcsr}]",
        "fnstenv [rip + {x87}]",
        "lea rcx, [rip + {x87}]",
        "mov dx, [rcx]",
        "mov [rax + {control}], dx",
        "mov dx, [rcx + 8]",
        "mov [rax + {tags}], dx",
        "pcmpeqd xmm4, xmm4",
        "push 0x5f80",
        "ldmxcsr [rsp]",
        "pop rdx",
        "ret",
        x87 = sym X87,
        mxcsr = const std::mem::offset_of!(Found, mxcsr),
        control = const std::mem::offset_of!(Found, control),
        tags = const std::mem::offset_of!(Found, tags),
    )
}

/// Control words that a program may have changed: rounding in MXCSR and in the x87 control word.
const ODD_MXCSR: u32 = 0x7f80;
const ODD_CONTROL: u16 = 0x0f7f;

/// Fills the registers with `seed` and makes the call `number`. Returns whether they are unchanged after it, and its
/// result.
fn keeps_all(number: i64, first: i64, second: i64, seed: u8) -> (bool, i64) {
    let filled = [seed; 32];
    let mut found = [[0u8; 32]; 2];
    let (mut mxcsr, mut control, mut top) = (0u32, 0u16, 0u64);
    let answer: i64;
    let has_avx = u64::from(is_x86_feature_detected!("avx"));
    unsafe {
        asm!(
            "ldmxcsr [{odd}]", "fldcw [{odd} + 4]", "fld1",
            "test {avx}, {avx}", "jnz 2f",
            "movups xmm4, [{filled}]", "movups xmm15, [{filled}]", "jmp 3f",
            "2:", "vmovups ymm4, [{filled}]", "vmovups ymm15, [{filled}]", "3:",
            "syscall",
            "test {avx}, {avx}", "jnz 2f",
            "movups [{found}], xmm4", "movups [{found} + 32], xmm15", "jmp 3f",
            "2:", "vmovups [{found}], ymm4", "vmovups [{found} + 32], ymm15", "3:",
            "stmxcsr [{mxcsr}]", "fnstcw [{control}]", "fstp qword ptr [{top}]",
            "ldmxcsr [{usual}]", "fldcw [{usual} + 4]",
            odd = in(reg) &(ODD_MXCSR, ODD_CONTROL), usual = in(reg) &(0x1f80u32, 0x37fu16),
            avx = in(reg) has_avx, filled = in(reg) filled.as_ptr(), found = in(reg) found.as_mut_ptr(),
            mxcsr = in(reg) &mut mxcsr, control = in(reg) &mut control, top = in(reg) &mut top,
            inlateout("rax") number => answer, in("rdi") first, in("rsi") second,
            out("rcx") _, out("r11") _, out("xmm4") _, out("xmm15") _,
        );
    }
    let width = if has_avx == 1 { 32 } else { 16 };
    let is_kept = found.iter().all(|register| register[..width] == filled[..width])
        && (mxcsr, control, f64::from_bits(top)) == (ODD_MXCSR, ODD_CONTROL, 1.0);
    (is_kept, answer)
}

fn install_noting(flags: i32) {
    let handler = if is_x86_feature_detected!("avx") { note_avx } else { note_sse };
    install(handler, flags);
}

/// Returns whether the last handler began with the initial state of a program.
fn was_initial() -> bool {
    let found = unsafe { std::ptr::addr_of!(FOUND).read() };
    let width = if is_x86_feature_detected!("avx") { 32 } else { 16 };
    let are_zero =
        found.vectors.iter().all(|register| register[..width].iter().all(|&byte| byte == 0));
    are_zero && (found.mxcsr, found.control, found.tags) == (0x1f80, 0x37f, 0xffff)
}

#[test]
fn a_handler_begins_with_the_initial_extended_state() {
    isolated(|| {
        install_noting(0);
        let process = i64::from(unsafe { libc::getpid() });
        for seed in 1..20 {
            let (is_kept, _) = keeps_all(libc::SYS_kill, process, libc::SIGUSR1.into(), seed);
            assert!(was_initial(), "seed {seed}");
            assert!(is_kept, "seed {seed}");
        }
    });
}

extern "C" fn nest_with_state(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    install_noting(libc::SA_NODEFER);
    let process = i64::from(unsafe { libc::getpid() });
    let (is_kept, _) = keeps_all(libc::SYS_kill, process, libc::SIGUSR1.into(), 0x3c);
    DEPTH.store(usize::from(is_kept && was_initial()), SeqCst);
}

#[test]
fn a_handler_within_a_handler_begins_with_the_initial_extended_state() {
    isolated(|| {
        install(nest_with_state, libc::SA_NODEFER);
        let process = i64::from(unsafe { libc::getpid() });
        assert!(keeps_all(libc::SYS_kill, process, libc::SIGUSR1.into(), 0xc3).0);
        assert_eq!(DEPTH.load(SeqCst), 1);
    });
}

/// Forks within the handler: both sides have its state, and both go back to that of the code that was interrupted.
extern "C" fn fork_with_state(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let (is_kept, child) = keeps_all(libc::SYS_fork, 0, 0, 0x66);
    DEPTH.store(if is_kept { child as usize + 1 } else { 0 }, SeqCst);
}

#[test]
fn a_fork_within_a_handler_has_both_states() {
    isolated(|| {
        install(fork_with_state, 0);
        let process = i64::from(unsafe { libc::getpid() });
        let (is_kept, _) = keeps_all(libc::SYS_kill, process, libc::SIGUSR1.into(), 0x99);
        match DEPTH.load(SeqCst) {
            0 => panic!("the handler's state was lost by the fork"),
            1 => unsafe { libc::_exit(i32::from(!is_kept)) },
            child => {
                assert!(is_kept);
                assert_eq!(wait(child as libc::pid_t - 1), Ended::Exited(0));
            }
        }
    });
}

#[test]
fn the_state_is_kept_where_the_frame_cannot_be_pushed() {
    isolated(|| {
        // SIGSEGV's handler has a stack of its own. That of SIGUSR1 ends at every place of its frame.
        use_alternate_stack(pages(16), 16 * PAGE);
        let memory = pages(3);
        must(unsafe { libc::mprotect(memory.cast(), PAGE, libc::PROT_READ) });
        install(check_frame, 0);
        let mut action: libc::sigaction = unsafe { zeroed() };
        action.sa_sigaction = check_frame as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        must(unsafe { libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()) });
        let process = unsafe { libc::getpid() };
        for top in (128..2 * PAGE).step_by(64) {
            DEPTH.store(0, SeqCst);
            unsafe {
                asm!(
                    "movq xmm3, {seed}", "mov r12, rsp", "mov rsp, {top}", "syscall", "mov rsp, r12",
                    seed = in(reg) SEED, top = in(reg) memory as usize + PAGE + top,
                    inout("rax") libc::SYS_kill => _, in("rdi") process,
                    in("rsi") libc::SIGUSR1, out("rcx") _, out("r11") _, out("r12") _, out("xmm3") _,
                );
            }
            assert_eq!(DEPTH.load(SeqCst), 1, "{top}");
        }
    });
}

const SEED: u64 = 0x1234_5678_9abc_def0;

/// A handler that checks that the frame holds the register of the interrupted code.
extern "C" fn check_frame(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let kept = unsafe { image_of(context).add(XMM_3_AT).cast::<u64>().read_unaligned() };
    DEPTH.store(usize::from(kept == SEED), SeqCst);
}

#[test]
fn a_bad_address_comes_before_a_bad_signal_or_target() {
    let error = |answer: libc::c_long| {
        assert_eq!(answer, -1);
        errno()
    };
    let (at, size) = (1usize, 8usize);
    for signal in [-1, 0, 65] {
        // SAFETY: the address is none.
        let answer = unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, at, 0usize, size) };
        assert_eq!(error(answer), libc::EFAULT, "action of {signal}");
    }
    for (group, thread) in [(-1, 1), (1, -1), (0, 0)] {
        let call = libc::SYS_rt_tgsigqueueinfo;
        // SAFETY: the address is none.
        let answer = unsafe { libc::syscall(call, group, thread, 0, at) };
        assert_eq!(error(answer), libc::EFAULT, "information for {group} {thread}");
    }
}
