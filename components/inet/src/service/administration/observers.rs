//! [`AdministrationObservers`]: the observers of a stack's changes.
use alloc::{sync::Arc, vec::Vec};
use interfaces::sockets::{AdministrationObserver, NetworkNotice};
use rt::{lock_class, sync::RwLock};

lock_class! {
    static OBSERVERS = "inet.administration.observers";
}

/// The observers of a stack's changes.
pub(crate) struct AdministrationObservers(RwLock<Vec<Arc<dyn AdministrationObserver>>>);

impl AdministrationObservers {
    pub(crate) fn new() -> AdministrationObservers {
        AdministrationObservers(RwLock::new(&OBSERVERS, Vec::new()))
    }
    /// Adds one.
    pub(crate) fn add(&self, observer: Arc<dyn AdministrationObserver>) {
        self.0.write().push(observer);
    }
    /// Returns whether nobody observes.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }
    /// Tells all of a change.
    pub(crate) fn tell(&self, notice: &NetworkNotice) {
        let all = self.0.read().clone();
        all.iter().for_each(|observer| observer.changed(notice));
    }
}
