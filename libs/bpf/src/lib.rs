//! Classic BPF as seccomp(2) has it: programs that look at a system call and answer what is to become of it.
//!
//! [`Program::new`] checks what a program handed over, [`Program::run`] asks it about a [`Call`]. Jumps go forward
//! only, so that each instruction is passed at most once.
//!
//! Most programs begin with a search for the call's number, which comes out the same each time. So the way that every
//! call of a number takes is gone when the program is made ([`ahead`]); a run starts where the arguments begin to count.
//! Lists of values, one test after another, are searched ([`row`]).
//! Source: McCanne and Jacobson, "The BSD Packet Filter", 1993; Linux `net/core/filter.c`, `kernel/seccomp.c`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
extern crate alloc;

mod ahead;
mod check;
mod operation;
mod row;

use alloc::{boxed::Box, vec::Vec};
use operation::Operation;
use row::Row;

/// Instructions a program has at most.
pub const INSTRUCTIONS_MAX: usize = 4096;
/// Calls below this number are looked at when a program is made.
pub const NUMBERS: usize = 512;
/// `AUDIT_ARCH_X86_64`, the only architecture whose calls there are.
pub const ARCHITECTURE: u32 = 0xc000_003e;

/// Cells of scratch memory (`BPF_MEMWORDS`).
const CELLS: usize = 16;

/// A program that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A system call as programs see it (`struct seccomp_data`), in words of 32 bits.
///
/// ```text
/// 0 number | 1 architecture | 2 instruction pointer (64 bits) | 4 six arguments (64 bits each)
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Call([u32; Call::WORDS]);

impl Call {
    /// Words of it.
    pub const WORDS: usize = 16;
    /// Bytes of it.
    pub const BYTES: u32 = 64;

    /// The call of `number` whose instruction ends at `pointer`.
    pub fn new(number: u32, pointer: u64, arguments: [u64; 6]) -> Call {
        let low = |word: u64| word as u32;
        let high = |word: u64| (word >> 32) as u32;
        let [first, second, third, fourth, fifth, sixth] = arguments;
        Call([
            number,
            ARCHITECTURE,
            low(pointer),
            high(pointer),
            low(first),
            high(first),
            low(second),
            high(second),
            low(third),
            high(third),
            low(fourth),
            high(fourth),
            low(fifth),
            high(fifth),
            low(sixth),
            high(sixth),
        ])
    }
    /// It, word by word.
    pub fn words(&self) -> [u32; Call::WORDS] {
        self.0
    }
    fn number(&self) -> u32 {
        self.word(0)
    }
    #[inline]
    fn word(&self, index: u8) -> u32 {
        self.0.get(usize::from(index) % Call::WORDS).copied().unwrap_or(0)
    }
}

/// An instruction as programs write it: code 16 bits, jt 8, jf 8, k 32 (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Instructions to pass where the test holds.
    pub then: u8,
    /// Instructions to pass where it does not.
    pub otherwise: u8,
    /// The constant.
    pub constant: u32,
}

impl From<u64> for Instruction {
    /// From its bytes as a number.
    fn from(word: u64) -> Instruction {
        Instruction {
            code: word as u16,
            then: (word >> 16) as u8,
            otherwise: (word >> 24) as u8,
            constant: (word >> 32) as u32,
        }
    }
}

/// A program that was checked: it ends, and reaches nothing but the call and its own memory.
#[derive(Debug)]
pub struct Program {
    operations: Box<[Operation]>,
    rows: Box<[Row]>,
    /// The start of a run for each number.
    starts: Box<[u16]>,
    weight: u32,
}

impl Program {
    /// Bytes of memory that a program of `instructions` takes at most.
    pub const fn bytes(instructions: usize) -> usize {
        let each = size_of::<Operation>() + Row::CASE_BYTES + size_of::<Row>() / Row::LENGTH_MIN;
        instructions * each + NUMBERS * size_of::<u16>()
    }

    /// Checks a program, as Linux's `bpf_check_classic` and `seccomp_check_filter` do.
    ///
    /// # Errors
    /// Unless it has 1 to [`INSTRUCTIONS_MAX`] instructions, all known, that jump within the program, end with a return, load
    /// nothing beyond the call and no memory that may not have been stored to, and do not divide by a constant 0.
    pub fn new(words: &[u64]) -> Result<Program, Malformed> {
        let instructions: Vec<Instruction> =
            words.iter().take(INSTRUCTIONS_MAX + 1).map(|word| Instruction::from(*word)).collect();
        let mut operations = check::operations(&instructions)?;
        let starts = (0..NUMBERS as u32).map(|number| ahead::start(&operations, number)).collect();
        let rows = row::find(&mut operations);
        Ok(Program { weight: check::weight(&instructions), operations, rows, starts })
    }

    /// Length of the program that Linux counts against the longest chain of filters: in instructions of its internal
    /// language.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// The answer to any call of `number`, where the search for the number alone decides.
    pub fn constant(&self, number: u32) -> Option<u32> {
        match self.operations.get(self.start(number)?) {
            Some(Operation::Return(value)) => Some(*value),
            _ => None,
        }
    }

    fn start(&self, number: u32) -> Option<usize> {
        let at = usize::try_from(number).ok()?;
        self.starts.get(at).map(|start| usize::from(*start))
    }

    /// The answer to `call`; 0 where it divides by 0.
    pub fn run(&self, call: &Call) -> u32 {
        let start = self.start(call.number()).unwrap_or(0);
        operation::run(&self.operations, &self.rows, start, call)
    }
}

#[cfg(test)]
mod tests;
