//! [`Class`]: when a changed block may go in place.

/// When a changed block may go in place, on a volume without a journal: in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Nothing on the device points to it yet.
    Fresh,
    /// Inodes, nodes of extent trees, bitmaps, descriptors, attributes.
    Other,
    /// Entries of a directory.
    Directory,
    /// A root or node of a hash tree.
    Index,
}

impl Class {
    /// Of a block that was of this class and is changed once more. A block fresh or of an index
    /// stays what it is.
    pub(crate) fn with(self, class: Class) -> Class {
        match (self, class) {
            (_, Class::Fresh) => Class::Fresh,
            (Class::Fresh | Class::Index, _) => self,
            (_, class) => class,
        }
    }
}
