//! [`Operation`]: an instruction as it is run, eight bytes; [`run`].
use crate::{CELLS, Call, row::Row};

/// The operations on the accumulator and a second number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

impl Arithmetic {
    /// `None` where it divides by 0.
    #[inline]
    pub fn of(self, left: u32, right: u32) -> Option<u32> {
        Some(match self {
            Arithmetic::Add => left.wrapping_add(right),
            Arithmetic::Subtract => left.wrapping_sub(right),
            Arithmetic::Multiply => left.wrapping_mul(right),
            Arithmetic::Divide => return left.checked_div(right),
            Arithmetic::And => left & right,
            Arithmetic::Or => left | right,
            Arithmetic::Xor => left ^ right,
            // By the low five bits, as the processor does it.
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

/// The instructions to pass after a test.
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
    /// A is a word of the call.
    Load(u8),
    /// A is a constant.
    LoadConstant(u32),
    /// A is a cell of memory.
    LoadCell(u8),
    /// X is a constant.
    IndexConstant(u32),
    /// X is a cell of memory.
    IndexCell(u8),
    /// A cell of memory is A.
    Store(u8),
    /// A cell of memory is X.
    StoreIndex(u8),
    /// X is A.
    AccumulatorToIndex,
    /// A is X.
    IndexToAccumulator,
    /// A is computed with a constant, which is not 0 where it divides.
    Compute(Arithmetic, u32),
    /// A is computed with X.
    ComputeIndex(Arithmetic),
    /// A is -A.
    Negate,
    /// So many instructions are passed.
    Jump(u32),
    // The tests with a constant are what programs are made of: each has a place of its own in the jump table.
    IfEqual(Jumps, u32),
    IfGreater(Jumps, u32),
    IfAtLeast(Jumps, u32),
    IfAnyBit(Jumps, u32),
    /// A is searched for in this row.
    Search(u32),
    /// A is compared with X.
    IfIndex(Test, Jumps),
    /// The answer is a constant.
    Return(u32),
    /// The answer is A.
    ReturnAccumulator,
}

const _: () = assert!(size_of::<Operation>() == 8);

/// Runs `operations`, which hold `rows`, from `start`, with nothing in registers and memory.
pub fn run(operations: &[Operation], rows: &[Row], start: usize, call: &Call) -> u32 {
    let (mut accumulator, mut index, mut cells) = (0_u32, 0_u32, [0_u32; CELLS]);
    let mut at = start;
    while let Some(operation) = operations.get(at) {
        at += 1;
        match *operation {
            Operation::Load(word) => accumulator = call.word(word),
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
            Operation::ComputeIndex(what) => match what.of(accumulator, index) {
                Some(value) => accumulator = value,
                None => return 0,
            },
            Operation::Negate => accumulator = accumulator.wrapping_neg(),
            Operation::Jump(over) => at += over as usize,
            Operation::IfEqual(jumps, with) => at += jumps.taken(accumulator == with),
            Operation::IfGreater(jumps, with) => at += jumps.taken(accumulator > with),
            Operation::IfAtLeast(jumps, with) => at += jumps.taken(accumulator >= with),
            Operation::IfAnyBit(jumps, with) => at += jumps.taken(accumulator & with != 0),
            Operation::Search(row) => match rows.get(row as usize) {
                Some(row) => at = row.next(accumulator),
                None => return 0,
            },
            Operation::IfIndex(test, jumps) => at += jumps.taken(test.of(accumulator, index)),
            Operation::Return(value) => return value,
            Operation::ReturnAccumulator => return accumulator,
        }
    }
    0
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
