//! Random bytes from the ChaCha20 block function (RFC 8439, 2.3): a generator with fast key erasure.
//!
//! Each request takes a block of the [`Generator`]: half becomes the next key, half the request's own key, from which its
//! [`Stream`] is made outside the generator; a short request gets the key itself. Bytes given out cannot be computed from the
//! later state. Source: D. J. Bernstein, "Fast-key-erasure random-number generators", 2017.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

/// Number of requests between fresh seeds.
pub const RESEED_AFTER: u32 = 4096;
/// Length of a block in bytes.
const BLOCK_BYTES: usize = 64;
/// A key.
type Key = [u32; 8];

const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
const DOUBLE_ROUNDS: usize = 10;

/// Does a quarter round. The indices are constants, so that the state stays in registers.
#[inline(always)]
fn quarter_round<const A: usize, const B: usize, const C: usize, const D: usize>(
    state: &mut [u32; 16],
) {
    state[A] = state[A].wrapping_add(state[B]);
    state[D] = (state[D] ^ state[A]).rotate_left(16);
    state[C] = state[C].wrapping_add(state[D]);
    state[B] = (state[B] ^ state[C]).rotate_left(12);
    state[A] = state[A].wrapping_add(state[B]);
    state[D] = (state[D] ^ state[A]).rotate_left(8);
    state[C] = state[C].wrapping_add(state[D]);
    state[B] = (state[B] ^ state[C]).rotate_left(7);
}

/// Does a round of the columns and one of the diagonals.
#[inline(always)]
fn double_round(state: &mut [u32; 16]) {
    quarter_round::<0, 4, 8, 12>(state);
    quarter_round::<1, 5, 9, 13>(state);
    quarter_round::<2, 6, 10, 14>(state);
    quarter_round::<3, 7, 11, 15>(state);
    quarter_round::<0, 5, 10, 15>(state);
    quarter_round::<1, 6, 11, 12>(state);
    quarter_round::<2, 7, 8, 13>(state);
    quarter_round::<3, 4, 9, 14>(state);
}

/// Computes block `counter` of the stream of `key` and `nonce`.
fn block(key: &Key, counter: u32, nonce: [u32; 3]) -> [u32; 16] {
    let mut start = [0; 16];
    start[..4].copy_from_slice(&CONSTANTS);
    start[4..12].copy_from_slice(key);
    start[12] = counter;
    start[13..].copy_from_slice(&nonce);
    let mut state = start;
    for _ in 0..DOUBLE_ROUNDS {
        double_round(&mut state);
    }
    for (word, first) in state.iter_mut().zip(start) {
        *word = word.wrapping_add(first);
    }
    state
}

/// The generator of the requests' keys.
#[derive(Debug)]
pub struct Generator {
    key: Key,
    until_reseed: u32,
}

impl Generator {
    /// Makes a generator that has no seed yet.
    pub const fn new() -> Generator {
        Generator { key: [0; 8], until_reseed: 0 }
    }

    /// Mixes 32 bytes from `next` into the key.
    fn stir(&mut self, mut next: impl FnMut() -> u64) {
        for pair in self.key.chunks_exact_mut(2) {
            let word = next();
            pair[0] ^= word as u32;
            pair[1] ^= (word >> 32) as u32;
        }
    }

    /// Mixes `seed` into the key. A seed that is known to others makes the key no easier to guess.
    pub fn add(&mut self, seed: [u64; 4]) {
        let mut words = seed.into_iter();
        self.stir(|| words.next().unwrap_or_default());
    }

    /// Returns the stream of one request. `fresh` gives words of a seed when it is time for one.
    pub fn request(&mut self, fresh: impl FnMut() -> u64) -> Stream {
        if self.until_reseed == 0 {
            self.stir(fresh);
            self.until_reseed = RESEED_AFTER;
        }
        self.until_reseed -= 1;
        let block = block(&self.key, 0, [0; 3]);
        let mut own = [0; 8];
        own.copy_from_slice(&block[8..]);
        self.key.copy_from_slice(&block[..8]);
        Stream { key: own }
    }
}

impl Default for Generator {
    fn default() -> Generator {
        Generator::new()
    }
}

/// The random bytes of one request.
#[derive(Debug)]
pub struct Stream {
    key: Key,
}

impl Stream {
    /// Fills `out` with unpredictable bytes; the stream ends then. A request that is no longer than the key gets the key.
    pub fn fill(self, out: &mut [u8]) {
        if out.len() <= size_of::<Key>() {
            return copy(&self.key, out);
        }
        for (counter, chunk) in out.chunks_mut(BLOCK_BYTES).enumerate() {
            let stream = block(&self.key, counter as u32, [(counter >> 32) as u32, 0, 0]);
            copy(&stream, chunk);
        }
    }
}

/// Copies as many bytes of `words` as `out` takes.
fn copy(words: &[u32], out: &mut [u8]) {
    for (bytes, word) in out.chunks_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_of_rfc_8439_section_2_3_2_comes_out() {
        let key = core::array::from_fn(|index| {
            let first = 4 * index as u8;
            u32::from_le_bytes([first, first + 1, first + 2, first + 3])
        });
        let out = block(&key, 1, [0x0900_0000, 0x4a00_0000, 0]);
        assert_eq!(out[..4], [0xe4e7_f110, 0x1559_3bd1, 0x1fdd_0f50, 0xc471_20a3]);
        assert_eq!(out[12..], [0xd19c_12b5, 0xb94e_16de, 0xe883_d0cb, 0x4e3c_50a2]);
    }

    #[test]
    fn requests_get_streams_of_their_own_and_the_key_changes() {
        let mut generator = Generator::new();
        generator.stir(|| 0x0123_4567_89ab_cdef);
        generator.until_reseed = 2;
        let before = generator.key;
        let (mut first, mut second) = ([0; 100], [0; 100]);
        generator.request(|| 0).fill(&mut first);
        assert_ne!(generator.key, before);
        generator.request(|| 0).fill(&mut second);
        assert_ne!(first, second);
        assert_ne!(first[..36], first[64..]);
    }

    #[test]
    fn short_requests_are_filled_to_their_last_byte_and_differ() {
        let mut generator = Generator::new();
        let mut seen = std::collections::HashSet::new();
        for bytes in 8..=40 {
            let mut out = vec![0; bytes];
            generator.request(|| 7).fill(&mut out);
            assert!(seen.insert(out[..8].to_vec()), "again");
            let mut others = [0; 4];
            // A byte that is never filled would be 0 in each of many requests.
            for _ in 0..64 {
                generator.request(|| 7).fill(&mut out);
                others.iter_mut().zip(out.iter().rev()).for_each(|(sum, byte)| *sum |= byte);
            }
            assert!(others.iter().all(|sum| *sum != 0), "{bytes} bytes");
        }
    }

    #[test]
    fn each_word_of_an_added_seed_changes_what_comes_next() {
        let next = |seed: Option<[u64; 4]>| {
            let mut generator = Generator::new();
            generator.request(|| 7);
            seed.into_iter().for_each(|seed| generator.add(seed));
            let mut out = [0; 32];
            generator.request(|| 7).fill(&mut out);
            out
        };
        let seeds = (0..4).map(|at| core::array::from_fn(|word| u64::from(word == at)));
        let mut seen: Vec<_> = seeds.map(|seed| next(Some(seed))).chain([next(None)]).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 5);
        assert_eq!(next(Some([0; 4])), next(None));
    }

    #[test]
    fn a_seed_is_asked_for_before_the_first_request_and_then_seldom() {
        let (mut generator, mut words) = (Generator::new(), 0);
        for asked in [4, 4, 8] {
            for _ in 0..RESEED_AFTER / 2 {
                generator.request(|| {
                    words += 1;
                    7
                });
            }
            assert_eq!(words, asked);
        }
    }
}
