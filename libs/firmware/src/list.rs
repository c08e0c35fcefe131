//! A short list that needs no heap.

/// A list of at most `N` items.
#[derive(Clone, Copy, Debug)]
pub struct List<T, const N: usize> {
    items: [T; N],
    count: usize,
}

impl<T: Copy + Default, const N: usize> List<T, N> {
    /// Adds `item` unless the list is full.
    pub fn push(&mut self, item: T) {
        if let Some(slot) = self.items.get_mut(self.count) {
            *slot = item;
            self.count += 1;
        }
    }

    /// Returns the items.
    pub fn as_slice(&self) -> &[T] {
        &self.items[..self.count]
    }
}

impl<T: Copy + Default, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        List { items: [T::default(); N], count: 0 }
    }
}
