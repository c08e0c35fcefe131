//! Classic BPF: programs that look at a system call and return the action for it (seccomp(2)), and programs that look at a packet
//! and return the number of bytes that a socket gets of it (`SO_ATTACH_FILTER`, socket(7)).
//!
//! [`Program::new`] checks a program, [`Program::run`] runs it on a [`Call`]; [`PacketProgram`] does both for packets. Jumps only
//! go forward, so each instruction is executed at most once.
//!
//! Most programs for calls begin with a search for the call's number, whose result is the same each time. So this part is evaluated for
//! each number when the program is made ([`ahead`]), and a run starts where the arguments begin to matter. Tests for many
//! values, one after another, are replaced by a search ([`row`]). Source: McCanne and Jacobson, "The BSD Packet Filter",
//! 1993; Linux `net/core/filter.c`, `kernel/seccomp.c`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
extern crate alloc;

mod ahead;
mod check;
mod operation;
mod packet;
mod row;

pub use packet::{PacketBytes, PacketFacts, PacketProgram};

use alloc::{boxed::Box, vec::Vec};
use check::Dialect;
use operation::{Operation, ProgramInput};
use packet::PacketLoad;
use row::Row;

/// The greatest number of instructions of a program.
pub const INSTRUCTIONS_MAX: usize = 4096;
/// Call numbers below this are evaluated when a program is made.
pub const NUMBERS: usize = 512;
/// `AUDIT_ARCH_X86_64`, the only architecture of calls.
pub const ARCHITECTURE: u32 = 0xc000_003e;

/// Number of cells of scratch memory (`BPF_MEMWORDS`).
const CELLS: usize = 16;

/// The error for an invalid program.
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
    /// Words of a call.
    pub const WORDS: usize = 16;
    /// Bytes of a call.
    pub const BYTES: u32 = 64;

    /// Makes the call of `number` whose instruction ends at `pointer`.
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
    /// Returns the words of the call.
    pub fn words(&self) -> [u32; Call::WORDS] {
        self.0
    }
    fn number(&self) -> u32 {
        let [number, ..] = self.0;
        number
    }
}

impl ProgramInput for Call {
    #[inline]
    fn word(&self, index: u8) -> Option<u32> {
        self.0.get(usize::from(index) % Call::WORDS).copied()
    }
    /// Programs for calls have no such loads.
    #[inline]
    fn load(&self, _: PacketLoad, _: u32, _: (u32, u32)) -> Option<u32> {
        None
    }
}

/// An instruction as programs write it: code 16 bits, jt 8, jf 8, k 32 (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Instructions to skip if the test is true.
    pub then: u8,
    /// Instructions to skip if the test is false.
    pub otherwise: u8,
    /// The constant.
    pub constant: u32,
}

impl From<u64> for Instruction {
    /// Decodes an instruction from its bytes as a number.
    fn from(word: u64) -> Instruction {
        Instruction {
            code: word as u16,
            then: (word >> 16) as u8,
            otherwise: (word >> 24) as u8,
            constant: (word >> 32) as u32,
        }
    }
}

/// A checked program: it terminates, and accesses only the call and its own memory.
#[derive(Debug)]
pub struct Program {
    operations: Box<[Operation]>,
    rows: Box<[Row]>,
    /// For each number, the instruction at which a run starts.
    starts: Box<[u16]>,
    weight: u32,
}

impl Program {
    /// Returns the most memory that a program of `instructions` takes, in bytes.
    pub const fn bytes(instructions: usize) -> usize {
        let each = size_of::<Operation>() + Row::CASE_BYTES + size_of::<Row>() / Row::LENGTH_MIN;
        instructions * each + NUMBERS * size_of::<u16>()
    }

    /// Checks a program, as Linux's `bpf_check_classic` and `seccomp_check_filter` do.
    ///
    /// # Errors
    /// [`Malformed`] unless the program has 1 to [`INSTRUCTIONS_MAX`] instructions, all known, that jump only within the
    /// program, end with a return, load nothing beyond the call, load no cell that may not have been stored to, and do not
    /// divide by a constant 0.
    pub fn new(words: &[u64]) -> Result<Program, Malformed> {
        let instructions: Vec<Instruction> =
            words.iter().take(INSTRUCTIONS_MAX + 1).map(|word| Instruction::from(*word)).collect();
        let mut operations = check::operations(&instructions, Dialect::Calls)?;
        let starts = (0..NUMBERS as u32).map(|number| ahead::start(&operations, number)).collect();
        let rows = row::find(&mut operations);
        Ok(Program {
            weight: check::weight(&instructions, Dialect::Calls),
            operations,
            rows,
            starts,
        })
    }

    /// Returns the length that Linux counts against the longest chain of filters, in instructions of its internal language.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Returns the answer to any call of `number`, if the number alone decides.
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

    /// Returns the answer to `call`; 0 if the program divides by 0.
    pub fn run(&self, call: &Call) -> u32 {
        let start = self.start(call.number()).unwrap_or(0);
        operation::run(&self.operations, &self.rows, start, call)
    }
}

#[cfg(test)]
mod packet_tests;
#[cfg(test)]
mod tests;
