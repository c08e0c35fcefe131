//! Restartable sequences and barriers (rseq(2), membarrier(2)).
use abi::{Ended, check, fork, handle, isolated, must, wait};
use libc::*;
use std::{
    arch::global_asm,
    ptr::addr_of,
    sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::*},
    thread,
    time::Duration,
};

const SIGNATURE: u32 = 0x5305_3053;
const UNREGISTER: i32 = 1;
const BYTES: u32 = 32;

/// The area that a thread registers.
#[repr(C, align(32))]
#[derive(Default)]
struct Area {
    cpu_id_start: u32,
    cpu_id: u32,
    section: u64,
    flags: u32,
    node_id: u32,
    mm_cid: u32,
    end: u32,
}

/// A critical section.
#[repr(C, align(32))]
#[derive(Default)]
struct Section {
    version: u32,
    flags: u32,
    start: u64,
    length: u64,
    abort: u64,
}

global_asm!(
    ".globl abi_rseq_begin",
    ".globl abi_rseq_end",
    ".globl abi_rseq_abort",
    ".globl abi_rseq_foreign",
    // Takes area, section and word, and spins in the section until the word is not zero. Returns 0 at its end, 1
    // after an abort.
    ".globl abi_rseq_spin",
    "abi_rseq_spin:",
    "mov [rdi + 8], rsi",
    "abi_rseq_begin:",
    "cmp dword ptr [rdx], 0",
    "je abi_rseq_begin",
    "abi_rseq_end:",
    // The section ends with the call.
    "mov qword ptr [rdi + 8], 0",
    "xor eax, eax",
    "ret",
    ".byte 0x0f, 0xb9, 0x3d",
    ".long 0x53053053",
    "abi_rseq_abort:",
    "mov eax, 1",
    "ret",
    ".long 0x12345678",
    "abi_rseq_foreign:",
    "mov eax, 2",
    "ret",
);

unsafe extern "C" {
    fn abi_rseq_spin(area: *mut Area, section: *const Section, word: *const u32) -> i32;
    static abi_rseq_begin: u8;
    static abi_rseq_end: u8;
    static abi_rseq_abort: u8;
    static abi_rseq_foreign: u8;
}

/// Returns the section of `abi_rseq_spin`.
fn section() -> Section {
    let start = addr_of!(abi_rseq_begin) as u64;
    let length = addr_of!(abi_rseq_end) as u64 - start;
    Section { start, length, abort: addr_of!(abi_rseq_abort) as u64, ..Section::default() }
}

fn rseq(area: *mut Area, bytes: u32, flags: i32, signature: u32) -> Result<i64, i32> {
    // SAFETY: the kernel checks the address; an area lives until it is no longer registered, or the process ends.
    check(unsafe { syscall(SYS_rseq, area, bytes, flags, signature) })
}

fn membarrier(command: i32, flags: u32, cpu: i32) -> Result<i64, i32> {
    // SAFETY: plain numbers.
    check(unsafe { syscall(SYS_membarrier, command, flags, cpu) })
}

/// Registers the area of the calling thread; the C library's own is unregistered first.
fn registered() -> *mut Area {
    // SAFETY: a NUL-terminated name.
    let offset = unsafe { dlsym(RTLD_DEFAULT, c"__rseq_offset".as_ptr()) }.cast::<isize>();
    if !offset.is_null() {
        let thread: *mut u8;
        // SAFETY: the thread pointer stands at its own beginning.
        unsafe { std::arch::asm!("mov {}, fs:0", out(reg) thread) };
        // SAFETY: a variable of the C library.
        let area = thread.wrapping_offset(unsafe { *offset });
        let _ = rseq(area.cast(), BYTES, UNREGISTER, SIGNATURE);
    }
    let area = Box::into_raw(Box::<Area>::default());
    assert_eq!(rseq(area, BYTES, 0, SIGNATURE), Ok(0));
    area
}

fn pin(cpu: usize) {
    // SAFETY: all zeroes is the empty set.
    let mut set: cpu_set_t = unsafe { abi::zeroed() };
    // SAFETY: a number below the set's.
    unsafe { CPU_SET(cpu, &mut set) };
    // SAFETY: a whole set.
    must(unsafe { sched_setaffinity(0, size_of::<cpu_set_t>(), &set) });
}

/// Returns the processors that the test may use.
fn processors() -> Vec<usize> {
    // SAFETY: all zeroes is the empty set.
    let mut set: cpu_set_t = unsafe { abi::zeroed() };
    // SAFETY: room for a set.
    must(unsafe { sched_getaffinity(0, size_of::<cpu_set_t>(), &mut set) });
    // SAFETY: numbers below the set's.
    (0..64).filter(|cpu| unsafe { CPU_ISSET(*cpu, &set) }).collect()
}

/// A field of an area, which the kernel changes at any time.
macro_rules! field {
    ($area:expr, $name:ident) => {{
        // SAFETY: the area lives.
        let place = unsafe { addr_of!((*$area).$name) };
        // SAFETY: as above.
        unsafe { place.read_volatile() }
    }};
}

#[test]
fn areas_are_registered_once_and_given_up_by_who_knows_them() {
    isolated(|| {
        let area = registered();
        assert_eq!(rseq(area, BYTES, 0, SIGNATURE), Err(EBUSY));
        assert_eq!(rseq(area, BYTES, 0, 1), Err(EPERM));
        assert_eq!(rseq(area, 64, 0, SIGNATURE), Err(EINVAL));
        let other = Box::into_raw(Box::<Area>::default());
        assert_eq!(rseq(other, BYTES, 0, SIGNATURE), Err(EINVAL));
        assert_eq!(rseq(other, BYTES, UNREGISTER, SIGNATURE), Err(EINVAL));
        assert_eq!(rseq(area, 64, UNREGISTER, SIGNATURE), Err(EINVAL));
        assert_eq!(rseq(area, BYTES, UNREGISTER, 1), Err(EPERM));
        assert_eq!(rseq(area, BYTES, 3, SIGNATURE), Err(EINVAL));
        assert_eq!(rseq(area, BYTES, 4, SIGNATURE), Err(EINVAL));
        assert_eq!(rseq(area, BYTES, UNREGISTER, SIGNATURE), Ok(0));
        assert_eq!((field!(area, cpu_id_start), field!(area, cpu_id)), (0, u32::MAX));
        assert_eq!(rseq(area, BYTES, UNREGISTER, SIGNATURE), Err(EINVAL));
        for bytes in [0, 16, 28, 31] {
            assert_eq!(rseq(area, bytes, 0, SIGNATURE), Err(EINVAL));
        }
        let inside: *mut Area = area.cast::<u8>().wrapping_add(16).cast();
        assert_eq!(rseq(inside, BYTES, 0, SIGNATURE), Err(EINVAL));
        for bad in [0, 0x1000, 0xffff_8000_0000_0000_usize] {
            assert_eq!(rseq(bad as *mut Area, BYTES, 0, SIGNATURE), Err(EFAULT), "{bad:#x}");
        }
        // SAFETY: the area lives and is not registered.
        unsafe { (*area).section = 5 };
        assert_eq!(rseq(area, BYTES, 0, 9), Ok(0));
        assert_eq!(field!(area, section), 0, "what was left of another is cleared");
        // SAFETY: a plain number.
        assert_eq!(unsafe { getauxval(27) }, 28);
        // SAFETY: a plain number.
        assert_eq!(unsafe { getauxval(28) }, 32);
    });
}

#[test]
fn an_area_that_cannot_be_written_is_the_end() {
    isolated(|| {
        let child = fork(|| {
            let area = registered();
            assert_eq!(rseq(area, BYTES, UNREGISTER, SIGNATURE), Ok(0));
            // SAFETY: new memory.
            let page = unsafe {
                mmap(std::ptr::null_mut(), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
            };
            let _ = rseq(page.cast(), BYTES, 0, SIGNATURE);
        });
        assert_eq!(wait(child), Ended::Signalled(SIGSEGV));
    });
}

#[test]
fn the_processor_shown_is_the_one_it_runs_on() {
    isolated(|| {
        let area = registered();
        for cpu in processors().into_iter().cycle().take(20) {
            pin(cpu);
            let shown = (field!(area, cpu_id_start), field!(area, cpu_id), field!(area, node_id));
            assert_eq!(shown, (cpu as u32, cpu as u32, 0));
            // SAFETY: asks only.
            assert_eq!(unsafe { sched_getcpu() }, cpu as i32);
            assert!((field!(area, mm_cid) as usize) < 64);
        }
    });
}

#[test]
fn a_thread_moved_by_another_sees_it() {
    isolated(|| {
        let all = processors();
        pin(all[0]);
        static THREAD: AtomicI32 = AtomicI32::new(0);
        static END: AtomicBool = AtomicBool::new(false);
        static SEEN: AtomicU32 = AtomicU32::new(u32::MAX);
        let mover = thread::spawn(|| {
            let area = registered();
            // SAFETY: asks only.
            THREAD.store(unsafe { gettid() }, SeqCst);
            while !END.load(SeqCst) {
                SEEN.store(field!(area, cpu_id), SeqCst);
            }
        });
        while THREAD.load(SeqCst) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        for cpu in all.iter().cycle().take(10) {
            // SAFETY: all zeroes is the empty set.
            let mut set: cpu_set_t = unsafe { abi::zeroed() };
            // SAFETY: a number below the set's.
            unsafe { CPU_SET(*cpu, &mut set) };
            // SAFETY: a whole set.
            must(unsafe { sched_setaffinity(THREAD.load(SeqCst), size_of::<cpu_set_t>(), &set) });
            while SEEN.load(SeqCst) != *cpu as u32 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        END.store(true, SeqCst);
        mover.join().unwrap();
    });
}

#[test]
fn a_preempted_section_is_aborted() {
    isolated(|| {
        pin(processors()[0]);
        let (area, section, never) = (registered(), section(), 0_u32);
        let hog = fork(|| {
            loop {
                std::hint::spin_loop();
            }
        });
        // SAFETY: area, section and word live.
        assert_eq!(unsafe { abi_rseq_spin(area, &section, &never) }, 1);
        assert_eq!(field!(area, section), 0);
        // SAFETY: a child of this process.
        must(unsafe { kill(hog, SIGKILL) });
        assert_eq!(wait(hog), Ended::Signalled(SIGKILL));
    });
}

#[test]
fn a_section_that_ends_is_left_alone() {
    isolated(|| {
        let (area, section, now) = (registered(), section(), 1_u32);
        let ends = (0..1000).map(|_| {
            // SAFETY: area, section and word live.
            unsafe { abi_rseq_spin(area, &section, &now) }
        });
        assert!(ends.filter(|end| *end == 0).count() > 900);
    });
}

static HANDLED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: i32) {
    HANDLED.store(true, SeqCst);
}

#[test]
fn a_signal_aborts_the_section_before_its_handler() {
    isolated(|| {
        let (area, section) = (registered(), section());
        handle(SIGALRM, note, 0);
        // SAFETY: a plain number.
        unsafe { alarm(1) };
        let never = 0_u32;
        loop {
            // SAFETY: area, section and word live.
            assert_eq!(unsafe { abi_rseq_spin(area, &section, &never) }, 1);
            if HANDLED.load(SeqCst) {
                break;
            }
        }
        assert_eq!(field!(area, section), 0);
    });
}

#[test]
fn corrupt_sections_are_the_end() {
    isolated(|| {
        let base = section;
        let above = 0xffff_8000_0000_0000;
        let corrupt: [(&str, Section); 6] = [
            ("signature", Section { abort: addr_of!(abi_rseq_foreign) as u64, ..base() }),
            ("version", Section { version: 1, ..base() }),
            ("flags", Section { flags: 1, ..base() }),
            ("abort inside", Section { abort: base().start, ..base() }),
            ("abort above", Section { abort: above, ..base() }),
            ("too long", Section { length: u64::MAX - 10, ..base() }),
        ];
        for (what, section) in &corrupt {
            let child = fork(|| {
                let (area, never) = (registered(), 0_u32);
                // SAFETY: a plain number; its default action would end the child in another way.
                unsafe { alarm(1) };
                // SAFETY: area, section and word live.
                unsafe { abi_rseq_spin(area, section, &never) };
            });
            assert_eq!(wait(child), Ended::Signalled(SIGSEGV), "{what}");
        }
        let child = fork(|| {
            let (area, never) = (registered(), 0_u32);
            // SAFETY: a plain number.
            unsafe { alarm(1) };
            // SAFETY: the kernel reads the address, nobody else.
            unsafe { abi_rseq_spin(area, above as *const Section, &never) };
        });
        assert_eq!(wait(child), Ended::Signalled(SIGSEGV));
    });
}

#[test]
fn forks_keep_the_area_and_threads_have_none() {
    isolated(|| {
        let area = registered();
        let child = fork(|| {
            assert_eq!(rseq(area, BYTES, 0, SIGNATURE), Err(EBUSY));
            for cpu in processors() {
                pin(cpu);
                assert_eq!(field!(area, cpu_id), cpu as u32);
            }
        });
        assert_eq!(wait(child), Ended::Exited(0));
        thread::spawn(|| {
            let own = registered();
            assert_eq!(rseq(own, BYTES, UNREGISTER, SIGNATURE), Ok(0));
        })
        .join()
        .unwrap();
        assert_eq!(rseq(area, BYTES, 0, SIGNATURE), Err(EBUSY));
    });
}

const GLOBAL: i32 = 1;
const GLOBAL_EXPEDITED: i32 = 2;
const REGISTER_GLOBAL_EXPEDITED: i32 = 4;
const PRIVATE_EXPEDITED: i32 = 8;
const REGISTER_PRIVATE_EXPEDITED: i32 = 16;
const SYNC_CORE: i32 = 32;
const REGISTER_SYNC_CORE: i32 = 64;
const RSEQ: i32 = 128;
const REGISTER_RSEQ: i32 = 256;
const GET_REGISTRATIONS: i32 = 512;
const FLAG_CPU: u32 = 1;

#[test]
fn barriers_are_made_for_who_registered() {
    isolated(|| {
        assert_eq!(membarrier(0, 0, 0), Ok(1023));
        assert_eq!(membarrier(0, 1, 0), Err(EINVAL));
        assert_eq!(membarrier(1024, 0, 0), Err(EINVAL));
        assert_eq!(membarrier(GET_REGISTRATIONS, 0, 0), Ok(0));
        for command in [GLOBAL, GLOBAL_EXPEDITED] {
            assert_eq!(membarrier(command, 0, 0), Ok(0));
            assert_eq!(membarrier(command, FLAG_CPU, 0), Err(EINVAL));
        }
        for command in [PRIVATE_EXPEDITED, SYNC_CORE, RSEQ] {
            assert_eq!(membarrier(command, 0, 0), Err(EPERM));
            assert_eq!(membarrier(command, 2, 0), Err(EINVAL));
        }
        assert_eq!(membarrier(RSEQ, FLAG_CPU, 0), Err(EPERM));
        let shown = || membarrier(GET_REGISTRATIONS, 0, 0);
        assert_eq!((membarrier(REGISTER_SYNC_CORE, 0, 0), shown()), (Ok(0), Ok(16 + 64)));
        assert_eq!(membarrier(SYNC_CORE, 0, 0), Ok(0));
        assert_eq!(membarrier(PRIVATE_EXPEDITED, 0, 0), Err(EPERM), "shown, but not for this");
        assert_eq!((membarrier(REGISTER_RSEQ, 0, 0), shown()), (Ok(0), Ok(16 + 64 + 256)));
        for cpu in [0, 9999, -5] {
            assert_eq!(membarrier(RSEQ, FLAG_CPU, cpu), Ok(0));
        }
        assert_eq!(membarrier(RSEQ, 0, 9999), Ok(0));
        assert_eq!(membarrier(REGISTER_GLOBAL_EXPEDITED, 0, 0), Ok(0));
        assert_eq!(shown(), Ok(4 + 16 + 64 + 256));
        assert_eq!(membarrier(REGISTER_PRIVATE_EXPEDITED, 1, 0), Err(EINVAL));
        assert_eq!(membarrier(REGISTER_PRIVATE_EXPEDITED, 0, 0), Ok(0));
        assert_eq!(membarrier(PRIVATE_EXPEDITED, 0, 0), Ok(0));
        let child = fork(|| {
            assert_eq!(membarrier(GET_REGISTRATIONS, 0, 0), Ok(4 + 16 + 64 + 256));
            assert_eq!(membarrier(RSEQ, 0, 0), Ok(0));
        });
        assert_eq!(wait(child), Ended::Exited(0));
    });
}

#[test]
fn a_barrier_restarts_the_sections_of_other_threads() {
    isolated(|| {
        assert_eq!(membarrier(REGISTER_RSEQ, 0, 0), Ok(0));
        static RUNS: AtomicU32 = AtomicU32::new(0);
        static ABORTS: AtomicU32 = AtomicU32::new(0);
        static END: AtomicU32 = AtomicU32::new(0);
        let runner = thread::spawn(|| {
            let (area, section) = (registered(), section());
            RUNS.store(1, SeqCst);
            // SAFETY: area, section and word live.
            while unsafe { abi_rseq_spin(area, &section, END.as_ptr()) } == 1 {
                ABORTS.fetch_add(1, SeqCst);
            }
        });
        while RUNS.load(SeqCst) == 0 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(20));
        for _ in 0..20 {
            let before = ABORTS.load(SeqCst);
            // The thread may be between two sections, or not running.
            while ABORTS.load(SeqCst) == before {
                assert_eq!(membarrier(RSEQ, 0, 0), Ok(0));
                thread::yield_now();
            }
        }
        END.store(1, SeqCst);
        runner.join().unwrap();
    });
}
