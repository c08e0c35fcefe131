//! The interface: three words in, with the instance's number four, and one out.
use interfaces_macro::interface;

/// Adds.
#[interface(number = 900)]
pub trait Adder: Send + Sync {
    /// The sum; none of nothing but zeroes.
    fn add(&self, first: u64, second: u64, third: u64) -> Option<u64>;
}

/// An [`Adder`] that does.
#[derive(Clone, Copy, Debug)]
pub struct Sum;

impl Adder for Sum {
    #[inline(never)]
    fn add(&self, first: u64, second: u64, third: u64) -> Option<u64> {
        let sum = first.wrapping_add(second).wrapping_add(third);
        (sum != 0).then_some(sum)
    }
}
