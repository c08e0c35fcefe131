//! Gifts: capabilities that were given and can be taken back.
//!
//! A gift is shared by a capability that was given and all copies made of it: they are valid until the gift is taken
//! back. If a capability is given on several times, the end of the first gift also ends the later ones. A thread
//! that takes a gift back ends it first and then searches all tables. A thread that puts a capability into a table
//! checks under the table's lock whether its gift is over. So no copy escapes both.
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Longest chain of gifts in which each was made of the one before.
const LINE_MAX: usize = 16;

/// A gift.
#[derive(Debug)]
pub struct Gift {
    of: Option<Arc<Gift>>,
    is_over: AtomicBool,
}

impl Gift {
    /// Makes a gift of something that came by the gift `of`; `None` if it was given on too often.
    pub fn new(of: Option<Arc<Gift>>) -> Option<Arc<Gift>> {
        let gift = Gift { of, is_over: AtomicBool::new(false) };
        (gift.line().count() <= LINE_MAX).then(|| Arc::new(gift))
    }

    fn line(&self) -> impl Iterator<Item = &Gift> {
        core::iter::successors(Some(self), |gift| gift.of.as_deref())
    }

    /// Takes the gift back.
    pub fn end(&self) {
        self.is_over.store(true, SeqCst);
    }

    /// Returns whether the gift, or one that it was made of, was taken back.
    pub fn is_over(&self) -> bool {
        self.line().any(|gift| gift.is_over.load(SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_on_ends_with_what_it_was_made_of() {
        let first = Gift::new(None).unwrap();
        let [second, other] = [(); 2].map(|()| Gift::new(Some(first.clone())).unwrap());
        let third = Gift::new(Some(second.clone())).unwrap();
        second.end();
        assert!(second.is_over() && third.is_over());
        assert!(!first.is_over() && !other.is_over());
        first.end();
        assert!(first.is_over() && other.is_over());
    }

    #[test]
    fn a_line_has_an_end() {
        let mut gift = Gift::new(None);
        let hands = core::iter::from_fn(|| {
            gift = Some(Gift::new(gift.clone())?);
            Some(())
        });
        assert_eq!(hands.take(1000).count(), LINE_MAX - 1);
    }
}
