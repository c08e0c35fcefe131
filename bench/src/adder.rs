//! The measured interface: three words in, four with the instance's number, and one out.
use interfaces_macro::interface;

/// Adds numbers.
#[interface(number = 900)]
pub trait Adder: Send + Sync {
    /// Returns the sum; `None` if all are zero.
    fn add(&self, first: u64, second: u64, third: u64) -> Option<u64>;
}

/// An [`Adder`] that computes the sum.
#[derive(Clone, Copy, Debug)]
pub struct Sum;

impl Adder for Sum {
    #[inline(never)]
    fn add(&self, first: u64, second: u64, third: u64) -> Option<u64> {
        let sum = first.wrapping_add(second).wrapping_add(third);
        (sum != 0).then_some(sum)
    }
}
