//! Tests of checking and running programs, also against an interpreter that evaluates nothing when a program is made.
use super::*;
use proptest::prelude::*;

const ALLOW: u32 = 0x7fff_0000;
const LD_NUMBER: u64 = load(0);

const fn instruction(code: u16, then: u8, otherwise: u8, constant: u32) -> u64 {
    code as u64 | (then as u64) << 16 | (otherwise as u64) << 24 | (constant as u64) << 32
}
const fn load(offset: u32) -> u64 {
    instruction(0x20, 0, 0, offset)
}
const fn constant(code: u16, constant: u32) -> u64 {
    instruction(code, 0, 0, constant)
}
const fn answer(value: u32) -> u64 {
    constant(0x06, value)
}
const fn if_equal(constant: u32, then: u8, otherwise: u8) -> u64 {
    instruction(0x15, then, otherwise, constant)
}
const ANSWER_A: u64 = constant(0x16, 0);

fn call(number: u32, first: u64) -> Call {
    Call::new(number, 0x1234_5678_9abc, [first, 2, 3, 4, 5, 6 << 40])
}

fn run(words: &[u64], call: &Call) -> u32 {
    Program::new(words).unwrap().run(call)
}

/// Returns the answer of a program that applies `code` to accumulator `a` and index `x`.
fn computed(code: u16, a: u32, x: u32, k: u32) -> u32 {
    // The arguments are not known when the program is made.
    let words = [load(24), constant(0x07, 0), load(16), constant(code, k), ANSWER_A];
    run(&words, &Call::new(0, 0, [u64::from(a), u64::from(x), 0, 0, 0, 0]))
}

#[test]
fn a_call_is_laid_out_as_linux_has_it() {
    let call = call(39, 0x1111_1111_2222_2222);
    let word = |offset| run(&[load(offset), ANSWER_A], &call);
    assert_eq!([word(0), word(4)], [39, ARCHITECTURE]);
    assert_eq!([word(8), word(12)], [0x5678_9abc, 0x1234]);
    assert_eq!(
        [word(16), word(20), word(24), word(56), word(60)],
        [0x2222_2222, 0x1111_1111, 2, 0, 6 << 8]
    );
}

#[test]
fn arithmetic_is_of_32_bits_and_wraps() {
    let both = |code, a, right, result| {
        assert_eq!(computed(code, a, 0, right), result, "{code:#x} with a constant");
        assert_eq!(computed(code | 8, a, right, 99), result, "{code:#x} with the index");
    };
    both(0x04, u32::MAX, 2, 1);
    both(0x14, 1, 2, u32::MAX);
    both(0x24, 1 << 31, 3, 1 << 31);
    both(0x34, 7, 2, 3);
    both(0x44, 0b1100, 0b1010, 0b1110);
    both(0x54, 0b1100, 0b1010, 0b1000);
    both(0x64, 3, 31, 1 << 31);
    both(0x74, 1 << 31, 31, 1);
    both(0xa4, 0b1100, 0b1010, 0b0110);
    assert_eq!(computed(0x84, 5, 0, 0), 5_u32.wrapping_neg());
}

#[test]
fn shifts_by_the_index_count_its_low_five_bits() {
    assert_eq!(computed(0x6c, 1, 33, 0), 2);
    assert_eq!(computed(0x7c, 4, 33, 0), 2);
}

#[test]
fn division_by_an_index_of_zero_answers_zero() {
    assert_eq!(computed(0x3c, 7, 0, 0), 0);
}

#[test]
fn tests_are_unsigned() {
    for (code, holds) in
        [(0x15, [false, true, false]), (0x25, [false, false, true]), (0x35, [false, true, true])]
    {
        for (a, holds) in [4, 5, 1 << 31].into_iter().zip(holds) {
            for source in [0, 8] {
                let words = [
                    constant(0x01, 5),
                    load(16),
                    instruction(code | source, 0, 1, 5),
                    answer(1),
                    answer(2),
                ];
                assert_eq!(run(&words, &call(0, a)) == 1, holds, "{a} {code:#x}");
            }
        }
    }
    let any_bit = [load(16), instruction(0x45, 0, 1, 6), answer(1), answer(2)];
    assert_eq!([run(&any_bit, &call(0, 4)), run(&any_bit, &call(0, 8))], [1, 2]);
}

#[test]
fn memory_and_registers_keep_what_is_put_there() {
    let words = [
        load(16),
        constant(0x02, 15),
        constant(0x07, 0),
        constant(0x03, 0),
        constant(0x00, 7),
        constant(0x61, 15),
        constant(0x87, 0),
        constant(0x60, 0),
        ANSWER_A,
    ];
    assert_eq!(run(&words, &call(0, 42)), 42);
    assert_eq!(run(&[constant(0x80, 9), ANSWER_A], &call(0, 0)), 64);
    assert_eq!(run(&[constant(0x81, 9), constant(0x87, 0), ANSWER_A], &call(0, 0)), 64);
}

#[test]
fn the_known_codes_are_those_of_seccomp() {
    // Measured on Linux 6.18: each code between stores to the cell that it may load and a return.
    const KNOWN: [u16; 40] = [
        0x00, 0x01, 0x02, 0x03, 0x04, 0x06, 0x07, 0x0c, 0x14, 0x15, 0x16, 0x1c, 0x1d, 0x20, 0x24,
        0x25, 0x2c, 0x2d, 0x34, 0x35, 0x3c, 0x3d, 0x44, 0x45, 0x4c, 0x4d, 0x54, 0x5c, 0x60, 0x61,
        0x64, 0x6c, 0x74, 0x7c, 0x80, 0x81, 0x84, 0x87, 0xa4, 0xac,
    ];
    for code in 0..=u16::MAX {
        let operand = if code == 0x20 { 4 } else { 1 };
        let end = [answer(ALLOW), answer(ALLOW)];
        let words = [constant(0x02, 1), constant(0x03, 1), constant(code, operand), end[0], end[1]];
        let is_known = KNOWN.contains(&code) || code == 0x05;
        assert_eq!(Program::new(&words).is_ok(), is_known, "{code:#x}");
    }
}

#[test]
fn what_reaches_beyond_is_refused() {
    let fails =
        |words: &[u64]| assert_eq!(Program::new(words).err(), Some(Malformed), "{words:x?}");
    let fails_before_end = |word| fails(&[word, answer(ALLOW)]);
    fails(&[]);
    fails(&[LD_NUMBER]);
    fails(&vec![answer(ALLOW); INSTRUCTIONS_MAX + 1]);
    // These are beyond the call, or not at a word of it.
    [64, 62, 1, 0xffff_f000].into_iter().for_each(|offset| fails_before_end(load(offset)));
    // These are cells that do not exist, and cells that were not stored to.
    [constant(0x02, 16), constant(0x03, 16), constant(0x60, 0), constant(0x61, 0)]
        .into_iter()
        .for_each(fails_before_end);
    // These are divisions by 0, and shifts by more bits than there are.
    [constant(0x34, 0), constant(0x64, 32), constant(0x74, 32)]
        .into_iter()
        .for_each(fails_before_end);
    // These are jumps past the end.
    [constant(0x05, 1), constant(0x05, u32::MAX), if_equal(0, 1, 0), if_equal(0, 0, 1)]
        .into_iter()
        .for_each(fails_before_end);
    assert!(Program::new(&vec![answer(ALLOW); INSTRUCTIONS_MAX]).is_ok());
}

#[test]
fn a_cell_must_be_stored_to_on_every_way() {
    let program = |otherwise| {
        [LD_NUMBER, if_equal(1, 0, otherwise), constant(0x02, 3), constant(0x60, 3), ANSWER_A]
    };
    assert!(Program::new(&program(0)).is_ok());
    assert!(Program::new(&program(1)).is_err());
}

#[test]
fn the_answer_to_a_number_alone_is_known() {
    let words = [
        load(4),
        if_equal(ARCHITECTURE, 1, 0),
        answer(0),
        LD_NUMBER,
        if_equal(39, 2, 0),
        constant(0x54, 0xff),
        if_equal(40, 0, 3),
        load(16),
        if_equal(1, 0, 1),
        answer(ALLOW),
        answer(5),
    ];
    let program = Program::new(&words).unwrap();
    assert_eq!(program.constant(39), None, "the argument counts");
    assert_eq!(program.constant(40), None);
    assert_eq!(program.constant(41), Some(5));
    assert_eq!(program.constant(NUMBERS as u32), None, "not looked at");
    assert_eq!([program.run(&call(39, 1)), program.run(&call(39, 2))], [ALLOW, 5]);
    assert_eq!(program.run(&call(NUMBERS as u32, 1)), 5);
    assert_eq!(program.run(&call(u32::MAX, 1)), 5);
}

#[test]
fn a_list_of_values_is_searched_as_it_stands() {
    let values = [9, 7, 3, 7, 1 << 31, 0];
    let tests = values.iter().enumerate().map(|(at, value)| if_equal(*value, 6 - at as u8, 0));
    let mut words = vec![load(16)];
    words.extend(tests);
    // These instructions behind the list are the targets of all its jumps.
    words.extend([answer(1), answer(2)]);
    let program = Program::new(&words).unwrap();
    assert_eq!(program.rows.len(), 1);
    for value in values {
        assert_eq!(program.run(&call(0, u64::from(value))), 2, "{value}");
    }
    for value in [1, 2, 4, 8, 10, u32::MAX] {
        assert_eq!(program.run(&call(0, u64::from(value))), 1, "{value}");
    }
    // Of two tests for one value, the first counts.
    let twice =
        [load(16), if_equal(5, 4, 0), if_equal(5, 4, 0), if_equal(6, 1, 0), if_equal(7, 0, 0)];
    let words = [&twice[..], &[answer(1), answer(2), answer(3)]].concat();
    assert_eq!([5, 6, 7, 8].map(|value| run(&words, &call(0, value))), [2, 1, 1, 1]);
}

#[test]
fn lengths_count_as_on_linux() {
    // Measured on Linux: how often a program can be added until the chain is too long.
    let weight =
        |word: u64| Program::new(&[word, answer(0), answer(0), answer(0)]).unwrap().weight();
    let alone = 3 + 3 * 2;
    assert_eq!(Program::new(&[answer(0)]).unwrap().weight(), 5);
    for (word, own) in [
        (LD_NUMBER, 1),
        (answer(1), 2),
        (ANSWER_A, 1),
        (constant(0x3c, 0), 5),
        (constant(0x34, 1), 1),
        (constant(0x05, 0), 1),
        (if_equal(1, 0, 0), 1),
        (if_equal(1, 0, 1), 1),
        (if_equal(1, 1, 0), 1),
        (if_equal(1, 1, 2), 2),
        (if_equal(1 << 31, 1, 0), 2),
        (instruction(0x1d, 1, 2, 1 << 31), 2),
        (instruction(0x45, 0, 1, 1), 2),
        (instruction(0x45, 1, 0, 1), 1),
    ] {
        assert_eq!(weight(word), alone + own, "{word:#x}");
    }
}

/// Runs the instructions one by one, without decoding or searching.
fn plain(words: &[u64], call: &Call) -> u32 {
    let data: Vec<u32> = call.words().to_vec();
    let (mut a, mut x, mut cells, mut at) = (0_u32, 0_u32, [0_u32; 16], 0_usize);
    loop {
        let Instruction { code, then, otherwise, constant: k } = Instruction::from(words[at]);
        let right = if code & 8 == 0 { k } else { x };
        at += 1;
        let mut jump = |holds: bool| at += usize::from(if holds { then } else { otherwise });
        match code {
            0x20 => a = data[k as usize / 4],
            0x80 => a = 64,
            0x81 => x = 64,
            0x00 => a = k,
            0x01 => x = k,
            0x60 => a = cells[k as usize],
            0x61 => x = cells[k as usize],
            0x02 => cells[k as usize] = a,
            0x03 => cells[k as usize] = x,
            0x06 => return k,
            0x16 => return a,
            0x07 => x = a,
            0x87 => a = x,
            0x05 => at += k as usize,
            0x15 | 0x1d => jump(a == right),
            0x25 | 0x2d => jump(a > right),
            0x35 | 0x3d => jump(a >= right),
            0x45 | 0x4d => jump(a & right != 0),
            0x04 | 0x0c => a = a.wrapping_add(right),
            0x14 | 0x1c => a = a.wrapping_sub(right),
            0x24 | 0x2c => a = a.wrapping_mul(right),
            0x34 | 0x3c if right == 0 => return 0,
            0x34 | 0x3c => a /= right,
            0x44 | 0x4c => a |= right,
            0x54 | 0x5c => a &= right,
            0x64 | 0x6c => a <<= right & 31,
            0x74 | 0x7c => a >>= right & 31,
            0x84 => a = a.wrapping_neg(),
            0xa4 | 0xac => a ^= right,
            _ => panic!("{code:#x} was let through"),
        }
    }
}

fn any_instruction() -> impl Strategy<Value = u64> {
    let code = prop_oneof![
        4 => Just(0x20_u16),
        4 => proptest::sample::select(vec![0x15_u16, 0x25, 0x35, 0x45, 0x1d, 0x2d, 0x3d, 0x4d]),
        3 => proptest::sample::select(vec![
            0x04_u16, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44, 0x4c, 0x54, 0x5c, 0x64,
            0x6c, 0x74, 0x7c, 0x84, 0xa4, 0xac,
        ]),
        3 => proptest::sample::select(vec![
            0x00_u16, 0x01, 0x02, 0x03, 0x60, 0x61, 0x07, 0x87, 0x80, 0x81,
        ]),
        1 => proptest::sample::select(vec![0x05_u16, 0x06, 0x16]),
    ];
    let constant = prop_oneof![0..4_u32, 0..64_u32, Just(ARCHITECTURE), any::<u32>()];
    (code, 0..4_u8, 0..4_u8, constant).prop_map(|(code, then, otherwise, constant)| {
        let constant = match code {
            0x20 => constant % 16 * 4,
            0x02 | 0x03 | 0x60 | 0x61 => constant % 4,
            0x05 => constant % 8,
            0x64 | 0x74 => constant % 32,
            0x34 => constant.max(1),
            _ => constant,
        };
        instruction(code, then, otherwise, constant)
    })
}

/// Generates a list of values, as many filters have.
fn any_list() -> impl Strategy<Value = Vec<u64>> {
    let case = (0..10_u32, 0..12_u8).prop_map(|(value, then)| if_equal(value, then, 0));
    proptest::collection::vec(case, 3..9)
}

/// Generates programs most of which are valid: all cells that are used are stored to first, and there is a return to
/// jump to.
fn any_program() -> impl Strategy<Value = Vec<u64>> {
    let piece = prop_oneof![
        8 => any_instruction().prop_map(|one| vec![one]),
        1 => any_list(),
    ];
    (any::<bool>(), proptest::collection::vec(piece, 0..40)).prop_map(|(stores, middle)| {
        let stores: Vec<u64> = (0..4).filter(|_| stores).map(|cell| constant(0x02, cell)).collect();
        [stores, middle.concat(), vec![answer(ALLOW); 12], vec![ANSWER_A]].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_words_are_refused_or_end(words in proptest::collection::vec(any::<u64>(), 0..20), arguments: [u64; 6], number: u32) {
        if let Ok(program) = Program::new(&words) {
            program.run(&Call::new(number, 0, arguments));
        }
    }

    #[test]
    fn every_program_answers_as_its_instructions_say(words in any_program(), number in 0..520_u32, arguments: [u64; 6]) {
        if let Ok(program) = Program::new(&words) {
            let call = Call::new(number, 0x1000, arguments);
            prop_assert_eq!(program.run(&call), plain(&words, &call));
            if let Some(constant) = program.constant(number) {
                prop_assert_eq!(constant, plain(&words, &call));
            }
        }
    }
}
