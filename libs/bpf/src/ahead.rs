//! The verdicts on a call by its number alone.
use crate::{
    ARCHITECTURE, Call,
    operation::{Operation, Test},
};

/// Words of a call that its number tells.
const KNOWN: usize = 2;

/// The last instruction that every call of `number` comes to and from which a run that starts with nothing in
/// registers and memory ends as one from the beginning: a return, or a load of the accumulator before which
/// nothing else was changed.
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
            // An instruction that changes or reads more than the accumulator, or answers it.
            _ => break,
        }
    }
    // A program has 4096 instructions at most.
    u16::try_from(start).unwrap_or(0)
}

const _: () = assert!(Call::WORDS > KNOWN);
