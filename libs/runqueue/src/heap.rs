//! A pairing heap with removal from the middle. The smallest key comes first; equal keys have no
//! order.
use super::Class;

/// The links of a queued item. `K` is the type of an item's name (a pointer, an index).
#[derive(Clone, Copy, Debug)]
pub struct Node<K> {
    /// Key of the item in the heap; changed only while it is not queued.
    pub key: u64,
    /// Class in which the item is in a [`super::Ready`].
    pub(crate) class: Class,
    child: Option<K>,
    /// Next sibling, also the next in a [`super::Fifo`].
    pub(crate) next: Option<K>,
    /// Previous sibling or, of a first child, the parent; previous in a [`super::Fifo`].
    pub(crate) previous: Option<K>,
}

impl<K> Node<K> {
    /// Makes a node that is in no queue.
    pub const fn new() -> Node<K> {
        Node { key: 0, class: Class::FAIR, child: None, next: None, previous: None }
    }
}

impl<K: Copy> Node<K> {
    /// Returns the next item in its [`super::Fifo`].
    pub fn next(&self) -> Option<K> {
        self.next
    }
}

impl<K> Default for Node<K> {
    fn default() -> Self {
        Node::new()
    }
}

/// Finds the node of an item.
pub trait Store<K> {
    /// Returns the node of `of`.
    fn node(&mut self, of: K) -> &mut Node<K>;
}

/// A pairing heap.
#[derive(Clone, Copy, Debug)]
pub struct Heap<K> {
    root: Option<K>,
    count: usize,
}

impl<K> Heap<K> {
    /// Makes an empty heap.
    pub const fn new() -> Heap<K> {
        Heap { root: None, count: 0 }
    }
}

impl<K> Default for Heap<K> {
    fn default() -> Self {
        Heap::new()
    }
}

impl<K: Copy + Eq> Heap<K> {
    /// Returns the number of queued items.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the item with the smallest key.
    pub fn peek(&self) -> Option<K> {
        self.root
    }

    /// Returns the smallest key.
    pub fn smallest(&self, store: &mut impl Store<K>) -> Option<u64> {
        self.root.map(|root| store.node(root).key)
    }

    /// Queues `item`, which is in no queue, by its node's key.
    pub fn insert(&mut self, store: &mut impl Store<K>, item: K) {
        let node = store.node(item);
        (node.child, node.next, node.previous) = (None, None, None);
        self.root = Some(match self.root {
            None => item,
            Some(root) => meld(store, root, item),
        });
        self.count += 1;
    }

    /// Removes the item with the smallest key.
    pub fn pop(&mut self, store: &mut impl Store<K>) -> Option<K> {
        let root = self.root?;
        self.remove(store, root);
        Some(root)
    }

    /// Removes `item`, which is queued here.
    pub fn remove(&mut self, store: &mut impl Store<K>, item: K) {
        let children = store.node(item).child.take();
        let rest = merge_pairs(store, children);
        if self.root == Some(item) {
            self.root = rest;
        } else {
            cut(store, item);
            if let (Some(root), Some(rest)) = (self.root, rest) {
                self.root = Some(meld(store, root, rest));
            }
        }
        let node = store.node(item);
        (node.next, node.previous) = (None, None);
        self.count -= 1;
    }

    /// Returns the first item near the front for which `accept` returns `true`; looks only at the
    /// root and its children.
    pub fn find(&self, store: &mut impl Store<K>, mut accept: impl FnMut(K) -> bool) -> Option<K> {
        let root = self.root?;
        if accept(root) {
            return Some(root);
        }
        let mut next = store.node(root).child;
        while let Some(item) = next {
            if accept(item) {
                return Some(item);
            }
            next = store.node(item).next;
        }
        None
    }
}

/// Joins two trees. Both are roots without siblings.
fn meld<K: Copy + Eq>(store: &mut impl Store<K>, a: K, b: K) -> K {
    let (top, below) = if store.node(b).key < store.node(a).key { (b, a) } else { (a, b) };
    let first = store.node(top).child.replace(below);
    let node = store.node(below);
    node.next = first;
    node.previous = Some(top);
    if let Some(first) = first {
        store.node(first).previous = Some(below);
    }
    top
}

/// Cuts a subtree out of its parent's list of children.
fn cut<K: Copy + Eq>(store: &mut impl Store<K>, item: K) {
    let node = store.node(item);
    let (next, previous) = (node.next.take(), node.previous.take());
    if let Some(next) = next {
        store.node(next).previous = previous;
    }
    if let Some(previous) = previous {
        let before = store.node(previous);
        if before.child == Some(item) {
            before.child = next;
        } else {
            before.next = next;
        }
    }
}

/// Joins a list of siblings to one tree: pairs from the left, then all from the right.
fn merge_pairs<K: Copy + Eq>(store: &mut impl Store<K>, first: Option<K>) -> Option<K> {
    let mut pairs: Option<K> = None;
    let mut rest = first;
    while let Some(a) = rest {
        let after = detach(store, a);
        let joined = match after {
            None => {
                rest = None;
                a
            }
            Some(b) => {
                rest = detach(store, b);
                meld(store, a, b)
            }
        };
        store.node(joined).next = pairs;
        pairs = Some(joined);
    }
    let mut tree: Option<K> = None;
    while let Some(item) = pairs {
        pairs = detach(store, item);
        tree = Some(match tree {
            None => item,
            Some(tree) => meld(store, tree, item),
        });
    }
    tree
}

/// Makes `item` a root without siblings; returns the sibling after it.
fn detach<K: Copy + Eq>(store: &mut impl Store<K>, item: K) -> Option<K> {
    let node = store.node(item);
    node.previous = None;
    node.next.take()
}

/// Nodes by index, for the tests of this crate.
#[cfg(test)]
pub(crate) struct Nodes(pub(crate) Vec<Node<usize>>);

#[cfg(test)]
impl Store<usize> for Nodes {
    fn node(&mut self, of: usize) -> &mut Node<usize> {
        &mut self.0[of]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pops_in_order_of_key_whatever_was_removed() {
        let mut nodes = Nodes(vec![Node::new(); 500]);
        let mut heap = Heap::new();
        let (mut seed, mut model) = (1u64, std::collections::BTreeSet::new());
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let item = (seed >> 33) as usize % 500;
            let queued = model.iter().copied().find(|&(_, other)| other == item);
            match (queued, seed >> 60 & 3) {
                (Some(entry), 0 | 1) => {
                    heap.remove(&mut nodes, item);
                    model.remove(&entry);
                }
                (Some(_), _) => {
                    let popped = heap.pop(&mut nodes).unwrap();
                    let key = nodes.0[popped].key;
                    assert_eq!(model.first().unwrap().0, key);
                    model.remove(&(key, popped));
                }
                (None, _) => {
                    nodes.0[item].key = seed >> 40 & 0xff;
                    heap.insert(&mut nodes, item);
                    model.insert((seed >> 40 & 0xff, item));
                }
            }
            assert_eq!(heap.len(), model.len());
        }
        while let Some(popped) = heap.pop(&mut nodes) {
            let key = nodes.0[popped].key;
            assert_eq!(model.first().unwrap().0, key);
            assert!(model.remove(&(key, popped)));
        }
        assert!(model.is_empty());
    }

    #[test]
    fn find_looks_past_the_root() {
        let mut nodes = Nodes(vec![Node::new(); 3]);
        let mut heap = Heap::new();
        for item in 0..3 {
            nodes.0[item].key = item as u64;
            heap.insert(&mut nodes, item);
        }
        assert_eq!(heap.find(&mut nodes, |item| item == 2), Some(2));
        assert_eq!(heap.find(&mut nodes, |_| false), None);
    }
}
