//! The component `program-server`, which runs programs: it tests `rt::user` in the process world, and measures the way into a
//! program and back. It ends by itself if all is well, else with the reason of a panic (`tests/nucleus`). With the parameter
//! `program-server.serves` it runs programs that do not end, and answers a call when they all run, to be killed then.
#![cfg_attr(all(target_os = "none", skerry_process), no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(all(target_os = "none", skerry_process))]
mod component {
    extern crate alloc;
    use alloc::{sync::Arc, vec, vec::Vec};
    use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
    use rt::{
        PAGE_BYTES,
        memory::{Frame, FramePool},
        message::{self, Message},
        sync::Event,
        thread::{self, Policy},
        time,
        user::{
            self, Access, Bases, CloneMode, Context, PageRange, Protection, Registers, Space, Trap,
            USER_END, Unshared,
        },
    };

    const CODE: u64 = 0x1000_0000;
    const DATA: u64 = 0x2000_0000;
    const READ_WRITE: Protection = Protection::READ.union(Protection::WRITE);
    const READ_EXECUTE: Protection = Protection::READ.union(Protection::EXECUTE);
    const PAGE: u64 = PAGE_BYTES as u64;

    fn range(start: u64, pages: usize) -> PageRange {
        PageRange::new(start, pages).expect("a range of programs")
    }

    /// Makes a space with `code` at `CODE`.
    fn with_code(code: &[u8]) -> Space {
        let space = Space::new().expect("a space");
        let frame = Frame::zeroed().expect("a frame");
        assert_eq!(frame.write(0, code), code.len());
        assert_eq!(space.map(range(CODE, 1), &[frame], READ_EXECUTE), Ok(1));
        space
    }

    fn start() -> Context {
        let registers = Registers { rip: CODE, rsp: DATA + PAGE, ..Registers::default() };
        Context { registers }
    }

    /// Runs `context` in `space` until it is not kicked.
    fn run(context: &mut Context, space: &Space) -> Trap {
        loop {
            match context.run(space) {
                Trap::Kicked => {}
                trap => return trap,
            }
        }
    }

    const SYSCALL_LOOP: [u8; 4] = [0x0f, 0x05, 0xeb, 0xfc];

    /// Tests that all registers go to and fro, and that a program may call any number.
    fn registers_survive() {
        // 1: inc r15; syscall; jmp 1b
        let space = with_code(&[0x49, 0xff, 0xc7, 0x0f, 0x05, 0xeb, 0xf9]);
        let mut context = start();
        let mut expected = Registers {
            r15: 15,
            r14: 14,
            r13: 13,
            r12: 12,
            rbp: 11,
            rbx: 10,
            r10: 9,
            r9: 8,
            r8: 7,
            rax: 0,
            rdx: 6,
            rsi: 5,
            rdi: 4,
            rsp: 3,
            rip: CODE,
            ..Registers::default()
        };
        for rax in [39, u64::MAX, calls::RUN, calls::Call::Panic as u64, 1 << 31, 0x8000_0005] {
            expected.rax = rax;
            (expected.rip, expected.rcx, expected.r11, expected.rflags) = (CODE, 0, 0, 0x202);
            context.registers = expected;
            for _ in 0..3 {
                assert_eq!(run(&mut context, &space), Trap::Syscall);
                expected.r15 += 1;
                (expected.rip, expected.rcx) = (CODE + 5, CODE + 5);
                expected.r11 = context.registers.r11;
                expected.rflags = context.registers.rflags;
                assert_eq!(expected.r11 & !0x8d5, 0x202);
                assert_eq!(context.registers, expected);
            }
        }
    }

    /// Tests that faults and exceptions are told, and that the component's own memory is out of the program's reach.
    fn faults_are_told() {
        // mov rax, [rdi]; syscall
        let space = with_code(&[0x48, 0x8b, 0x07, 0x0f, 0x05]);
        let frame = Frame::zeroed().expect("a frame");
        let own = (&raw const space).addr() as u64;
        for address in [DATA, USER_END, own, 0xffff_ffff_8020_0000] {
            let mut context = start();
            context.registers.rdi = address;
            let trap = run(&mut context, &space);
            let Trap::PageFault { address: at, access: Access::Read, .. } = trap else {
                panic!("{address:x}: {trap:?}")
            };
            assert_eq!((at, context.registers.rip), (address, CODE));
        }
        let mut context = start();
        context.registers.rdi = DATA;
        frame.write(8, &[7; 8]);
        assert_eq!(space.map(range(DATA, 1), core::slice::from_ref(&frame), READ_WRITE), Ok(1));
        context.registers.rdi = DATA + 8;
        assert_eq!(run(&mut context, &space), Trap::Syscall);
        assert_eq!(context.registers.rax, 0x0707_0707_0707_0707);
        context.registers.rip = 1 << 47;
        assert_eq!(run(&mut context, &space), Trap::Exception { vector: 13, error_code: 0 });
        context.registers.rip = own;
        assert!(matches!(
            run(&mut context, &space),
            Trap::PageFault { access: Access::Execute, .. }
        ));
        // ud2; hlt
        let space = with_code(&[0x0f, 0x0b, 0xf4]);
        let mut context = start();
        assert_eq!(run(&mut context, &space), Trap::Exception { vector: 6, error_code: 0 });
        context.registers.rip += 2;
        assert_eq!(run(&mut context, &space), Trap::Exception { vector: 13, error_code: 0 });
    }

    /// Tests copies: in place and from afar, over the end of what is mapped, of words, strings and zeros.
    fn memory_is_read_and_written() {
        let far = Space::new().expect("a space");
        let near = with_code(&SYSCALL_LOOP);
        assert_eq!(run(&mut start(), &near), Trap::Syscall);
        for space in [&near, &far] {
            assert_eq!(space.map_zeroed(range(DATA, 2), READ_WRITE), Ok(2));
            assert_eq!(space.map_zeroed(range(DATA, 3), Protection::READ), Ok(1));
            let end = DATA + 2 * PAGE;
            for length in [1, 4, 7, 8, 16, 31, 64, 255, 256, 1000, 4096, 5000, 8000] {
                let data: Vec<u8> = (0..length).map(|index| index as u8 ^ 0x5a).collect();
                let mut back = vec![0; length];
                assert_eq!(space.write(end - length as u64, &data), Ok(()));
                assert_eq!(space.read(end - length as u64, &mut back), Ok(()));
                assert!(back == data, "{length}");
                let fault = space.write(end + 1 - length as u64, &data).expect_err("read-only");
                assert_eq!((fault.done, fault.address), (length - 1, end), "{length}");
                let at = DATA + 3 * PAGE + 1 - length as u64;
                let fault = space.read(at, &mut back).expect_err("not mapped");
                assert_eq!((fault.done, fault.access), (length - 1, Access::Read));
            }
            for bad in [0, USER_END - 1, USER_END, 1 << 47, 0xffff_8000_0000_0000, u64::MAX] {
                assert_eq!(space.read(bad, &mut [0; 8]).expect_err("no memory").done, 0);
                assert_eq!(space.write(bad, &[0; 8]).expect_err("no memory").done, 0);
                assert!(space.zero(bad, 8).is_err() && space.atomic_load(bad).is_err());
                assert!(space.compare_exchange(bad, 0, 0).is_err());
                assert!(!space.take_extended(bad & !63));
            }
            assert_eq!(space.write(DATA, b"word"), Ok(()));
            assert_eq!(space.atomic_load(DATA), Ok(u32::from_le_bytes(*b"word")));
            assert_eq!(space.compare_exchange(DATA, 0, 1), Ok(u32::from_le_bytes(*b"word")));
            assert_eq!(
                space.compare_exchange(DATA, u32::from_le_bytes(*b"word"), 9),
                Ok(u32::from_le_bytes(*b"word"))
            );
            assert_eq!(space.atomic_load(DATA), Ok(9));
            assert!(space.atomic_load(DATA + 2).is_err());
            assert_eq!(space.write(end - 3, b"ab\0"), Ok(()));
            assert_eq!(space.read_string(end - 3, &mut [1; 80]), Ok(2));
            assert_eq!(space.zero(DATA, 5000), Ok(()));
            assert_eq!(space.zero(end - 1, 2).expect_err("read-only").done, 1);
            let frames: Vec<Frame> = (0..3).map(|_| Frame::zeroed().expect("a frame")).collect();
            frames
                .iter()
                .for_each(|frame| assert_eq!(frame.write(0, &[3; PAGE_BYTES]), PAGE_BYTES));
            assert_eq!(space.write_from_frames(DATA + 1, &frames, 100, 8000), Ok(()));
            assert_eq!(space.read_into_frames(DATA, &frames, 4000, 6000), Ok(()));
            let mut bytes = [9; 4];
            frames[0].read(3998, &mut bytes);
            assert_eq!(bytes, [3, 3, 0, 3]);
        }
    }

    /// Tests that pages are shared and copied as after a fork, that all uses of a frame are counted, and that a frame that is
    /// dropped stays as long as a program has it.
    fn pages_are_counted() {
        let (one, two) = (Space::new().expect("a space"), Space::new().expect("a space"));
        let mut frame = Frame::zeroed().expect("a frame");
        frame.write(0, &[1; 8]);
        assert_eq!(frame.references(), 1);
        assert_eq!(one.map(range(DATA, 1), core::slice::from_ref(&frame), READ_WRITE), Ok(1));
        assert_eq!(one.map(range(DATA, 1), core::slice::from_ref(&frame), READ_WRITE), Ok(0));
        assert_eq!(frame.references(), 2);
        assert!(frame.exclusive().is_none());
        assert_eq!(one.clone_range(&two, range(DATA, 1), CloneMode::Pages), Ok(1));
        assert_eq!(frame.references(), 3);
        let mapping = two.query(DATA).expect("a page");
        assert_eq!(
            (mapping.id, mapping.references, mapping.protection),
            (frame.id(), 3, Protection::READ)
        );
        assert_eq!(two.make_writable(DATA, Protection::READ), Ok(Unshared::Copied));
        assert_eq!(two.make_writable(DATA, Protection::READ), Ok(Unshared::Reused));
        assert_eq!(two.make_writable(DATA + PAGE, Protection::READ), Ok(Unshared::Absent));
        assert_eq!(frame.references(), 2);
        assert_eq!(two.write(DATA, &[2; 8]), Ok(()));
        let mut bytes = [0; 8];
        assert_eq!(one.read(DATA, &mut bytes), Ok(()));
        assert_eq!(bytes, [1; 8]);
        assert_ne!(two.query(DATA).expect("a page").id, frame.id());
        let id = frame.id();
        drop(frame);
        let others: Vec<Frame> = (0..600).map(|_| Frame::zeroed().expect("a frame")).collect();
        assert!(
            others.iter().all(|other| other.id() != id),
            "a frame that a program has was given away"
        );
        assert_eq!(one.read(DATA, &mut bytes), Ok(()));
        assert_eq!(bytes, [1; 8]);
        assert_eq!(one.move_range(range(DATA, 1), CODE), Ok(1));
        assert_eq!(one.read(CODE, &mut bytes), Ok(()));
        assert_eq!(bytes, [1; 8]);
        let mut seen = Vec::new();
        one.each_present(0, USER_END, |at| {
            seen.push(at);
            true
        });
        assert_eq!((seen, one.resident_pages()), (vec![CODE], 1));
        assert_eq!(one.map_zeroed(range(DATA, 200), READ_WRITE), Ok(200));
        let mut count = 0;
        one.each_present(0, USER_END, |_| {
            count += 1;
            true
        });
        assert_eq!(count, 201);
        assert_eq!(one.protect(range(DATA, 200), Protection::READ), Ok(()));
        assert!(one.write(DATA + 50 * PAGE, &[0]).is_err());
        assert_eq!(one.unmap(range(0, (USER_END / PAGE) as usize)), Ok(201));
        drop((one, two));
        rt::memory::shrink();
    }

    /// Tests that memory refused to a program is not kept, and that the grant bounds what all programs have.
    fn memory_is_bounded() {
        let space = Space::new().expect("a space");
        let mut pages = 0;
        for step in [256, 16, 1] {
            while space.map_zeroed(range(DATA + pages * PAGE, step), READ_WRITE).is_ok() {
                pages += step as u64;
            }
        }
        assert!(pages > 0 && rt::memory::is_full());
        assert_eq!(
            space.unmap(range(DATA, pages as usize + 256)).map(|gone| gone as u64 >= pages),
            Ok(true)
        );
        assert!(!rt::memory::is_full());
        assert_eq!(space.map_zeroed(range(DATA, 256), READ_WRITE), Ok(256));
    }

    /// Tests that a kick ends a program's loop, and is not lost if it comes before.
    fn kicks_come() {
        let space = Arc::new(with_code(&[0xeb, 0xfe]));
        let state = Arc::new((AtomicU64::new(0), AtomicU32::new(0)));
        let theirs = (state.clone(), space);
        let body = move || {
            let (state, space) = theirs;
            state.0.store(thread::current().0, SeqCst);
            for _ in 0..20 {
                assert_eq!(start().run(&space), Trap::Kicked);
                state.1.fetch_add(1, SeqCst);
            }
            state.0.store(0, SeqCst);
        };
        thread::spawn("loop", Policy::default(), body).expect("a thread");
        let mut seen = 0;
        while seen < 20 {
            let number = state.0.load(SeqCst);
            if number != 0 {
                thread::kick(thread::ThreadId(number));
            }
            while number != 0 && state.1.load(SeqCst) == seen {
                thread::yield_now();
            }
            seen = state.1.load(SeqCst);
        }
        while state.0.load(SeqCst) != 0 {
            thread::yield_now();
        }
    }

    /// Tests that extended state and bases stay a program's own among several threads, through preemption and calls.
    fn state_survives() {
        // 1: movq xmm7, rdi; rdfsbase rdx; rdgsbase rsi; mov ecx, 20000; 2: dec ecx; jnz 2b; movq rax, xmm7; syscall; jmp 1b
        let code = [
            &[0x66, 0x48, 0x0f, 0x6e, 0xff][..],
            &[0xf3, 0x48, 0x0f, 0xae, 0xc2, 0xf3, 0x48, 0x0f, 0xae, 0xce],
            &[0xb9, 0x20, 0x4e, 0, 0, 0xff, 0xc9, 0x75, 0xfc],
            &[0x66, 0x48, 0x0f, 0x7e, 0xf8, 0x0f, 0x05, 0xeb, 0xdf],
        ]
        .concat();
        let left = Arc::new(AtomicU32::new(4));
        for index in 0..4u64 {
            let (left, code) = (left.clone(), code.clone());
            let body = move || {
                let space = with_code(&code);
                user::reset_extended();
                for bad in [1 << 47, 1 << 63, 0xffff_7fff_ffff_ffff] {
                    user::set_bases(Bases { fs: bad, gs: bad });
                    assert_eq!(user::bases(), Bases { fs: USER_END, gs: USER_END });
                }
                user::set_bases(Bases { fs: index + 1, gs: 77 + index });
                let mut context = start();
                for round in 0..30 {
                    context.registers.rdi = index << 32 | round;
                    assert_eq!(run(&mut context, &space), Trap::Syscall);
                    let Registers { rax, rdx, rsi, rdi, .. } = context.registers;
                    assert_eq!((rax, rdx, rsi), (rdi, index + 1, 77 + index));
                    let mut image = vec![0; user::extended_bytes()];
                    assert!(user::save_extended(&mut image));
                    let at = 160 + 7 * 16;
                    assert_eq!(image[at..at + 8], rdi.to_le_bytes());
                    image[at..at + 8].copy_from_slice(&(!rdi).to_le_bytes());
                    assert!(user::load_extended(&image));
                    thread::yield_now();
                    assert!(user::save_extended(&mut image));
                    assert_eq!(image[at..at + 8], (!rdi).to_le_bytes());
                    assert_eq!(user::bases(), Bases { fs: index + 1, gs: 77 + index });
                }
                assert_eq!(space.map_zeroed(range(DATA, 2), READ_WRITE), Ok(2));
                assert!(space.take_extended(DATA + 64) && space.load_extended(DATA + 64));
                assert_eq!(space.write(DATA + 64 + 512, &[0xff; 8]), Ok(()));
                assert!(!space.load_extended(DATA + 64), "components that there are not");
                assert!(!space.take_extended(DATA + 2 * PAGE - 64));
                left.fetch_sub(1, SeqCst);
            };
            thread::spawn("state", Policy::default(), body).expect("a thread");
        }
        while left.load(SeqCst) > 0 {
            thread::yield_now();
        }
    }

    /// Tests a thread that works for several spaces in turn, and the end of the space that it works for.
    fn spaces_change() {
        let (mut one, two) = (with_code(&SYSCALL_LOOP), with_code(&SYSCALL_LOOP));
        let mut contexts = [start(), start()];
        for round in 0..50 {
            assert_eq!(
                run(&mut contexts[round % 2], if round % 2 == 0 { &one } else { &two }),
                Trap::Syscall
            );
            if round % 10 == 8 {
                one = with_code(&SYSCALL_LOOP);
            }
        }
        let both = Arc::new((one, two));
        assert_eq!(run(&mut contexts[0], &both.0), Trap::Syscall);
        drop(both);
        let memory = vec![1u8; 100_000];
        assert!(memory.iter().all(|&byte| byte == 1));
    }

    /// Many threads fork, run, unmap and exit at the same time.
    fn programs_come_and_go() {
        let left = Arc::new(AtomicU32::new(6));
        for index in 0..6u64 {
            let left = left.clone();
            let body = move || {
                // mov [rdi], rdi; syscall
                let space = with_code(&[0x48, 0x89, 0x3f, 0x0f, 0x05]);
                assert_eq!(space.map_zeroed(range(DATA, 40), READ_WRITE), Ok(40));
                for round in 0..40 {
                    let child = Space::new().expect("a space");
                    for start in [CODE, DATA] {
                        assert!(
                            space.clone_range(&child, range(start, 40), CloneMode::Tables).is_ok()
                        );
                    }
                    let mut context = start();
                    context.registers.rdi = DATA + (round + index) % 40 * PAGE;
                    let fault = run(&mut context, &child);
                    let Trap::PageFault { access: Access::Write, .. } = fault else {
                        panic!("{fault:?}")
                    };
                    assert_eq!(
                        child.make_writable(context.registers.rdi, READ_WRITE),
                        Ok(Unshared::Copied)
                    );
                    assert_eq!(run(&mut context, &child), Trap::Syscall);
                    let mut word = [1; 8];
                    assert_eq!(space.read(context.registers.rdi, &mut word), Ok(()));
                    assert_eq!(word, [0; 8]);
                }
                left.fetch_sub(1, SeqCst);
            };
            thread::spawn("family", Policy::default(), body).expect("a thread");
        }
        while left.load(SeqCst) > 0 {
            thread::yield_now();
        }
    }

    /// Logs the time of the way into a program and back, and of other operations.
    fn measure() {
        const ROUNDS: u64 = 1000;
        let space = with_code(&SYSCALL_LOOP);
        let mut context = start();
        let time = |name: &str, act: &mut dyn FnMut()| {
            act();
            let start = time::now();
            (0..ROUNDS).for_each(|_| act());
            log::info!("program-server: {name}: {} ns", time::now().since(start) / ROUNDS);
        };
        time("nothing", &mut || {});
        time("run and back", &mut || {
            let _ = context.run(&space);
        });
        assert_eq!(space.map_zeroed(range(DATA, 1), READ_WRITE), Ok(1));
        time("read of 8 bytes", &mut || {
            let mut word = [0; 8];
            let _ = space.read(DATA, &mut word);
        });
        time("map a zeroed page and unmap it", &mut || {
            let _ = space.map_zeroed(range(DATA + PAGE, 1), READ_WRITE);
            let _ = space.unmap(range(DATA + PAGE, 1));
        });
    }

    /// The programs that do not end: a loop of system calls, and a loop without any.
    const ENDLESS: [&[u8]; 2] = [&SYSCALL_LOOP, &[0xeb, 0xfe]];
    /// Threads for each of them.
    const ENDLESS_THREADS: u32 = 3;

    /// Runs programs that do not end, in spaces that share page tables and pages of pools, and answers calls.
    fn serves() {
        let begun = Arc::new((AtomicU32::new(0), Event::new()));
        // The thread that answers, and the one that kills, come before these.
        let policy = Policy::Fair { nice: 19 };
        for code in ENDLESS {
            for _ in 0..ENDLESS_THREADS {
                let begun = begun.clone();
                let body = move || run_for_ever(code, &begun);
                thread::spawn("endless", policy, body).expect("a thread");
            }
        }
        let (count, changed) = &*begun;
        loop {
            let ticket = changed.ticket();
            if count.load(SeqCst) == ENDLESS.len() as u32 * ENDLESS_THREADS {
                break;
            }
            changed.wait(ticket, None);
        }
        let (endpoint, mut message) = (message::service(), Message::new(0));
        let mut received = endpoint.receive(&mut message, None);
        while received.is_ok() {
            message.reset(0);
            received = endpoint.reply_and_receive(&mut message, None);
        }
    }

    fn run_for_ever(code: &[u8], (begun, changed): &(AtomicU32, Event)) {
        let pool = FramePool::new(8).expect("a pool");
        let shown: Vec<Frame> = core::iter::from_fn(|| pool.take()).collect();
        let parent = with_code(code);
        assert_eq!(parent.map(range(DATA, shown.len()), &shown, READ_WRITE), Ok(shown.len()));
        let own = DATA + 64 * PAGE;
        assert_eq!(parent.map_zeroed(range(own, 80), READ_WRITE), Ok(80));
        // One closed region has pages that a program has.
        drop((pool, shown));
        let child = Space::new().expect("a space");
        assert!(parent.clone_range(&child, range(CODE, 1), CloneMode::Pages).is_ok());
        assert!(parent.clone_range(&child, range(own, 80), CloneMode::Tables).is_ok());
        assert_eq!(child.make_writable(own, READ_WRITE), Ok(Unshared::Copied));
        let mut context = start();
        begun.fetch_add(1, SeqCst);
        changed.signal();
        loop {
            assert!(matches!(context.run(&child), Trap::Kicked | Trap::Syscall));
        }
    }

    rt::component_main!(main);

    fn main() {
        if rt::system::parameter("program-server.serves").is_some() {
            return serves();
        }
        for round in 0..3 {
            registers_survive();
            faults_are_told();
            memory_is_read_and_written();
            pages_are_counted();
            memory_is_bounded();
            kicks_come();
            state_survives();
            spaces_change();
            programs_come_and_go();
            log::debug!("program-server: round {round}");
        }
        measure();
    }
}

#[cfg(not(all(target_os = "none", skerry_process)))]
fn main() {}
