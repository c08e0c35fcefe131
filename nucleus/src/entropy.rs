//! Unpredictable bytes: a generator with fast key erasure that is seeded by the processor.
//!
//! A request's stream is generated outside the lock. The seed comes from RDSEED, else from RDRAND,
//! else only from time-stamp jitter, which is logged.
use crate::{arch::cpu, spin::SpinLock};
use chacha::{Generator, Stream};
use core::arch::asm;

/// Tries before the processor's generator is considered broken (Intel's advice is 10).
const TRIES: usize = 16;
const JITTER_ROUNDS: usize = 64;

static GENERATOR: SpinLock<Generator> = SpinLock::new(class!("nucleus.entropy"), Generator::new());

/// Tries the processor's instruction `$name`, which it has, for a word.
macro_rules! try_hardware {
    ($name:literal) => {
        (0..TRIES).find_map(|_| {
            let (value, is_good): (u64, u8);
            // SAFETY: the processor has the instruction.
            unsafe { asm!(concat!($name, " {}"), "setc {}", out(reg) value, out(reg_byte) is_good, options(nomem, nostack)) };
            (is_good != 0).then_some(value)
        })
    };
}

/// Returns one word from the processor's generator.
fn hardware_word() -> Option<u64> {
    let features = cpu::features();
    let seeded = if features.has_rdseed { try_hardware!("rdseed") } else { None };
    seeded.or_else(|| if features.has_rdrand { try_hardware!("rdrand") } else { None })
}

/// Returns a word folded from the low bits of the time-stamp counter.
fn jitter_word() -> u64 {
    (0..JITTER_ROUNDS).fold(0u64, |word, _| word.rotate_left(7) ^ cpu::tsc())
}

/// Returns the stream of one request.
fn request() -> Stream {
    let mut is_hardware = true;
    let stream = GENERATOR.lock().request(|| {
        let word = hardware_word().unwrap_or_else(|| {
            is_hardware = false;
            jitter_word()
        });
        word ^ cpu::tsc()
    });
    if !is_hardware {
        log::warn!("no hardware random numbers: seeded by time-stamp jitter only");
    }
    stream
}

/// Fills `out` with unpredictable bytes.
pub fn fill(out: &mut [u8]) {
    request().fill(out);
}

/// Mixes `seed`, from a source outside the processor, into the generator.
pub fn add(seed: [u64; 4]) {
    GENERATOR.lock().add(seed);
}
