//! Memory that several parties write at once: arrays of atomic 64-bit words accessed bytewise.
//!
//! All access is by relaxed whole-word atomics (a partial word by compare-exchange), so concurrent
//! copies are never undefined behaviour, only unordered, as on real memory.
use core::sync::atomic::{AtomicU64, Ordering::*};

/// Words that one turn of a loop takes. The compiler unrolls no loop over atomics by itself.
const STEP: usize = 8;

#[inline]
fn mask(first: usize, count: usize) -> u64 {
    let ones = if count == 8 { u64::MAX } else { (1 << (count * 8)) - 1 };
    ones << (first * 8)
}

/// Returns the number of bytes before the first whole word of the `length` bytes at `offset`.
#[inline]
fn head(offset: usize, length: usize) -> usize {
    (offset.wrapping_neg() % 8).min(length)
}

/// Copies bytes of `word` from byte `first` on.
#[inline]
fn read_part(word: &AtomicU64, first: usize, out: &mut [u8]) {
    let bytes = word.load(Relaxed).to_le_bytes();
    out.iter_mut().zip(&bytes[first..]).for_each(|(out, byte)| *out = *byte);
}

/// Copies `data` to bytes of `word` from byte `first` on.
#[inline]
fn write_part(word: &AtomicU64, first: usize, data: &[u8]) {
    let mut bytes = [0; 8];
    bytes[first..].iter_mut().zip(data).for_each(|(byte, data)| *byte = *data);
    put(word, mask(first, data.len()), u64::from_le_bytes(bytes));
}

/// Copies from `words` to `out`. The range must be inside `words`.
#[inline]
pub(crate) fn read(words: &[AtomicU64], offset: usize, out: &mut [u8]) {
    let (first, out) = out.split_at_mut(head(offset, out.len()));
    if !first.is_empty() {
        read_part(&words[offset / 8], offset % 8, first);
    }
    let words = &words[(offset + first.len()) / 8..];
    let (whole, last) = out.as_chunks_mut::<8>();
    let end = whole.len();
    let load = |(out, word): (&mut [u8; 8], &AtomicU64)| *out = word.load(Relaxed).to_le_bytes();
    let (steps, rest) = words[..end].as_chunks::<STEP>();
    let (step_outs, rest_outs) = whole.as_chunks_mut::<STEP>();
    for (outs, step) in step_outs.iter_mut().zip(steps) {
        outs.iter_mut().zip(step).for_each(load);
    }
    rest_outs.iter_mut().zip(rest).for_each(load);
    if !last.is_empty() {
        read_part(&words[end], 0, last);
    }
}

/// Returns a sum of the words in which the `length` bytes at `offset` stand; other bytes of these count as zero. Carries
/// beyond 64 bits may have been added at the low end: the result is right modulo 2^64 - 1. The range must be inside `words`.
pub(crate) fn sum(words: &[AtomicU64], offset: usize, length: usize) -> u128 {
    let end = offset + length;
    let (start_mask, end_mask) =
        (u64::MAX << (offset % 8 * 8), u64::MAX >> (end.wrapping_neg() % 8 * 8));
    let masked = |word: &AtomicU64, mask: u64| u128::from(word.load(Relaxed) & mask);
    match &words[offset / 8..end.div_ceil(8)] {
        [] => 0,
        [only] => masked(only, start_mask & end_mask),
        [first, middle @ .., last] => {
            let (steps, rest) = middle.as_chunks::<STEP>();
            let rest = rest.iter().map(|word| masked(word, u64::MAX)).sum::<u128>();
            masked(first, start_mask) + masked(last, end_mask) + rest + u128::from(sum_steps(steps))
        }
    }
}

/// Returns the sum of words, whose carries are added again. An instruction a word: the compiler would take three.
fn sum_steps(steps: &[[AtomicU64; STEP]]) -> u64 {
    let mut sum = 0u64;
    if !steps.is_empty() {
        // SAFETY: reads the words of `steps`, to which others may write meanwhile: the language does not see the loads. `lea` and
        // `dec` keep the carry.
        unsafe {
            core::arch::asm!(
                "clc",
                "2:",
                "adc {sum}, [{at}]",
                "adc {sum}, [{at} + 8]",
                "adc {sum}, [{at} + 16]",
                "adc {sum}, [{at} + 24]",
                "adc {sum}, [{at} + 32]",
                "adc {sum}, [{at} + 40]",
                "adc {sum}, [{at} + 48]",
                "adc {sum}, [{at} + 56]",
                "lea {at}, [{at} + 64]",
                "dec {left}",
                "jnz 2b",
                "adc {sum}, 0",
                "adc {sum}, 0",
                sum = inout(reg) sum,
                at = inout(reg) steps.as_ptr() => _,
                left = inout(reg) steps.len() => _,
                options(readonly, nostack),
            );
        }
    }
    sum
}

/// Does `act` with each of `from` and its word in `to`, which is as long.
#[inline]
fn each_pair<T>(from: &[T], to: &[AtomicU64], act: impl Fn(&T, &AtomicU64)) {
    let ((from, from_rest), (to, to_rest)) = (from.as_chunks::<STEP>(), to.as_chunks::<STEP>());
    for (from, to) in from.iter().zip(to) {
        from.iter().zip(to).for_each(|(from, to)| act(from, to));
    }
    from_rest.iter().zip(to_rest).for_each(|(from, to)| act(from, to));
}

/// Copies `data` into `words`. The range must be inside `words`.
#[inline]
pub(crate) fn write(words: &[AtomicU64], offset: usize, data: &[u8]) {
    let (first, data) = data.split_at(head(offset, data.len()));
    if !first.is_empty() {
        write_part(&words[offset / 8], offset % 8, first);
    }
    let words = &words[(offset + first.len()) / 8..];
    let (whole, last) = data.as_chunks::<8>();
    each_pair(whole, &words[..whole.len()], |data, word| {
        word.store(u64::from_le_bytes(*data), Relaxed);
    });
    if !last.is_empty() {
        write_part(&words[whole.len()], 0, last);
    }
}

/// Stores `values` one after the other from an aligned `offset`. Stores nothing if they would pass
/// the end.
#[inline]
pub(crate) fn store_all<const N: usize>(words: &[AtomicU64], offset: usize, values: [u64; N]) {
    let place = words.get(offset / 8..).and_then(|rest| rest.first_chunk::<N>());
    for (word, value) in place.into_iter().flatten().zip(values) {
        word.store(value, Relaxed);
    }
}

/// Zeroes `length` bytes. The range must be inside `words`.
pub(crate) fn zero(words: &[AtomicU64], offset: usize, length: usize) {
    let first = head(offset, length);
    if first > 0 {
        put(&words[offset / 8], mask(offset % 8, first), 0);
    }
    let words = &words[(offset + first) / 8..];
    let (whole, last) = ((length - first) / 8, (length - first) % 8);
    let (steps, rest) = words[..whole].as_chunks::<STEP>();
    for step in steps {
        step.iter().for_each(|word| word.store(0, Relaxed));
    }
    rest.iter().for_each(|word| word.store(0, Relaxed));
    if last > 0 {
        put(&words[whole], mask(0, last), 0);
    }
}

/// Copies `from` to `to`, which is as long.
#[cfg(any(test, all(target_os = "none", skerry_process)))]
pub(crate) fn copy(from: &[AtomicU64], to: &[AtomicU64]) {
    each_pair(from, to, |from, to| to.store(from.load(Relaxed), Relaxed));
}

fn put(word: &AtomicU64, mask: u64, bits: u64) {
    if mask == u64::MAX {
        word.store(bits, Relaxed);
    } else {
        word.update(Relaxed, Relaxed, |old| old & !mask | bits);
    }
}

/// Loads `bytes` (1, 2, 4, 8) aligned bytes with acquire ordering.
#[inline]
pub(crate) fn load(words: &[AtomicU64], offset: usize, bytes: usize) -> u64 {
    let shift = offset % 8 * 8;
    (words[offset / 8].load(Acquire) & mask(offset % 8, bytes)) >> shift
}

/// Stores `bytes` aligned bytes with release ordering.
#[inline]
pub(crate) fn store(words: &[AtomicU64], offset: usize, bytes: usize, value: u64) {
    let mask = mask(offset % 8, bytes);
    let bits = value << (offset % 8 * 8) & mask;
    words[offset / 8].update(Release, Relaxed, |old| old & !mask | bits);
}

/// Stores two aligned bytes with release ordering.
#[inline]
pub(crate) fn store16(words: &[AtomicU64], offset: usize, value: u16) {
    #[cfg(not(target_os = "none"))]
    store(words, offset, 2, u64::from(value));
    #[cfg(target_os = "none")]
    {
        let place = words[offset / 8].as_ptr().cast::<u16>().wrapping_add(offset % 8 / 2);
        // SAFETY: two aligned bytes of a word, whose other bytes this does not touch. x86 orders accesses of different sizes.
        let place = unsafe { core::sync::atomic::AtomicU16::from_ptr(place) };
        place.store(value, Release);
    }
}

/// Compares and exchanges an aligned 32-bit word. Returns the value found.
pub(crate) fn compare_exchange32(words: &[AtomicU64], offset: usize, old: u32, new: u32) -> u32 {
    let (mask, shift) = (mask(offset % 8, 4), offset % 8 * 8);
    let word = &words[offset / 8];
    let mut now = word.load(SeqCst);
    loop {
        let found = ((now & mask) >> shift) as u32;
        if found != old {
            return found;
        }
        let next = now & !mask | u64::from(new) << shift;
        match word.compare_exchange(now, next, SeqCst, SeqCst) {
            Ok(_) => return found,
            Err(changed) => now = changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_at_any_offset_are_those_of_bytes() {
        const BYTES: usize = 104;
        let byte = |at: usize| at as u8 + 1;
        for (offset, length) in (0..=BYTES).flat_map(|at| (0..=BYTES - at).map(move |n| (at, n))) {
            let words = [const { AtomicU64::new(0) }; BYTES / 8];
            let data: Vec<u8> = (0..length).map(byte).collect();
            write(&words, offset, &data);
            let all = words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
            let inside = offset..offset + length;
            let wanted =
                (0..BYTES).map(|at| if inside.contains(&at) { byte(at - offset) } else { 0 });
            assert!(all.eq(wanted), "{length} bytes at {offset}");
            let mut back = vec![0; length];
            read(&words, offset, &mut back);
            assert_eq!(back, data, "{length} bytes at {offset}");
            let ones = [const { AtomicU64::new(u64::MAX) }; BYTES / 8];
            zero(&ones, offset, length);
            let all = ones.iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
            assert!(all.eq((0..BYTES).map(|at| if inside.contains(&at) { 0 } else { 0xff })));
            copy(&words, &ones);
            assert!(words.iter().zip(&ones).all(|(a, b)| a.load(Relaxed) == b.load(Relaxed)));
            words[0].fetch_or(if offset > 0 { 1 } else { 0 }, Relaxed);
            let total = data.iter().zip(offset..);
            let total = total.map(|(byte, at)| u128::from(*byte) << (at % 8 * 8)).sum::<u128>();
            let modulus = u128::from(u64::MAX);
            assert_eq!(
                sum(&words, offset, length) % modulus,
                total % modulus,
                "{length} bytes at {offset}"
            );
        }
    }

    #[test]
    fn a_sum_takes_its_carries() {
        for count in [8, 9, 64, 500] {
            let words: Vec<AtomicU64> =
                (0..count).map(|at| AtomicU64::new(u64::MAX - at % 3)).collect();
            let total = sum(&words, 0, words.len() * 8);
            let wanted = words.iter().map(|word| u128::from(word.load(Relaxed))).sum::<u128>();
            assert_eq!(total % u128::from(u64::MAX), wanted % u128::from(u64::MAX));
        }
    }
}
