//! The part of a program that depends only on a call's number, evaluated when the program is made.
use crate::{
    ARCHITECTURE, Call,
    operation::{Operation, Test},
};

/// Words of a call that its number determines.
const KNOWN: usize = 2;

/// Returns the instruction at which a run for calls of `number` may start. Every such call reaches it, and a
/// run from there, with nothing in registers and memory, ends like one from the beginning. It is a return, or
/// a load of the accumulator before which nothing else was changed.
pub fn start(operations: &[Operation], number: u32) -> u16 {
    let known: [u32; KNOWN] = [number, ARCHITECTURE];
    let (mut accumulator, mut at, mut start) = (0_u32, 0_usize, 0_usize);
    while let Some(operation) = operations.get(at) {
        let here = at;
        at += 1;
        let test = |test: Test, with| test.of(accumulator, with);
        match *operation {
            Operation::Load(word) => {
                start = here;
                match known.get(usize::from(word)) {
                    Some(value) => accumulator = *value,
                    None => break,
                }
            }
            Operation::LoadConstant(value) => (accumulator, start) = (value, here),
            Operation::Compute(what, with) => {
                accumulator = what.of(accumulator, with).unwrap_or(0);
            }
            Operation::Negate => accumulator = accumulator.wrapping_neg(),
            Operation::Jump(over) => at += over as usize,
            Operation::IfEqual(jumps, with) => at += jumps.taken(test(Test::Equal, with)),
            Operation::IfGreater(jumps, with) => at += jumps.taken(test(Test::Greater, with)),
            Operation::IfAtLeast(jumps, with) => at += jumps.taken(test(Test::AtLeast, with)),
            Operation::IfAnyBit(jumps, with) => at += jumps.taken(test(Test::AnyBit, with)),
            Operation::Return(_) => {
                start = here;
                break;
            }
            // The instruction changes or reads more than the accumulator, or returns it.
            _ => break,
        }
    }
    // A program has at most 4096 instructions.
    u16::try_from(start).unwrap_or(0)
}

const _: () = assert!(Call::WORDS > KNOWN);
