//! Tests of programs for packets.
use crate::{INSTRUCTIONS_MAX, PacketBytes, PacketFacts, PacketProgram};
use proptest::prelude::*;

const fn instruction(code: u16, then: u8, otherwise: u8, constant: u32) -> u64 {
    code as u64 | (then as u64) << 16 | (otherwise as u64) << 24 | (constant as u64) << 32
}
const fn plain(code: u16, constant: u32) -> u64 {
    instruction(code, 0, 0, constant)
}
const fn answer(value: u32) -> u64 {
    plain(0x06, value)
}
const ANSWER_A: u64 = plain(0x16, 0);
const EXTENSIONS: u32 = -0x1000_i32 as u32;

/// A packet of Ethernet, IPv4 with an option, and UDP from port 68 to 67.
fn frame() -> Vec<u8> {
    let mut bytes = vec![0xff; 6];
    bytes.extend([2, 0, 0, 0, 0, 1, 8, 0]);
    bytes.extend([0x46, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255]);
    bytes.extend([1; 4]);
    bytes.extend([0, 68, 0, 67, 0, 12, 0, 0]);
    bytes.extend(*b"data");
    bytes
}

fn facts() -> PacketFacts {
    PacketFacts {
        protocol: 0x800,
        kind: 1,
        interface: Some((2, 1)),
        network: 14,
        link: Some(0),
        mark: 7,
        processor: 3,
        random: 0x1234_5678,
    }
}

fn run(words: &[u64], bytes: &[u8]) -> u32 {
    PacketProgram::new(words).unwrap().run(bytes, &facts())
}

fn loaded(code: u16, constant: u32) -> u32 {
    run(&[plain(code, constant), ANSWER_A], &frame())
}

#[test]
fn bytes_are_loaded_in_the_order_of_the_network() {
    assert_eq!(loaded(0x28, 12), 0x800);
    assert_eq!(loaded(0x30, 23), 17);
    assert_eq!(loaded(0x20, 30), u32::MAX);
    assert_eq!(loaded(0x80, 0), 50, "the length");
    assert_eq!(loaded(0x28, 49), 0, "a load beyond the end ends the program");
    assert_eq!(loaded(0x20, 46), u32::from_be_bytes(*b"data"));
}

#[test]
fn the_header_of_ipv4_is_skipped_by_its_length() {
    // tcpdump's `udp dst port 67`, without the test of fragments.
    let program = [
        plain(0x28, 12),
        instruction(0x15, 0, 6, 0x800),
        plain(0x30, 23),
        instruction(0x15, 0, 4, 17),
        plain(0xb1, 14),
        plain(0x48, 16),
        instruction(0x15, 0, 1, 67),
        answer(65_535),
        answer(0),
    ];
    assert_eq!(run(&program, &frame()), 65_535);
    let mut other = frame();
    other[41] = 68;
    assert_eq!(run(&program, &other), 0);
}

#[test]
fn headers_and_properties_have_offsets_of_their_own() {
    let of_network = -0x10_0000_i32 as u32;
    let of_link = -0x20_0000_i32 as u32;
    assert_eq!(loaded(0x30, of_network), 0x46);
    assert_eq!(loaded(0x28, of_link + 12), 0x800);
    let property = |number: u32| loaded(0x20, EXTENSIONS + number);
    assert_eq!([property(0), property(4), property(8), property(28)], [0x800, 1, 2, 1]);
    assert_eq!([property(20), property(36), property(56)], [7, 3, 0x1234_5678]);
    assert_eq!(property(52), 46, "the payload behind the header of UDP");
    let xor = [plain(0x00, 6), plain(0x01, 3), plain(0x20, EXTENSIONS + 40), ANSWER_A];
    assert_eq!(run(&xor, &[]), 5);
    let program = PacketProgram::new(&[plain(0x20, EXTENSIONS + 8), answer(9)]).unwrap();
    let without = PacketFacts { interface: None, ..facts() };
    assert_eq!(program.run(&[0_u8; 9][..], &without), 0, "there is no interface");
}

#[test]
fn attributes_of_netlink_are_found() {
    let bytes = [8, 0, 1, 0, 1, 2, 3, 4, 12, 0, 2, 0, 8, 0, 7, 0, 5, 6, 7, 8];
    let find = |number: u32, start: u32, kind: u32| {
        let program =
            [plain(0x00, start), plain(0x01, kind), plain(0x20, EXTENSIONS + number), ANSWER_A];
        run(&program, &bytes)
    };
    assert_eq!([find(12, 0, 1), find(12, 0, 2), find(12, 0, 3)], [0, 8, 0]);
    assert_eq!([find(16, 8, 7), find(16, 8, 1), find(16, 99, 1)], [12, 0, 0]);
}

#[test]
fn invalid_programs_are_refused() {
    let is_refused = |words: &[u64]| PacketProgram::new(words).is_err();
    assert!(is_refused(&[]));
    assert!(is_refused(&[plain(0x30, 0)]), "no return at the end");
    assert!(is_refused(&[plain(0xffff, 0), answer(0)]));
    assert!(is_refused(&[instruction(0x15, 5, 0, 0), answer(0)]));
    assert!(is_refused(&[plain(0x20, EXTENSIONS + 1), answer(0)]), "no such property");
    assert!(is_refused(&[plain(0x38, 0), answer(0)]), "no such size");
    assert!(is_refused(&[plain(0x120, 0), answer(0)]));
    assert!(is_refused(&[plain(0x94, 0), answer(0)]), "modulo 0");
    assert!(is_refused(&[plain(0x64, 32), answer(0)]));
    assert!(is_refused(&[plain(0x60, 3), answer(0)]), "a cell that was not stored to");
    assert!(is_refused(&vec![answer(0); INSTRUCTIONS_MAX + 1]));
    assert!(!is_refused(&vec![answer(0); INSTRUCTIONS_MAX]));
    assert!(!is_refused(&[plain(0x40, EXTENSIONS + 1), answer(0)]), "an index may be added");
    assert_eq!(run(&[plain(0x00, 17), plain(0x94, 5), ANSWER_A], &[]), 2);
}

/// Returns an instruction that is often valid.
fn any_instruction() -> impl Strategy<Value = u64> {
    let code = prop_oneof![
        any::<u16>(),
        prop::sample::select(vec![
            0x20_u16, 0x28, 0x30, 0x40, 0x48, 0x50, 0x80, 0x81, 0xb1, 0x00, 0x01, 0x02, 0x03, 0x60,
            0x61, 0x04, 0x0c, 0x34, 0x3c, 0x94, 0x9c, 0x64, 0x6c, 0x84, 0xa4, 0x05, 0x15, 0x1d,
            0x25, 0x35, 0x45, 0x06, 0x16, 0x07, 0x87,
        ]),
    ];
    let constant = prop_oneof![
        0_u32..20,
        any::<u32>(),
        (0_u32..70).prop_map(|number| EXTENSIONS + number),
        (0_u32..90).prop_map(|number| (-0x10_0000_i32 as u32).wrapping_add(number)),
        (0_u32..90).prop_map(|number| (-0x20_0000_i32 as u32).wrapping_add(number)),
    ];
    (code, 0_u8..4, 0_u8..4, constant)
        .prop_map(|(code, then, otherwise, constant)| instruction(code, then, otherwise, constant))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn any_program_is_refused_or_ends(
        mut words in proptest::collection::vec(any_instruction(), 0..24),
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        network in -20_i32..90, link in proptest::option::of(-20_i32..90),
        protocol in prop::sample::select(vec![0x800_u16, 0x86dd, 0]),
    ) {
        words.extend([answer(1); 4]);
        if let Ok(program) = PacketProgram::new(&words) {
            let facts = PacketFacts { network, link, protocol, ..facts() };
            program.run(&bytes[..], &facts);
            prop_assert_eq!(program.words(), &words[..]);
        }
    }
    #[test]
    fn loads_agree_with_the_bytes(
        bytes in proptest::collection::vec(any::<u8>(), 0..40), at in 0_u32..50, index in 0_u32..50,
    ) {
        let found = |length: usize, from: u32| {
            let from = from as usize;
            let slice = bytes.get(from..from + length)?;
            Some(slice.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte)))
        };
        for (code, length) in [(0x20, 4), (0x28, 2), (0x30, 1)] {
            let program = [plain(code, at), ANSWER_A];
            prop_assert_eq!(run(&program, &bytes), found(length, at).unwrap_or(0));
            let program = [plain(0x01, index), plain(code + 0x20, at), ANSWER_A];
            prop_assert_eq!(run(&program, &bytes), found(length, at + index).unwrap_or(0));
        }
        prop_assert_eq!(bytes.length(), bytes.len());
    }
}
