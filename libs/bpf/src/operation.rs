//! [`Operation`]: a decoded instruction of eight bytes; [`run`] executes them.
use crate::{CELLS, packet::PacketLoad, row::Row};

/// An operation on the accumulator and a second number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

impl Arithmetic {
    /// Computes the result; `None` for a division by 0.
    #[inline]
    pub fn of(self, left: u32, right: u32) -> Option<u32> {
        Some(match self {
            Arithmetic::Add => left.wrapping_add(right),
            Arithmetic::Subtract => left.wrapping_sub(right),
            Arithmetic::Multiply => left.wrapping_mul(right),
            Arithmetic::Divide => return left.checked_div(right),
            Arithmetic::Modulo => return left.checked_rem(right),
            Arithmetic::And => left & right,
            Arithmetic::Or => left | right,
            Arithmetic::Xor => left ^ right,
            // Only the low five bits count, as in the processor's instruction.
            Arithmetic::ShiftLeft => left.wrapping_shl(right),
            Arithmetic::ShiftRight => left.wrapping_shr(right),
        })
    }
}

/// A comparison of the accumulator with a second number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    Equal,
    Greater,
    AtLeast,
    AnyBit,
}

impl Test {
    #[inline]
    pub fn of(self, left: u32, right: u32) -> bool {
        match self {
            Test::Equal => left == right,
            Test::Greater => left > right,
            Test::AtLeast => left >= right,
            Test::AnyBit => left & right != 0,
        }
    }
}

/// The numbers of instructions to skip after a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jumps {
    pub then: u8,
    pub otherwise: u8,
}

impl Jumps {
    #[inline]
    pub fn taken(self, holds: bool) -> usize {
        usize::from(if holds { self.then } else { self.otherwise })
    }
}

/// A checked instruction. A is the accumulator, X the index register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Loads a word of the call into A.
    Load(u8),
    /// Loads a part of the packet into A.
    LoadPacket(PacketLoad, u32),
    /// Loads the length of a header of IPv4, of which the packet has the first byte at this offset, into X.
    IndexHeader(u32),
    /// Loads the length of the packet into X.
    IndexLength,
    /// Loads a constant into A.
    LoadConstant(u32),
    /// Loads a cell of memory into A.
    LoadCell(u8),
    /// Loads a constant into X.
    IndexConstant(u32),
    /// Loads a cell of memory into X.
    IndexCell(u8),
    /// Stores A in a cell of memory.
    Store(u8),
    /// Stores X in a cell of memory.
    StoreIndex(u8),
    /// Copies A to X.
    AccumulatorToIndex,
    /// Copies X to A.
    IndexToAccumulator,
    /// Computes A with a constant, which is not 0 for a division.
    Compute(Arithmetic, u32),
    /// Computes A with X.
    ComputeIndex(Arithmetic),
    /// Negates A.
    Negate,
    /// Skips this number of instructions.
    Jump(u32),
    // Programs consist mostly of tests with a constant, so each of these has its own entry in the jump table.
    IfEqual(Jumps, u32),
    IfGreater(Jumps, u32),
    IfAtLeast(Jumps, u32),
    IfAnyBit(Jumps, u32),
    /// Searches this row for A.
    Search(u32),
    /// Compares A with X.
    IfIndex(Test, Jumps),
    /// Returns a constant.
    Return(u32),
    /// Returns A.
    ReturnAccumulator,
}

const _: () = assert!(size_of::<Operation>() == 8);

/// The data that a program looks at. A load that returns `None` ends the program with 0.
pub trait ProgramInput {
    /// Returns a word of a call.
    fn word(&self, index: u8) -> Option<u32>;
    /// Returns a part of a packet. A and X are the registers.
    fn load(&self, load: PacketLoad, constant: u32, registers: (u32, u32)) -> Option<u32>;
}

/// Runs `operations`, with their `rows`, from `start`, with nothing in registers and memory.
pub fn run(
    operations: &[Operation],
    rows: &[Row],
    start: usize,
    subject: &impl ProgramInput,
) -> u32 {
    execute(operations, rows, start, subject).unwrap_or(0)
}

/// As [`run`]; `None` for a division by 0 and for a load of what is not there.
#[inline]
fn execute(
    operations: &[Operation],
    rows: &[Row],
    start: usize,
    subject: &impl ProgramInput,
) -> Option<u32> {
    let (mut accumulator, mut index, mut cells) = (0_u32, 0_u32, [0_u32; CELLS]);
    let mut at = start;
    while let Some(operation) = operations.get(at) {
        at += 1;
        match *operation {
            Operation::Load(word) => accumulator = subject.word(word)?,
            Operation::LoadPacket(load, constant) => {
                accumulator = subject.load(load, constant, (accumulator, index))?;
            }
            Operation::IndexHeader(at) => {
                let byte = subject.load(PacketLoad::Byte, at, (accumulator, index))?;
                index = (byte & 0xf) << 2;
            }
            Operation::IndexLength => {
                index = subject.load(PacketLoad::Length, 0, (accumulator, index))?;
            }
            Operation::LoadConstant(value) => accumulator = value,
            Operation::LoadCell(cell) => accumulator = load(&cells, cell),
            Operation::IndexConstant(value) => index = value,
            Operation::IndexCell(cell) => index = load(&cells, cell),
            Operation::Store(cell) => store(&mut cells, cell, accumulator),
            Operation::StoreIndex(cell) => store(&mut cells, cell, index),
            Operation::AccumulatorToIndex => index = accumulator,
            Operation::IndexToAccumulator => accumulator = index,
            Operation::Compute(what, with) => {
                accumulator = what.of(accumulator, with).unwrap_or(0);
            }
            Operation::ComputeIndex(what) => accumulator = what.of(accumulator, index)?,
            Operation::Negate => accumulator = accumulator.wrapping_neg(),
            Operation::Jump(over) => at += over as usize,
            Operation::IfEqual(jumps, with) => at += jumps.taken(accumulator == with),
            Operation::IfGreater(jumps, with) => at += jumps.taken(accumulator > with),
            Operation::IfAtLeast(jumps, with) => at += jumps.taken(accumulator >= with),
            Operation::IfAnyBit(jumps, with) => at += jumps.taken(accumulator & with != 0),
            Operation::Search(row) => at = rows.get(row as usize)?.next(accumulator),
            Operation::IfIndex(test, jumps) => at += jumps.taken(test.of(accumulator, index)),
            Operation::Return(value) => return Some(value),
            Operation::ReturnAccumulator => return Some(accumulator),
        }
    }
    None
}

#[inline]
fn load(cells: &[u32; CELLS], cell: u8) -> u32 {
    cells.get(usize::from(cell) % CELLS).copied().unwrap_or(0)
}

#[inline]
fn store(cells: &mut [u32; CELLS], cell: u8, value: u32) {
    if let Some(place) = cells.get_mut(usize::from(cell) % CELLS) {
        *place = value;
    }
}
