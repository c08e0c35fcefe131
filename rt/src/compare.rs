//! `memcmp`, which the compiler calls to compare slices. The compiler's own version compares byte by byte, which is
//! slow for short names. This one compares words; the last word overlaps bytes that were compared before.
use core::cmp::Ordering;

/// Orders two slices of the same length by their first difference.
#[inline(always)]
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let words = |a: &[u8; 8], b: &[u8; 8]| u64::from_be_bytes(*a).cmp(&u64::from_be_bytes(*b));
    let halves = |a: &[u8; 4], b: &[u8; 4]| u32::from_be_bytes(*a).cmp(&u32::from_be_bytes(*b));
    if let (Some(last), Some(other)) = (a.last_chunk(), b.last_chunk()) {
        let pairs = a.as_chunks().0.iter().zip(b.as_chunks().0);
        let found = pairs.map(|(a, b)| words(a, b)).find(|order| order.is_ne());
        return found.unwrap_or_else(|| words(last, other));
    }
    if let (Some(last), Some(other)) = (a.last_chunk(), b.last_chunk())
        && let (Some(first), Some(another)) = (a.first_chunk(), b.first_chunk())
    {
        return halves(first, another).then_with(|| halves(last, other));
    }
    let found = a.iter().zip(b).map(|(a, b)| a.cmp(b)).find(|order| order.is_ne());
    found.unwrap_or(Ordering::Equal)
}

/// `memcmp` of the C library.
///
/// # Safety
/// Both have `length` bytes.
#[cfg(target_os = "none")]
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, length: usize) -> i32 {
    // SAFETY: as the caller says.
    let a = unsafe { core::slice::from_raw_parts(a, length) };
    // SAFETY: as the caller says.
    let b = unsafe { core::slice::from_raw_parts(b, length) };
    compare(a, b) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_place_of_the_first_difference_orders() {
        for length in 0..40 {
            let a: Vec<u8> = (0..length).map(|n| (n as u8).wrapping_mul(7)).collect();
            assert_eq!(compare(&a, &a), Ordering::Equal);
            for place in 0..length {
                let mut b = a.clone();
                b[place] = b[place].wrapping_add(200);
                if place + 1 < length {
                    b[place + 1] ^= 0xff;
                }
                let expected = a.iter().zip(&b).map(|(a, b)| a.cmp(b)).find(|order| order.is_ne());
                assert_eq!(Some(compare(&a, &b)), expected, "{length} {place}");
            }
        }
    }
}
