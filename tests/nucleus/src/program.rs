//! Tests with tiny programs in machine code.
use crate::suite::in_threads;
use alloc::{boxed::Box, sync::Arc, vec};
use calls::{PLAIN, RUN};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use nucleus::{
    arch::user::run,
    memory::{
        PAGE, frame,
        space::{Protection, Space},
    },
    thread, time,
};
use program::{Access, Bases, Registers, Trap, Unshared};

const CODE: u64 = 0x1000_0000;
const DATA: u64 = 0x2000_0000;
const READ_WRITE: Protection = Protection::READ.union(Protection::WRITE);

/// Makes a space with `code` at `CODE`.
pub fn with_code(code: &[u8]) -> Space {
    let space = Space::new().expect("a space");
    let page = frame::allocate(true).expect("a frame");
    frame::write(page, 0, code);
    assert_eq!(space.map(CODE, &[page], Protection::READ | Protection::EXECUTE), Ok(1));
    nucleus::memory::frames::release(page);
    space
}

/// Returns registers that start at `CODE`.
pub fn start() -> Registers {
    Registers { rip: CODE, rsp: DATA + PAGE as u64, ..Registers::default() }
}

/// Tests NMIs that come while a program has loaded a GS base that looks like the kernel's, and during entry and exit.
pub fn non_maskable_interrupts_find_their_processor() {
    use core::sync::atomic::AtomicBool;
    const ROUNDS: u32 = 3000;
    // mov rax, 0xffff800000001000; 1: wrgsbase rax; mov edx, 200; 2: rdgsbase rcx; cmp rax, rcx; jne 3f; dec edx; jnz 2b;
    // syscall; jmp 1b (rcx and r11 are the call's); 3: ud2
    let code = [
        &[0x48, 0xb8, 0, 0x10, 0, 0, 0, 0x80, 0xff, 0xff][..],
        &[0xf3, 0x48, 0x0f, 0xae, 0xd8, 0xba, 200, 0, 0, 0],
        &[0xf3, 0x48, 0x0f, 0xae, 0xc9, 0x48, 0x39, 0xc8, 0x75, 8, 0xff, 0xca, 0x75, 0xf2],
        &[0x0f, 0x05, 0xeb, 0xe4, 0x0f, 0x0b],
    ]
    .concat();
    if !nucleus::arch::cpu::features().has_fsgsbase {
        return;
    }
    let is_done = AtomicBool::new(false);
    in_threads(2, move |index| {
        if index == 0 {
            let space = with_code(&code);
            let mut registers = start();
            for _ in 0..ROUNDS {
                assert_eq!(run(&mut registers, &space), Trap::Syscall);
            }
            is_done.store(true, SeqCst);
        }
        while !is_done.load(SeqCst) {
            nucleus::arch::apic::send_nmi_to_others();
            thread::yield_now();
        }
    });
}

/// Tests that interrupts of every vector, those of exceptions too, harm neither programs nor the kernel.
pub fn stray_vectors_harm_nobody() {
    use nucleus::arch::{apic, smp};
    // 1: mov ecx, 20000; 2: dec ecx; jnz 2b; syscall; jmp 1b
    let code = [0xb9, 0x20, 0x4e, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0x0f, 0x05, 0xeb, 0xf3];
    let is_done = core::sync::atomic::AtomicBool::new(false);
    in_threads(3, move |index| {
        if index > 0 {
            let space = with_code(&code);
            let mut registers = start();
            while !is_done.load(SeqCst) {
                assert_eq!(run(&mut registers, &space), Trap::Syscall);
            }
            return;
        }
        for _ in 0..20 {
            for vector in 16..=255 {
                (0..smp::online()).for_each(|cpu| apic::send_ipi(cpu, vector));
            }
            thread::park(Some(time::now_ns() + 1_000_000), thread::Sleep::Uninterruptible);
        }
        is_done.store(true, SeqCst);
    });
}

/// Tests system calls, answered page faults, direct copies and other exceptions.
pub fn calls_and_faults() {
    // mov eax, 7; syscall; mov [rdi], rax; mov rax, [rdi]; syscall; ud2
    let code =
        [0xb8, 7, 0, 0, 0, 0x0f, 0x05, 0x48, 0x89, 0x07, 0x48, 0x8b, 0x07, 0x0f, 0x05, 0x0f, 0x0b];
    let space = with_code(&code);
    let mut registers = Registers { rdi: DATA + 8, ..start() };
    assert_eq!(run(&mut registers, &space), Trap::Syscall);
    assert_eq!((registers.rax, registers.rip), (7, CODE + 7));
    registers.rax = 0x1234;
    let fault = Trap::PageFault { address: DATA + 8, access: Access::Write, is_present: false };
    assert_eq!(run(&mut registers, &space), fault);
    let mut word = [0; 8];
    let absent = space.read(DATA + 4, &mut word);
    assert_eq!(absent.expect_err("nothing there").done, 0);
    assert_eq!(space.map_zeroed(DATA, 1, Protection::READ), Ok(1));
    let fault = Trap::PageFault { address: DATA + 8, access: Access::Write, is_present: true };
    assert_eq!(run(&mut registers, &space), fault);
    assert_eq!(space.make_writable(DATA + 8, READ_WRITE), Ok(Unshared::Reused));
    assert_eq!(run(&mut registers, &space), Trap::Syscall);
    assert_eq!(registers.rax, 0x1234);
    space.read(DATA + 8, &mut word).expect("there now");
    assert_eq!(u64::from_le_bytes(word), 0x1234);
    let data = [3; 200];
    let fault = space.write(DATA + PAGE as u64 - 133, &data).expect_err("beyond");
    assert_eq!((fault.done, fault.address), (133, DATA + PAGE as u64));
    assert_eq!(space.compare_exchange(DATA + 8, 0x1234, 9), Ok(0x1234));
    assert!(space.atomic_load(DATA + PAGE as u64).is_err());
    assert_eq!(run(&mut registers, &space), Trap::Exception { vector: 6, error_code: 0 });
    space.unmap(CODE, CODE + PAGE as u64);
    let fault = Trap::PageFault { address: CODE + 15, access: Access::Execute, is_present: false };
    assert_eq!(run(&mut registers, &space), fault);
}

/// Tests the registers, also with the numbers of a component's calls that are done in a fast way, which a program may not make.
pub fn registers_survive() {
    let numbers = [1, PLAIN, PLAIN | 1, RUN, RUN | 7 << 32, u64::MAX];
    numbers.into_iter().for_each(registers_survive_with);
}

/// Tests that every register comes back as it was given, by both ways out and both ways in.
fn registers_survive_with(rax: u64) {
    // The code is: syscall; ud2
    let space = with_code(&[0x0f, 0x05, 0x0f, 0x0b]);
    let mut registers = Registers {
        r15: 15,
        r14: 14,
        r13: 13,
        r12: 12,
        rbp: 5,
        rbx: 3,
        r11: 11,
        r10: 10,
        r9: 9,
        r8: 8,
        rax,
        rcx: 2,
        rdx: 4,
        rsi: 6,
        rdi: 7,
        rip: CODE,
        rflags: 0x4_0cd7,
        rsp: 0x1234,
    };
    let before = registers;
    assert_eq!(run(&mut registers, &space), Trap::Syscall);
    let expected = Registers {
        rip: CODE + 2,
        rcx: CODE + 2,
        rflags: registers.rflags,
        r11: registers.rflags,
        ..before
    };
    assert_eq!(alloc::format!("{registers:?}"), alloc::format!("{expected:?}"));
    assert_eq!(registers.rflags, 0x4_0ed7);
    registers.rcx = 77;
    assert_eq!(run(&mut registers, &space), Trap::Exception { vector: 6, error_code: 0 });
    assert_eq!((registers.rcx, registers.rip, registers.rsp), (77, CODE + 2, 0x1234));
}

/// Tests that a program that never traps comes back when kicked, and that kicks are not lost.
pub fn kick_ends_a_loop() {
    let space = with_code(&[0xeb, 0xfe]);
    let me = thread::current_number();
    for round in 0..50 {
        let body: thread::Body = Box::new(Box::new(move || {
            if round % 2 == 0 {
                thread::park(Some(time::now_ns() + 200_000), thread::Sleep::Uninterruptible);
            }
            thread::kick(me);
        }));
        thread::spawn("kick", thread::Policy::Fair { nice: 0 }, body)
            .expect("no memory for a test's thread");
        assert_eq!(run(&mut start(), &space), Trap::Kicked);
    }
    assert!(!thread::take_kick());
}

/// Tests threads in one space that count by `lock inc` while pages are mapped and unmapped under them.
pub fn many_in_one_space() {
    // 1: lock inc dword [rdi]; mov rax, [rsi]; dec ecx; jnz 1b; syscall
    let code = [0xf0, 0xff, 0x07, 0x48, 0x8b, 0x06, 0xff, 0xc9, 0x75, 0xf6, 0x0f, 0x05];
    const ROUNDS: u64 = 20_000;
    let space = Arc::new(with_code(&code));
    assert_eq!(space.map_zeroed(DATA, 1, READ_WRITE), Ok(1));
    let running = Arc::new(AtomicU32::new(4));
    let shared = space.clone();
    in_threads(5, move |index| {
        let other = DATA + 0x10_0000;
        if index == 4 {
            while running.load(SeqCst) > 0 {
                shared.unmap(other, other + PAGE as u64);
                shared.make_writable(DATA, READ_WRITE).expect("no memory for a copy");
                thread::yield_now();
            }
            return;
        }
        let mut registers = Registers { rdi: DATA, rsi: other, rcx: ROUNDS, ..start() };
        loop {
            match run(&mut registers, &shared) {
                Trap::Syscall => break,
                Trap::PageFault { address, .. } if address == other => {
                    shared.map_zeroed(other, 1, Protection::READ).expect("no memory for a page");
                }
                trap => panic!("{trap:?}"),
            }
        }
        running.fetch_sub(1, SeqCst);
    });
    assert_eq!(space.atomic_load(DATA), Ok(4 * ROUNDS as u32));
}

/// Tests that addresses and flags that are not allowed are refused.
pub fn bad_registers_are_refused() {
    let space = with_code(&[0x0f, 0x05]);
    for rip in [0x8000_0000_0000, 0x7fff_ffff_f000, 0xffff_ffff_8000_0000, u64::MAX, 1 << 63] {
        let mut registers = Registers { rip, ..start() };
        let is_fault = matches!(
            run(&mut registers, &space),
            Trap::PageFault { access: Access::Execute, .. } | Trap::Exception { vector: 13, .. }
        );
        assert!(is_fault && registers.rip == rip);
    }
    for bad in [0x8000_0000_0000, 0xffff_ffff_8000_0000, u64::MAX, 1 << 63] {
        let mut registers = Registers { rsp: bad, rflags: !0x1_0100, ..start() };
        thread::current().extended.set_bases(Bases { fs: bad, gs: bad });
        assert_eq!(run(&mut registers, &space), Trap::Syscall);
        assert_eq!(registers.rflags & 0x7_7302, 0x4_0202);
    }
    // With the trap flag the first instruction ends in a debug exception.
    let space = with_code(&[0x90, 0x0f, 0x05]);
    let mut registers = Registers { rflags: 0x100, ..start() };
    assert_eq!(run(&mut registers, &space), Trap::Exception { vector: 1, error_code: 0 });
    assert_eq!(registers.rip, CODE + 1);
}

/// movq xmm3, rdi; 1: syscall; movq rax, xmm3; jmp 1b
const XMM_3: [u8; 14] =
    [0x66, 0x48, 0x0f, 0x6e, 0xdf, 0x0f, 0x05, 0x66, 0x48, 0x0f, 0x7e, 0xd8, 0xeb, 0xf7];
const XMM_3_AT: usize = 160 + 3 * 16;

/// Tests a signal to a new thread that has not run in its space: its state goes to the program's memory and back, and is
/// the initial one in between.
pub fn state_before_run() {
    in_threads(6, |index| {
        let space = with_code(&XMM_3);
        assert_eq!(space.map_zeroed(DATA, 1, READ_WRITE), Ok(1));
        let extended = &thread::current().extended;
        let mut image = vec![0; nucleus::arch::fpu::bytes()];
        assert!(extended.copy_out(&mut image));
        let seed = index as u8 + 1;
        image[XMM_3_AT] = seed;
        if let Some(components) = image.get_mut(512) {
            *components |= 2;
        }
        assert!(extended.copy_in(&image));
        assert!(!space.take_extended(DATA + PAGE as u64 - 64), "not all there");
        assert!(space.take_extended(DATA));
        let mut saved = [0];
        space.read(DATA + XMM_3_AT as u64, &mut saved).expect("mapped");
        assert_eq!(saved, [seed]);
        let mut registers = Registers { rip: CODE + 5, ..start() };
        assert_eq!(run(&mut registers, &space), Trap::Syscall);
        assert_eq!(run(&mut registers, &space), Trap::Syscall);
        assert_eq!(registers.rax, 0, "the initial state");
        assert!(space.load_extended(DATA));
        assert_eq!(run(&mut registers, &space), Trap::Syscall);
        assert_eq!(registers.rax, u64::from(seed));
    });
}

/// Tests that each thread has its own XMM registers, and that images are checked.
pub fn extended_state() {
    let code = XMM_3;
    let space = Arc::new(with_code(&code));
    in_threads(6, move |index| {
        let mut registers = Registers { rdi: u64::from(index) + 1000, ..start() };
        for round in 0..200 {
            assert_eq!(run(&mut registers, &space), Trap::Syscall);
            assert!(round == 0 || registers.rax == u64::from(index) + 1000);
            if round % 3 == 0 {
                thread::yield_now();
            }
        }
        let extended = &thread::current().extended;
        let mut image = vec![0; nucleus::arch::fpu::bytes()];
        assert!(extended.copy_out(&mut image) && !extended.copy_out(&mut [0; 100]));
        let xmm3 = XMM_3_AT;
        assert_eq!(image[xmm3..xmm3 + 2], (index as u16 + 1000).to_le_bytes());
        image[xmm3] = 1;
        assert!(extended.copy_in(&image));
        assert_eq!(run(&mut registers, &space), Trap::Syscall);
        assert_eq!(registers.rax & 0xff, 1);
        image[xmm3] = 2;
        for (at, bad) in [(27, 0xff), (519, 0x80), (527, 0x80), (540, 1)] {
            let mut wrong = image.clone();
            if let Some(byte) = wrong.get_mut(at) {
                *byte = bad;
                assert!(!extended.copy_in(&wrong));
            }
        }
        extended.reset();
        assert_eq!(run(&mut registers, &space), Trap::Syscall);
        assert_eq!(registers.rax, 0);
    });
}
