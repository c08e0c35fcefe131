//! The checks of a program, in Linux's order, and the program's length as Linux counts it.
use crate::{
    CELLS, Call, INSTRUCTIONS_MAX, Instruction, Malformed,
    operation::{Arithmetic, Jumps, Operation, Test},
    packet,
};
use alloc::{boxed::Box, vec};

// Classes, sizes, modes and sources of Linux's `bpf_common.h`; `BPF_W` and `BPF_K` and `BPF_IMM` are 0.
const CLASS: u16 = 0x07;
const LD: u16 = 0x00;
const LDX: u16 = 0x01;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const ALU: u16 = 0x04;
const JMP: u16 = 0x05;
const RET: u16 = 0x06;
const MISC: u16 = 0x07;
const IMM: u16 = 0x00;
const ABS: u16 = 0x20;
const MEM: u16 = 0x60;
const LEN: u16 = 0x80;
const X: u16 = 0x08;
const A: u16 = 0x10;
const DIV: u16 = 0x30;
const NEG: u16 = 0x80;
const MOD: u16 = 0x90;
const JA: u16 = 0x00;
const TAX: u16 = 0x00;
const TXA: u16 = 0x80;

// Whole codes that the patterns below use.
const LD_IMM: u16 = LD | IMM;
const LDX_IMM: u16 = LDX | IMM;
const LD_ABS: u16 = LD | ABS;
const LD_MEM: u16 = LD | MEM;
const LDX_MEM: u16 = LDX | MEM;
const LD_LEN: u16 = LD | LEN;
const LDX_LEN: u16 = LDX | LEN;
const RET_A: u16 = RET | A;
const MISC_TAX: u16 = MISC | TAX;
const MISC_TXA: u16 = MISC | TXA;
const ALU_NEG: u16 = ALU | NEG;
const JMP_JA: u16 = JMP | JA;
const ALU_DIV_X: u16 = ALU | DIV | X;
const ALU_MOD_X: u16 = ALU | MOD | X;

/// The subject of a program, which determines its loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// System calls.
    Calls,
    /// Packets.
    Packets,
}

/// Checks a program and returns its operations.
pub fn operations(
    instructions: &[Instruction],
    dialect: Dialect,
) -> Result<Box<[Operation]>, Malformed> {
    if instructions.len() > INSTRUCTIONS_MAX {
        return Err(Malformed);
    }
    match instructions.last().map(|last| last.code) {
        Some(RET | RET_A) => {}
        _ => return Err(Malformed),
    }
    let after = |at: usize| instructions.len() - at - 1;
    let operations = instructions.iter().enumerate();
    let operations: Option<_> =
        operations.map(|(at, instruction)| operation(instruction, after(at), dialect)).collect();
    check_memory(instructions)?;
    operations.ok_or(Malformed)
}

/// Decodes `instruction`, which `after` instructions follow.
fn operation(instruction: &Instruction, after: usize, dialect: Dialect) -> Option<Operation> {
    let constant = instruction.constant;
    let cell = || u8::try_from(constant).ok().filter(|cell| usize::from(*cell) < CELLS);
    let of_subject = match dialect {
        Dialect::Calls => load_of_call(instruction),
        Dialect::Packets => packet::load(instruction)?,
    };
    if of_subject.is_some() {
        return of_subject;
    }
    Some(match instruction.code {
        LD_IMM => Operation::LoadConstant(constant),
        LDX_IMM => Operation::IndexConstant(constant),
        LD_MEM => Operation::LoadCell(cell()?),
        LDX_MEM => Operation::IndexCell(cell()?),
        ST => Operation::Store(cell()?),
        STX => Operation::StoreIndex(cell()?),
        RET => Operation::Return(constant),
        RET_A => Operation::ReturnAccumulator,
        MISC_TAX => Operation::AccumulatorToIndex,
        MISC_TXA => Operation::IndexToAccumulator,
        ALU_NEG => Operation::Negate,
        JMP_JA if (constant as usize) < after => Operation::Jump(constant),
        code if code & CLASS == ALU => computation(code, constant, dialect)?,
        code if code & CLASS == JMP => test(instruction, after)?,
        _ => return None,
    })
}

/// Decodes a load of a part of a call; `None` for other instructions.
fn load_of_call(instruction: &Instruction) -> Option<Operation> {
    let constant = instruction.constant;
    match instruction.code {
        LD_ABS if constant < Call::BYTES && constant.is_multiple_of(4) => {
            Some(Operation::Load((constant / 4) as u8))
        }
        LD_LEN => Some(Operation::LoadConstant(Call::BYTES)),
        LDX_LEN => Some(Operation::IndexConstant(Call::BYTES)),
        _ => None,
    }
}

fn computation(code: u16, constant: u32, dialect: Dialect) -> Option<Operation> {
    let what = match code & !(CLASS | X) {
        0x00 => Arithmetic::Add,
        0x10 => Arithmetic::Subtract,
        0x20 => Arithmetic::Multiply,
        DIV => Arithmetic::Divide,
        0x40 => Arithmetic::Or,
        0x50 => Arithmetic::And,
        0x60 => Arithmetic::ShiftLeft,
        0x70 => Arithmetic::ShiftRight,
        MOD if dialect == Dialect::Packets => Arithmetic::Modulo,
        0xa0 => Arithmetic::Xor,
        _ => return None,
    };
    let is_shift = matches!(what, Arithmetic::ShiftLeft | Arithmetic::ShiftRight);
    match code & X {
        X => Some(Operation::ComputeIndex(what)),
        _ if matches!(what, Arithmetic::Divide | Arithmetic::Modulo) && constant == 0 => None,
        _ if is_shift && constant >= u32::BITS => None,
        _ => Some(Operation::Compute(what, constant)),
    }
}

fn test(instruction: &Instruction, after: usize) -> Option<Operation> {
    let Instruction { code, then, otherwise, constant } = *instruction;
    let test = tested(code)?;
    if usize::from(then.max(otherwise)) >= after {
        return None;
    }
    let jumps = Jumps { then, otherwise };
    Some(match test {
        _ if code & X != 0 => Operation::IfIndex(test, jumps),
        Test::Equal => Operation::IfEqual(jumps, constant),
        Test::Greater => Operation::IfGreater(jumps, constant),
        Test::AtLeast => Operation::IfAtLeast(jumps, constant),
        Test::AnyBit => Operation::IfAnyBit(jumps, constant),
    })
}

/// Returns the test of a conditional jump.
fn tested(code: u16) -> Option<Test> {
    match code & !X {
        0x15 => Some(Test::Equal),
        0x25 => Some(Test::Greater),
        0x35 => Some(Test::AtLeast),
        0x45 => Some(Test::AnyBit),
        _ => None,
    }
}

/// Checks that each cell that is loaded was stored to on every path, and that all jumps are within the program.
fn check_memory(instructions: &[Instruction]) -> Result<(), Malformed> {
    const ALL: u16 = u16::MAX;
    // For each instruction, the cells that every jump to it has stored to.
    let mut reached = vec![ALL; instructions.len()];
    let mut valid = 0_u16;
    for (at, instruction) in instructions.iter().enumerate() {
        valid &= reached.get(at).copied().unwrap_or(0);
        let bit = 1_u16.checked_shl(instruction.constant).unwrap_or(0);
        let mut jump = |over: usize| {
            let target = (at + 1).checked_add(over);
            if let Some(cells) = target.and_then(|target| reached.get_mut(target)) {
                *cells &= valid;
            }
        };
        match instruction.code {
            ST | STX => valid |= bit,
            LD_MEM | LDX_MEM if valid & bit == 0 => return Err(Malformed),
            JMP_JA => {
                jump(instruction.constant as usize);
                valid = ALL;
            }
            code if tested(code).is_some() => {
                jump(usize::from(instruction.then));
                jump(usize::from(instruction.otherwise));
                valid = ALL;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the length of the program that Linux's `bpf_convert_filter` would make.
pub fn weight(instructions: &[Instruction], dialect: Dialect) -> u32 {
    const BEGINNING: u32 = 3;
    let weights = instructions.iter().map(|instruction| match instruction.code {
        RET => 2,
        ALU_DIV_X | ALU_MOD_X => 5,
        code if dialect == Dialect::Packets && packet::is_load(code) => packet::LOAD_WEIGHT,
        _ => 1 + tested(instruction.code).map_or(0, |test| more_for_test(instruction, test)),
    });
    BEGINNING + weights.sum::<u32>()
}

/// Returns the additional instructions of a test: a negative constant needs a register, and Linux's jumps have only one
/// target, so some tests need a second jump.
fn more_for_test(instruction: &Instruction, test: Test) -> u32 {
    let Instruction { code, then, otherwise, constant } = *instruction;
    let is_negative = code & X == 0 && (constant as i32) < 0;
    let is_single = otherwise == 0 || then == 0 && test != Test::AnyBit;
    u32::from(is_negative) + u32::from(!is_single)
}
