//! A reference to a value that lives for ever; another value can take its place.
use core::{
    fmt,
    sync::atomic::{AtomicPtr, Ordering::*},
};

/// The address of a `T` that is never freed.
pub struct StaticRef<T: Sync + 'static>(AtomicPtr<T>);

impl<T: Sync> StaticRef<T> {
    /// Makes a reference to `value`.
    pub const fn new(value: &'static T) -> StaticRef<T> {
        StaticRef(AtomicPtr::new(core::ptr::from_ref(value).cast_mut()))
    }
    /// Returns the value.
    #[inline]
    pub fn get(&self) -> &'static T {
        // SAFETY: only addresses of values that live for ever are stored, and `Release` publishes the value.
        unsafe { &*self.0.load(Acquire) }
    }
    /// Refers to `value` from now on.
    pub fn set(&self, value: &'static T) {
        self.0.store(core::ptr::from_ref(value).cast_mut(), Release);
    }
    /// Refers to `new` if the value is `old`. Returns whether it was.
    pub fn replace(&self, old: &'static T, new: &'static T) -> bool {
        let [old, new] = [old, new].map(|value| core::ptr::from_ref(value).cast_mut());
        self.0.compare_exchange(old, new, AcqRel, Acquire).is_ok()
    }
}

impl<T: Sync + fmt::Debug> fmt::Debug for StaticRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
