//! Tests of loading: a real static program, scripts, limits, and a thousand mutations.
use super::{elf::ElfKind, script::parse, *};
use alloc::{vec, vec::Vec};
use memory::{Anonymous, PAGE, region::round_up};
use rt::memory::Frame;

/// Returns a real program, if the machine has it (`busybox-static`).
fn busybox() -> Option<Vec<u8>> {
    ["/bin/busybox", "/usr/bin/busybox"].iter().find_map(|path| std::fs::read(path).ok())
}

fn executable(bytes: &[u8]) -> Executable {
    let frames: Vec<Frame> = bytes
        .chunks(PAGE as usize)
        .map(|part| {
            let frame = Frame::zeroed().unwrap();
            frame.write(0, part);
            frame
        })
        .collect();
    Executable::in_memory(Anonymous::of_frames(&frames).unwrap(), bytes.len() as u64)
}

fn strings(all: &[&str]) -> Strings {
    all.iter().map(|string| string.as_bytes()).collect()
}

fn load_with(bytes: &[u8], arguments: &[&str], environment: &[&str]) -> Result<Loaded, Errno> {
    build(ExecRequest {
        path: b"/bin/program",
        on_exec: OnExec::Keep,
        program: executable(bytes),
        arguments: Arguments { arguments: strings(arguments), environment: strings(environment) },
        credentials: &Credentials::root(),
        has_no_new_privileges: false,
        sharing: Sharing::Own,
        is_randomised: true,
        limits: LimitValues::default(),
        open: &|_| Err(Errno::ENOENT),
    })
}

/// Makes a small program: header, and one segment of code for each entry of `segments` (address,
/// offset, file bytes, memory bytes, flags).
fn small_elf(kind: u16, segments: &[[u64; 5]]) -> Vec<u8> {
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend(kind.to_le_bytes());
    bytes.extend(62u16.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    let entry = segments.first().map_or(0, |segment| segment[0]);
    [entry, 64, 0].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes.extend(0u32.to_le_bytes());
    [64, 56, segments.len() as u16, 0, 0, 0]
        .iter()
        .for_each(|half| bytes.extend(half.to_le_bytes()));
    for [address, offset, file, memory, flags] in segments {
        bytes.extend(1u32.to_le_bytes());
        bytes.extend((*flags as u32).to_le_bytes());
        for word in [offset, address, address, file, memory, &PAGE] {
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes.resize(3 * PAGE as usize, 0xcc);
    bytes
}

const FIXED: u16 = 2;
const MOVABLE: u16 = 3;

#[test]
fn a_program_finds_its_arguments_where_the_abi_says() {
    let elf = small_elf(FIXED, &[[0x40_0000, 0, 4096, 4096, 5]]);
    let loaded = load_with(&elf, &["sh", "-c", "ls"], &["HOME=/", "A="]).unwrap();
    let (memory, stack) = (&loaded.memory, loaded.stack);
    assert_eq!((loaded.entry, stack % 16), (0x40_0000, 0));
    let word = |index: u64| memory.read::<u64>(stack + index * 8).unwrap();
    let text = |index| memory.read_string(word(index), 100).unwrap();
    assert_eq!((word(0), word(4), word(7)), (3, 0, 0));
    assert_eq!((text(1), text(3)), (b"sh".to_vec(), b"ls".to_vec()));
    assert_eq!((text(5), text(6)), (b"HOME=/".to_vec(), b"A=".to_vec()));
    let auxiliary: std::collections::HashMap<u64, u64> = (4..40)
        .map(|pair| (word(pair * 2), word(pair * 2 + 1)))
        .take_while(|pair| pair.0 != 0)
        .collect();
    assert_eq!((auxiliary[&3], auxiliary[&5], auxiliary[&9]), (0x40_0040, 1, 0x40_0000));
    assert_eq!(memory.read_string(auxiliary[&31], 100).unwrap(), b"/bin/program");
    assert_eq!(memory.read_string(auxiliary[&15], 100).unwrap(), b"x86_64");
    assert_eq!(memory.read::<u32>(auxiliary[&33]).unwrap(), 0x464c_457f);
    assert_eq!(&loaded.command, b"program\0\0\0\0\0\0\0\0\0");
    let layout = memory.layout();
    assert_eq!(memory.read::<u64>(layout.auxiliary.0).unwrap(), 33);
    assert_eq!(layout.arguments.1 - layout.arguments.0, 9);
}

#[test]
fn a_program_without_arguments_gets_an_empty_one() {
    let elf = small_elf(MOVABLE, &[[0, 0, 4096, 4096, 5]]);
    let loaded = load_with(&elf, &[], &[]).unwrap();
    let word = |index: u64| loaded.memory.read::<u64>(loaded.stack + index * 8).unwrap();
    assert_eq!((word(0), word(2), word(3)), (1, 0, 0));
    assert_eq!(loaded.memory.read_string(word(1), 10).unwrap(), b"");
}

#[test]
fn what_the_file_does_not_hold_is_zeroes() {
    let segments = [[0x40_0000, 0, 4096, 4096, 5], [0x40_1100, 4096 + 0x100, 16, 3 * PAGE, 6]];
    let loaded = load_with(&small_elf(FIXED, &segments), &["a"], &[]).unwrap();
    let read = |at| loaded.memory.read::<u8>(at).unwrap();
    assert_eq!(
        (read(0x40_110f), read(0x40_1110), read(0x40_1fff), read(0x40_3000)),
        (0xcc, 0, 0, 0)
    );
    loaded.memory.write(0x40_3000, &1u8).unwrap();
    assert_eq!(loaded.memory.write(0x40_0000, &1u8), Err(Errno::EFAULT));
    assert!(loaded.memory.layout().heap_start >= 0x40_5000);
}

#[test]
fn movable_programs_go_elsewhere_each_time() {
    let elf = small_elf(MOVABLE, &[[0, 0, 4096, 4096, 5]]);
    let entry = || load_with(&elf, &["a"], &[]).unwrap().entry;
    assert_ne!(entry(), entry());
    assert_eq!(elf::read(&executable(&elf)).unwrap().kind, ElfKind::Movable);
}

#[test]
fn senseless_programs_are_refused() {
    let refused = |elf: &[u8]| load_with(elf, &["a"], &[]).err();
    assert_eq!(refused(b""), Some(Errno::ENOEXEC));
    assert_eq!(refused(b"text\n"), Some(Errno::ENOEXEC));
    assert_eq!(refused(&small_elf(FIXED, &[])), Some(Errno::ENOEXEC));
    assert_eq!(refused(&small_elf(1, &[[0x40_0000, 0, 1, 1, 5]])), Some(Errno::ENOEXEC));
    assert_eq!(refused(&small_elf(FIXED, &[[0x40_0000, 0, 2, 1, 5]])), Some(Errno::EINVAL));
    assert_eq!(refused(&small_elf(FIXED, &[[0x40_0001, 0, 1, 1, 5]])), Some(Errno::EINVAL));
    assert_eq!(refused(&small_elf(FIXED, &[[u64::MAX - 4095, 0, 1, 1, 5]])), Some(Errno::EINVAL));
    assert_eq!(refused(&small_elf(FIXED, &[[0, 0, 4096, 4096, 5]])), Some(Errno::EPERM));
    assert_eq!(refused(&small_elf(FIXED, &[[0x40_0000, 0, 1, 1 << 46, 6]])), Some(Errno::ENOMEM));
}

#[test]
fn too_long_arguments_are_refused() {
    let elf = small_elf(FIXED, &[[0x40_0000, 0, 4096, 4096, 5]]);
    let long = "x".repeat(100_000);
    let many: Vec<&str> = (0..30).map(|_| long.as_str()).collect();
    assert_eq!(load_with(&elf, &many, &[]).err(), Some(Errno::E2BIG));
    assert!(load_with(&elf, &many[..10], &many[..8]).is_ok());
}

#[test]
fn a_real_program_is_mapped_from_its_own_pages() {
    let Some(bytes) = busybox() else { return };
    let program = executable(&bytes);
    let headers = elf::read(&program).unwrap();
    let loaded = load_with(&bytes, &["busybox", "true"], &[]).unwrap();
    assert!(loaded.memory.regions().len() >= 6);
    for segment in headers.segments.iter().filter(|_| headers.kind == ElfKind::Fixed) {
        let mut got = vec![0; segment.file_bytes as usize];
        loaded.memory.read_bytes(segment.address, &mut got).unwrap();
        let from = segment.offset as usize;
        assert!(got == bytes[from..from + got.len()]);
    }
}

#[test]
fn a_thousand_mutations_never_panic() {
    let Some(bytes) = busybox() else { return };
    let original = &bytes[..bytes.len().min(64 * PAGE as usize)];
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut loads = 0;
    for _ in 0..1000 {
        let mut bytes = original.to_vec();
        for _ in 0..1 + next() % 6 {
            let reach = if next().is_multiple_of(4) { bytes.len() as u64 } else { 64 + 56 * 12 };
            let at = (next() % reach.min(bytes.len() as u64)) as usize;
            let interesting = [0, 1, 0x7f, 0x80, 0xff, 0x10, next() as u8];
            bytes[at] = interesting[(next() % 7) as usize];
        }
        if next().is_multiple_of(8) {
            bytes.truncate((next() % 4096) as usize);
        }
        if let Ok(loaded) = load_with(&bytes, &["a"], &["b"]) {
            loads += 1;
            let _ = loaded.memory.fault(loaded.entry, rt::user::Access::Execute);
            assert!(loaded.stack < rt::user::USER_END);
            assert_eq!(
                round_up(loaded.memory.layout().heap_start),
                Some(loaded.memory.layout().heap_start)
            );
        }
    }
    assert!(loads > 0);
}

fn head(text: &[u8]) -> [u8; 256] {
    let mut head = [0; 256];
    head[..text.len()].copy_from_slice(text);
    head
}

#[test]
fn script_lines_are_read_as_linux_does() {
    let line = |text: &[u8]| parse(&head(text)).map(|line| (line.interpreter, line.argument));
    let ok = |interpreter: &[u8], argument: Option<&[u8]>| {
        Ok((interpreter.to_vec(), argument.map(<[u8]>::to_vec)))
    };
    assert_eq!(line(b"#!/bin/sh\n"), ok(b"/bin/sh", None));
    assert_eq!(line(b"#! \t/bin/sh  -e x \t\nmore"), ok(b"/bin/sh", Some(b"-e x")));
    assert_eq!(line(b"#!/bin/sh"), ok(b"/bin/sh", None));
    assert_eq!(line(b"#!/bin/sh -x"), ok(b"/bin/sh", Some(b"-x")));
    assert_eq!(line(b"#!\n"), Err(Errno::ENOEXEC));
    assert_eq!(line(b"#!   \n"), Err(Errno::ENOEXEC));
    assert_eq!(line(b"#!"), Err(Errno::ENOEXEC));
    let long = [b"#!/".as_slice(), &[b'x'; 253]].concat();
    assert_eq!(line(&long), Err(Errno::ENOEXEC));
    let cut = [b"#!/bin/sh ".as_slice(), &[b'x'; 246]].concat();
    assert_eq!(line(&cut), ok(b"/bin/sh", Some(&[b'x'; 245])));
}
