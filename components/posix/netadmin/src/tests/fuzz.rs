//! Mutated messages: no input makes a panic, and each answer is well formed.
//!
//! `SKERRY_FUZZ_COUNT` is the number of messages (300,000 by default), `SKERRY_FUZZ_SEED` the first seed, by which one message can be
//! repeated: `SKERRY_FUZZ_COUNT=1 SKERRY_FUZZ_SEED=N`. `./x campaign packets` sends a million.
use super::*;
use crate::ioctl::{self, IoctlCaller};
use std::panic::{AssertUnwindSafe, catch_unwind};
use xorshift::{Xorshift, variable};

/// Messages of a run.
const MESSAGES: u64 = 300_000;

fn seeds() -> Vec<(NetlinkProtocol, Vec<u8>)> {
    let route = NetlinkProtocol::Route;
    let mut all = Vec::new();
    for kind in 16..40 {
        for flags in [0, 4, 0x300, 0x600, 0x500] {
            for family in [0, 2, 10] {
                let mut body = vec![0; 16];
                body[0] = family;
                body[4] = 2;
                for number in [1, 2, 3, 4, 5, 8, 15] {
                    body.extend(attribute(number, &[10, 0, 2, 9, 0, 0, 0, 0]));
                }
                all.push((route, request(kind, flags, &body)));
            }
        }
    }
    let mut body = vec![2, 6, 0xff, 0, 0xff, 0xff, 0xff, 0xff];
    body.extend([0; 48]);
    body.extend(attribute(1, &[8, 16, 20, 0, 2, 24, 0, 0, 0xff, 0xff, 0xff, 0xff, 10, 0, 2, 0]));
    all.push((NetlinkProtocol::Diagnosis, request(20, 0x300, &body)));
    all.push((NetlinkProtocol::Diagnosis, request(20, 0, &body)));
    body[0] = 1;
    all.push((NetlinkProtocol::Diagnosis, request(20, 0x300, &body)));
    let body = [vec![3, 1, 0, 0], attribute(2, b"nlctrl\0")].concat();
    all.push((NetlinkProtocol::Generic, request(16, 0, &body)));
    all
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Xorshift) {
    for _ in 0..=random.next() % 4 {
        let at = random.next() as usize % bytes.len().max(1);
        match random.next() % 6 {
            0 => bytes.truncate(at),
            1 => bytes.insert(at.min(bytes.len()), random.next() as u8),
            2 => bytes.extend_from_within(at.min(bytes.len())..),
            3 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = [0, 1, 0x7f, 0x80, 0xff][random.next() as usize % 5];
                }
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.next() as u8;
                }
            }
        }
    }
    bytes.truncate(4096);
}

fn check(datagrams: &[Vec<u8>]) {
    for datagram in datagrams {
        let mut rest = datagram.as_slice();
        while !rest.is_empty() {
            let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
            assert!((16..=rest.len()).contains(&length));
            rest = &rest[length.next_multiple_of(4)..];
        }
    }
}

/// Runs `one` for each seed, and names the seed of one that panics.
fn for_each_seed(count: u64, one: impl Fn(u64, &mut Xorshift)) {
    let first = variable("SKERRY_FUZZ_SEED", 1);
    for seed in first..first + count {
        let mut random = Xorshift::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let outcome = catch_unwind(AssertUnwindSafe(|| one(seed, &mut random)));
        assert!(outcome.is_ok(), "SKERRY_FUZZ_COUNT=1 SKERRY_FUZZ_SEED={seed} fails");
    }
}

#[test]
fn mutated_messages_do_no_harm() {
    let (seeds, world) = (seeds(), FakeWorld::default());
    for_each_seed(variable("SKERRY_FUZZ_COUNT", MESSAGES), |seed, random| {
        let (protocol, mut bytes) = seeds[random.below(seeds.len())].clone();
        mutate(&mut bytes, random);
        let asker = Asker { is_strict: seed & 1 != 0, ..ROOT };
        let answers = answer(protocol, &bytes, &asker, &world);
        check(&answers.prompt);
        check(&answers.dumped);
        if seed % 1024 == 0 {
            world.0.changes.lock().unwrap().clear();
        }
    });
}

#[test]
fn any_argument_of_an_ioctl_does_no_harm() {
    let network = FakeNetwork::default();
    for_each_seed(variable("SKERRY_FUZZ_COUNT", MESSAGES / 4), |_, random| {
        let number = 0x8900 + random.next() as u32 % 0x80;
        let family = [2, 10, 1][random.below(3)];
        let length = ioctl::argument_bytes(number, family).unwrap_or(40);
        let mut bytes: Vec<u8> = (0..length).map(|_| (random.next() % 7) as u8).collect();
        if !random.chance(1, 4) {
            bytes[..5.min(length)].copy_from_slice(&b"eth0\0"[..5.min(length)]);
        }
        let caller = IoctlCaller { family, may_administer: true };
        let _ = ioctl::request(&network, caller, number, &mut bytes, Some("eth0"));
        assert_eq!(bytes.len(), length);
        network.changes.lock().unwrap().clear();
    });
}
