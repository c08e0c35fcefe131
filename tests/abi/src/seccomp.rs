//! Programs of classic BPF for seccomp(2), and calls made by their instruction alone.
use crate::check;
use std::arch::asm;

/// Ends all threads as by SIGSYS.
pub const KILL_PROCESS: u32 = 0x8000_0000;
/// Answer: the thread is ended.
pub const KILL_THREAD: u32 = 0;
/// Answer: SIGSYS is sent.
pub const TRAP: u32 = 0x0003_0000;
/// The call fails with the error in the low half.
pub const ERRNO: u32 = 0x0005_0000;
/// Answer: a listener decides.
pub const USER_NOTIF: u32 = 0x7fc0_0000;
/// Answer: a tracer decides.
pub const TRACE: u32 = 0x7ff0_0000;
/// Answer: the call is made and logged.
pub const LOG: u32 = 0x7ffc_0000;
/// Answer: the call is made.
pub const ALLOW: u32 = 0x7fff_0000;

/// `AUDIT_ARCH_X86_64`
pub const ARCHITECTURE: u32 = 0xc000_003e;
/// The call that most filters of the tests are about.
pub const SUBJECT: i64 = libc::SYS_getppid;

const SET_MODE_FILTER: u32 = 1;

/// `struct sock_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Instructions to skip if a test is true.
    pub then: u8,
    /// Instructions to skip if it is false.
    pub otherwise: u8,
    /// The constant.
    pub constant: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
pub struct Program {
    /// Number of instructions.
    pub length: u16,
    /// The first instruction.
    pub instructions: *const Instruction,
}

/// Makes an instruction.
pub fn instruction(code: u16, then: u8, otherwise: u8, constant: u32) -> Instruction {
    Instruction { code, then, otherwise, constant }
}

/// Makes an instruction that loads a word of the call into the accumulator.
pub fn load(offset: u32) -> Instruction {
    instruction(0x20, 0, 0, offset)
}

/// Makes a test whether the accumulator is `constant`, with the numbers of instructions to skip.
pub fn if_equal(constant: u32, then: u8, otherwise: u8) -> Instruction {
    instruction(0x15, then, otherwise, constant)
}

/// Makes an instruction that returns `value`.
pub fn answer(value: u32) -> Instruction {
    instruction(0x06, 0, 0, value)
}

/// The instruction that returns the accumulator.
pub const ANSWER_A: Instruction = Instruction { code: 0x16, then: 0, otherwise: 0, constant: 0 };

/// Makes a filter that answers `value` to calls of `number` and allows all others.
pub fn only(number: i64, value: u32) -> Vec<Instruction> {
    vec![load(0), if_equal(number as u32, 0, 1), answer(value), answer(ALLOW)]
}

/// Makes the call seccomp(2).
///
/// # Errors
/// The error number.
pub fn seccomp(operation: u32, flags: u32, address: u64) -> Result<i64, i32> {
    // SAFETY: what the tests hand over is readable, or the kernel must refuse it.
    check(unsafe { libc::syscall(libc::SYS_seccomp, operation, flags, address) })
}

/// Adds a filter, with flags.
///
/// # Errors
/// The error number.
pub fn install_with(program: &[Instruction], flags: u32) -> Result<i64, i32> {
    let program = Program { length: program.len() as u16, instructions: program.as_ptr() };
    seccomp(SET_MODE_FILTER, flags, &raw const program as u64)
}

/// Adds a filter.
///
/// # Panics
/// Panics if the filter is refused.
#[track_caller]
pub fn install(program: &[Instruction]) {
    assert_eq!(install_with(program, 0), Ok(0));
}

/// Makes a call by its instruction. Returns rax, and the address at which the program continues.
pub fn raw(number: i64, arguments: [u64; 6]) -> (i64, u64) {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let (result, after): (i64, u64);
    // SAFETY: the tests make calls that harm nobody but themselves.
    unsafe {
        asm!(
            "lea {after}, [rip + 2f]", "syscall", "2:",
            after = out(reg) after, inlateout("rax") number => result,
            in("rdi") first, in("rsi") second, in("rdx") third,
            in("r10") fourth, in("r8") fifth, in("r9") sixth, out("rcx") _, out("r11") _,
        );
    }
    (result, after)
}

/// Makes a call without arguments.
pub fn call(number: i64) -> i64 {
    raw(number, [0; 6]).0
}

/// Returns the value of rax after an error.
pub fn refused(error: i32) -> i64 {
    -i64::from(error)
}

/// Returns the calling thread's id.
pub fn thread_id() -> i64 {
    call(libc::SYS_gettid)
}
