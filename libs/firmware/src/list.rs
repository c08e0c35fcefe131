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

/// Makes a list of the first items.
impl<T: Copy + Default, const N: usize> FromIterator<T> for List<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = List::default();
        items.into_iter().take(N).for_each(|item| list.push(item));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_the_first_items() {
        let list: List<u8, 3> = (1..).collect();
        assert_eq!(list.as_slice(), [1, 2, 3]);
        let short: List<u8, 3> = (1..3).collect();
        assert_eq!(short.as_slice(), [1, 2]);
    }
}
