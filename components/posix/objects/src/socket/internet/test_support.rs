//! Tools of the tests of Internet sockets: the real stack, options of calls, addresses.
use super::{
    address::{self, AddressFamily},
    network::SocketMaker,
};
use crate::socket::{
    interface::{Receive, Send, SocketAddress},
    option_input::OptionInput,
};
use alloc::{sync::Arc, vec::Vec};
use inet::{Inet, RealTime};
use std::panic::{AssertUnwindSafe, catch_unwind};
use vfs::{
    Errno,
    security::{Label, SecuritySubject},
};
use xorshift::{Xorshift, variable};

/// Returns a maker of sockets: root of a system without labels.
pub(super) fn nobody() -> SocketMaker {
    SocketMaker { user: 0, label: Label::of_new_object(), level: SecuritySubject::kernel().level() }
}

pub(super) const SENT: Send = Send {
    is_nonblocking: true,
    is_silent: true,
    is_urgent: false,
    is_more: false,
    is_zero_copy: false,
    is_fast_open: false,
};
pub(super) const READ: Receive = Receive {
    is_nonblocking: true,
    is_peek: false,
    is_whole: false,
    is_urgent: false,
    is_discarding: false,
    is_error_queue: false,
};

pub(super) fn stack() -> Arc<Inet> {
    Inet::new([7; 32], Arc::new(RealTime))
}

/// Returns an IPv4 address and a port as a program gives them.
pub(super) fn given(text: &str) -> SocketAddress {
    address::encode(AddressFamily::V4, text.parse().unwrap())
}

/// Returns the level and number of an option and a value, which are often such as a program would give.
pub(super) fn random_option(numbers: &mut Xorshift) -> ((u32, u32), Vec<u8>) {
    const LEVELS: [u32; 6] = [0, 6, 17, 41, 58, 255];
    let level = LEVELS[numbers.below(LEVELS.len())];
    ((level, numbers.below(90) as u32), random_value(numbers))
}

/// Returns the value of an option or of a control message.
pub(super) fn random_value(numbers: &mut Xorshift) -> Vec<u8> {
    let small = [0, 1, 2, 8, 64, 255, 256, 1500, 65_535, u32::MAX][numbers.below(10)];
    let mut all = match numbers.below(5) {
        0 | 1 => small.to_le_bytes().to_vec(),
        // A header of extension, or options of IPv4, whose lengths are about right.
        2 => [&[17, 0, 5, 2, 0, 0, 1, 0][..], &[148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0]].concat(),
        3 => [&[10, 0, 0, 9][..], &[0; 4], &[0xff, 2], &[0; 14], &[1, 0, 0, 0]].concat(),
        _ => (0..numbers.below(200)).map(|_| numbers.next() as u8).collect(),
    };
    for _ in 0..numbers.below(3) {
        let place = numbers.below(all.len());
        if let Some(byte) = all.get_mut(place) {
            *byte = numbers.next() as u8;
        }
    }
    if numbers.chance(1, 6) {
        all.truncate(numbers.below(all.len() + 1));
    }
    all
}

/// Returns the value as a program gives it.
pub(super) fn input_of(value: &[u8]) -> OptionInput {
    let read = |offset: usize, out: &mut [u8]| {
        let found = value.get(offset..offset + out.len()).ok_or(Errno::EFAULT)?;
        out.copy_from_slice(found);
        Ok(())
    };
    OptionInput::new(value.len(), read).unwrap()
}

/// Runs `one` for each seed from `SKERRY_FUZZ_SEED` on, `SKERRY_FUZZ_COUNT` times, and names the seed of one that panics.
pub(super) fn for_each_seed(count: u64, one: impl Fn(&mut Xorshift)) {
    let first = variable("SKERRY_FUZZ_SEED", 1);
    for seed in first..first + variable("SKERRY_FUZZ_COUNT", count) {
        let mut numbers = Xorshift::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let outcome = catch_unwind(AssertUnwindSafe(|| one(&mut numbers)));
        assert!(outcome.is_ok(), "SKERRY_FUZZ_COUNT=1 SKERRY_FUZZ_SEED={seed} fails");
    }
}
