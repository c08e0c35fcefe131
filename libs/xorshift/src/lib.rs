//! [`Xorshift`]: a small generator of pseudorandom numbers for tests, so that a seed determines a whole run.
#![forbid(unsafe_code)]
#![cfg_attr(target_os = "none", no_std)]

/// A generator of the kind xorshift64* (Vigna, 2016).
#[derive(Clone, Debug)]
pub struct Xorshift(u64);

impl Xorshift {
    /// Starts from `state`. From zero it would give nothing but zeroes, so that stands for one.
    pub fn new(state: u64) -> Xorshift {
        Xorshift(state.max(1))
    }
    /// Returns a number.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// Returns a number below `end`; zero if that is zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end.max(1)
    }
    /// Returns `true` once in so many cases.
    pub fn once_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }
    /// Returns `true` in `part` of `whole` cases.
    pub fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.next() % whole.max(1) < part
    }
}

/// Returns the number in the environment variable `name`, or `default` if there is none.
///
/// # Panics
/// Panics if the variable holds something else.
#[cfg(not(target_os = "none"))]
pub fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_numbers() {
        let numbers = |seed| {
            let mut all = Xorshift::new(seed);
            [(); 4].map(|()| all.next())
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert_eq!(numbers(0), numbers(1));
        let mut all = Xorshift::new(1);
        assert!((0..1000).all(|_| all.below(10) < 10) && all.below(0) == 0);
        let often = (0..10_000).filter(|_| all.chance(1, 4)).count();
        assert!((2300..2700).contains(&often), "{often}");
    }
}
