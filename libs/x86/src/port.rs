//! Ranges of ports, and the emulation of port instructions that the processor refused a program. [`carry_out`] decodes the
//! instruction at the instruction pointer, asks the [`Machine`] whether the program has the ports, and changes registers and
//! memory as the processor would have done.
//!
//! Supported are `in` and `out` with an immediate port or dx, and `ins` and `outs` with or without `rep`, of bytes, words and
//! longs. Not supported are prefixes that change the memory address (FS, GS, short addresses), `lock` and `repne`. Source:
//! Intel SDM volume 2, 2.1 and 2.2, IN, INS, OUT, OUTS.
use alloc::vec::Vec;
use program::{PortStep, Registers};

/// Longest instruction of the processor.
pub const INSTRUCTION_MAX: usize = 15;
/// The greatest number of bytes that one step of a repeated instruction moves.
const STEP_BYTES: usize = 256;
const DIRECTION: u64 = 1 << 10;

/// A range of ports: the first, and their number.
pub type Range = (u16, u16);

/// Returns the port behind a range.
const fn end(range: Range) -> u32 {
    range.0 as u32 + range.1 as u32
}

/// Returns whether `outer` contains all ports of `inner`.
pub const fn holds(outer: Range, inner: Range) -> bool {
    outer.0 <= inner.0 && end(inner) <= end(outer)
}

/// Returns whether two ranges have a port in common.
pub const fn overlap(one: Range, other: Range) -> bool {
    (one.0 as u32) < end(other) && (other.0 as u32) < end(one)
}

/// The ranges of ports that one owner has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<Range>);

impl Ranges {
    /// Makes a set without ranges.
    pub const fn new() -> Ranges {
        Ranges(Vec::new())
    }

    /// Returns whether one range has all ports of `range`.
    pub fn has(&self, range: Range) -> bool {
        self.0.iter().any(|&one| holds(one, range))
    }

    /// Returns whether a port of `range` is in one of the ranges.
    pub fn touch(&self, range: Range) -> bool {
        self.0.iter().any(|&one| overlap(one, range))
    }

    /// Adds `range`.
    pub fn add(&mut self, range: Range) {
        self.0.push(range);
    }

    /// Removes `range`, which must have been added in this form. Returns whether it was.
    pub fn remove(&mut self, range: Range) -> bool {
        let at = self.0.iter().position(|&one| one == range);
        at.map(|at| self.0.swap_remove(at)).is_some()
    }
}

/// The ports that the nucleus itself uses: interrupt controllers and PCI configuration.
const RESERVED: [Range; 3] = [(0x20, 2), (0xa0, 2), (0xcf8, 8)];

/// The owners of all ports: a port has one at a time.
#[derive(Debug, Default)]
pub struct Owners {
    taken: Ranges,
    /// The ports that the components of the kernel world may take.
    granted: Ranges,
}

impl Owners {
    /// Makes a set in which no port is taken or granted.
    pub const fn new() -> Owners {
        Owners { taken: Ranges::new(), granted: Ranges::new() }
    }

    /// Grants `range` to the components of the kernel world.
    pub fn grant(&mut self, range: Range) {
        self.granted.add(range);
    }

    /// Takes `range` for a caller to which it is granted by its domain. Returns `false`, and takes nothing, if the nucleus or
    /// another caller has one of the ports.
    #[must_use]
    pub fn take(&mut self, range: Range) -> bool {
        let is_free =
            !self.taken.touch(range) && !RESERVED.iter().any(|&other| overlap(range, other));
        if is_free {
            self.taken.add(range);
        }
        is_free
    }

    /// Takes `range` as [`Owners::take`] does for a component of the kernel world, to which it must be granted here.
    #[must_use]
    pub fn take_granted(&mut self, range: Range) -> bool {
        self.granted.has(range) && self.take(range)
    }

    /// Gives `range` back, which was taken in this form.
    pub fn give_back(&mut self, range: Range) {
        self.taken.remove(range);
    }
}

impl IntoIterator for Ranges {
    type Item = Range;
    type IntoIter = alloc::vec::IntoIter<Range>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// An instruction that accesses ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its length in bytes.
    pub length: u8,
    /// The instruction reads the port; otherwise it writes it.
    pub is_input: bool,
    /// Width of the access: 1, 2 or 4 bytes.
    pub width: u8,
    /// The operands.
    pub form: Form,
}

/// The operands of an [`Instruction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The accumulator, and a port number in the instruction.
    Immediate(u8),
    /// The accumulator, and the port in dx.
    Register,
    /// Memory, and the port in dx.
    String {
        /// The instruction is repeated rcx times.
        is_repeated: bool,
    },
}

/// Decodes the instruction at the beginning of `code`, if it is a supported port instruction.
pub fn decode(code: &[u8]) -> Option<Instruction> {
    let (mut is_short, mut is_repeated) = (false, false);
    let mut bytes = code.iter().copied().take(INSTRUCTION_MAX).enumerate();
    let (at, opcode, is_wide) = loop {
        match bytes.next()? {
            (_, 0x66) => is_short = true,
            (_, 0xf3) => is_repeated = true,
            // These segments begin at 0 whatever their selectors are.
            (_, 0x26 | 0x2e | 0x36 | 0x3e) => {}
            // REX has an effect only right before the opcode.
            (at, rex @ 0x40..0x50) => break (at + 1, bytes.next()?.1, rex & 8 != 0),
            (at, opcode) => break (at, opcode, false),
        }
    };
    let form = match opcode {
        0xe4..=0xe7 => Form::Immediate(bytes.next()?.1),
        0xec..=0xef => Form::Register,
        0x6c..=0x6f => Form::String { is_repeated },
        _ => return None,
    };
    let width = match (opcode & 1, is_short && !is_wide) {
        (0, _) => 1,
        (_, true) => 2,
        (_, false) => 4,
    };
    let length = at as u8 + 1 + u8::from(matches!(form, Form::Immediate(_)));
    Some(Instruction { length, is_input: opcode & 2 == 0, width, form })
}

/// The ports that a program may use, and its memory.
pub trait Machine {
    /// Returns whether the program has the ports of an access.
    fn has(&self, step: PortStep) -> bool;
    /// Accesses a port that the program has. Returns the value read or written.
    fn access(&mut self, step: PortStep) -> u32;
    /// Copies from the program's memory. Returns whether all of it may be read.
    fn load(&mut self, address: u64, to: &mut [u8]) -> bool;
    /// Copies to the program's memory. Returns whether all of it may be written.
    fn store(&mut self, address: u64, from: &[u8]) -> bool;
}

/// Emulates the instruction at the beginning of `code` for the program with `registers`, or as much of a repeated one as it
/// does in one step, in which case the instruction pointer stays. Returns whether it did. If not, nothing was changed, except
/// that the port was read if memory could not be written.
pub fn carry_out(registers: &mut Registers, code: &[u8], machine: &mut impl Machine) -> bool {
    let Some(Instruction { length, is_input, width, form }) = decode(code) else { return false };
    let port = match form {
        Form::Immediate(port) => u16::from(port),
        _ => registers.rdx as u16,
    };
    let step = PortStep { port, width, is_write: !is_input, value: 0 };
    if !machine.has(step) {
        return false;
    }
    let is_over = match form {
        Form::String { is_repeated } => {
            let wanted = if is_repeated { registers.rcx } else { 1 };
            let Some(count) = string(registers, step, machine, wanted) else { return false };
            if is_repeated {
                registers.rcx -= count;
            }
            count == wanted
        }
        _ if is_input => {
            registers.rax = merged(registers.rax, width, machine.access(step));
            true
        }
        _ => {
            let value = (registers.rax & mask(width)) as u32;
            machine.access(PortStep { value, ..step });
            true
        }
    };
    if is_over {
        registers.rip = registers.rip.wrapping_add(u64::from(length));
    }
    true
}

const fn mask(width: u8) -> u64 {
    u64::MAX >> (64 - 8 * width as u32)
}

/// Returns the accumulator with `value` in its lower part. A long clears the upper half; other widths keep the rest.
const fn merged(rax: u64, width: u8, value: u32) -> u64 {
    let value = value as u64 & mask(width);
    if width == 4 { value } else { rax & !mask(width) | value }
}

/// Does some of the `wanted` transfers of a string instruction. Returns how many; `None` if memory cannot be accessed.
fn string(
    registers: &mut Registers,
    step: PortStep,
    machine: &mut impl Machine,
    wanted: u64,
) -> Option<u64> {
    let bytes = usize::from(step.width);
    let is_downwards = registers.rflags & DIRECTION != 0;
    let most = if is_downwards { 1 } else { (STEP_BYTES / bytes) as u64 };
    let count = wanted.min(most);
    let mut memory = [0; STEP_BYTES];
    let memory = memory.get_mut(..count as usize * bytes)?;
    let pointer = if step.is_write { &mut registers.rsi } else { &mut registers.rdi };
    if !step.is_write {
        for part in memory.chunks_exact_mut(bytes) {
            let value = machine.access(step).to_le_bytes();
            part.iter_mut().zip(value).for_each(|(to, from)| *to = from);
        }
        machine.store(*pointer, memory).then_some(())?;
    } else {
        machine.load(*pointer, memory).then_some(())?;
        for part in memory.chunks_exact(bytes) {
            let value = part.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
            machine.access(PortStep { value, ..step });
        }
    }
    let moved = count * u64::from(step.width);
    *pointer = if is_downwards { pointer.wrapping_sub(moved) } else { pointer.wrapping_add(moved) };
    Some(count)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::{vec, vec::Vec};

    /// Ports that count up when read and record writes, and memory from address 0x1000 on.
    struct Model {
        ports: core::ops::Range<u32>,
        next: u32,
        written: Vec<(u16, u8, u32)>,
        memory: Vec<u8>,
    }

    impl Model {
        fn new() -> Model {
            Model { ports: 0x60..0x70, next: 0x8182_8380, written: vec![], memory: vec![7; 1024] }
        }
        fn place(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
            let start = usize::try_from(address.checked_sub(0x1000)?).ok()?;
            self.memory.get_mut(start..start.checked_add(length)?)
        }
    }

    impl Machine for Model {
        fn has(&self, PortStep { port, width, .. }: PortStep) -> bool {
            let end = u32::from(port) + u32::from(width);
            self.ports.start <= u32::from(port) && end <= self.ports.end
        }
        fn access(&mut self, step: PortStep) -> u32 {
            assert!(self.has(step));
            let PortStep { port, width, is_write, value } = step;
            if is_write {
                self.written.push((port, width, value));
            } else {
                self.next += 1;
            }
            self.next
        }
        fn load(&mut self, address: u64, to: &mut [u8]) -> bool {
            self.place(address, to.len()).map(|from| to.copy_from_slice(from)).is_some()
        }
        fn store(&mut self, address: u64, from: &[u8]) -> bool {
            self.place(address, from.len()).map(|to| to.copy_from_slice(from)).is_some()
        }
    }

    fn start() -> Registers {
        Registers {
            rax: 0x1122_3344_5566_7788,
            rcx: 3,
            rdx: 0xffff_0064,
            rsi: 0x1000,
            rdi: 0x1100,
            rip: 100,
            ..Registers::default()
        }
    }

    fn does(code: &[u8]) -> (Registers, Model) {
        let (mut registers, mut model) = (start(), Model::new());
        assert!(carry_out(&mut registers, code, &mut model), "{code:x?}");
        (registers, model)
    }

    #[test]
    fn a_port_has_one_owner() {
        let mut owners = Owners::new();
        assert!(owners.take((0x3f8, 8)) && !owners.take((0x3ff, 1)) && owners.take((0x400, 1)));
        owners.give_back((0x3f8, 8));
        assert!(owners.take((0x3ff, 1)));
        for reserved in [(0x20, 1), (0x1f, 2), (0xa1, 1), (0xcf0, 9), (0xcfc, 4)] {
            assert!(!owners.take(reserved), "{reserved:x?}");
        }
    }

    #[test]
    fn components_of_the_kernel_world_take_what_is_granted() {
        let mut owners = Owners::new();
        assert!(!owners.take_granted((0x60, 1)));
        owners.grant((0x60, 5));
        assert!(owners.take_granted((0x64, 1)) && !owners.take_granted((0x64, 2)));
        assert!(!owners.take_granted((0x60, 5)), "a part is taken");
    }

    #[test]
    fn ranges_hold_and_overlap_to_their_last_port() {
        assert!(holds((0x2f8, 8), (0x2ff, 1)) && !holds((0x2f8, 8), (0x2ff, 2)));
        assert!(!holds((0x2f8, 8), (0x2f7, 1)) && holds((0xfff8, 8), (0xffff, 1)));
        assert!(overlap((0x2f8, 8), (0x2ff, 4)) && overlap((0xfffc, 4), (0xfff0, 0xd)));
        assert!(!overlap((0x2f8, 8), (0x300, 1)) && !overlap((0x300, 1), (0x2f8, 8)));
    }

    #[test]
    fn every_form_is_decoded() {
        let string = |is_repeated| Form::String { is_repeated };
        let expected: [(&[u8], u8, bool, u8, Form); 14] = [
            (&[0xe4, 9], 2, true, 1, Form::Immediate(9)),
            (&[0xe5, 9], 2, true, 4, Form::Immediate(9)),
            (&[0x66, 0xe5, 9], 3, true, 2, Form::Immediate(9)),
            (&[0xe6, 9], 2, false, 1, Form::Immediate(9)),
            (&[0xe7, 9], 2, false, 4, Form::Immediate(9)),
            (&[0xec], 1, true, 1, Form::Register),
            (&[0x66, 0xed], 2, true, 2, Form::Register),
            (&[0xee], 1, false, 1, Form::Register),
            (&[0x66, 0x2e, 0xef], 3, false, 2, Form::Register),
            // A wide operand is a long, whatever prefixes come before.
            (&[0x66, 0x48, 0xef], 3, false, 4, Form::Register),
            (&[0x6c], 1, true, 1, string(false)),
            (&[0xf3, 0x6d], 2, true, 4, string(true)),
            (&[0xf3, 0x66, 0x6f], 3, false, 2, string(true)),
            (&[0x41, 0x6e], 2, false, 1, string(false)),
        ];
        for (code, length, is_input, width, form) in expected {
            let instruction = Instruction { length, is_input, width, form };
            assert_eq!(decode(code), Some(instruction), "{code:x?}");
        }
    }

    #[test]
    fn other_instructions_are_left_alone() {
        let others: [&[u8]; 10] = [
            &[],
            &[0xe4],
            &[0x90],
            &[0xf4],
            &[0xf0, 0xec],
            &[0xf2, 0x6c],
            &[0x67, 0x6c],
            &[0x64, 0x6e],
            // The REX prefix is not right before the opcode.
            &[0x48, 0x66, 0xed],
            &[0x66; INSTRUCTION_MAX + 1],
        ];
        assert!(others.iter().all(|code| decode(code).is_none()));
        let mut long = [0x66; INSTRUCTION_MAX + 1];
        long[INSTRUCTION_MAX] = 0xec;
        assert_eq!(decode(&long), None);
    }

    #[test]
    fn the_accumulator_keeps_what_the_width_leaves() {
        assert_eq!(does(&[0xec]).0.rax, 0x1122_3344_5566_7781);
        assert_eq!(does(&[0x66, 0xed]).0.rax, 0x1122_3344_5566_8381);
        assert_eq!(does(&[0xed]).0.rax, 0x8182_8381);
        assert_eq!(does(&[0xe4, 0x61]).0.rip, 102);
    }

    #[test]
    fn what_the_width_says_is_written() {
        assert_eq!(does(&[0xee]).1.written, [(0x64, 1, 0x88)]);
        assert_eq!(does(&[0x66, 0xef]).1.written, [(0x64, 2, 0x7788)]);
        assert_eq!(does(&[0xe7, 0x6c]).1.written, [(0x6c, 4, 0x5566_7788)]);
    }

    #[test]
    fn strings_move_memory_and_pointers() {
        let (registers, model) = does(&[0xf3, 0x66, 0x6d]);
        assert_eq!((registers.rcx, registers.rdi, registers.rip), (0, 0x1106, 103));
        assert_eq!(model.memory[0x100..0x107], [0x81, 0x83, 0x82, 0x83, 0x83, 0x83, 7]);
        let (registers, model) = does(&[0x6f]);
        assert_eq!((registers.rcx, registers.rsi, registers.rip), (3, 0x1004, 101));
        assert_eq!(model.written, [(0x64, 4, 0x0707_0707)]);
    }

    #[test]
    fn long_strings_go_in_steps_and_backwards_one_by_one() {
        let (mut model, code) = (Model::new(), [0xf3, 0x6c]);
        let mut registers = Registers { rcx: 600, rdi: 0x1000, ..start() };
        for (left, rip) in [(344, 100), (88, 100), (0, 102)] {
            assert!(carry_out(&mut registers, &code, &mut model));
            assert_eq!((registers.rcx, registers.rip), (left, rip));
        }
        let mut registers = Registers { rflags: DIRECTION, ..start() };
        assert!(carry_out(&mut registers, &[0xf3, 0x6f], &mut model));
        assert_eq!((registers.rcx, registers.rsi, registers.rip), (2, 0x0ffc, 100));
        let mut registers = Registers { rcx: 0, ..start() };
        assert!(carry_out(&mut registers, &code, &mut model));
        assert_eq!((registers.rdi, registers.rip), (0x1100, 102));
    }

    #[test]
    fn ports_and_memory_that_it_has_not_are_refused() {
        let mut model = Model::new();
        let cases: [(&[u8], u64, u64); 6] = [
            (&[0xec], 0x5f, 0x1000),
            (&[0xef], 0x6d, 0x1000),
            (&[0xe6, 0x70], 0x60, 0x1000),
            (&[0x6e], 0x60, 0xfff),
            (&[0xf3, 0x6f], 0x60, 0x13f8),
            (&[0xf3, 0x6f], 0x60, u64::MAX),
        ];
        for (code, rdx, rsi) in cases {
            let before = Registers { rdx, rsi, ..start() };
            let mut registers = before;
            assert!(!carry_out(&mut registers, code, &mut model), "{code:x?}");
            assert_eq!(registers, before);
        }
        assert!(model.written.is_empty());
    }

    proptest! {
        /// For any bytes: only ports that the program has are accessed (the model asserts it), the instruction pointer moves by
        /// the length or not at all, and a refused instruction changes no register.
        #[test]
        fn any_bytes_are_carried_out_or_refused(
            code in proptest::collection::vec(prop_oneof![
                any::<u8>(),
                proptest::sample::select(&[0x66u8, 0xf3, 0x48, 0xe4, 0xe7, 0xec, 0xef, 0x6c, 0x6d, 0x6f][..]),
            ], 0..20),
            rdx in 0u64..0x80, rcx in 0u64..1000, at in 0xff0u64..0x1500, rflags in any::<u64>(),
        ) {
            let before = Registers { rdx, rcx, rsi: at, rdi: at, rflags, ..start() };
            let (mut registers, mut model) = (before, Model::new());
            if carry_out(&mut registers, &code, &mut model) {
                let length = decode(&code).map_or(0, |found| u64::from(found.length));
                let is_repeated = registers.rcx != before.rcx;
                prop_assert!(registers.rip == 100 + length || is_repeated && registers.rip == 100);
                prop_assert!(length as usize <= code.len().min(INSTRUCTION_MAX));
                prop_assert_eq!(
                    Registers { rax: 0, rcx: 0, rsi: 0, rdi: 0, rip: 0, ..registers },
                    Registers { rax: 0, rcx: 0, rsi: 0, rdi: 0, rip: 0, ..before }
                );
            } else {
                prop_assert_eq!(registers, before);
                prop_assert!(model.written.is_empty());
            }
        }
    }
}
