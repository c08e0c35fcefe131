//! Derivations: capabilities that were given and can be revoked.
//!
//! A derivation is shared by a capability that was given and all copies made of it: they are valid until the derivation is revoked
//! . If a capability is given on several times, the end of the first derivation also ends the later ones. A thread
//! that revokes the derivation ends it first and then searches all tables. A thread that puts a capability into a table
//! checks under the table's lock whether its derivation is over. So no copy escapes both.
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Longest chain of derivations in which each was made of the one before.
const LINE_MAX: usize = 16;

/// A derivation.
#[derive(Debug)]
pub struct Derivation {
    of: Option<Arc<Derivation>>,
    is_over: AtomicBool,
}

impl Derivation {
    /// Makes a derivation of something that came by the derivation `of`; `None` if it was given on too often.
    pub fn new(of: Option<Arc<Derivation>>) -> Option<Arc<Derivation>> {
        let derivation = Derivation { of, is_over: AtomicBool::new(false) };
        (derivation.line().count() <= LINE_MAX).then(|| Arc::new(derivation))
    }

    fn line(&self) -> impl Iterator<Item = &Derivation> {
        core::iter::successors(Some(self), |derivation| derivation.of.as_deref())
    }

    /// Revokes the derivation.
    pub fn end(&self) {
        self.is_over.store(true, SeqCst);
    }

    /// Returns whether the derivation, or one that it was made of, was revoked.
    pub fn is_over(&self) -> bool {
        self.line().any(|derivation| derivation.is_over.load(SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_on_ends_with_what_it_was_made_of() {
        let first = Derivation::new(None).unwrap();
        let [second, other] = [(); 2].map(|()| Derivation::new(Some(first.clone())).unwrap());
        let third = Derivation::new(Some(second.clone())).unwrap();
        second.end();
        assert!(second.is_over() && third.is_over());
        assert!(!first.is_over() && !other.is_over());
        first.end();
        assert!(first.is_over() && other.is_over());
    }

    #[test]
    fn a_line_has_an_end() {
        let mut derivation = Derivation::new(None);
        let hands = core::iter::from_fn(|| {
            derivation = Some(Derivation::new(derivation.clone())?);
            Some(())
        });
        assert_eq!(hands.take(1000).count(), LINE_MAX - 1);
    }
}
