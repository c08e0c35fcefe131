//! Images of extended state in XSAVE's standard format: a legacy area of 512 bytes (that of FXSAVE), a header
//! of 64, and the further components.
//!
//! Source: Intel SDM volume 1, 10.5.1, 13.4 and 13.8.

/// Size of the legacy area in bytes.
pub const LEGACY_BYTES: usize = 512;
/// Components in the legacy area: x87 and SSE.
pub const LEGACY_MASK: u64 = 3;
/// Components with registers of at most 32 bytes: the legacy ones and AVX.
pub const AVX_MASK: u64 = LEGACY_MASK | 4;
const HEADER_BYTES: usize = 64;
const MXCSR_AT: usize = 24;
const MXCSR_MASK_AT: usize = 28;
const DEFAULT_MXCSR: u32 = 0x1f80;
const DEFAULT_CONTROL: u16 = 0x37f;

/// Returns those of the offered components that are used: x87, SSE, AVX, and the three parts of AVX-512,
/// which are used only together and with AVX.
pub const fn components(offered: u64) -> u64 {
    const AVX_512: u64 = 0xe0;
    let all = AVX_512 | AVX_MASK;
    if offered & (all - LEGACY_MASK) == all - LEGACY_MASK {
        offered & all
    } else {
        offered & AVX_MASK
    }
}

/// Returns the state that a program starts with.
pub const fn initial<const BYTES: usize>() -> [u8; BYTES] {
    let mut area = [0; BYTES];
    [area[0], area[1]] = DEFAULT_CONTROL.to_le_bytes();
    [area[MXCSR_AT], area[MXCSR_AT + 1], ..] = DEFAULT_MXCSR.to_le_bytes();
    area
}

/// Returns the bits of MXCSR that exist, as `fxsave` reports; the first processors reported 0.
pub fn mxcsr_mask(saved: &[u8; LEGACY_BYTES]) -> u32 {
    match word(saved, MXCSR_MASK_AT).unwrap_or(0) as u32 {
        0 => 0xffbf,
        mask => mask,
    }
}

fn word(image: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*image.get(at..)?.first_chunk()?))
}

/// Returns whether a processor whose whole images have `bytes` bytes and the components of `mask` would load
/// `image` without a fault. A shorter image may have only the legacy area, or a header that names no more
/// components than it has.
pub fn is_valid(image: &[u8], bytes: usize, mask: u64, mxcsr_mask: u32) -> bool {
    let Some(mxcsr) = word(image, MXCSR_AT) else { return false };
    if image.len() < LEGACY_BYTES || mxcsr as u32 & !mxcsr_mask != 0 {
        return false;
    }
    let Some(header) = image.get(LEGACY_BYTES..LEGACY_BYTES + HEADER_BYTES) else { return true };
    let allowed = if image.len() >= bytes { mask } else { LEGACY_MASK };
    word(header, 0).is_some_and(|used| used & !allowed == 0)
        && header.iter().skip(8).all(|&byte| byte == 0)
}

/// Copies the valid `image` to `area`. Components that a shorter image lacks get their initial state.
pub fn take_over(area: &mut [u8], image: &[u8]) {
    let length = image.len().min(area.len());
    area[..length].copy_from_slice(&image[..length]);
    area[length..].fill(0);
    if length < LEGACY_BYTES + HEADER_BYTES && area.len() > LEGACY_BYTES {
        area[LEGACY_BYTES..].fill(0);
        area[LEGACY_BYTES] = LEGACY_MASK as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 832;
    const MASK: u64 = 7;

    fn is_good(change: impl FnOnce(&mut [u8])) -> bool {
        let mut image = initial::<BYTES>();
        change(&mut image);
        is_valid(&image, BYTES, MASK, 0xffff)
    }

    #[test]
    fn a_program_starts_with_what_fninit_and_reset_leave() {
        let area = initial::<LEGACY_BYTES>();
        assert_eq!(area[..2], [0x7f, 3]);
        assert_eq!(area[24..28], [0x80, 0x1f, 0, 0]);
        assert!(is_good(|_| {}));
    }

    #[test]
    fn what_the_processor_would_refuse_is_refused() {
        assert!(!is_good(|image| image[27] = 0xff), "bits of MXCSR that are not there");
        assert!(!is_good(|image| image[519] = 0x80), "compacted or unknown components");
        assert!(!is_good(|image| image[512] = 8), "a component that is not switched on");
        assert!(is_good(|image| image[512] = 7));
        assert!(!is_good(|image| image[527] = 0x80), "XCOMP_BV");
        assert!(!is_good(|image| image[540] = 1), "reserved");
    }

    #[test]
    fn a_short_image_may_only_speak_of_what_it_has() {
        let mut image = initial::<BYTES>();
        assert!(!is_valid(&image[..LEGACY_BYTES - 1], BYTES, MASK, 0xffff));
        assert!(is_valid(&image[..LEGACY_BYTES], BYTES, MASK, 0xffff));
        image[512] = 7;
        assert!(!is_valid(&image[..576], BYTES, MASK, 0xffff));
        image[512] = 3;
        assert!(is_valid(&image[..576], BYTES, MASK, 0xffff));
        assert!(!is_valid(&[], BYTES, MASK, 0xffff));
    }

    #[test]
    fn what_a_short_image_has_not_is_in_its_first_state() {
        let mut area = [0xee; BYTES];
        let mut image = initial::<LEGACY_BYTES>();
        image[160] = 9;
        take_over(&mut area, &image);
        assert_eq!((area[160], area[512]), (9, 3));
        assert!(area[513..].iter().all(|&byte| byte == 0));
        let mut legacy = [0xee; LEGACY_BYTES];
        take_over(&mut legacy, &[7; BYTES]);
        assert_eq!(legacy, [7; LEGACY_BYTES]);
    }

    #[test]
    fn avx_512_is_used_whole_or_not() {
        assert_eq!(components(0x2ff), 0xe7);
        assert_eq!(components(0x2ff & !0x40), 7);
        assert_eq!(components(0xe3), 3);
        assert_eq!(components(3), 3);
    }

    #[test]
    fn an_old_processor_has_the_default_mxcsr_mask() {
        let mut saved = [0; LEGACY_BYTES];
        assert_eq!(mxcsr_mask(&saved), 0xffbf);
        saved[28..32].copy_from_slice(&[0xff, 0xff, 2, 0]);
        assert_eq!(mxcsr_mask(&saved), 0x2_ffff);
    }
}
