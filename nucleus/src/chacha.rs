//! The ChaCha20 block function (RFC 8439, 2.3), used as a generator of key stream.

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 64;
/// A key.
pub type Key = [u32; 8];

const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
const DOUBLE_ROUNDS: usize = 10;

fn quarter_round(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (to, from, mixed, bits) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        state[to] = state[to].wrapping_add(state[from]);
        state[mixed] = (state[mixed] ^ state[to]).rotate_left(bits);
    }
}

/// Block `counter` of the stream of `key` and `nonce`.
pub fn block(key: &Key, counter: u32, nonce: [u32; 3]) -> [u32; 16] {
    const COLUMNS: [[usize; 4]; 4] = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]];
    const DIAGONALS: [[usize; 4]; 4] =
        [[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];
    let mut start = [0; 16];
    start[..4].copy_from_slice(&CONSTANTS);
    start[4..12].copy_from_slice(key);
    start[12] = counter;
    start[13..].copy_from_slice(&nonce);
    let mut state = start;
    for _ in 0..DOUBLE_ROUNDS {
        for lanes in COLUMNS.into_iter().chain(DIAGONALS) {
            quarter_round(&mut state, lanes);
        }
    }
    for (word, first) in state.iter_mut().zip(start) {
        *word = word.wrapping_add(first);
    }
    state
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
}
