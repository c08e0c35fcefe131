//! Attempts that once succeeded or did harm, each with the answer that it must get.
use crate::{
    draw::{self, CODE, DATA},
    raw,
};
use calls::{
    Call, MAY_WRITE, NO_HANDLE, RUN, SERVICE, Status,
    space::{RUN_SYSCALL, number},
};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};
use program::Registers;

const PAGE: u64 = 4096;
const READ_WRITE: u64 = 3;
const READ_EXECUTE: u64 = 5;
/// Handle of a server that gives regions away.
const GIVER: u64 = SERVICE + 2;
const LENDER: u64 = SERVICE + 3;
const REFUSED: u64 = Status::Refused as u64;

/// Runs all.
pub fn all() {
    addresses_of_the_nucleus_are_nobodys();
    only_pages_of_regions_are_shown();
    a_program_may_call_any_number();
    thirty_two_bits_are_no_way_in();
    a_thread_that_changed_its_space_is_prepared_again();
    a_thread_outlives_its_space();
    contexts_are_not_in_memory_of_others();
    closing_a_region_again_costs_nothing();
    a_kick_in_a_wait_ends_the_next_run();
}

fn call(call: Call, arguments: [u64; 6]) -> (u64, [u64; 3]) {
    raw::call(call as u64, arguments)
}

fn new(made: (u64, [u64; 3])) -> [u64; 3] {
    assert_eq!(made.0, 0);
    made.1
}

/// Does an operation on a space. Returns its status.
fn operate(space: u64, operation: u64, arguments: [u64; 4]) -> u64 {
    let [first, second, third, fourth] = arguments;
    call(Call::Space, [space, operation, first, second, third, fourth]).0
}

/// Makes a space with `code` at [`CODE`] and two pages at [`DATA`].
fn with_code(code: &[u8]) -> u64 {
    let [space, ..] = new(call(Call::SpaceNew, [0; 6]));
    let [address, ..] = new(call(Call::RegionNew, [PAGE, 0, 0, 0, 0, 0]));
    let mut words = [0; 8];
    code.iter()
        .enumerate()
        .for_each(|(at, byte)| words[at / 8] |= u64::from(*byte) << (at % 8 * 8));
    (address..).step_by(8).zip(words).for_each(|(at, word)| raw::touch(at, word));
    let list = [address];
    assert_eq!(operate(space, number::MAP, [CODE, list.as_ptr() as u64, 1, READ_EXECUTE]), 0);
    assert_eq!(operate(space, number::MAP_ZEROED, [DATA, DATA + 2 * PAGE, READ_WRITE, 0]), 0);
    space
}

fn start() -> Registers {
    Registers {
        rip: CODE,
        rsp: DATA + PAGE,
        rflags: 0x202,
        rcx: CODE,
        r11: 0x202,
        ..Registers::default()
    }
}

/// Runs the program of `context` until it is not kicked. Returns the status and the values.
fn run(context: u64, space: u64) -> (u64, [u64; 3]) {
    loop {
        match raw::call(RUN, [context, space, 0, 0, 0, 0]) {
            (0, [0, ..]) => {}
            answer => return answer,
        }
    }
}

/// Writes `registers` to a context. Returns its address.
fn context(registers: &Registers) -> u64 {
    let at = draw::context(0);
    draw::write_context(at, registers);
    at
}

const SYSCALL_LOOP: [u8; 4] = [0x0f, 0x05, 0xeb, 0xfc];

/// An address above the component's memory, or one that the processor would refuse, is no page of the component, though the tables
/// map it for the nucleus.
fn addresses_of_the_nucleus_are_nobodys() {
    let space = with_code(&SYSCALL_LOOP);
    for address in draw::NUCLEUS.into_iter().flat_map(|area| (area..).step_by(0x1000).take(64)) {
        for address in [address, address & !(0xffff << 48)] {
            let list = [address];
            let list = list.as_ptr() as u64;
            assert_eq!(
                operate(space, number::OWN_PAGE, [address, 0, 0, 0]),
                Status::NotFound as u64
            );
            for protection in [1, READ_WRITE] {
                assert_eq!(operate(space, number::MAP, [0, list, 1, protection]), REFUSED);
            }
            assert_eq!(call(Call::Lend, [LENDER, list, 1, 0, 0, 0]).0, REFUSED);
            assert_eq!(
                call(Call::Spawn, [raw::leave(), 0, 0, 0, address, u64::MAX]).0,
                Status::Fault as u64
            );
            assert_eq!(call(Call::Wake, [address, 1, 0, 0, 0, 0]).0, Status::Fault as u64);
            assert_eq!(raw::call(RUN, [address, space, 0, 0, 0, 0]).0, Status::Fault as u64);
        }
    }
    new(call(Call::Close, [space, 0, 0, 0, 0, 0]));
}

/// The charge of a page that is no region's would be given back twice: by the component and by the program.
fn only_pages_of_regions_are_shown() {
    let space = with_code(&SYSCALL_LOOP);
    let [address, ..] = new(call(Call::Map, [PAGE, 0, 0, 0, 0, 0]));
    let list = [address];
    let list = list.as_ptr() as u64;
    assert_eq!(operate(space, number::MAP, [0, list, 1, READ_WRITE]), REFUSED);
    assert_eq!(call(Call::Lend, [LENDER, list, 1, 0, 0, 0]).0, REFUSED);
    new(call(Call::Close, [space, 0, 0, 0, 0, 0]));
}

/// A program that calls the number of a run, with registers that look like the one under way, makes a system call of its own.
fn a_program_may_call_any_number() {
    let space = with_code(&SYSCALL_LOOP);
    for high in [0, 0xdead_beef << 32] {
        let at = draw::context(0);
        let (rdi, rsi) = (at, space);
        let registers = Registers { rax: RUN | high, rdi, rsi, ..start() };
        for _ in 0..3 {
            assert_eq!(run(context(&registers), space).0, RUN_SYSCALL);
            assert_eq!(draw::rax_of(0), RUN | high);
        }
    }
    new(call(Call::Close, [space, 0, 0, 0, 0, 0]));
}

/// `syscall` in a segment of 32 bits would enter the nucleus elsewhere.
fn thirty_two_bits_are_no_way_in() {
    // lea rdi, [rip + 9]; jmp far [rdi]; at 16: CODE + 24, 0x23; at 24: syscall; jmp back
    let mut code = [0x90; 28];
    let [a, b, c, d] = (CODE as u32 + 24).to_le_bytes();
    code[..9].copy_from_slice(&[0x48, 0x8d, 0x3d, 9, 0, 0, 0, 0xff, 0x2f]);
    code[16..22].copy_from_slice(&[a, b, c, d, 0x23, 0]);
    code[24..].copy_from_slice(&SYSCALL_LOOP);
    let space = with_code(&code);
    let (status, [kind, address, _]) = run(context(&start()), space);
    assert_eq!(
        (status, kind, address, draw::rip_of(0)),
        (0, calls::space::EXCEPTION, 11, CODE + 7)
    );
    new(call(Call::Close, [space, 0, 0, 0, 0, 0]));
}

/// A thread that was given another space does not run in the one before, which may be gone.
fn a_thread_that_changed_its_space_is_prepared_again() {
    for _ in 0..50 {
        let [one, two] = [(); 2].map(|()| with_code(&SYSCALL_LOOP));
        let at = context(&start());
        assert_eq!(run(at, one).0, RUN_SYSCALL);
        assert_eq!(operate(two, number::ENTER, [0; 4]), 0);
        new(call(Call::Close, [one, 0, 0, 0, 0, 0]));
        // These take the frames that were freed.
        let three = with_code(&SYSCALL_LOOP);
        assert_eq!(run(at, one).0, REFUSED);
        for space in [two, three] {
            assert_eq!(run(at, space).0, RUN_SYSCALL);
            new(call(Call::Close, [space, 0, 0, 0, 0, 0]));
        }
    }
}

/// A thread whose space was closed goes on in an empty one until it enters another. The processor that it leaves has the roots of
/// neither.
fn a_thread_outlives_its_space() {
    let [me, ..] = new(call(Call::Current, [0; 6]));
    for round in 0..100 {
        let [one, two] = [(); 2].map(|()| with_code(&SYSCALL_LOOP));
        let at = context(&start());
        assert_eq!(run(at, one).0, RUN_SYSCALL);
        new(call(Call::Close, [one, 0, 0, 0, 0, 0]));
        let (status, [kind, ..]) = run(at, one);
        assert!(status == REFUSED || kind & 0xff == calls::space::PAGE_FAULT);
        new(call(Call::SetAffinity, [me, 1 << (round % 2), 0, 0, 0, 0]));
        assert_eq!(operate(two, number::ENTER, [0; 4]), 0);
        // The frames of the roots are cleared.
        assert_eq!(operate(two, number::MAP_ZEROED, [0, 16 * PAGE, READ_WRITE, 0]), 0);
        assert_eq!(run(at, two).0, RUN_SYSCALL);
        new(call(Call::Close, [two, 0, 0, 0, 0, 0]));
    }
    new(call(Call::SetAffinity, [me, u64::MAX, 0, 0, 0, 0]));
}

/// The nucleus writes to a context at any time, so it must not be in memory that its owner takes back.
fn contexts_are_not_in_memory_of_others() {
    let space = with_code(&SYSCALL_LOOP);
    let asked = raw::Asked {
        number: Call::Call as u64,
        arguments: [GIVER, 1 << 16, 0, 0, 0, 0],
        deadline: calls::FOREVER,
        along: NO_HANDLE,
    };
    loop {
        let (status, _, given) = raw::ask(asked);
        assert_eq!(status, 0);
        let (mapped, [address, ..]) = call(Call::MapRegion, [given, 0, 0, 0, 0, 0]);
        let (status, _) = raw::call(RUN, [address, space, 0, 0, 0, 0]);
        new(call(Call::Close, [given, 0, 0, 0, 0, 0]));
        // The owner may have taken it back already.
        if mapped == 0 && status != Status::Fault as u64 {
            assert_eq!(status, Status::Invalid as u64);
            break;
        }
    }
    new(call(Call::Close, [space, 0, 0, 0, 0, 0]));
}

/// A kick that comes while the thread waits for a word ends the run after the wait, though context and space are as before.
fn a_kick_in_a_wait_ends_the_next_run() {
    static WORD: AtomicU32 = AtomicU32::new(0);
    let space = with_code(&SYSCALL_LOOP);
    let [me, ..] = new(call(Call::Current, [0; 6]));
    for round in 1..=20 {
        let at = context(&start());
        assert_eq!(run(at, space).0, RUN_SYSCALL);
        let body = move || {
            (0..5).for_each(|_| _ = call(Call::Yield, [0; 6]));
            new(call(Call::Kick, [me, 0, 0, 0, 0, 0]));
            WORD.store(round, Release);
            new(call(Call::Wake, [WORD.as_ptr() as u64, 1, 0, 0, 0, 0]));
        };
        rt::thread::spawn("kicker", crate::component::POLICY, body).expect("a thread");
        while WORD.load(Acquire) < round {
            let word = WORD.as_ptr() as u64;
            call(Call::Wait, [word, u64::from(round) - 1, calls::FOREVER, 0, 0, 0]);
        }
        assert_eq!(raw::call(RUN, [at, space, 0, 0, 0, 0]), (0, [calls::space::KICKED, 0, 0]));
    }
    new(call(Call::Close, [space, 0, 0, 0, 0, 0]));
}

/// A region that is in use is kept once, however often a handle of it is closed.
fn closing_a_region_again_costs_nothing() {
    let [_, region, _] = new(call(Call::RegionNew, [PAGE, 0, 0, 0, 0, 0]));
    for _ in 0..15_000 {
        let [copy, ..] = new(call(Call::Give, [region, MAY_WRITE, 0, 0, 0, 0]));
        new(call(Call::MapRegion, [copy, 0, 0, 0, 0, 0]));
        new(call(Call::Close, [copy, 0, 0, 0, 0, 0]));
    }
}
