//! Hashes of names in directory trees: legacy, half MD4 and TEA, with signed or unsigned characters.
//!
//! Source: Linux fs/ext4/hash.c; RFC 1320; Wheeler and Needham, "TEA, a tiny encryption algorithm".
use crate::layout::superblock::Characters;

/// The kind of hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HashKind {
    Legacy,
    HalfMd4,
    Tea,
}

/// The hash function of a tree: its kind, the sign of characters, and the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash {
    kind: HashKind,
    characters: Characters,
    seed: [u32; 4],
}

/// Hash of a name. The tree is sorted by the major hash; names of one leaf are further sorted by the
/// minor hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameHash {
    /// Major hash; its lowest bit is clear.
    pub(crate) major: u32,
    /// Minor hash; zero for the legacy hash.
    pub(crate) minor: u32,
}

impl NameHash {
    /// Returns the position of the name in its directory: 31 and 32 bits.
    pub(crate) fn position(self) -> u64 {
        u64::from(self.major >> 1) << 32 | u64::from(self.minor)
    }
}

/// The major hash that stands for the end of a directory; no name has it.
pub(crate) const END: u32 = 0x7fff_ffff << 1;
const DEFAULT_SEED: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

impl Hash {
    /// Returns the hash function of that version; `None` for an unknown one (SipHash of casefolded
    /// directories).
    pub(crate) fn decode(version: u8, of_volume: Characters, seed: [u32; 4]) -> Option<Hash> {
        let kind = match version % 3 {
            _ if version > 5 => return None,
            0 => HashKind::Legacy,
            1 => HashKind::HalfMd4,
            _ => HashKind::Tea,
        };
        let characters = if version > 2 { Characters::Unsigned } else { of_volume };
        let seed = if seed == [0; 4] { DEFAULT_SEED } else { seed };
        Some(Hash { kind, characters, seed })
    }

    /// Computes the hash of a name.
    pub(crate) fn of(&self, name: &[u8]) -> NameHash {
        let (major, minor) = match self.kind {
            HashKind::Legacy => (self.legacy(name), 0),
            HashKind::HalfMd4 => {
                let [_, major, minor, _] = self.rounds::<8>(name, half_md4);
                (major, minor)
            }
            HashKind::Tea => {
                let [major, minor, ..] = self.rounds::<4>(name, tea);
                (major, minor)
            }
        };
        let major = match major & !1 {
            END => (0x7fff_ffff - 1) << 1,
            major => major,
        };
        NameHash { major, minor }
    }

    fn character(&self, byte: u8) -> u32 {
        match self.characters {
            Characters::Signed => i32::from(byte as i8) as u32,
            Characters::Unsigned => u32::from(byte),
        }
    }

    fn legacy(&self, name: &[u8]) -> u32 {
        let start = (0x12a3_fe2d_u32, 0x37ab_e8f9_u32);
        let (hash, _) = name.iter().fold(start, |(hash, before), byte| {
            let product = self.character(*byte).wrapping_mul(7_152_373);
            let next = before.wrapping_add(hash ^ product);
            let next = if next >> 31 == 1 { next.wrapping_sub(0x7fff_ffff) } else { next };
            (next, hash)
        });
        hash << 1
    }

    /// Mixes the name in, `4 * N` bytes in each round.
    fn rounds<const N: usize>(
        &self,
        name: &[u8],
        mix: impl Fn([u32; 4], [u32; N]) -> [u32; 4],
    ) -> [u32; 4] {
        let mut state = self.seed;
        let mut rest = name;
        while !rest.is_empty() {
            state = mix(state, self.words(rest));
            rest = rest.get(4 * N..).unwrap_or(&[]);
        }
        state
    }

    /// Returns the next words, padded with the length of the rest of the name.
    fn words<const N: usize>(&self, rest: &[u8]) -> [u32; N] {
        let length = rest.len() as u32;
        let pad = length | length << 8;
        let pad = pad | pad << 16;
        let mut words = [pad; N];
        for (word, bytes) in words.iter_mut().zip(rest.chunks(4)) {
            *word = self.word(bytes, pad);
        }
        words
    }

    /// Returns one word: its characters shifted in from the right, behind padding if they are fewer
    /// than four.
    fn word(&self, bytes: &[u8], pad: u32) -> u32 {
        match bytes.try_into().map(u32::from_be_bytes) {
            // The word has no character that could be negative.
            Ok(whole) if whole & 0x8080_8080 == 0 => whole,
            _ => bytes.iter().fold(pad, |word, byte| self.character(*byte).wrapping_add(word << 8)),
        }
    }
}

fn half_md4(state: [u32; 4], words: [u32; 8]) -> [u32; 4] {
    let [a0, b0, c0, d0] = state;
    let [w0, w1, w2, w3, w4, w5, w6, w7] = words;
    let (mut a, mut b, mut c, mut d) = (a0, b0, c0, d0);
    let f = |x: u32, y: u32, z: u32| z ^ (x & (y ^ z));
    let g = |x: u32, y: u32, z: u32| (x & y).wrapping_add((x ^ y) & z);
    let h = |x: u32, y: u32, z: u32| x ^ y ^ z;
    let step = |a: u32, mixed: u32, word: u32, turn: u32| {
        a.wrapping_add(mixed).wrapping_add(word).rotate_left(turn)
    };
    for [p, q, r, s] in [[w0, w1, w2, w3], [w4, w5, w6, w7]] {
        a = step(a, f(b, c, d), p, 3);
        d = step(d, f(a, b, c), q, 7);
        c = step(c, f(d, a, b), r, 11);
        b = step(b, f(c, d, a), s, 19);
    }
    let k = |word: u32| word.wrapping_add(0x5a82_7999);
    for [p, q, r, s] in [[w1, w3, w5, w7], [w0, w2, w4, w6]] {
        a = step(a, g(b, c, d), k(p), 3);
        d = step(d, g(a, b, c), k(q), 5);
        c = step(c, g(d, a, b), k(r), 9);
        b = step(b, g(c, d, a), k(s), 13);
    }
    let k = |word: u32| word.wrapping_add(0x6ed9_eba1);
    for [p, q, r, s] in [[w3, w7, w2, w6], [w1, w5, w0, w4]] {
        a = step(a, h(b, c, d), k(p), 3);
        d = step(d, h(a, b, c), k(q), 9);
        c = step(c, h(d, a, b), k(r), 11);
        b = step(b, h(c, d, a), k(s), 15);
    }
    [a0.wrapping_add(a), b0.wrapping_add(b), c0.wrapping_add(c), d0.wrapping_add(d)]
}

fn tea(state: [u32; 4], [a, b, c, d]: [u32; 4]) -> [u32; 4] {
    let [start0, start1, rest0, rest1] = state;
    let (mut b0, mut b1, mut sum) = (start0, start1, 0_u32);
    let mix = |word: u32, sum: u32, low: u32, high: u32| {
        (word << 4).wrapping_add(low) ^ word.wrapping_add(sum) ^ (word >> 5).wrapping_add(high)
    };
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9e37_79b9);
        b0 = b0.wrapping_add(mix(b1, sum, a, b));
        b1 = b1.wrapping_add(mix(b0, sum, c, d));
    }
    [start0.wrapping_add(b0), start1.wrapping_add(b1), rest0, rest1]
}
