//! First-in first-out lists, one for each real-time priority, with a bitmap of those that are not
//! empty.
use crate::heap::Store;

/// A doubly linked list through [`crate::Node`]s.
#[derive(Clone, Copy, Debug)]
pub struct Fifo<K> {
    first: Option<K>,
    last: Option<K>,
}

impl<K> Fifo<K> {
    /// Makes an empty list.
    pub const fn new() -> Fifo<K> {
        Fifo { first: None, last: None }
    }
}

impl<K> Default for Fifo<K> {
    fn default() -> Self {
        Fifo::new()
    }
}

impl<K: Copy + Eq> Fifo<K> {
    /// Returns the first item.
    pub fn first(&self) -> Option<K> {
        self.first
    }

    /// Appends `item`.
    pub fn push_back(&mut self, store: &mut impl Store<K>, item: K) {
        let node = store.node(item);
        (node.next, node.previous) = (None, self.last);
        match self.last.replace(item) {
            None => self.first = Some(item),
            Some(last) => store.node(last).next = Some(item),
        }
    }

    /// Puts `item` first: it was preempted and continues before its equals.
    pub fn push_front(&mut self, store: &mut impl Store<K>, item: K) {
        let node = store.node(item);
        (node.next, node.previous) = (self.first, None);
        match self.first.replace(item) {
            None => self.last = Some(item),
            Some(first) => store.node(first).previous = Some(item),
        }
    }

    /// Removes the first item, which is `item`. Its own links stay as they are.
    #[inline(always)]
    pub fn remove_first(&mut self, store: &mut impl Store<K>, item: K) {
        self.first = store.node(item).next;
        match self.first {
            None => self.last = None,
            Some(first) => store.node(first).previous = None,
        }
    }

    /// Removes `item`, which is in this list.
    pub fn remove(&mut self, store: &mut impl Store<K>, item: K) {
        let node = store.node(item);
        let (next, previous) = (node.next.take(), node.previous.take());
        match next {
            None => self.last = previous,
            Some(next) => store.node(next).previous = previous,
        }
        match previous {
            None => self.first = next,
            Some(previous) => store.node(previous).next = next,
        }
    }

    /// Returns the first item for which `accept` returns `true`.
    pub fn find(&self, store: &mut impl Store<K>, mut accept: impl FnMut(K) -> bool) -> Option<K> {
        let mut next = self.first;
        while let Some(item) = next {
            if accept(item) {
                return Some(item);
            }
            next = store.node(item).next;
        }
        None
    }
}

/// A list for each real-time priority (0 to 127); the highest is served first.
#[derive(Clone, Copy, Debug)]
pub struct Priorities<K> {
    lists: [Fifo<K>; 128],
    occupied: u128,
}

impl<K: Copy> Priorities<K> {
    /// Makes empty lists.
    pub const fn new() -> Priorities<K> {
        Priorities { lists: [Fifo::new(); 128], occupied: 0 }
    }
}

impl<K: Copy> Default for Priorities<K> {
    fn default() -> Self {
        Priorities::new()
    }
}

impl<K: Copy + Eq> Priorities<K> {
    /// Returns the highest priority whose list is not empty.
    pub fn highest(&self) -> Option<u8> {
        (self.occupied != 0).then(|| 127 - self.occupied.leading_zeros() as u8)
    }

    /// Returns the first item of the highest priority.
    pub fn first(&self) -> Option<K> {
        self.lists[usize::from(self.highest()?)].first()
    }

    /// Appends an item at `priority`.
    pub fn push_back(&mut self, store: &mut impl Store<K>, priority: u8, item: K) {
        self.lists[usize::from(priority & 127)].push_back(store, item);
        self.occupied |= 1 << (priority & 127);
    }

    /// Puts an item first at `priority`.
    pub fn push_front(&mut self, store: &mut impl Store<K>, priority: u8, item: K) {
        self.lists[usize::from(priority & 127)].push_front(store, item);
        self.occupied |= 1 << (priority & 127);
    }

    /// Removes `item`, which is queued at `priority`.
    pub fn remove(&mut self, store: &mut impl Store<K>, priority: u8, item: K) {
        let list = &mut self.lists[usize::from(priority & 127)];
        list.remove(store, item);
        if list.first().is_none() {
            self.occupied &= !(1 << (priority & 127));
        }
    }

    /// Returns the first item, from the highest priority down, for which `accept` returns `true`,
    /// and its priority.
    pub fn find(
        &self,
        store: &mut impl Store<K>,
        mut accept: impl FnMut(K) -> bool,
    ) -> Option<(u8, K)> {
        let mut rest = self.occupied;
        while rest != 0 {
            let priority = 127 - rest.leading_zeros() as u8;
            if let Some(item) = self.lists[usize::from(priority)].find(store, &mut accept) {
                return Some((priority, item));
            }
            rest &= !(1 << priority);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Node, heap::Nodes};

    #[test]
    fn the_highest_priority_goes_first_and_equals_in_order() {
        let mut nodes = Nodes(vec![Node::new(); 8]);
        let mut queue = Priorities::new();
        for (item, priority) in [(0, 5), (1, 99), (2, 5), (3, 1)] {
            queue.push_back(&mut nodes, priority, item);
        }
        queue.push_front(&mut nodes, 5, 4);
        let mut order = Vec::new();
        while let Some(item) = queue.first() {
            let priority = queue.highest().unwrap();
            queue.remove(&mut nodes, priority, item);
            order.push(item);
        }
        assert_eq!(order, [1, 4, 0, 2, 3]);
    }
}
